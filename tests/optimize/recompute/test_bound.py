"""Bounds on the time that running ops again takes, beside brute force over all sequences."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import VerificationError
from lowtide.optimize.recompute.bound import PriceBound, certificate, first_run_bound, price_bound
from lowtide.optimize.recompute.sequence import Sequenced, least_possible
from lowtide.rewrites import PriceCertificate
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.price_bound import PricedGraph, proved_units
from support.sequences import STRICT, chained, costly_graph, least_cost, own

seeds = st.integers(0, 2**32)


def drawn(rng: Random, most: int = 6) -> tuple[Sequenced, int]:
    """A small problem and a budget between its largest op and its own order's peak."""
    problem = own(costly_graph(rng, rng.randint(2, most)))
    single, peak = least_possible(problem)[0], max(problem.core().footprints(range(len(problem.ops))))
    return problem, rng.randint(single, max(single, peak - 1))


def proved(problem: Sequenced, budget: int, shown: PriceCertificate) -> int:
    """What verify finds that a certificate proves."""
    graph = problem.model.graph
    units = {op.id: cost for op, cost in zip(graph.ops, problem.costs.units, strict=True)}
    return proved_units(PricedGraph(graph, work_out(graph, STRICT), units, problem.costs.scale), budget, shown)


@settings(max_examples=80, deadline=None)
@given(seeds)
def test_no_sequence_costs_less_than_the_price_cut(seed: int):
    """Over all orders and repetitions; and verify finds the same bound in its certificate."""
    problem, budget = drawn(Random(seed))
    bound = price_bound(problem, budget, range(len(problem.ops)))
    least = least_cost(problem, budget)
    if least is not None:
        assert problem.costs.total + bound.units <= least
    shown = certificate(problem, bound)
    if shown is None:
        assert bound == PriceBound(0)
    else:
        assert proved(problem, budget, shown) == bound.units


@settings(max_examples=80, deadline=None)
@given(seeds)
def test_no_sequence_with_these_first_runs_costs_less_than_the_knapsack(seed: int):
    """The cheapest sequence over all orders has first runs in some order, and the bound for that is below it."""
    problem, budget = drawn(Random(seed), 5)
    orders = topological(problem)
    least = least_cost(problem, budget)
    if least is not None:
        assert problem.costs.total + min(first_run_bound(problem, budget, order) for order in orders) <= least


def topological(problem: Sequenced) -> list[tuple[int, ...]]:
    """Every order of the ops."""
    before = problem.model.graph.predecessors
    orders: list[tuple[int, ...]] = [()]
    for _ in problem.ops:
        orders = [
            (*order, v)
            for order in orders
            for v in range(len(problem.ops))
            if v not in order and set(before[v]) <= set(order)
        ]
    return orders


@pytest.mark.slow
def test_the_price_cut_is_positive_where_much_has_to_run_again():
    """In at least a fifth of the budgets that cost something, so that the bound is more than nothing."""
    rng, cells, positive = Random(5), 0, 0
    while cells < 30:
        problem, budget = drawn(rng)
        least = least_cost(problem, budget)
        if least is None or least == problem.costs.total:
            continue
        cells += 1
        positive += price_bound(problem, budget, range(len(problem.ops))).units > 0
    assert positive >= 6, positive


def test_what_runs_again_needs_what_it_reads():
    """Without the six bytes both of their makers run again; a byte of them is a sixth of that."""
    problem = chained()
    assert price_bound(problem, 11, [3]).units == 6
    assert price_bound(problem, 16, [3]).units == 1
    assert least_cost(problem, 16) == problem.costs.total + 6


def test_a_chain_is_not_shown_without_what_it_reads():
    """What comes from the second maker is more than it costs, and not to be had where nothing comes to it."""
    problem = chained()
    shown = certificate(problem, price_bound(problem, 11, [3]))
    assert shown is not None
    assert proved(problem, 11, shown) == 6
    flow = [arc for arc in shown.flow if (arc[1], arc[2]) != (0, 1)]
    assert len(flow) == len(shown.flow) - 1
    with pytest.raises(VerificationError, match="more than it and what it reads cost"):
        proved(problem, 11, msgspec.structs.replace(shown, flow=flow))


def some_certificate() -> tuple[Sequenced, int, PriceCertificate]:
    """One that proves something."""
    rng = Random(2)
    while True:
        problem, budget = drawn(rng, 8)
        shown = certificate(problem, price_bound(problem, budget, range(len(problem.ops))))
        if shown is not None and len(shown.flow) > 3:
            return problem, budget, shown


def test_a_flow_that_carries_more_than_it_may_is_refused():
    """Each arc made larger than all costs breaks a capacity, or what comes in and goes out."""
    problem, budget, shown = some_certificate()
    larger = 10 * shown.price[1] * (1 + problem.costs.total)
    for k, (tensor, source, goal, amount) in enumerate(shown.flow):
        flow = [*shown.flow[:k], (tensor, source, goal, amount + larger), *shown.flow[k + 1 :]]
        with pytest.raises(VerificationError, match="recompute"):
            proved(problem, budget, msgspec.structs.replace(shown, flow=flow))


@pytest.mark.parametrize(
    "changes",
    [{"op": 99}, {"price": (-1, 1)}, {"price": (1, 0)}, {"scale": 0.5}, {"flow": [(None, 0, 0, 1)]},
     {"flow": [(99, None, 0, 1)]}, {"flow": [(0, None, 0, -1)]}],
)  # fmt: skip
def test_a_certificate_of_nothing_is_refused(changes: dict[str, Any]):
    """Another op, no price, another scale, arcs that are not there."""
    problem, budget, shown = some_certificate()
    with pytest.raises(VerificationError) as error:
        proved(problem, budget, msgspec.structs.replace(shown, **changes))
    assert error.value.failure == "recompute"
