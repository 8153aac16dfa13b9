"""Scheduled HLO text in: what is an op, what is a name, what is live; and texts that are none."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.read.hlo.reader import parse_hlo
from lowtide.target import BUILT_IN, resolve
from support.command import Captured, run
from support.hlo_texts import DONATED, IN_PLACE

TEXT = """HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[4,4]{1,0})->f32[4]{0}}

FileNames
1 "a (b.py"

%region_0.2 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %add.1 = f32[] add(%a, %a)
}

%body (state: (s32[], f32[4])) -> (s32[], f32[4]) {
  %state = (s32[], f32[4]{0}) parameter(0)
  %count = s32[] get-tuple-element(%state), index=0
  %old = f32[4]{0} get-tuple-element(%state), index=1
  %wide = f32[32]{0} broadcast(%old), dimensions={0}
  %new = f32[4]{0} slice(%wide), slice={[0:4]}
  ROOT %pair = (s32[], f32[4]{0}) tuple(%count, %new)
}

%c (state.1: (s32[], f32[4])) -> pred[] {
  %state.1 = (s32[], f32[4]{0}) parameter(0)
  %count.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %less = pred[] compare(%count.1, %count.1), direction=LT
}

ENTRY %main.7 (x.1: f32[4,4]) -> (f32[4], s32[]) {
  %x.1 = f32[4,4]{1,0} parameter(0), metadata={op_name="x"}
  %constant.1 = f32[] constant(0)
  %tanh.2 = f32[4,4]{1,0:T(8,128)} tanh(%x.1), metadata={op_name="jit(f)/tanh) ( \\"q\\"" stack_frame_id=3}
  %bitcast.3 = f32[16]{0} bitcast(%tanh.2)
  %pair.4 = (f32[4]{0}, /*index=1*/bf16[8]{0}) fusion(%bitcast.3, f32[] %constant.1), kind=kLoop, calls=%region_0.2
  %first.5 = f32[4]{0} get-tuple-element(%pair.4), index=0
  %start.6 = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%first.5)
  %done.7 = f32[4]{0} copy-done(%start.6)
  %iota.8 = s32[] iota(), iota_dimension=0, control-predecessors={%pair.4}
  %init.9 = (s32[], f32[4]{0}) tuple(%iota.8, %first.5)
  %while.10 = (s32[], f32[4]{0}) while(%init.9), condition=%c, body=%body
  %out.11 = f32[4]{0} get-tuple-element(%while.10), index=1
  ROOT %tuple.12 = (f32[4]{0}, s32[], f32[4,4]{1,0}) tuple(%out.11, %iota.8, %x.1)
}
"""


def graph(text: str = TEXT) -> Graph:
    """Of a text."""
    return parse_hlo(text.encode(), "m.hlo")


def test_every_instruction_has_its_meaning():
    """Ops run in the text's order; names for what is there make no op; parameters cost nothing, outputs stay."""
    g = graph()
    assert (g.name, [op.type for op in g.ops]) == (
        "jit_step",
        ["tanh", "fusion", "copy-start", "copy-done", "iota", "while"],
    )
    tensors = {t.name: t for t in g.tensors}
    assert (tensors["x.1"].kind, tensors["x.1"].size, tensors["x.1"].shape) == (Kind.INPUT, 0, (4, 4))
    assert (tensors["constant.1"].kind, tensors["constant.1"].size) == (Kind.CONSTANT, 4)
    assert (tensors["tanh.2"].size, tensors["tanh.2"].kind) == (64, Kind.ACTIVATION)
    tanh, fusion, copy, done, iota, loop = g.ops
    assert fusion.inputs == (tanh.outputs[0], tensors["constant.1"].id)
    assert [g.tensor_by_id[t].size for t in fusion.outputs] == [16, 16]
    assert [g.tensor_by_id[t].dtype for t in fusion.outputs] == ["f32", "bf16"]
    assert (iota.inputs, iota.after) == ((), (fusion.id,))
    assert copy.inputs == (fusion.outputs[0],)
    assert [g.tensor_by_id[t].size for t in copy.outputs] == [16, 4]  # the copy, and what the transfer is known by
    assert done.inputs == (copy.outputs[0], fusion.outputs[0], copy.outputs[1])  # what is copied stays until then
    assert g.tensor_by_id[done.outputs[0]].alias_of == copy.outputs[0]
    assert [body.name for body in loop.bodies] == ["c", "body"]
    assert loop.after == (copy.id, done.id)  # which read what it writes over
    assert loop.inputs == (iota.outputs[0], fusion.outputs[0])
    assert [g.tensor_by_id[t].alias_of for t in loop.outputs] == [iota.outputs[0], fusion.outputs[0]]
    ends = [t.id for t in g.tensors if t.kind is Kind.OUTPUT]
    assert ends == sorted([iota.outputs[0], loop.outputs[1]])


def test_what_a_loop_makes_inside_counts_while_it_runs():
    """What its body is given and gives back lies outside; the rest is there beside all that waits for it."""
    g = graph()
    model = memory_model(g, BUILT_IN["strict"])
    assert model.workspace[-1] == 32 * 4
    assert [t.size for t in g.ops[-1].bodies[1].tensors if t.name in ("new", "wide")] == [128, 0]


def test_what_a_loop_only_reads_is_no_copy_of_it():
    """A parameter or a constant that goes in and out of a loop takes nothing."""
    direct = TEXT.replace("tuple(%iota.8, %first.5)", "tuple(%iota.8, %weights)").replace(
        "  %constant.1 =", "  %weights = f32[4]{0} parameter(1)\n  %constant.1 ="
    )
    sizes = {t.name.partition(".")[0]: t.size for t in graph(direct).tensors if t.shape == (4,) and "while" in t.name}
    assert sizes == {"while": 0}


def test_a_donated_parameter_counts_until_it_is_read_no_more():
    """What is written to its memory waits for all who read it; other parameters count nothing."""
    g = graph(IN_PLACE)
    ops = {op.name: op for op in g.ops}
    assert {t.name: t.size for t in g.tensors if t.kind is Kind.INPUT} == {"a": 256, "b": 256}
    assert set(ops["one"].after) == {ops["sum"].id, ops["mixed"].id}
    assert set(ops["two"].after) == {ops["mixed"].id}
    model = memory_model(g, resolve("generic,overwrite_inputs=true"))
    # a and b; mixed in a's place; moved and turned beside two of the three; two in b's place.
    assert profile(model, range(len(g.ops))).peak == 3 * 256 + 32
    plain = graph(IN_PLACE.replace(DONATED, "other=1"))
    assert {t.size for t in plain.tensors if t.kind is Kind.INPUT} == {0}


TEXTS = Path(__file__).with_name("texts")
"""Programs of `bench/xla_nets.py` as jax 0.10.2 compiled them, without where they came from, and XLA's own figures."""


@pytest.mark.parametrize("name", ["forward", "adam-donated", "scan-grad"])
def test_the_own_order_needs_what_xla_says(name: str):
    """Within 1 % of temporaries and outputs, and never above; planned, proved and checked."""
    figures = json.loads((TEXTS / "figures.json").read_text())["memory_analysis"][name]
    target = resolve("generic,overwrite_inputs=true")
    plan = lowtide.research.plan(TEXTS / f"{name}.hlo.txt", target=target)
    said = figures["temp"] + figures["output"]
    assert 0.99 * said <= plan.own_order_peak_bytes <= said
    assert plan.optimal
    lowtide.verify(TEXTS / f"{name}.hlo.txt", plan)


def test_it_is_planned_and_bounded(tmp_path: Path, capsys: Captured):
    """Under strict: XLA's own order, the least, and a proof; nothing writes HLO back."""
    wide = "\n".join(f"  %b.{k} = f32[256]{{0}} broadcast(%x), dimensions={{}}" for k in range(4))
    narrow = "\n".join(f"  %r.{k} = f32[] reduce(%b.{k}), to_apply=%sum" for k in range(4))
    text = (
        "HloModule wide, is_scheduled=true\n\nENTRY %main (x: f32[]) -> f32[4] {\n  %x = f32[] parameter(0)\n"
        f"{wide}\n{narrow}\n  ROOT %c = f32[4]{{0}} concatenate(%r.0, %r.1, %r.2, %r.3), dimensions={{0}}\n}}\n"
    )
    file = tmp_path / "wide.hlo.txt"
    file.write_text(text)
    plan = lowtide.research.plan(file, target="strict")
    assert (plan.own_order_peak_bytes, plan.peak_bytes, plan.optimal) == (4 * 1024 + 4, 1024 + 4 * 4, True)
    assert lowtide.verify(file, plan, prove=True).proof is not None
    status, _, err = run(capsys, "research", "plan", file, "-o", tmp_path / "out.hlo.txt", "-q")
    assert (status, "takes no order" in err) == (2, True)
    status, _, err = run(capsys, "research", "plan", file, "--dim", "n=1", "-q")
    assert (status, "sizes in the file" in err) == (2, True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("HloModule", "Module", "does not begin with HloModule"),
        ("is_scheduled=true", "is_scheduled=false", "not scheduled"),
        ("ENTRY %main.7", "%main.7", "no ENTRY"),
        ("\n}\n", "\n", "does not end"),
        ("ROOT %tuple.12", "%tuple.12", "no instruction of the computation is its ROOT"),
        ("tanh(%x.1)", "tanh(%y.1)", "tanh.2 reads y.1"),
        ("tanh(%x.1)", "tanh(%bitcast.3)", "does not come before it"),
        ("tanh(%x.1), ", "tanh(%x.1, ", "parenthesis"),
        ("%tanh.2 = f32[4,4]", "%tanh.2 = f32[4,-4]", "no size of a dimension"),
        ("%tanh.2 = f32[4,4]", "%tanh.2 = q32[4,4]", "no element type"),
        ("%tanh.2 = f32[4,4]", "%tanh.2 = f99[4,4]", "no element type"),
        ("%tanh.2 = f32[4,4]", "%tanh.2 = f32[999999999999999999,99]", "more than"),
        ("%tanh.2 = f32[4,4]", "%tanh.2 = what", "no shape"),
        ("%tanh.2 = ", "%tanh.2 ", "no instruction"),
        ("%bitcast.3 = ", "%tanh.2 = ", "two instructions"),
        ("index=0", "index=7", "does not have"),
        (", index=0", "", "does not have"),
        ("control-predecessors={%pair.4}", "control-predecessors={%none}", "runs after none"),
        ("(f32[4]{0}, /*index=1*/bf16[8]{0})", "(" * 200 + "f32[4]{0}" + ")" * 200, "nested"),
        ("{1,0:T(8,128)}", "{1,0", "no operation"),
        ("body=%body", "body=%lost", "no computation lost"),
        ("condition=%c", "condition=%main.7", "runs itself"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(old: str, new: str, says: str):
    """With the file, and the line or the instruction."""
    entry = TEXT.index("ENTRY")
    at = TEXT.find(old, entry) if old not in ("HloModule", "is_scheduled=true", "ENTRY %main.7") else TEXT.find(old)
    with pytest.raises(InputError) as caught:
        graph(TEXT[:at] + new + TEXT[at + len(old) :])
    assert says in str(caught.value)
    assert re.match(r"m\.hlo(: line \d+)?: ", str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_text_cut_short_is_refused():
    """Wherever it ends."""
    end = TEXT.rindex("}")
    for size in range(0, end, 7):
        with pytest.raises(InputError):
            graph(TEXT[:size])


@pytest.mark.slow
def test_damaged_texts_are_graphs_or_refused():
    """Never another error: a thousand texts with a few characters changed."""
    draw = random.Random(3)
    graphs = 0
    for _ in range(1000):
        letters = list(TEXT)
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(letters))
            letters[at] = draw.choice([" ", "", "(", ")", "{", "}", "%", ",", "9", "=", letters[at] * 2, "\x00", "é"])
        with suppress(InputError):
            graphs += isinstance(graph("".join(letters)), Graph)
    assert graphs > 50
    for data in (b"", b"\xff", b"HloModule", b"HloModule \xff, is_scheduled=true"):
        with pytest.raises(InputError):
            parse_hlo(data, "m.hlo")


def test_a_program_of_jax_is_read(tmp_path: Path):
    """As it compiles today: what the program hands over is what XLA says."""
    jax = pytest.importorskip("jax", reason="pip install jax")

    def step(x, ws):
        ys = [jax.numpy.tanh(x @ w) for w in ws]
        return sum((y.sum(axis=1) for y in ys), start=jax.numpy.zeros(64)), ys[0]

    compiled = jax.jit(step).lower(jax.numpy.ones((64, 32)), [jax.numpy.ones((32, 128))] * 3).compile()
    file = tmp_path / "step.hlo.txt"
    file.write_text(compiled.as_text())
    plan = lowtide.research.plan(file, target="strict")
    outputs = sum(t.size for t in lowtide.load(file).tensors if t.kind is Kind.OUTPUT)
    handed_over = outputs + 16  # and a table of two pointers
    assert handed_over == compiled.memory_analysis().output_size_in_bytes
    assert outputs <= plan.peak_bytes <= plan.own_order_peak_bytes
