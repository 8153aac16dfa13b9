"""Sequences that a search begins with: what the price cut at the highest op makes again is."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide._core import SequenceProblem, cut_starts
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, search
from lowtide.stop import Limits
from support.sequences import chained, costly_graph, held_or_made_again, own
from support.swaps import swapping

seeds = st.integers(0, 2**32)


def drawn(rng: Random) -> tuple[Sequenced, int]:
    """A problem and a budget between its largest op and its own order's peak."""
    problem = own(costly_graph(rng, rng.randint(2, 20)))
    single, peak = least_possible(problem)[0], max(problem.core().footprints(range(len(problem.ops))))
    return problem, rng.randint(single, max(single, peak - 1))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_start_runs_what_it_reads_and_is_within_the_budget_at_the_highest_op(seed: int):
    """Nothing runs before what it reads was made or waits for; the first start holds at the highest op what there is
    room for; more than twice nothing runs."""
    problem, budget = drawn(Random(seed))
    ops, order = problem.ops, list(range(len(problem.ops)))
    heights = problem.core().footprints(order)
    highest = heights.index(max(heights))
    for number, start in enumerate(cut_starts(problem.core(), order, budget)):
        assert list(dict.fromkeys(start)) == order
        assert all(start.count(i) == 1 or (start.count(i) == 2 and not ops[i].once) for i in order)
        there = {x for x, value in enumerate(problem.values) if value.maker < 0}
        for i in start:
            assert there.issuperset(ops[i].reads)
            there.update(ops[i].makes)
        if number == 0:
            assert problem.core().footprints(start)[start.index(highest)] <= budget


def test_a_chain_runs_again_where_it_is_needed():
    """Both makers of what the last op reads, right before it."""
    assert cut_starts(chained().core(), range(6), 16) == [[0, 1, 2, 3, 4, 0, 1, 5]]


def test_what_reads_what_has_changed_does_not_run_again():
    """Where the first op may only run before the fourth."""
    rows = [((), (0,), (), 1, 0, 0, False, (3,)), ((0,), (1,), (), 9, 0, 0, False, ())]
    rows += [((1,), (2,), (), 9, 0, 0, False, ()), ((2,), (3,), (), 9, 0, 0, False, ())]
    rows += [((3, 0), (4,), (), 9, 0, 0, False, ())]
    values = [(8, 0, False), (1, 1, False), (9, 2, False), (1, 3, False), (1, 4, True)]

    def starts(until: tuple[int, ...]) -> list[list[int]]:
        first = (*rows[0][:7], until)
        return cut_starts(SequenceProblem([first, *rows[1:]], values), range(5), 12)

    assert starts(()) == [[0, 1, 2, 3, 0, 4]]
    assert starts((3,)) == []


def test_there_is_none_where_values_may_leave_memory_or_nothing_makes_room():
    """Transfers are not the price cut's; an op that is too large by itself stays so."""
    problem = own(held_or_made_again())
    assert cut_starts(problem.core(), range(5), 13)
    assert cut_starts(problem.core(), range(5), 8) == []
    assert cut_starts(swapping(Random(1), 5).core(), range(5), 10) == []


def test_there_is_none_where_nothing_is_higher_than_what_is_there_at_the_start():
    """The first op adds no bytes to the inputs: the highest place is that op, not what lies before it."""
    rows = [((0,), (2,), (), 1, 0, 0, False, ()), ((2, 1), (3,), (), 1, 0, 0, False, ())]
    problem = SequenceProblem(rows, [(8, -1, False), (8, -1, False), (0, 0, False), (8, 1, True)])
    assert problem.footprints([0, 1]) == [16, 16]
    assert cut_starts(problem, range(2), 15) == []


@pytest.mark.parametrize("seed", range(20))
def test_no_search_is_dearer_than_what_it_begins_with(seed: int):
    """Repairs only make it cheaper, and the same seed gives the same."""
    problem, budget = drawn(Random(seed))
    order = range(len(problem.ops))
    found = [search(problem, order, budget, Limits(60), steps=steps) for steps in (0, 50, 200)]
    for fewer, more in pairwise(found):
        assert not fewer.found or (more.found and more.cost <= fewer.cost)
    assert search(problem, order, budget, Limits(60), steps=50).order == found[1].order
