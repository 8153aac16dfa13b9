"""What is to be placed: the load bound by its definition, and the buffers of an order."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from lowtide.allocate.buffers import Buffer, Problem, Rectangle, arena_buffers, block, height_of, load_bound
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph, random_order


def test_a_buffer_knows_its_extent():
    """From its first piece to its last; one without pieces is never there."""
    gapped = Buffer("g", 8, (Rectangle(1, 2, 0, 8), Rectangle(4, 6, 4, 4)))
    assert (gapped.start, gapped.end, gapped.area) == (1, 6, 8 + 2 * 4)
    empty = block("e", 3, 5, 0)
    assert (empty.start, empty.end, empty.area, empty.rectangles) == (0, 0, 0, ())


def test_the_load_bound_is_the_most_at_once():
    """Or the end of a fixed buffer, or the largest one."""
    rng = Random(2)
    for _ in range(100):
        buffers = [
            block(f"b{i}", start, start + rng.randint(1, 4), rng.randint(1, 9))
            for i in range(rng.randint(1, 8))
            for start in (rng.randint(0, 6),)
        ]
        most = max(sum(b.size for b in buffers if b.start <= t < b.end) for t in range(12))
        assert load_bound(Problem(tuple(buffers))) == most
    assert load_bound(Problem((Buffer("f", 4, (Rectangle(0, 1, 0, 4),), offset=100),))) == 104
    assert load_bound(Problem(())) == 0


def test_alignment_rounds_the_bound_only_where_all_sizes_are_multiples():
    """Else a height need not be one."""
    whole = (block("a", 0, 1, 64, 64), block("b", 0, 1, 128, 64))
    assert load_bound(Problem(whole)) == 192
    assert load_bound(Problem((*whole, block("c", 0, 1, 1, 64)))) == 193


def test_fixed_buffers_that_clash_are_named():
    """Both, and where the other one is."""
    a, b = (Buffer(name, 8, (Rectangle(0, 2, 0, 8),), offset=at) for name, at in (("a", 0), ("b", 4)))
    with pytest.raises(InputError, match="buffer b cannot be at its fixed offset 4: a, fixed at 0, is in the way"):
        load_bound(Problem((a, b)))


def test_more_bytes_than_can_be_counted():
    """Above 2^62 no sum is safe."""
    with pytest.raises(InputError, match="more than"):
        load_bound(Problem((block("a", 0, 1, 2**61), block("b", 0, 1, 2**61), block("c", 0, 1, 2**61))))


def test_height_is_the_highest_end():
    """Of buffers and offsets in the same order."""
    assert height_of(Problem((block("a", 0, 1, 8), block("b", 1, 2, 4))), (0, 6)) == 10
    assert height_of(Problem(()), ()) == 0


@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_the_buffers_of_an_order_hold_its_footprints(target: str):
    """At alignment 1 the bytes there at a step are the footprint, and every storage has a place."""
    rng = Random(6)
    for _ in range(80):
        graph = random_graph(rng, rng.randint(1, 9))
        model = memory_model(graph, BUILT_IN[target])
        order = [graph.index_of[op] for op in random_order(rng, graph)]
        steps = profile(model, order)
        arena = arena_buffers(model, order, steps.in_place, 1)
        for step, footprint in enumerate(steps.footprint):
            there = sum(p.size for b in arena.problem.buffers for p in b.rectangles if p.start <= step < p.end)
            assert there == footprint
        assert set(arena.place_of) == {s for s, storage in enumerate(model.storages) if storage.size}
        assert set(arena.workspace_of) == {op.id for i, op in enumerate(graph.ops) if model.workspace[i]}


def test_what_the_core_was_given_is_not_pickled() -> None:
    """A problem that was placed crosses processes as one that was not."""
    problem = Problem((block("a", 0, 1, 8),))
    assert load_bound(problem) == 8
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    assert load_bound(again) == 8
