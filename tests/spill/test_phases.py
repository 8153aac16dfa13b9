"""Phases of a chain of ops bound the traffic of every order, by brute force; and where only they close the gap."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill.core_problem import core_problem
from lowtide.spill.phases import ancestors, longest_chain, phases, windows
from lowtide.spill.problem import Memory, SpillProblem, spill_problem
from lowtide.spill.search import Spill
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from support.spill_brute import least_traffic
from support.spill_problems import EVERY_SEMANTICS, random_chain, random_problem, search, small_problem

LIMITS = Limits(100_000)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(len(EVERY_SEMANTICS)))
def test_the_sum_of_phases_is_at_most_the_least_traffic(k: int):
    """For any chain, whatever a move costs, against brute force that knows of no gaps."""
    rng = Random(k)
    for _ in range(12):
        problem = small_problem(rng, EVERY_SEMANTICS[k], n_ops=6)
        least = least_traffic(problem, addresses=False)
        assert least is not None
        chain = random_chain(rng, problem)
        assert sum(p.bytes for p in phases(problem, chain, 10_000, LIMITS)) <= least


@pytest.mark.slow
def test_phases_of_larger_graphs():
    """Against the exact search; sometimes they reach it."""
    rng = Random(77)
    tight = 0
    for _ in range(150):
        problem = random_problem(rng, 20)
        least = search(core_problem(problem)).cost
        chain = random_chain(rng, problem)
        total = sum(p.bytes for p in phases(problem, chain, 10_000, LIMITS))
        assert total <= least
        tight += 0 < total == least
    assert tight > 3


def test_a_chain_is_one_in_every_order():
    """Each op is an ancestor of the next, and no chain of the same ops is longer."""
    rng = Random(5)
    for _ in range(30):
        problem = random_problem(rng, 9)
        before = ancestors(problem)
        chain = longest_chain(before, range(problem.steps))
        assert all(before[b] >> a & 1 for a, b in pairwise(chain))
        depth = [0] * problem.steps
        for v in range(problem.steps):
            depth[v] = 1 + max((depth[u] for u in range(v) if before[v] >> u & 1), default=0)
        assert len(chain) == max(depth)


def decoder(layers: int) -> SpillProblem:
    """Layers that each read one early tensor of 2 bytes, and then need all 9 bytes there are for a moment."""
    tensors = [Tensor(0, 2, Kind.INPUT, "x"), Tensor(1, 2, Kind.ACTIVATION, "memory")]
    ops = [Op(0, (0,), (1,), "encoder")]
    last = 1
    for _ in range(layers):
        n = len(tensors)
        for size, name in ((2, "k"), (4, "up"), (5, "wide"), (2, "out")):
            tensors.append(Tensor(len(tensors), size, Kind.ACTIVATION, f"{name}{n}"))
        ops += [
            Op(len(ops), (1,), (n,), f"k{n}"),
            Op(len(ops) + 1, (n, last), (n + 1,), f"up{n}"),
            Op(len(ops) + 2, (n + 1,), (n + 2,), f"wide{n}"),
            Op(len(ops) + 3, (n + 2,), (n + 3,), f"out{n}"),
        ]
        last = n + 3
    tensors[last] = replace(tensors[last], kind=Kind.OUTPUT)
    graph = Graph("decoder", tuple(tensors), tuple(ops))
    return spill_problem(graph, BUILT_IN["strict"], (Memory("fast", 9),))


def test_what_every_layer_reads_is_counted_for_every_layer():
    """One write and a read for each layer but the first; windows see none of it, phases all."""
    problem = decoder(5)
    answer = Spill().spill(problem, LIMITS)
    assert answer.traffic_bytes == 2 + 2 * 4
    assert sum(w.bytes for w in windows(problem, answer.order, 10_000, LIMITS)) == 0
    wide = [i for i, op in enumerate(problem.model.graph.ops) if op.name.startswith("wide")]
    assert sum(p.bytes for p in phases(problem, wide, 10_000, LIMITS)) == answer.traffic_bytes
