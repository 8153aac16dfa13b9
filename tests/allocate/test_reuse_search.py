"""Russian dolls, without CP-SAT beside them."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.allocate import reuse, reuse_search
from lowtide.allocate.buffers import Problem, block
from lowtide.allocate.reuse import least_reuse, reuse_cost
from lowtide.stop import Limits
from support.reuse_cases import Costs, least, problems, together


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(problems())
def test_russian_dolls_find_the_least(case: tuple[Problem, Costs, int]):
    """Without CP-SAT, from the greedy placement."""
    problem, costs, capacity = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reuse, "find_spec", lambda name: None)
        placed = least_reuse(problem, costs, capacity, Limits(30))
    best = least(problem, costs, capacity)
    if placed.offsets is not None:
        assert (placed.cost, placed.lower_bound) == (best, best)
        assert (
            reuse_cost(problem, {p: c for p, c in costs.items() if not together(problem, *p)}, placed.offsets) == best
        )
    else:
        assert best is None or placed.fits is None


def test_two_sizes_in_eight_units_are_proved_without_a_solver(monkeypatch: pytest.MonkeyPatch):
    """Pairs that are there together, each with a price to all others but the next."""
    monkeypatch.setattr(reuse, "find_spec", lambda name: None)
    buffers = tuple(block(f"b{k}", k // 2, k // 2 + 1, 1 + k % 2) for k in range(10))
    costs = {(i, j): 1 for i, j in combinations(range(10), 2) if j // 2 != i // 2 + 1}
    placed = least_reuse(Problem(buffers), costs, 4, Limits(20))
    assert placed.optimal
    monkeypatch.undo()
    assert least_reuse(Problem(buffers), costs, 4, Limits(20)).cost == placed.cost > 0


def test_twins_and_mirror_images_are_tried_once(monkeypatch: pytest.MonkeyPatch):
    """Three together, two of them alike, beside as many: the least is that of all placements."""
    monkeypatch.setattr(reuse, "find_spec", lambda name: None)
    buffers = tuple(block(f"b{k}", k // 3, k // 3 + 1, 1 + k % 3 // 2) for k in range(6))
    costs = {(i, j): 1 for i in range(3) for j in range(3, 6)}
    problem = Problem(buffers)
    placed = least_reuse(problem, costs, 5, Limits(20))
    assert placed.optimal
    assert placed.cost == least(problem, costs, 5)
    searched: list[int] = []
    groups = reuse_search._groups

    def counted(*given: object) -> object:
        found = groups(*given)  # pyright: ignore[reportArgumentType]
        searched.extend(len(ways) for _, ways in found)
        return found

    monkeypatch.setattr(reuse_search, "_groups", counted)
    least_reuse(problem, costs, 5, Limits(20))
    assert searched == [12, 12]  # 4! ways to place three and the room of one, the twins in one order


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 31))
def test_groups_that_can_change_places_lose_nothing(seed: int):
    """Tables by kinds of groups, so that many are interchangeable: the least is that of all choices."""
    rng = Random(seed)
    n, values = rng.randint(2, 5), rng.randint(2, 4)
    kinds = [rng.randrange(2) for _ in range(n)]
    pays = {pair: np.array([[rng.randint(0, 9) for _ in range(values)] for _ in range(values)]) for pair in
            ((0, 0), (0, 1), (1, 1))}  # fmt: skip
    pays |= {(1, 0): pays[0, 1].T}
    if rng.random() < 0.7:  # the same whoever of two of a kind comes first
        pays |= {(k, k): pays[k, k] + pays[k, k].T for k in (0, 1)}
    tables = {(a, b): pays[kinds[a], kinds[b]] for a, b in combinations(range(n), 2)}
    begin = [rng.randrange(values) for _ in range(n)]
    dolls = reuse_search._Dolls([values] * n, tables, begin, [True] * values, Limits(20))
    assert dolls.solve() is not None
    costs = {way: sum(int(tables[a, b][way[a], way[b]]) for a, b in tables) for way in product(range(values), repeat=n)}
    assert dolls.least[0] == min(costs.values())


def test_groups_change_places_alone_or_with_two_more():
    """Of 0, 1 | 2, 3 in which 0 is to 2 what 1 is to 3, the value of 0 is not above that of 1; of 2 and 3 nothing is
    said then."""
    apart, near, far = (np.array(rows) for rows in ([[0, 0], [0, 0]], [[1, 2], [3, 4]], [[5, 7], [6, 8]]))
    tables = {(0, 1): apart, (0, 2): near, (0, 3): far, (1, 2): far, (1, 3): near, (2, 3): apart}
    assert reuse_search._interchangeable([2] * 4, tables) == [[], [0], [], []]
    assert reuse_search._interchangeable([2] * 4, tables | {(1, 3): far}) == [[], [], [], []]
