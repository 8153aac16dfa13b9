from itertools import combinations, product
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.allocate.arena import ENGINES
from lowtide.allocate.banks.memories import part_of
from lowtide.allocate.buffers import Buffer, Pair, Problem, Rectangle, block, load_sections
from lowtide.allocate.conflict import find_conflict, find_indivisible
from lowtide.allocate.greedy import Packing
from lowtide.stop import Limits
from support.small_problems import least_height, random_buffers, with_ties


class Exhaustive:
    """Engine that tries every offset: its bound is its height."""

    name: ClassVar[str] = "exhaustive"

    def supports(self, problem: Problem) -> str | None:
        """Small ones."""
        return None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """The least height; the offsets are not needed here."""
        height = least_height(problem)
        return Packing((0,) * len(problem.buffers), height, height, self.name, {})


class Helpless:
    """Engine that places nothing well and proves nothing."""

    name: ClassVar[str] = "helpless"

    def supports(self, problem: Problem) -> str | None:
        """Every one."""
        return None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """One above the other."""
        height = sum(b.size for b in problem.buffers)
        return Packing((0,) * len(problem.buffers), height, 0, self.name, {})


def test_the_largest_live_at_one_step():
    """Of two steps with too much, the one at which fewer buffers are enough; the smallest of them is left out."""
    few = [block("a", 0, 2, 6), block("b", 0, 2, 5), block("c", 0, 2, 1)]
    many = [block(f"d{i}", 2, 4, 3) for i in range(5)]
    found = find_conflict(Problem((*many, *few)), 10)
    assert found is not None
    assert (found.members, found.step, found.needed_bytes, found.minimal) == ((5, 6), 0, 11, True)


def test_nothing_is_found_where_all_fits():
    """A placement at the capacity is an answer."""
    assert find_conflict(Problem((block("a", 0, 2, 6), block("b", 2, 4, 5))), 6) is None


def test_gaps_and_pairs_are_not_in_the_way():
    """What is not there does not count, and what a pair may share counts once."""
    gapped = Buffer("g", 6, (Rectangle(0, 1, 0, 6), Rectangle(3, 4, 0, 6)))
    assert find_conflict(Problem((gapped, block("b", 1, 3, 6))), 6) is None
    pair = Problem((block("out", 1, 3, 6), block("in", 0, 2, 6)), (Pair(0, 1, 0),))
    assert find_conflict(pair, 6) is None
    apart = find_conflict(Problem(pair.buffers, (Pair(0, 1, 4),)), 6)
    assert apart is not None
    assert apart.needed_bytes == 10


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 20))
def test_a_set_at_one_step_is_too_much_and_none_can_be_left_out(seed: int, n: int, capacity: int):
    """Counted again at its step; no set of fewer buffers is too much at any step."""
    buffers = random_buffers(seed, n, 6, 8)
    found = find_conflict(Problem(buffers), capacity, engines=(Helpless(),))
    steps, loads = load_sections(buffers)
    if max(loads, default=0) <= capacity:
        assert found is None
        return
    assert found is not None
    assert found.minimal
    live = {i: p.size for i, b in enumerate(buffers) for p in b.rectangles if p.start <= (found.step or 0) < p.end}
    sizes = [live[i] for i in found.members]
    assert sum(sizes) == found.needed_bytes > capacity
    assert sum(sizes) - min(sizes) <= capacity
    for step in steps:
        there = [p.size for b in buffers for p in b.rectangles if p.start <= step < p.end]
        for fewer in combinations(there, len(sizes) - 1):
            assert sum(fewer) <= capacity


def test_three_do_not_go_into_two_memories():
    """Together there is room; the set is what cannot be divided, without what is not needed for that."""
    problem = Problem((*(block(n, 0, 2, 5) for n in "abc"), block("d", 0, 2, 1), block("e", 2, 3, 9)))
    found = find_indivisible(problem, [8, 9])
    assert found is not None
    assert (found.members, found.step, found.needed_bytes, found.capacity_bytes) == ((0, 1, 2), 0, 15, 17)
    assert find_indivisible(problem, [10, 9]) is None
    single = find_indivisible(problem, [8, 8])
    assert single is not None
    assert single.members in ((0, 1, 2), (4,))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_what_cannot_be_divided_is_so_by_every_division(seed: int, n: int, capacities: list[int]):
    """Found exactly where some step's buffers go into no division; the set goes into none, and does without any one."""

    def divisible(sizes: list[int]) -> bool:
        rooms = (
            [sum(s for s, k in zip(sizes, where, strict=True) if k == bank) for bank in range(len(capacities))]
            for where in product(range(len(capacities)), repeat=len(sizes))
        )
        return any(all(u <= c for u, c in zip(used, capacities, strict=True)) for used in rooms)

    buffers = random_buffers(seed, n, 6, 8)
    found = find_indivisible(Problem(buffers), capacities)
    there = {t: [p.size for b in buffers for p in b.rectangles if p.start <= t < p.end] for t in range(6)}
    assert (found is None) == all(divisible(sizes) for sizes in there.values())
    if found is not None:
        live = {i: p.size for i, b in enumerate(buffers) for p in b.rectangles if p.start <= (found.step or 0) < p.end}
        sizes = [live[i] for i in found.members]
        assert not divisible(sizes)
        assert all(divisible(sizes[:k] + sizes[k + 1 :]) for k in range(len(sizes)))


def fragmented(seed: int, ties: bool) -> tuple[Problem, int] | None:
    """A small problem whose load fits a capacity that no placement does, if this seed gives one."""
    buffers = random_buffers(seed, 5, 6, 3)
    problem = with_ties(seed, buffers) if ties else Problem(buffers)
    load = max(load_sections(buffers)[1], default=0)
    return (problem, load) if not problem.pairs and least_height(problem) > load else None


@pytest.mark.parametrize("ties", [False, True])
def test_a_deletion_filter_leaves_an_irreducible_set(ties: bool):
    """Where loads fit and nothing can be placed: the members alone do not fit, and each one is needed."""
    seen = 0
    for seed in range(4000):
        drawn = fragmented(seed, ties)
        if drawn is None:
            continue
        problem, capacity = drawn
        found = find_conflict(problem, capacity, engines=(Exhaustive(),))
        assert found is not None
        assert (found.step, found.minimal) == (None, True)
        assert least_height(part_of(problem, found.members)) == found.needed_bytes > capacity
        for i in found.members:
            assert least_height(part_of(problem, [j for j in found.members if j != i])) <= capacity
        seen += 1
        if seen == 5:
            return
    raise AssertionError("too few such problems were drawn")


def test_without_a_proof_nothing_is_claimed():
    """An engine that finds no placement and proves nothing is no reason to call anything infeasible."""
    drawn = next(d for d in (fragmented(seed, False) for seed in range(4000)) if d is not None)
    assert find_conflict(*drawn, engines=(Helpless(),)) is None


@pytest.mark.slow
def test_the_engines_there_are_say_nothing_wrong():
    """With those that lowtide has: a set that is found does not fit, whatever they can prove."""
    for seed in range(600):
        drawn = fragmented(seed, False)
        if drawn is None:
            continue
        problem, capacity = drawn
        found = find_conflict(problem, capacity, engines=ENGINES)
        assert found is None or least_height(part_of(problem, found.members)) > capacity
