"""Retention intervals: what the solver proves, beside brute force and the search."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.optimize.recompute.bound import first_run_bound
from lowtide.optimize.recompute.sequence import least_possible, search
from lowtide.stop import Limits
from lowtide_research.recompute.moccasin import moccasin, why_not
from support.sequences import costly_graph, least_cost, own

pytest.importorskip("ortools", reason="needs the extra solvers")


def test_a_chain_is_made_again_for_its_late_reader():
    """Known by hand: a - b - c - d, d reads a too: within a + b + nothing else, a runs twice."""
    from lowtide.graph import Graph, Kind, Op, Tensor

    tensors = (Tensor(0, 4), Tensor(1, 3), Tensor(2, 4), Tensor(3, 1, Kind.OUTPUT))
    ops = (
        Op(0, (), (0,), cost=5), Op(1, (0,), (1,), cost=1), Op(2, (1,), (2,), cost=1), Op(3, (2, 0), (3,), cost=1),
    )  # fmt: skip
    problem = own(Graph("chain", tensors, ops))
    found = moccasin(problem, range(4), 9, Limits(60))
    assert (found.order, found.cost, found.proved) == ((0, 1, 2, 0, 3), 13, True)
    assert moccasin(problem, range(4), 11, Limits(60)).cost == 8
    assert moccasin(problem, range(4), 8, Limits(60)).order == ()


@pytest.mark.slow
def test_what_it_proves_is_between_the_bounds_and_the_search():
    """Its sequences fit, cost no less than the least over all orders, and the search is at most a little dearer."""
    rng, met, equal = Random(9), 0, 0
    for _ in range(25):
        problem = own(costly_graph(rng, 6))
        single, peak = least_possible(problem)[0], max(problem.core().footprints(range(6)))
        plain = max(problem.touched_bytes(i) + problem.ops[i].saving for i in range(6))
        budget = max(single, plain, peak - rng.randint(1, 4))
        found = moccasin(problem, range(6), budget, Limits(60), runs=3)
        least = least_cost(problem, budget)
        if not found.order:
            assert found.proved
            continue
        met += 1
        assert max(problem.core().footprints(found.order)) <= budget
        assert least is not None
        assert problem.costs.total + first_run_bound(problem, budget, range(6)) <= found.cost
        assert least <= found.cost
        ours = search(problem, range(6), budget, Limits(60), steps=100)
        equal += ours.found and ours.cost <= found.cost
    assert met >= 10
    assert equal >= 0.9 * met


def test_what_it_cannot_say_is_said():
    """Large graphs, and storages that several ops share."""
    assert why_not(own(costly_graph(Random(1), 200))) == "more than 150 ops"
    assert why_not(own(costly_graph(Random(1), 20))) is None
