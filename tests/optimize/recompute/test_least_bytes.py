"""Least peak within a bound on time, and the front of both: beside brute force, and as they promise."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.optimize.recompute.bound import certificate, peak_bound
from lowtide.optimize.recompute.least_bytes import Spent, least_bytes, on_front, sweep, undominated
from lowtide.optimize.recompute.sequence import Sequenced, least_possible
from lowtide.stop import Limits
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.price_bound import PricedGraph, proved_peak
from lowtide.verify.check.recompute import footprints_of_runs
from support.sequences import STRICT, costly_graph, least_cost, own

seeds = st.integers(0, 2**32)


def drawn(rng: Random, most: int = 6) -> tuple[Sequenced, int]:
    """A small problem and what all runs may cost."""
    problem = own(costly_graph(rng, rng.randint(2, most)))
    return problem, problem.costs.total + rng.randint(0, 8)


def least_peak(problem: Sequenced, most: int) -> int:
    """Bytes that some sequence within a bound on its cost needs, over all orders and repetitions, by brute force."""
    budget = least_possible(problem)[0]
    while (cost := least_cost(problem, budget)) is None or cost > most:
        budget += 1
    return budget


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seeds)
def test_no_sequence_within_the_bound_is_lower_than_the_price_cut_says(seed: int):
    """Over all orders and repetitions; and verify finds the same in its certificate."""
    problem, most = drawn(Random(seed))
    extra, single = most - problem.costs.total, least_possible(problem)[0]
    bound = peak_bound(problem, extra, single, range(len(problem.ops)))
    assert single <= bound.bytes <= least_peak(problem, most)
    shown = certificate(problem, bound.priced())
    assert (shown is None) == (bound.bytes == single)
    if shown is not None:
        graph = problem.model.graph
        units = {op.id: cost for op, cost in zip(graph.ops, problem.costs.units, strict=True)}
        memory = work_out(graph, STRICT)
        priced = PricedGraph(graph, memory, units, problem.costs.scale)
        assert proved_peak(priced, extra, shown) == bound.bytes


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seeds)
def test_what_is_found_costs_no_more_and_is_no_lower_than_the_least(seed: int):
    """Peaks and costs are those of a walk through the sequence, ever lower, and never below brute force."""
    problem, most = drawn(Random(seed))
    single, order = least_possible(problem)[0], range(len(problem.ops))
    lowest = least_bytes(problem, order, most, single, Limits(0.3, seed=seed))
    memory = work_out(problem.model.graph, STRICT)
    for spent in lowest.found:
        assert spent.peak == max(footprints_of_runs(problem.model.graph, memory, spent.order))
        assert spent.units == sum(problem.costs.units[i] for i in spent.order) <= most
    peaks = [spent.peak for spent in lowest.found]
    assert peaks == sorted(set(peaks), reverse=True)
    assert peaks[-1] >= least_peak(problem, most)
    assert (lowest.stopped == "proof") == (peaks[-1] == single)


@pytest.mark.slow
def test_the_least_peak_is_reached_on_most_tiny_graphs():
    """At least 20 of 25 whose least peak is below that of their own order."""
    rng, below, reached = Random(3), 0, 0
    while below < 25:
        problem, most = drawn(rng)
        order = range(len(problem.ops))
        least = least_peak(problem, most)
        if least == max(problem.core().footprints(order)):
            continue
        below += 1
        reached += least_bytes(problem, order, most, least, Limits(1)).found[-1].peak == least
    assert reached >= 20, reached


@pytest.mark.slow
def test_the_same_call_gives_the_same_where_time_is_enough():
    """Rounds end by repairs, not by the clock."""
    problem = own(costly_graph(Random(0), 10))
    most = problem.costs.total * 13 // 10
    single = least_possible(problem)[0]
    first, second = (least_bytes(problem, range(10), most, single, Limits(60, seed=1)) for _ in range(2))
    assert (first.found, first.tried) == (second.found, second.tried)
    assert (len(first.found), first.stopped) == (3, "complete")


def test_nothing_is_lower_in_no_time():
    """The order itself is the answer, and says why."""
    problem = own(costly_graph(Random(3), 60))
    lowest = least_bytes(problem, range(60), problem.costs.total * 2, 0, Limits(0.0))
    assert (len(lowest.found), lowest.stopped) == (1, "time")


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_a_front_is_monotone_and_no_point_is_better_than_can_be(seed: int):
    """Ever lower and ever dearer; each is a sequence that costs as much, and no less than brute force says."""
    problem, _ = drawn(Random(seed))
    order = range(len(problem.ops))
    highest, single = max(problem.core().footprints(order)), least_possible(problem)[0]
    points, stopped = sweep(problem, order, range(highest - 1, single - 1, -1), Limits(10, seed=seed))
    assert stopped == "complete"
    assert (points[0].peak, points[0].units) <= (highest, problem.costs.total)
    for one, other in pairwise(points):
        assert other.peak < one.peak
        assert other.units > one.units
    memory = work_out(problem.model.graph, STRICT)
    for point in points:
        assert point.peak == max(footprints_of_runs(problem.model.graph, memory, point.order))
        least = least_cost(problem, point.peak)
        assert least is not None
        assert point.units >= least


def test_points_that_another_is_as_good_as_are_left_out():
    """Of equal peaks the cheapest, of equal costs the lowest."""
    points = [Spent((), *pair) for pair in ((9, 1), (8, 3), (8, 2), (7, 2), (6, 5), (9, 9))]
    assert [(p.peak, p.units) for p in undominated(points)] == [(9, 1), (7, 2), (6, 5)]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(seeds)
def test_more_time_takes_no_more_bytes_and_never_more_than_the_front(seed: int):
    """What is read off a front is within its bound, as low as the front, and no higher where the bound is larger."""
    problem = own(costly_graph(Random(seed), 9))
    single, order = least_possible(problem)[0], range(len(problem.ops))
    highest = max(problem.core().footprints(list(order)))
    budgets = [highest - (highest - single) * k // 4 for k in range(1, 5)]
    front, _ = sweep(problem, order, budgets, Limits(60))
    total, peaks = problem.costs.total, []
    for extra in (0, 1, 2, 4, 8, 16):
        lowest = on_front(problem, order, budgets, total + extra, single, Limits(60))
        assert all(spent.units <= total + extra for spent in lowest.found)
        peaks.append(lowest.found[-1].peak)
        assert peaks[-1] <= min(spent.peak for spent in front if spent.units <= total + extra)
        assert (lowest.stopped == "proof") == (peaks[-1] == single)
    assert peaks == sorted(peaks, reverse=True)
