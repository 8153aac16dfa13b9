"""Values that leave memory while ops run: the core's clock and bytes, its search, and the bound, beside plain code."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.optimize.recompute.sequence import Sequenced, least_possible, search
from lowtide.optimize.recompute.swaps import clock
from lowtide.stop import Limits
from support.swaps import least_time, swapping

seeds = st.integers(0, 2**32)


def plain_footprints(problem: Sequenced, order: list[int]) -> list[int]:
    """Bytes at each entry of a sequence: a value is there from what makes or loads it to the last that reads it."""
    lives: list[list[int]] = []
    latest: dict[int, int] = {}
    for x, v in enumerate(problem.values):
        if v.maker < 0:
            latest[x] = len(lives)
            lives.append([x, 0, -1])
    live = []
    for step, i in enumerate(order):
        reads, makes, workspace = (), (), 0
        if i < len(problem.ops):
            op = problem.ops[i]
            reads, makes, workspace = op.reads, op.makes, op.workspace
        else:
            row, load = problem.transfer_of(i)
            reads, makes = ((), (row.value,)) if load else ((row.value,), ())
        for x in reads:
            lives[latest[x]][2] = step
        for x in makes:
            latest[x] = len(lives)
            lives.append([x, step, step])
        live.append(workspace)
    for x, v in enumerate(problem.values):
        if v.kept:
            lives[latest[x]][2] = len(order)
    for x, first, last in lives:
        for step in range(first, min(last + 1, len(order))):
            live[step] += problem.values[x].size
    return live


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seeds)
def test_peaks_and_times_are_those_of_a_walk_through_the_sequence(seed: int):
    """After runs and transfers put in, moved and taken away, and changes taken back."""
    rng = Random(seed)
    problem = swapping(rng, rng.randint(1, 12))
    core = problem.core()
    for order, peak in core.shuffle(range(len(problem.ops)), 40, seed):
        plain = plain_footprints(problem, order)
        assert core.footprints(order) == plain
        assert peak == max(plain)
        assert core.cost(order) == clock(problem, order)


@settings(max_examples=60, deadline=None)
@given(seeds, st.booleans())
def test_the_search_finds_no_less_than_brute_force(seed: int, again: bool):
    """What it finds is within the budget, takes the time that it says, and no less than the least."""
    rng = Random(seed)
    problem = swapping(rng, rng.randint(2, 4), again=again)
    order = range(len(problem.ops))
    single, own_peak = least_possible(problem)[0], max(problem.core().footprints(order))
    budget = rng.randint(single, max(single, own_peak))
    found = search(problem, order, budget, Limits(10, seed=seed), steps=100)
    assert found.peak == max(plain_footprints(problem, found.order))
    assert found.cost == clock(problem, found.order)
    assert found.found == (found.peak <= budget)
    if not again:
        assert sorted(i for i in found.order if i < len(problem.ops)) == list(order)
    if found.found:
        assert least_time(problem, budget, found.cost) is not None


@pytest.mark.slow
def test_the_search_reaches_the_optimum_of_most_tiny_graphs():
    """Of 20 budgets that take transfers or ops run again, so that the order alone does not do, at least 16."""
    met = reached = 0
    rng = Random(7)
    while met < 20:
        problem = swapping(rng, 4)
        budget = max(problem.core().footprints(range(4))) - rng.randint(1, 6)
        if budget < least_possible(problem)[0]:
            continue
        found = search(problem, range(4), budget, Limits(10), steps=200)
        least = least_time(problem, budget, found.cost if found.found else problem.costs.total + 4)
        if least is None or (found.found and len(found.order) == 4):
            continue
        met += 1
        reached += found.found and found.cost == least
    assert reached >= 16, reached
