"""Reuse as a cost, against every placement there is."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.allocate import reuse_model
from lowtide.allocate.buffers import Problem, block
from lowtide.allocate.csv_buffers import BufferFile
from lowtide.allocate.reuse import least_reuse, reuse_cost
from lowtide.stop import Limits
from support.reuse_cases import Costs, least, problems, together

pytest.importorskip("ortools", reason="pip install '.[solvers]'")


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
    placed = lowtide.research.allocate(given, 8, reuse_cost=True)
    assert (placed.reuse_cost, placed.reuse_lower_bound, placed.optimal, placed.height_bytes) == (7, 7, True, 8)
