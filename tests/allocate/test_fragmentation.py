"""Where an arena loses bytes: what ends highest, and the holes below it."""

from dataclasses import replace
from random import Random

import pytest

import lowtide
from lowtide.allocate.arena import Allocation
from lowtide.allocate.exact import ExactFit
from lowtide.allocate.fragmentation import lost
from lowtide.allocate.greedy import Portfolio
from lowtide.allocate.order_and_arena import place
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.report.inspection import inspection_text
from lowtide.report.text import plan_text
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph


def three() -> Graph:
    """Tensors a (4 B), b (2 B) and c (4 B): a dies before c begins, b stays."""
    tensors = [
        Tensor(0, 4, Kind.ACTIVATION, "a"),
        Tensor(1, 2, Kind.ACTIVATION, "b"),
        Tensor(2, 4, Kind.OUTPUT, "c"),
        Tensor(3, 1, Kind.INPUT, "x"),
    ]
    ops = [Op(0, (3,), (0,), "make a"), Op(1, (0,), (1,), "make b"), Op(2, (1,), (2,), "make c")]
    return Graph("three", tuple(tensors), tuple(ops))


def test_a_hole_between_two_tensors_is_named() -> None:
    """With b in the middle, 3 bytes below it are free when c is made, one too few."""
    model = memory_model(three(), BUILT_IN["strict"])
    steps = profile(model, range(3))
    placed = Allocation({3: 6, 0: 0, 1: 3 + 1, 2: 6}, {}, 10, 6, (), (), "by hand")
    found = lost(model, range(3), steps, placed)
    assert found is not None
    assert (found.gap_bytes, found.top, found.top_bytes, found.step) == (4, "c", 4, 2)
    assert (found.free_bytes, found.hole_count) == (4, 1)
    assert (found.holes[0].offset, found.holes[0].bytes, found.holes[0].below, found.holes[0].above) == (
        0,
        4,
        None,
        "b",
    )
    assert found.text == (
        "c (4 B) ends highest; at step 2, op 2 'make c', 4 B below it are free, below b (other steps close it)"
    )
    tight = replace(placed, offsets={3: 6, 0: 1, 1: 3, 2: 6})
    nearly = lost(model, range(3), steps, tight)
    assert nearly is not None
    assert "4 B below it are free in 2 holes, the largest of 3 B below b" in nearly.text


def test_an_arena_at_its_bound_loses_nothing() -> None:
    """Then there is nothing to say, and for an empty one neither."""
    model = memory_model(three(), BUILT_IN["strict"])
    layout = place(model, (0, 1, 2), Limits())
    assert layout.allocation.optimal
    assert lost(model, layout.order, layout.profile, layout.allocation) is None
    empty = Graph("empty", (), ())
    model = memory_model(empty, BUILT_IN["strict"])
    assert lost(model, (), profile(model, ()), place(model, (), Limits()).allocation) is None


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_holes_are_free_and_below_the_top(target: str) -> None:
    """Of random orders: nothing that is live at that step lies in a hole, and the holes are within the arena."""
    rng = Random(5)
    seen = 0
    for _ in range(150):
        graph = random_graph(rng, rng.randint(6, 16))
        model = memory_model(graph, BUILT_IN[target])
        order = tuple(range(len(graph.ops)))
        layout = place(model, order, Limits(), (Portfolio(Portfolio().rules[:1]),))
        found = lost(model, order, layout.profile, layout.allocation)
        if found is None:
            assert layout.allocation.optimal
            continue
        seen += 1
        if target != "generic":
            assert found.gap_bytes == layout.allocation.arena_bytes - layout.profile.peak
        for hole in found.holes:
            assert 0 <= hole.offset < hole.offset + hole.bytes <= layout.allocation.arena_bytes - found.top_bytes
            for t, at in layout.allocation.offsets.items():
                s = model.storage_of[t]
                there = max(layout.profile.first[s], 0) <= found.step <= layout.profile.last[s]
                size = graph.tensor_by_id[t].size
                assert not (there and at < hole.offset + hole.bytes and hole.offset < at + size)
    assert seen > 20


def test_plan_and_inspect_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words and in the figures, if the arena of the plan's order is above its bound; else not at all."""
    monkeypatch.setattr(ExactFit, "improve", lambda _, problem, limits, known: known)
    made = lowtide.research.plan("zoo:random_width:n=300", target="strict", method="rpo")
    assert made.search is not None
    assert made.search["arena_lost"]["gap_bytes"] == (made.arena_bytes or 0) - made.peak_bytes
    assert made.search["arena_lost"]["text"] in plan_text(made)
    assert "arena_lost" not in plan_text(made, verbose=True)
    whole = lowtide.research.plan("zoo:swiftnet_cell_c")
    assert "arena_lost" not in (whole.search or {})
    assert "bytes lost" not in plan_text(whole)
    seen = lowtide.inspect("zoo:swiftnet_cell_c")
    assert seen.arena_lost is None
    assert f"{seen.arena_bytes:,} B" in inspection_text(seen)
    assert seen.arena_bytes == seen.arena_lower_bound_bytes
