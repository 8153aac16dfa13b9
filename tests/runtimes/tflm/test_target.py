"""Target tflm end to end: plans of random models hold, are least where they say so, and run as planned."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lowtide import api
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan, read_plan
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import simulate
from support.tflite_builder import SAME, VALID, Net, branches, residual, s

TFLM = BUILT_IN["tflm"]
REFERENCE = "tflm,kernels=reference"


def mixed(seed: int, ops: int) -> Net:
    """Operators at random, most of which may overlap an input, on branches that are joined again."""
    draw = random.Random(seed)
    net = Net(seed)
    x = net.tensor((1, 8, 8, 4))
    made = [x]
    for _ in range(ops):
        y = draw.choice(made[-3:])
        kind = draw.randrange(12)
        if kind == 0:
            y = net.conv(y, draw.choice([2, 4, 8]), (3, 3), (1, 1), SAME)
        elif kind == 1:
            y = net.conv(y, 1, depthwise=True)
        elif kind == 2:
            y = net.pool(y, "MAX_POOL_2D", (2, 2), (1, 1), SAME)
        elif kind == 3:
            others = [z for z in made if net.shape(z) == net.shape(y)]
            y = net.add(y, draw.choice(others))
        elif kind == 4:
            y = net.unary("RELU", y)
        elif kind == 5:
            y = net.reshape(y, net.shape(y))
        elif kind < 11:
            y = moved(draw, net, y, kind)
        else:
            y = net.conv(y, 4, (1, 1), (1, 1), VALID)
        made.append(y)
    net.ends([x], [made[-1]] if draw.random() < 0.7 else sorted({made[-1], made[-2]}))
    return net


def moved(draw: random.Random, net: Net, x: int, kind: int) -> int:
    """A padding, a slice, a transposition, a resizing, or a product with a value for each channel."""
    n, height, width, depth = net.shape(x)
    held = []
    if kind == 6:
        made, name, options = (n, height + 2, width + 1, depth), "PAD", s.PadOptionsT()
        held = [net.tensor((4, 2), "int32", [[0, 0], [1, 1], [1, 0], [0, 0]], scale=0.0)]
    elif kind == 7:
        made, name, options = (n, height - height // 3, width, depth), "SLICE", s.SliceOptionsT()
        held = [net.tensor((4,), "int32", v, scale=0.0) for v in ((0, height // 3, 0, 0), made)]
    elif kind == 8:
        made, name, options = (n, width, height, depth), "TRANSPOSE", s.TransposeOptionsT()
        held = [net.tensor((4,), "int32", (0, 2, 1, 3), scale=0.0)]
    elif kind == 9:
        size = (height * 2, width) if height < 10 else (height // 2, width)
        made, name, options = (n, *size, depth), "RESIZE_NEAREST_NEIGHBOR", s.ResizeNearestNeighborOptionsT()
        held = [net.tensor((2,), "int32", size, scale=0.0)]
    else:
        made, name, options = net.shape(x), "MUL", s.MulOptionsT()
        held = [net.tensor((depth,), "int8", [draw.randint(1, 99) for _ in range(depth)])]
    out = net.like(x, made)
    net.op(name, [x, *held], [out], options)
    return out


def graph_from(net: Net) -> Graph:
    """Graph of a model."""
    return graph_of(parse_tflite(net.bytes(), "m"), [], "m", "0")


def orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Every topological order."""
    before = {graph.ops[i].id: {graph.ops[p].id for p in ps} for i, ps in enumerate(graph.predecessors)}

    def walk(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(before):
            yield done
        for op, needs in before.items():
            if op not in done and needs <= set(done):
                yield from walk((*done, op))

    return walk(())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_the_peak_is_the_least_of_all_orders(seed: int):
    """Overlaps in part are counted by the scheduler itself: brute force with the checker's rules agrees."""
    graph = graph_from(mixed(seed, 7))
    reference = replace(TFLM, kernels="reference")
    for target in (TFLM, reference, replace(reference, overlap="in_place"), replace(TFLM, overlap="never")):
        memory = work_out(graph, target)
        least = min(simulate(graph, memory, order).peak for order in orders(graph))
        made = api.plan(graph, target=target, time=10)
        assert (made.peak_bytes, made.lower_bound_bytes, made.optimal) == (least, least, True)
        assert made.arena_bytes is not None
        assert made.arena_bytes >= least


def test_more_is_allowed_and_less_is_needed():
    """Never, in place, in part: each at most as much as the one before."""
    for seed in range(10):
        graph = graph_from(mixed(seed, 10))
        kinds = ("never", "in_place", "diagonal")
        peaks = [api.plan(graph, target=replace(TFLM, overlap=kind), time=5).peak_bytes for kind in kinds]
        assert peaks == sorted(peaks, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_models_run_as_planned(tmp_path: Path, seed: int):
    """Bit-equal in TFLM and LiteRT; head and smallest arena to the byte (the former is checked by the run itself)."""
    pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
    path = tmp_path / "m.tflite"
    path.write_bytes(mixed(100 + seed, 12).bytes())
    made = api.plan(path, target="tflm,kernels=reference", time=5)
    run: Any = api.verify(path, made, run=True).run
    assert all(o.equal for o in run.outputs)
    assert len(run.outputs) >= 3
    assert run.tflm.planned.head_bytes == made.arena_bytes <= run.tflm.original.head_bytes
    if made.runtime_parts is not None and made.runtime_parts.exact:
        assert run.tflm.planned.smallest_arena_bytes == made.required_bytes


def test_inputs_that_must_survive():
    """Pinned, nothing is laid over them while they are read; kept, they stay to the end."""
    graph = graph_from(residual())
    free, pinned = (api.plan(graph, target="tflm", pin_inputs=pin) for pin in (False, True))
    kept = api.plan(graph, target=replace(TFLM, keep_inputs=True, overwrite_inputs=False))
    assert free.peak_bytes <= pinned.peak_bytes <= kept.peak_bytes
    for made in (pinned, kept):
        assert not any(pair[1] == 0 for pair in [*made.in_place, *(made.overlap or ())])


def test_the_bound_is_proved_again():
    """`--prove` counts partial overlaps as well."""
    graph = graph_from(branches())
    made = api.plan(graph, target="tflm")
    assert made.optimal
    assert api.prove(graph, made).result in ("re-proved", "checked")


def changed(folder: Path, name: str, value: Any) -> Path:
    """A plan file with one key set to something else."""
    path = folder / "p.json"
    table = json.loads(path.read_text())
    table[name] = value(table[name]) if callable(value) else value
    path.write_text(json.dumps(table))
    return path


@pytest.mark.parametrize(
    ("name", "value", "failure"),
    [
        ("offsets", lambda o: o | {min(o, key=lambda t: o[t]): max(o.values()) // 16 * 16 + 16}, None),
        ("overlap", lambda o: o[:-1], "in_place_offset"),
        ("overlap", lambda o: [*o, [5, 0, 16]], "in_place"),
        ("runtime_arena_bytes", lambda n: n - 16, "runtime_arena"),
        ("required_bytes", lambda n: n + 1, "required"),
        ("peak_bytes", lambda n: n - 16, "peak"),
        ("in_place", [[3, 0]], None),
    ],
)
def test_false_plans_are_refused(tmp_path: Path, name: str, value: Any, failure: str | None):
    """Whatever is changed, a named check fails."""
    model = tmp_path / "m.tflite"
    model.write_bytes(residual().bytes())
    api.plan(model, target=REFERENCE).save(tmp_path / "p.json")
    with pytest.raises(VerificationError) as error:
        api.verify(model, read_plan(changed(tmp_path, name, value)))
    assert failure in (None, error.value.failure)


def test_an_output_nearer_than_the_distance_is_refused(tmp_path: Path):
    """Each overlap is moved by 16 bytes, and the checker says which kernel still reads what."""
    net = Net()
    x = y = net.tensor((1, 16, 16, 8))
    for _ in range(4):
        y = net.conv(y, 8)
    net.ends([x], [y])
    model = tmp_path / "m.tflite"
    model.write_bytes(net.bytes())
    made = api.plan(model, target=REFERENCE)
    made.save(tmp_path / "p.json")
    offsets = dict(made.offsets or {})
    assert made.overlap
    for out, read, _ in made.overlap:
        path = changed(tmp_path, "offsets", offsets | {str(out): offsets[str(read)] + 16})
        with pytest.raises(VerificationError, match="still reads") as error:
            api.verify(model, read_plan(path))
        assert error.value.failure == "in_place_offset"


@pytest.mark.slow
def test_check_tells_the_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Required, available and excess bytes, and what kTensorArenaSize consists of; exit 0, 3 and 4."""
    from lowtide.cli import main

    model = tmp_path / "m.tflite"
    model.write_bytes(residual().bytes())
    build = ["--set", "kernels=reference", "--set", "interpreter=recording"]
    made = api.plan(model, target="tflm,kernels=reference,interpreter=recording")
    assert made.runtime_parts is not None
    need = made.required_bytes
    assert need == made.runtime_parts.planned + made.runtime_parts.persistent
    assert main(["check", str(model), "--budget", str(need), *build]) == 0
    seen = capsys.readouterr()
    assert "kTensorArenaSize: planned" in seen.err
    assert made.optimal
    assert main(["check", str(model), "--budget", str(made.least_required_bytes - 1), *build]) == 4
    assert main(["check", str(model), "--budget", str(made.least_required_bytes), *build]) in (0, 3)
    assert main(["check", str(model), "--budget", str(need), "--as-is", *build]) == 3
    capsys.readouterr()
    assert main(["check", str(model), "--budget", "1MiB", "--json", *build]) == 0
    assert json.loads(capsys.readouterr().out)["parts"]["persistent"] == made.runtime_parts.persistent


def test_subgraphs_that_run_themselves(tmp_path: Path):
    """One line, not a stack without end."""
    net = Net()
    x = net.tensor((4,), "float32")
    y = net.tensor((4,), "float32")
    o = s.IfOptionsT()
    o.thenSubgraphIndex = o.elseSubgraphIndex = 0
    net.op("IF", [x, x], [y], o)
    net.ends([x], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(net.bytes())
    with pytest.raises(InputError, match="runs itself"):
        api.plan(path)


@pytest.mark.slow
def test_planning_needs_no_runtime(tmp_path: Path):
    """Prediction and file are made in a process where neither runtime can be imported."""
    model, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    model.write_bytes(branches().bytes())
    code = (
        "import sys; sys.modules |= dict.fromkeys(('tflite_micro', 'ai_edge_litert', 'flatbuffers', 'tensorflow'));"
        "from lowtide.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["research", "plan", str(model), "-o", str(out), "--plan", str(tmp_path / "p.json"), "-q"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    said = "lowtide: warning: out.tflite not opened: neither tflite-micro nor ai-edge-litert is installed\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert read_plan(tmp_path / "p.json").runtime_parts == api.plan(model).runtime_parts
    assert api.verify(out).checks


def test_every_method_counts_the_overlaps(tmp_path: Path):
    """No method falls below the proved bound, and the file order is the file's."""
    model = tmp_path / "m.tflite"
    model.write_bytes(branches().bytes())
    rows = {row.method: row for row in api.compare(model, ["own", "greedy", "serenity", "hmcos", "exact"], time=5)}
    assert all(row.status == "ok" for row in rows.values())
    least = rows["exact"].peak_bytes or 0
    assert rows["exact"].optimal
    assert all((row.peak_bytes or 0) >= least for row in rows.values())
    assert rows["own"].peak_bytes == api.plan(model).own_order_peak_bytes


@pytest.mark.slow
def test_impossible_is_reported_of_what_is_left_open(tmp_path: Path):
    """Below what pip's build needs firmware may still fit: exit 3, until no build and no kernels fit; then 4."""
    from lowtide.cli import main

    net = Net()
    x = y = net.tensor((1, 16, 16, 8))
    for _ in range(3):
        y = net.conv(y, 8, (1, 1))
    net.ends([x], [y])
    model = tmp_path / "m.tflite"
    model.write_bytes(net.bytes())
    needs = {
        (kernels, pointer): api.plan(model, target=f"tflm,kernels={kernels},pointer={pointer}").required_bytes
        for kernels in ("any", "reference")
        for pointer in (64, 32)
    }
    assert needs["reference", 32] < needs["reference", 64] < needs["any", 32] < needs["any", 64]

    def status(budget: int, *settings: str) -> int:
        return main(["check", str(model), "--budget", str(budget), *(w for s in settings for w in ("--set", s))])

    assert status(needs["any", 64] - 1, "pointer=64") == 3
    assert status(needs["any", 32] - 1) == 3
    assert status(needs["reference", 64] - 1, "kernels=reference", "pointer=64") == 3
    recording = "kernels=reference", "interpreter=recording"
    least = api.plan(model, target=f"tflm,{','.join(recording)}").least_required_bytes
    assert least <= needs["reference", 64] <= least + 32
    assert status(least - 1, *recording) == 4
    assert status(needs["reference", 32], "kernels=reference", "pointer=32") == 0
    smallest = api.plan(model, target="tflm,kernels=reference,pointer=32,enums=short").required_bytes
    assert smallest <= needs["reference", 32]
    assert status(smallest - 1024) == 4


def test_older_plans_say_less(tmp_path: Path):
    """Parts without the least ones of any build: only the bound itself is proved."""
    model = tmp_path / "m.tflite"
    model.write_bytes(residual().bytes())
    made = api.plan(model, target=REFERENCE)
    older = replace_parts(made, least_beside=None)
    assert made.least_required_bytes > older.least_required_bytes == made.lower_bound_bytes


def replace_parts(plan: Plan, **changes: Any) -> Plan:
    """A plan with other parts."""
    assert plan.runtime_parts is not None
    parts = msgspec.structs.replace(plan.runtime_parts, **changes)
    return msgspec.structs.replace(plan, runtime_parts=parts)
