"""Pieces of a whole that are there by themselves: counted as bytes are, one by one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.read import read_model
from lowtide.report.view import PlanView
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.transform.alias import Forest, apply
from lowtide.transform.alias_candidates import Candidates
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import simulate
from support.arena_run import AliasNets, run_in_arena, weights_of
from support.brute import optimal_order
from support.onnx_builder import constant, model, node, saved, value

TARGET = resolve("generic,in_place_normalisation=true,pieces=contiguous")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the networks of all examples are written."""
    return tmp_path_factory.mktemp("pieces")


def _aliased(folder: Path, seed: int, ops: int) -> Graph:
    """A random network with a random set of aliases."""
    rng = Random(seed)
    graph = read_model(saved(AliasNets(rng.choice).build(ops), folder, "m.onnx"))
    forest = Forest(graph, TARGET)
    for alias in Candidates(graph, TARGET).all:
        if rng.random() < 0.8:
            forest.add((alias,))
    return apply(graph, TARGET, forest.aliases).graph


def _order(graph: Graph, rng: Random) -> list[int]:
    order: list[int] = []
    while len(order) < len(graph.ops):
        ready = [i for i, before in enumerate(graph.predecessors) if set(before) <= set(order) and i not in order]
        order.append(rng.choice(ready))
    return order


def _bytes_there(memory: MemoryModel, order: list[int], group: tuple[tuple[int, int], ...]) -> list[int]:
    """Bytes of a whole at each step, each byte from the first op that makes or reads a tensor with it to the last."""
    graph, tensors = memory.graph, {t for s, _ in group for t in memory.storages[s].tensors}
    start = {t: dict(group)[memory.storage_of[t]] + memory.displacement[t] for t in tensors}
    step_of = {v: k for k, v in enumerate(order)}
    there = [0] * len(order)
    for byte in range(max(start[t] + graph.tensor_by_id[t].size for t in tensors)):
        here = {t for t in tensors if start[t] <= byte < start[t] + graph.tensor_by_id[t].size}
        steps = [step_of[i] for i, op in enumerate(graph.ops) if not here.isdisjoint((*op.inputs, *op.outputs))]
        given = any(t not in graph.producer for t in here)
        kept = any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in here)
        for step in range(0 if given else min(steps), len(order) if kept else max(steps) + 1):
            there[step] += 1
    return there


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 10**6), st.integers(4, 10))
def test_pieces_count_as_their_bytes_do(folder: Path, seed: int, ops: int):
    """The stretches of every whole together are as many bytes at each step as are there, counted one by one; planner
    and checker agree on the footprint of every step."""
    graph = _aliased(folder, seed, ops)
    memory = memory_model(graph, TARGET)
    order = _order(graph, Random(seed))
    lives = profile(memory, order)
    for group in memory.groups:
        counted = [
            sum(memory.storages[s].size for s, _ in group if max(lives.first[s], 0) <= step <= lives.last[s])
            for step in range(len(order))
        ]
        assert counted == _bytes_there(memory, order, group)
    checked = simulate(graph, work_out(graph, TARGET), [graph.ops[i].id for i in order])
    assert checked.footprint == lives.footprint


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 10**6), st.integers(4, 9))
def test_the_least_peak_is_that_of_all_orders(folder: Path, seed: int, ops: int):
    """The exact scheduler against every set of ops that can have run, in the checker's memory."""
    graph = _aliased(folder, seed, ops)
    memory = memory_model(graph, TARGET)
    answer = Exact().schedule(memory, Limits(seconds=30))
    assert profile(memory, answer.order).peak == answer.lower_bound == optimal_order(graph, TARGET)[0]


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """A concat one of whose pieces is there early, while others of several sizes come and go before the second."""
    widths = {"d": (8, 4), "e": (4, 1), "b": (1, 8), "y": (16, 1)}
    weights = [constant(f"w_{name}", [0.5] * (i * o), [o, i, 1, 1]) for name, (i, o) in widths.items()]
    nodes = [
        node("Relu", "x", "a"),
        *(node("Conv", f"{read} w_{made}", made) for read, made in ("ad", "de", "eb")),
        node("Concat", "a b", "c", axis=1),
        node("Conv", "c w_y", "y"),
    ]
    return saved(model(nodes, [value("x", (1, 8, 2, 2))], [value("y", (1, 1, 2, 2))], weights), tmp_path)


def test_room_of_a_piece_that_comes_later_is_used(late: Path):
    """What is gone before the second piece is written lies in its place: 256 bytes of both, and 16 besides."""
    plan = lowtide.research.plan(late, target=TARGET, allow="alias")
    assert (plan.peak_bytes, plan.optimal) == (272, True)
    assert plan.arena_bytes == plan.arena_lower_bound_bytes == 320
    assert lowtide.verify(late, plan, target=TARGET).checks
    assert run_in_arena(read_model(late), plan, weights_of(late)) is None
    at, ids = {int(t): low for t, low in (plan.offsets or {}).items()}, {t.name: t.id for t in plan.tensors}
    assert at[ids["a"]] == at[ids["c"]]
    assert at[ids["b"]] == at[ids["c"]] + 128
    assert at[ids["b"]] <= at[ids["d"]] < at[ids["b"]] + 128
    drawn = {r.name: (r.offset, r.size, r.start, r.end) for r in PlanView.of(plan).rectangles}
    assert {"a", "b", "c", "d"} & drawn.keys() == {"a", "b", "d"}
    assert drawn["b"] == (at[ids["b"]], 128, 3, 6)
    assert drawn["a"] == (at[ids["a"]], 128, 0, 6)


def test_what_lies_in_the_room_of_a_piece_that_is_there_is_found(late: Path):
    """Moved over the first piece, or kept when the second is written."""
    plan = lowtide.research.plan(late, target=TARGET, allow="alias")
    ids = {t.name: str(t.id) for t in plan.tensors}
    at = plan.offsets or {}
    for name, over in (("d", "a"), ("e", "b"), ("b", "a")):
        moved = msgspec.structs.replace(plan, offsets={**at, ids[name]: at[ids[over]]})
        with pytest.raises(VerificationError):
            lowtide.verify(late, moved, target=TARGET)


def test_a_whole_that_is_written_over_is_not_divided(tmp_path: Path):
    """An op may take its place, so that it is one storage; and so is one with pieces row by row."""
    nodes = [
        node("Neg", "x", "p"),
        node("Exp", "x", "q"),
        node("Concat", "p q", "c", axis=1),
        node("Relu", "c", "y"),
    ]
    graph = read_model(saved(model(nodes, [value("x", (1, 2, 2, 2))], [value("y", (1, 4, 2, 2))]), tmp_path))
    forest = Forest(graph, TARGET)
    assert forest.add(Candidates(graph, TARGET).all) is None
    assert not memory_model(apply(graph, TARGET, forest.aliases).graph, TARGET).groups
    assert not any(b.part for b in work_out(apply(graph, TARGET, forest.aliases).graph, TARGET).storages)
    last = [*nodes[:3], node("Conv", "c w", "y")]
    weights = [constant("w", [0.5] * 16, [4, 4, 1, 1])]
    made = model(last, [value("x", (1, 2, 2, 2))], [value("y", (1, 4, 2, 2))], weights)
    graph = read_model(saved(made, tmp_path, "divided.onnx"))
    for word, divided in (("contiguous", True), ("strided,layout=channels_last", False)):
        target = resolve(f"generic,pieces={word}")
        forest = Forest(graph, target)
        assert forest.add(Candidates(graph, target).all) is None
        assert len(forest.aliases) == 2
        assert bool(memory_model(apply(graph, target, forest.aliases).graph, target).groups) == divided
