import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.api.exports import layout_of
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN, read_toml, resolve, to_toml
from lowtide.write.usmp import conflicts
from support.brute import optimum
from support.random_graphs import random_graph
from support.small_models import branches, graph_file

#  t0 8 B -> op0 -> t1 16 B -> op1 -> t2 4 B -> op2 -> t3 2 B
CHAIN = Graph(
    "chain",
    tuple(Tensor(i, size, kind, f"t{i}") for i, (size, kind) in enumerate(
        [(8, Kind.INPUT), (16, Kind.ACTIVATION), (4, Kind.ACTIVATION), (2, Kind.OUTPUT)])),
    tuple(Op(i, (i,), (i + 1,), f"op{i}", "Relu") for i in range(3)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("persistent", "double", "peak"),
    [([], [], 24), (["t2"], [], 28), (["t0"], [], 28), ([], ["t0"], 36), (["t0", "t3"], [], 30), ([], ["t2"], 32)],
)
def test_peaks_by_hand(persistent: list[str], double: list[str], peak: int):
    """24 bytes while op0 runs, 20 while op1 does; what is kept, once or twice, is there all the time."""
    plan = lowtide.research.plan(CHAIN, target="strict", persistent=persistent, double_buffered=double)
    assert (plan.peak_bytes, plan.arena_bytes, plan.optimal) == (peak, peak, True)
    assert lowtide.verify(CHAIN, plan)


def test_nothing_is_written_over_what_is_kept():
    """An op that might run in place does not, over a persistent input or with a persistent output."""
    same = Graph("same", tuple(Tensor(i, 8, k, f"t{i}") for i, k in enumerate(
        [Kind.INPUT, Kind.ACTIVATION, Kind.ACTIVATION, Kind.OUTPUT])), CHAIN.ops)  # fmt: skip
    free = lowtide.research.plan(same)
    assert free.in_place == [(2, 1), (3, 2)]
    assert lowtide.research.plan(same, persistent=["t1"]).in_place == [(3, 2)]
    assert lowtide.research.plan(same, persistent=["t2"]).in_place == []


def test_the_second_buffer_has_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """One aligned size above the first; in the header too; verify finds a tensor that lies in it."""
    path, header, plan_file = graph_file(tmp_path, branches()), tmp_path / "n.h", tmp_path / "p.json"
    call = ["research", "plan", str(path), "--double-buffer", "t5", "--persistent", "t0", "--header", str(header)]
    assert main([*call, "--plan", str(plan_file)]) == 0
    made = json.loads(plan_file.read_text())
    assert (made["persistent"], made["double_buffered"]) == (["t0"], ["t5"])
    at = made["offsets"]["5"]
    assert f"#define BRANCHES_T_t5_second_OFFSET {at + 64}\n" in header.read_text()
    assert main(["verify", str(path), str(plan_file)]) == 0
    made["offsets"]["1"] = at + 64
    plan_file.write_text(json.dumps(made))
    assert main(["verify", str(path), str(plan_file)]) == 5
    del made["double_buffered"]
    plan_file.write_text(json.dumps(made))
    assert main(["verify", str(path), str(plan_file)]) == 5
    capsys.readouterr()


def test_names_that_are_none():
    """A tensor that is not there, and a constant, are refused; a target file may name tensors of other models."""
    constant = Graph("c", (*CHAIN.tensors, Tensor(9, 4, Kind.CONSTANT, "w")), CHAIN.ops)
    with pytest.raises(InputError, match="'t7' is no tensor of the model"):
        lowtide.research.plan(CHAIN, persistent=["t7"])
    with pytest.raises(InputError, match="'w' is a constant"):
        lowtide.research.plan(constant, double_buffered=["w"])


def test_a_target_says_it_too(tmp_path: Path):
    """As TOML, with names that need quoting; the command's names come after the target's."""
    rules = replace(resolve("generic", persistent=['a"b\\', "t2"], double_buffered=["t0"]), name="mine")
    path = tmp_path / "generic.toml"
    path.write_text(to_toml(rules))
    assert read_toml(path) == rules
    assert resolve(rules, persistent=["t2", "x"]).persistent == ('a"b\\', "t2", "x")
    with pytest.raises(InputError, match="no tensor of the model"):
        lowtide.research.plan(CHAIN, target=rules)
    plan = lowtide.research.plan(CHAIN, target=replace(rules, persistent=("t2",)))
    assert plan.peak_bytes == lowtide.research.plan(CHAIN, persistent=["t2"], double_buffered=["t0"]).peak_bytes


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["strict", "generic", "hmcos"]), st.data())
def test_random_models_keep_what_is_to_be_kept(seed: int, target: str, data: st.DataObject):
    """The plan holds and is optimal; nothing else is ever in the bytes of what is kept."""
    graph = random_graph(Random(seed), 7)
    names = [t.name or "" for t in graph.tensors if t.kind is not Kind.CONSTANT and t.name]
    kept = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
    twice = data.draw(st.lists(st.sampled_from(names), max_size=1)) if names else []
    plan = lowtide.research.plan(graph, target=target, persistent=kept, double_buffered=twice)
    rules = resolve(BUILT_IN[target], persistent=kept, double_buffered=twice)
    assert plan.peak_bytes == optimum(graph, rules)
    layout = layout_of(plan, graph)
    against = conflicts(layout.blocks)
    named = {t.name: t.id for t in graph.tensors}
    for name in {*kept, *twice}:
        offset = plan.offset_of(named[name])
        if offset is None:
            continue
        size = graph.tensor_by_id[named[name]].size
        room = range(offset, offset + (2 * size if name in twice else size))
        inside = [i for i, b in enumerate(layout.blocks) if b.offset < room.stop and room.start < b.offset + b.size]
        assert len(inside) == bool(room)
        assert all(len(against[i]) == len(layout.blocks) - 1 for i in inside)
