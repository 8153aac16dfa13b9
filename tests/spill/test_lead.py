"""Fills that need some steps: the least traffic against brute force over who is there at which step."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import msgspec
import pytest

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.spill.core_problem import core_problem
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem, timeline
from lowtide.spill.search import Spill
from lowtide.spill.words import Dma, timing
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from support.random_graphs import random_graph
from support.spill_plans import skip_graph
from support.spill_problems import search, skips
from support.spill_replay import simulate

STRICT = BUILT_IN["strict"]


def ways(problem: SpillProblem, s: int, order: tuple[int, ...]) -> list[tuple[tuple[bool, ...], int]]:
    """Every set of steps at which a storage can be there, and its traffic; one write, one writer."""
    n, lead = len(order), problem.semantics.lead
    storage, size = problem.model.storages[s], problem.traffic_bytes[s]
    touches = [t for t, i in enumerate(order) if i in storage.users]
    outside = problem.from_outside(s)
    if not touches:
        return [((False,) * n, 0)]
    result = []
    for there in product((False, True), repeat=n):
        if not all(there[t] for t in touches):
            continue
        begins = [t for t in range(n) if there[t] and not (t and there[t - 1])]
        if not outside and begins[0] != touches[0]:
            continue
        arrivals = begins if outside else begins[1:]
        if any(a and any(a <= t < a + lead for t in touches) for a in arrivals):
            continue
        back = len(begins) - 1
        write = size if back and not problem.copied[s] and not problem.written_free[s] else 0
        result.append((there, write + back * size))
    # A way that is there at no fewer steps than another one, for no fewer bytes, is of no use.
    return [
        (there, cost)
        for k, (there, cost) in enumerate(result)
        if not any(
            other_cost <= cost and j != k and all(here >= other for here, other in zip(there, others, strict=True))
            for j, (others, other_cost) in enumerate(result)
        )
    ]


def least_with_lead(problem: SpillProblem, order: tuple[int, ...]) -> int | None:
    """Least traffic of an order over all residencies, sums of bytes only."""
    model = problem.model
    partial: dict[tuple[int, ...], int] = {tuple(model.workspace[i] for i in order): 0}
    for s, storage in enumerate(model.storages):
        if not storage.size:
            continue
        following: dict[tuple[int, ...], int] = {}
        for load, paid in partial.items():
            for there, traffic in ways(problem, s, order):
                new = tuple(b + storage.size * here for b, here in zip(load, there, strict=True))
                if max(new) <= problem.capacity:
                    following[new] = min(following.get(new, paid + traffic), paid + traffic)
        partial = following
    return min(partial.values(), default=None)


@pytest.mark.slow
@pytest.mark.parametrize("lead", [1, 2, 3])
def test_the_least_traffic_with_a_lead(lead: int):
    """Of an order, the core finds brute force's, and whole answers pass the simulator."""
    rng = Random(lead)
    some = 0
    for _ in range(35):
        problem = spill_problem(skips(rng, 9), STRICT, (Memory("fast", 1),), Semantics(lead=lead))
        order = tuple(range(problem.steps))
        need = max(timeline(problem, order).forced)
        problem = replace(problem, memories=(Memory("fast", max(1, need - rng.randint(0, 1))),))
        found = search(core_problem(problem, order, chain=True))
        least = least_with_lead(problem, order)
        assert (found.cost if found.found else None) == least
        if least is None:
            continue
        answer = Spill().spill(problem, Limits(20))
        assert simulate(problem, answer) == answer.traffic_bytes
        assert answer.traffic_bytes <= least or answer.counters["mended"]
        assert answer.traffic_lower_bound_bytes <= answer.traffic_bytes
        some += bool(least)
    assert some > (3 if lead < 3 else 0)


@pytest.mark.slow
def test_the_checker_wants_the_lead():
    """A plan made without a lead fails as one with it; a plan made with it holds."""
    graph = skip_graph()
    plan = lowtide.research.plan(graph, target="strict", memories=["fast=14"], moves={"lead": "1"})
    verify_plan(graph, plan, STRICT)
    assert plan.spilling is not None
    assert plan.spilling.lead == 1
    rng = Random(4)
    refused = 0
    for _ in range(30):
        graph = random_graph(rng, 8, plain=True)
        least = lowtide.research.plan(graph, target="strict", memories=["fast=1000000"]).lower_bound_bytes
        for lead in ("0", "2"):
            try:
                plan = lowtide.research.plan(graph, target="strict", memories={"fast": least + 8}, moves={"lead": lead})
            except InputError:  # what is on its way takes room
                assert lead == "2"
                continue
            verify_plan(graph, plan, STRICT)
            if lead == "0" and plan.moves:
                assert plan.spilling is not None
                other = msgspec.structs.replace(plan, spilling=msgspec.structs.replace(plan.spilling, lead=3))
                with pytest.raises(VerificationError, match="too late"):
                    verify_plan(graph, other, STRICT)
                refused += 1
    assert refused > 3


def test_a_lead_is_a_number_of_steps():
    """Anything else is an error of the call."""
    with pytest.raises(InputError, match="lead"):
        lowtide.research.plan(skip_graph(), target="strict", memories=["fast=14"], moves={"lead": "-1"})


def test_transfers_are_hidden_behind_ops_where_there_is_a_lead():
    """By hand: a spill of 4 bytes at 1 B/s waits; its fill runs beside an op of 8 s if it may come a step early."""
    problem = spill_problem(skip_graph(), STRICT, (Memory("fast", 10),))
    dma = Dma(bytes_per_second=1.0, seconds_per_op=8.0)
    late = timing(problem, Spill().spill(problem, Limits(5)), dma)
    assert (late.compute_seconds, late.transfer_seconds, late.stall_seconds, late.hidden_bytes) == (32.0, 8.0, 8.0, 0)
    early = replace(problem, memories=(Memory("fast", 14),), semantics=Semantics(lead=1))
    answer = Spill().spill(early, Limits(5))
    assert timing(early, answer, dma).stall_seconds == 0.0
