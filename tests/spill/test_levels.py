"""Copies in the memories between the fast one and the host, against brute force over who lies where."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

import lowtide
from lowtide.graph import Graph
from lowtide.spill.levels import Copy, copies_of, in_levels
from lowtide.spill.problem import Memory, Semantics, SpillProblem
from lowtide.spill.search import Spill
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from support.random_graphs import random_graph
from support.spill_problems import random_problem
from support.spill_replay import simulate

LIMITS = Limits(100_000)


def packs(problem: SpillProblem, copies: list[Copy], capacity: int) -> bool:
    """Whether the copies have offsets in so many bytes: all are tried."""

    def fit(k: int, at: list[int]) -> bool:
        if k == len(copies):
            return True
        c, size = copies[k], problem.model.storages[copies[k].storage].size
        near = [
            (low, low + problem.model.storages[o.storage].size)
            for o, low in zip(copies, at, strict=False)
            if o.start < c.end and c.start < o.end
        ]
        return any(
            fit(k + 1, [*at, low])
            for low in range(0, capacity - size + 1, problem.model.alignment)
            if all(low + size <= a or low >= b for a, b in near)
        )

    return fit(0, [])


@pytest.mark.slow
@pytest.mark.parametrize("write_once", [True, False])
def test_the_least_goes_beyond_the_second_level(write_once: bool):
    """Of all ways to keep copies in the second memory, none leaves less traffic with the host."""
    rng = Random(write_once)
    between = 0
    for _ in range(60):
        problem = random_problem(rng, 16, Semantics(write_once=write_once))
        answer = Spill().spill(problem, LIMITS)
        copies = copies_of(answer.moves)
        if not 1 <= len(copies) <= 6:
            continue
        slow = Memory("slow", rng.choice((8, 16, 24, 40)))
        two = replace(problem, memories=(problem.memories[0], slow))
        placed = in_levels(two, answer, LIMITS)
        assert simulate(two, placed) == answer.traffic_bytes
        kept = max(
            sum(c.moved_bytes for c, take in zip(copies, taken, strict=True) if take)
            for taken in product((False, True), repeat=len(copies))
            if packs(two, [c for c, take in zip(copies, taken, strict=True) if take], slow.capacity_bytes)
        )
        assert placed.counters["host_traffic_bytes"] == answer.traffic_bytes - kept
        between += 0 < kept < answer.traffic_bytes
    assert between > 2


@pytest.mark.slow
def test_plans_with_three_memories_hold():
    """The checker follows the contents through all of them; with room enough nothing but free copies is the host's."""
    rng = Random(21)
    used: set[str] = set()
    for _ in range(40):
        graph: Graph = random_graph(rng, 14)
        if not graph.ops:
            continue
        least = lowtide.research.plan(graph, target="strict", memories=["fast=1000000"]).lower_bound_bytes
        memories = {"fast": max(1, least), "slow": 12, "slower": 24}
        plan = lowtide.research.plan(graph, target="strict", memories=memories)
        if plan.moves is None:
            continue
        verify_plan(graph, plan, BUILT_IN["strict"])
        used |= {m.goal for m in plan.moves}
    assert {"slow", "slower"} <= used
