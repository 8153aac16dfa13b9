"""Prices of memory: a lower bound of every assignment that fits, on random instances."""

from __future__ import annotations

from itertools import product
from random import Random

from lowtide.allocate.banks.bank import Demand, Loads
from lowtide.allocate.banks.prices import find_prices
from lowtide.allocate.buffers import Problem, block


def _least(problem: Problem, demands: list[Demand], capacities: list[int]) -> int | None:
    """Cost of the best assignment whose loads fit, by trying all."""
    best = None
    for chosen in product(*(d.allowed for d in demands)):
        loads = [[0] * 12 for _ in capacities]
        for b, k in zip(problem.buffers, chosen, strict=True):
            for t in range(b.start, b.end):
                loads[k][t] += b.size
        if all(max(row) <= room for row, room in zip(loads, capacities, strict=True)):
            cost = sum(d.bytes * d.allowed.index(k) for d, k in zip(demands, chosen, strict=True))
            best = cost if best is None else min(best, cost)
    return best


def test_no_assignment_is_cheaper():
    """And the bound is above nothing where the fast memory is too small."""
    rng, positive = Random(1), 0
    for _ in range(14):
        buffers = tuple(
            block(f"b{i}", start, start + rng.randint(1, 4), rng.randint(1, 9))
            for i in range(rng.randint(1, 6))
            for start in (rng.randint(0, 7),)
        )
        problem = Problem(buffers)
        demands = [Demand((0, 1), b.size) for b in buffers]
        capacities = [rng.randint(5, 20), 60]
        least = _least(problem, demands, capacities)
        assert least is not None
        prices = find_prices(Loads(problem), demands, capacities, max(least, 1))
        assert prices.bound <= least + 1e-6
        assert all(price >= 0 for section in prices.slack for price in section)
        assert all(min(extra) == 0 for extra in prices.extra)
        positive += prices.bound > 0.5
    assert positive > 2
