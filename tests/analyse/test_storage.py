"""Storages against the checker's own account of what shares memory."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import effective_aliases, memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN, Target
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import simulate
from support.random_graphs import random_graph

GENERIC = BUILT_IN["generic"]
TARGETS = [
    *(BUILT_IN[name] for name in ("strict", "hmcos", "generic", "torch")),
    replace(GENERIC, name="always", constants="always"),
    replace(GENERIC, name="while used", constants="while_used"),
    replace(GENERIC, name="kept", keep_inputs=True),
    replace(GENERIC, name="persistent", persistent=("t1", "t4"), double_buffered=("t2",)),
]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_planner_and_checker_agree(target: Target):
    """On which tensors share, how many bytes they take, who touches them, and what lives at either end."""
    rng = Random(11)
    for _ in range(80):
        graph = random_graph(rng, rng.randint(1, 9))
        model, memory = memory_model(graph, target), work_out(graph, target)
        ours = sorted(
            (sorted(s.tensors), s.size, sorted(graph.ops[i].id for i in s.users), s.at_start, s.at_end)
            for s in model.storages
        )
        theirs = sorted((sorted(b.tensors), b.size, sorted(b.users), b.at_start, b.at_end) for b in memory.storages)
        assert ours == theirs
        assert list(model.workspace) == [memory.workspace[op.id] for op in graph.ops]


def test_displacements_and_touched_are_the_other_way_round():
    """A tensor lies inside its storage; an op's storages are those that it touches."""
    rng = Random(12)
    for _ in range(60):
        graph = random_graph(rng, 8)
        model = memory_model(graph, GENERIC)
        for tensor, s in model.storage_of.items():
            size = graph.tensor_by_id[tensor].size
            assert 0 <= model.displacement[tensor] <= model.storages[s].size - size
        for i, touched in enumerate(model.touched):
            assert list(touched) == [s for s, storage in enumerate(model.storages) if i in storage.users]


def _chain(*kinds: str, **more: object) -> Graph:
    """x of 8 bytes, then ops of these kinds one after the other, the last one's result an output."""
    tensors = [Tensor(0, 8, Kind.INPUT, "t0", (8,))]
    tensors += [Tensor(i, 8, name=f"t{i}", shape=(8,)) for i in range(1, len(kinds) + 1)]
    tensors[-1] = replace(tensors[-1], kind=Kind.OUTPUT)
    return Graph("chain", tuple(tensors), tuple(Op(i, (i,), (i + 1,), type=k, **more) for i, k in enumerate(kinds)))


def test_views_of_views_are_one_storage():
    """And the graph's own aliases go before the target's."""
    graph = _chain("Reshape", "Flatten", "Conv")
    model = memory_model(graph, GENERIC)
    assert [s.tensors for s in model.storages] == [(0, 1, 2), (3,)]
    assert effective_aliases(graph, GENERIC) == {1: (0, 0), 2: (1, 0)}
    assert len(memory_model(graph, BUILT_IN["strict"]).storages) == 4


def test_a_view_that_would_close_a_circle_copies():
    """An input that is declared to lie inside the view's own output stays the root."""
    graph = _chain("Reshape")
    tensors = (replace(graph.tensors[0], alias_of=1), graph.tensors[1])
    assert effective_aliases(replace(graph, tensors=tensors), GENERIC) == {0: (1, 0)}


def test_graph_inputs_are_overwritten_only_if_the_target_says_so():
    """The first op's input is a graph input, the second's is not."""
    graph = _chain("Relu", "Relu")
    assert [len(row) for row in memory_model(graph, GENERIC).overwrites] == [0, 1]
    assert [len(row) for row in memory_model(graph, replace(GENERIC, overwrite_inputs=True)).overwrites] == [1, 1]
    assert [len(row) for row in memory_model(graph, BUILT_IN["strict"]).overwrites] == [0, 0]


def test_room_for_two_is_aligned():
    """A double-buffered tensor takes its aligned size and its own once more, from beginning to end."""
    target = replace(GENERIC, double_buffered=("t1",))
    (held,) = (s for s in memory_model(_chain("Conv", "Conv"), target).storages if 1 in s.tensors)
    assert (held.size, held.at_start, held.at_end) == (64 + 8, True, True)


STRICT = BUILT_IN["strict"]


def named_memory() -> Graph:
    """Two ops write halves of a buffer that no op makes, after the largest tensor is gone."""
    return Graph(
        "r",
        (
            Tensor(0, 10, Kind.INPUT),
            Tensor(1, 500),
            Tensor(2, 10),
            Tensor(3, 400),
            Tensor(4, 200, alias_of=3),
            Tensor(5, 200, alias_of=3, alias_offset=200),
            Tensor(6, 10, Kind.OUTPUT),
        ),
        (Op(0, (0,), (1,)), Op(1, (1,), (2,)), Op(2, (2,), (4,)), Op(3, (2,), (5,)), Op(4, (4, 5), (6,))),
    )


def test_memory_that_no_op_makes_is_there_from_its_first_part_on() -> None:
    """A root that is no graph input only names memory: 510 bytes, not 910."""
    graph = named_memory()
    model = memory_model(graph, STRICT)
    assert [s.at_start for s in model.storages] == [True, False, False, False, False]
    assert profile(model, range(5)).peak == 510
    assert simulate(graph, work_out(graph, STRICT), range(5)).peak == 510


def test_a_plan_with_and_without_spilling_say_the_same_of_named_memory(tmp_path: Path) -> None:
    """510 bytes are the peak, proved, and fit a fast memory without a move; the checker agrees."""
    tensors = [
        {"id": t.id, "size": t.size, "kind": str(t.kind), "alias_offset": t.alias_offset}
        | ({} if t.alias_of is None else {"alias_of": t.alias_of})
        for t in named_memory().tensors
    ]
    ops = [{"id": op.id, "inputs": op.inputs, "outputs": op.outputs} for op in named_memory().ops]
    path = tmp_path / "r.graph.json"
    path.write_text(json.dumps({"name": "r", "tensors": tensors, "ops": ops}))
    plan = lowtide.research.plan(path, target="strict")
    assert (plan.peak_bytes, plan.lower_bound_bytes, plan.own_order_peak_bytes) == (510, 510, 510)
    lowtide.verify(path, plan, prove=True)
    spilled = lowtide.research.plan(path, target="strict", memories={"fast": 510})
    assert (spilled.peak_bytes, spilled.traffic_bytes, spilled.own_order_peak_bytes) == (510, 0, 510)
    lowtide.verify(path, spilled, prove=True)


def test_a_constant_inside_memory_that_changes_is_refused() -> None:
    """Both sides name it: it would have to be put there on every run, and no op does."""
    tensors = (Tensor(0, 4, Kind.INPUT, "x"), Tensor(1, 8, name="buffer"), Tensor(2, 4, Kind.CONSTANT, "w", alias_of=1))
    with pytest.raises(InputError, match="w is constant, and lies in buffer, which is not"):
        Graph("g", tensors, (Op(0, (0, 2), (1,)),))


def test_what_is_written_into_a_constant_is_refused() -> None:
    """An op that reads it may make a view of it; one that does not read it writes."""
    tensors = (Tensor(0, 4, Kind.INPUT, "x"), Tensor(1, 8, Kind.CONSTANT, "w"), Tensor(2, 4, name="y", alias_of=1))
    Graph("g", tensors, (Op(0, (0, 1), (2,)),))
    with pytest.raises(InputError, match="op 0 writes y into w, which is constant"):
        Graph("g", tensors, (Op(0, (0,), (2,)),))


def peak_by_contract(graph: Graph) -> int:
    """Largest footprint of the own order under `strict`, from the contract's text alone."""
    kinds = {t.id: t for t in graph.tensors}
    made = {t for op in graph.ops for t in op.outputs}
    place: dict[int, tuple[int, int]] = {}
    for t in graph.tensors:
        at, offset = t, 0
        while at.alias_of is not None:
            at, offset = kinds[at.alias_of], offset + at.alias_offset
        place[t.id] = at.id, offset
    steps = len(graph.ops)
    load = [op.workspace for op in graph.ops]
    for root in {r for r, _ in place.values()}:
        inside = [t for t in graph.tensors if place[t.id][0] == root]
        uses = [i for i, op in enumerate(graph.ops) if any(place[t][0] == root for t in (*op.inputs, *op.outputs))]
        given = any(t.id not in made and t.kind in (Kind.INPUT, Kind.OUTPUT) for t in inside)
        wanted = any(t.kind is Kind.OUTPUT for t in inside)
        if kinds[root].kind is Kind.CONSTANT or not (uses or wanted):
            continue
        for i in range(0 if given else uses[0], steps if wanted else uses[-1] + 1):
            load[i] += max(place[t.id][1] + t.size for t in inside)
    return max(load, default=0)


@pytest.mark.slow
def test_storages_are_the_contracts_in_planner_and_checker() -> None:
    """Random graphs, half of them full of aliases: one peak by three derivations of who lives when."""
    for seed in range(600):
        graph = random_graph(Random(seed), 8, aliases=0.1 if seed % 2 else 0.4)
        model = memory_model(graph, STRICT)
        peak = peak_by_contract(graph)
        assert profile(model, range(len(graph.ops))).peak == peak
        assert simulate(graph, work_out(graph, STRICT), graph.own_order).peak == peak
        assert all(a <= b for s in model.storages for a, b in pairwise(s.users))
