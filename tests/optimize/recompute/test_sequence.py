"""Sequences of ops that run again: the core's bookkeeping, its search, and the bound, each beside plain code."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide._core import SequenceProblem
from lowtide.optimize.recompute.sequence import least_possible, search, sequenced
from lowtide.stop import Limits
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.recompute import footprints_of_runs
from support.sequences import STRICT, costly_graph, least_cost, model_of, own

seeds = st.integers(0, 2**32)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seeds)
def test_peaks_are_those_of_a_walk_through_the_sequence(seed: int):
    """After every run put in, moved or taken away, and after changes taken back, as the plain liveness says."""
    rng = Random(seed)
    graph = costly_graph(rng, rng.randint(1, 14))
    memory = work_out(graph, STRICT)
    core = own(graph).core()
    for order, peak in core.shuffle(range(len(graph.ops)), 40, seed):
        plain = footprints_of_runs(graph, memory, [graph.ops[i].id for i in order])
        assert peak == max(plain)
        assert core.footprints(order) == plain


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_the_search_finds_no_less_than_brute_force(seed: int):
    """Whatever it finds is within the budget, costs what its runs do, and no less than the least."""
    rng = Random(seed)
    graph = costly_graph(rng, rng.randint(2, 6))
    problem = own(graph)
    order = range(len(graph.ops))
    single, own_peak = least_possible(problem)[0], max(problem.core().footprints(order))
    budget = rng.randint(single, max(single, own_peak))
    found = search(problem, order, budget, Limits(10, seed=seed), steps=300)
    plain = footprints_of_runs(graph, work_out(graph, STRICT), [graph.ops[i].id for i in found.order])
    assert found.peak == max(plain)
    assert found.cost == sum(problem.costs.units[i] for i in found.order)
    assert found.found == (found.peak <= budget)
    least = least_cost(problem, budget)
    if found.found:
        assert least is not None
        assert found.cost >= least


@pytest.mark.slow
def test_the_search_reaches_the_optimum_of_most_tiny_graphs():
    """At least 32 of 40 budgets that can be met, among those that need more than the file order."""
    met = reached = 0
    rng = Random(7)
    while met < 40:
        graph = costly_graph(rng, 6)
        problem = own(graph)
        budget = max(problem.core().footprints(range(6))) - rng.randint(1, 6)
        least = least_cost(problem, budget)
        if least is None or least == problem.costs.total:
            continue
        met += 1
        found = search(problem, range(6), budget, Limits(10), steps=200)
        reached += found.found and found.cost == least
    assert reached >= 32, reached


def test_the_same_steps_give_the_same_sequence():
    """Seeded, and no clock decides; another seed draws otherwise, and more steps are never dearer."""
    graph = costly_graph(Random(3), 60)
    problem, order = own(graph), range(60)
    peak = max(problem.core().footprints(order))
    budget = max(least_possible(problem)[0], int(0.75 * peak))
    first, second = (search(problem, order, budget, Limits(60, seed=5), steps=80) for _ in range(2))
    assert (first.order, first.cost, first.chains) == (second.order, second.cost, second.chains)
    assert search(problem, order, budget, Limits(60, seed=5), steps=20).cost >= first.cost


def test_the_search_ends_in_time():
    """It looks at the clock, and says why it ended."""
    graph = costly_graph(Random(3), 300)
    problem = own(graph)
    found = search(problem, range(300), least_possible(problem)[0], Limits(0.05))
    assert found.stopped in ("time", "complete", "proof")


def test_what_costs_nothing_is_run_again_without_end_in_sight():
    """Chains that cost nothing and leave the peak as high do not go on for ever."""
    graph = costly_graph(Random(11), 80)
    free = sequenced(model_of(graph), range(80))
    found = search(free, range(80), least_possible(free)[0] + 1, Limits(5), steps=10)
    assert len(found.order) < 80 * 80


def test_runs_are_put_in_and_taken_away_for_their_time():
    """Processor seconds, and 0 where no op may run again."""
    graph = costly_graph(Random(3), 12)
    assert own(graph).core().put_and_take(range(len(graph.ops)), 20_000, 0) > 0
    ops = [([], [0], [], 1, 0, 0, True, []), ([0], [1], [], 1, 0, 0, True, [])]
    problem = SequenceProblem(ops, [(8, 0, False), (8, 1, True)])
    assert problem.put_and_take([0, 1], 10, 0) == 0
