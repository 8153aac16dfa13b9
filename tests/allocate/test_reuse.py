"""Reuse as a cost, against every placement there is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.allocate import reuse_model
from lowtide.allocate.buffers import Buffer, Piece, Problem, block
from lowtide.allocate.csv_buffers import BufferFile
from lowtide.allocate.reuse import least_reuse, reuse_cost
from lowtide.allocate.reuse_model import least_edges
from lowtide.stop import Limits

pytest.importorskip("ortools", reason="pip install '.[solvers]'")

Costs = dict[tuple[int, int], int]


def together(problem: Problem, i: int, j: int) -> bool:
    """Whether two buffers never share a byte, step by step."""
    steps = [{t for p in problem.buffers[k].pieces for t in range(p.start, p.end)} for k in (i, j)]
    return bool(steps[0] & steps[1]) or (i, j) in problem.apart


def least(problem: Problem, costs: Costs, capacity: int) -> int | None:
    """Of all placements within the capacity the least cost; None if there is none."""
    buffers = problem.buffers
    places = [
        [b.offset] if b.offset is not None else list(range(0, capacity - b.size + 1, b.alignment)) for b in buffers
    ]
    best = None
    for offsets in product(*places):
        cost = 0
        for i, j in combinations(range(len(buffers)), 2):
            if max(offsets[i], offsets[j]) < min(offsets[i] + buffers[i].size, offsets[j] + buffers[j].size):
                if together(problem, i, j):
                    break
                cost += costs.get((i, j), 0)
        else:
            best = cost if best is None else min(best, cost)
    return best


@st.composite
def problems(draw: st.DrawFn) -> tuple[Problem, Costs, int]:
    """Up to five small buffers, penalties of some pairs, and a capacity."""
    unit = draw(st.sampled_from((1, 1, 2)))
    size = draw(st.sampled_from((st.just(2), st.integers(1, 3), st.sampled_from((2, 4)))))
    buffers: list[Buffer] = []
    for k in range(draw(st.integers(2, 5))):
        start, length = draw(st.tuples(st.integers(0, 8), st.integers(1, 3)))
        bytes_ = draw(size)
        buffers.append(Buffer(f"b{k}", bytes_, (Piece(start, start + length, 0, bytes_),), unit))
    pairs = list(combinations(range(len(buffers)), 2))
    apart = tuple(pair for pair in pairs if draw(st.integers(0, 5)) == 0)
    costs = {pair: draw(st.integers(1, 4)) for pair in pairs if draw(st.integers(0, 3))}
    if draw(st.integers(0, 3)) == 0:
        buffers[0] = replace(buffers[0], offset=unit * draw(st.integers(0, 1)))
    return Problem(tuple(buffers), (), apart), costs, draw(st.integers(3, 7))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(problems(), st.booleans())
def test_the_least_cost_of_all_placements(case: tuple[Problem, Costs, int], ordered: bool):
    """Found and proved, by places and by orders of pairs, or proved not to fit."""
    problem, costs, capacity = case
    with pytest.MonkeyPatch.context() as patch:
        if ordered:
            patch.setattr(reuse_model, "MOST_CELLS", -1)
        placed = least_reuse(problem, costs, capacity, Limits(30))
    best = least(problem, costs, capacity)
    if best is None:
        assert (placed.fits, placed.offsets) == (False, None)
        return
    assert placed.fits
    assert placed.offsets is not None
    assert (placed.cost, placed.lower_bound, placed.optimal) == (best, best, True)
    for (i, b), at in zip(enumerate(problem.buffers), placed.offsets, strict=True):
        assert at % b.alignment == 0 <= at <= capacity - b.size
        assert b.offset in (None, at)
        for j in range(i):
            over = max(at, placed.offsets[j]) < min(at + b.size, placed.offsets[j] + problem.buffers[j].size)
            assert not (over and together(problem, j, i))


def test_sixteen_of_one_size_are_proved():
    """Buffers that follow each other, each pair of which costs, in room for three: the parts are as even as can be."""
    buffers = tuple(block(f"b{k}", k, k + 1, 64, 32) for k in range(16))
    costs = dict.fromkeys(combinations(range(16), 2), 1)
    placed = least_reuse(Problem(buffers), costs, 200, Limits(20))
    assert (placed.cost, placed.optimal) == (15 + 10 + 10, True)
    assert placed.offsets is not None
    assert reuse_cost(Problem(buffers), costs, placed.offsets) == placed.cost


def test_what_is_nothing_to_each_other_is_placed_by_itself():
    """Forty pairs, each with a penalty that must be paid, and nothing between them."""
    buffers = tuple(block(f"b{k}", k, k + 1, 8) for k in range(80))
    costs = {(2 * k, 2 * k + 1): k + 1 for k in range(40)}
    placed = least_reuse(Problem(buffers), costs, 15, Limits(20))
    assert (placed.cost, placed.optimal) == (sum(range(1, 41)), True)
    assert least_reuse(Problem(buffers), costs, 16, Limits(20)).cost == 0


def test_without_the_time_to_prove_it_nothing_is_proved():
    """The greedy placement stands, with what is known."""
    buffers = tuple(block(f"b{k}", k, k + 1, 2 + k % 3) for k in range(12))
    costs = dict.fromkeys(combinations(range(12), 2), 1)
    placed = least_reuse(Problem(buffers), costs, 9, Limits(0))
    assert (placed.fits, placed.optimal) == (True, False)
    assert placed.lower_bound < placed.cost


def test_the_front_door_takes_costs():
    """As `BufferFile.costs`; two buffers in room for one."""
    given = BufferFile(Problem((block("a", 0, 1, 8), block("b", 1, 2, 8))), {}, costs={(0, 1): 7})
    placed = lowtide.allocate(given, 8, reuse_cost=True)
    assert (placed.reuse_cost, placed.reuse_lower_bound, placed.optimal, placed.height_bytes) == (7, 7, True, 8)


@pytest.mark.parametrize(("vertices", "independent"), [(n, k) for n in range(7) for k in range(1, 5)])
def test_edges_by_trying_all_ways_to_fill_bins(vertices: int, independent: int):
    """The fewest pairs in the same bin; in none nothing is said."""
    ways = product(range(independent), repeat=vertices)
    pairs = min(sum(a == b for a, b in combinations(way, 2)) for way in ways)
    assert least_edges(vertices, independent) == pairs
    assert least_edges(vertices, 0) == 0
