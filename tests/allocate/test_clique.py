"""The bound of buffers that never share a byte, against all placements and all cliques there are."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.allocate.buffers import Buffer, Problem, Rectangle, block, load_bound
from lowtide.allocate.clique import Cliques, clique_bound, heaviest_clique, never_share


def triangle() -> Problem:
    """Three buffers: the outer two are never there at once, and are kept apart."""
    return Problem((block("a", 0, 2, 10), block("b", 1, 4, 10), block("c", 3, 5, 10)), (), ((0, 2),))


def test_what_is_kept_apart_counts_beside_what_is_there():
    """The load is 20, and 30 is proved; without the engine's bound a search would have to find that."""
    assert (load_bound(triangle()), clique_bound(triangle())) == (20, 30)
    assert Cliques().supports(triangle()) is None
    assert Cliques().supports(Problem(triangle().buffers)) == "no buffers kept apart"
    placed = lowtide.research.allocate(triangle())
    assert (placed.height_bytes, placed.optimal) == (30, True)


def test_a_hundred_kept_apart_are_proved_at_once():
    """Each of a hundred buffers that follow each other is kept apart from two thirds of the others."""
    buffers = tuple(block(f"b{k}", k, k + 1, 32 + 64 * (k % 7), 32) for k in range(100))
    apart = tuple((i, j) for i, j in combinations(range(100), 2) if (i - j) % 3)
    placed = lowtide.research.allocate(Problem(buffers, (), apart), time=5)
    assert placed.optimal
    assert placed.height_bytes == 3 * (32 + 64 * 6)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to five small buffers, some with a gap, some kept apart."""
    unit = draw(st.sampled_from((1, 2)))
    buffers: list[Buffer] = []
    for k in range(draw(st.integers(1, 5))):
        start, length, size = draw(st.tuples(st.integers(0, 6), st.integers(1, 3), st.integers(1, 4)))
        rectangles = [Rectangle(start, start + length, 0, size)]
        if draw(st.booleans()):
            rectangles.append(Rectangle(start + length + 2, start + length + 3, 0, size))
        buffers.append(Buffer(f"b{k}", size, tuple(rectangles), unit))
    pairs = list(combinations(range(len(buffers)), 2))
    apart = tuple(pair for pair in pairs if draw(st.booleans()))
    return Problem(tuple(buffers), (), apart)


def together(problem: Problem, i: int, j: int) -> bool:
    """Whether two buffers are there at the same step, or kept apart, step by step."""
    steps = [{t for p in problem.buffers[k].rectangles for t in range(p.start, p.end)} for k in (i, j)]
    return bool(steps[0] & steps[1]) or (i, j) in problem.apart


def least_height(problem: Problem) -> int:
    """Of all placements."""
    top = sum(b.size + 1 for b in problem.buffers)
    best = top
    for offsets in product(*(range(0, top, b.alignment) for b in problem.buffers)):
        ends = [at + b.size for at, b in zip(offsets, problem.buffers, strict=True)]
        if max(ends) < best and all(
            ends[i] <= offsets[j] or ends[j] <= offsets[i]
            for i, j in combinations(range(len(ends)), 2)
            if together(problem, i, j)
        ):
            best = max(ends)
    return best


@settings(max_examples=40, deadline=None)
@given(problems())
def test_no_placement_is_below_the_bound(problem: Problem):
    """Neither at alignment 1 nor at 2, and never below the load."""
    small = Problem(problem.buffers[:4], (), tuple(p for p in problem.apart if max(p) < 4))
    assert load_bound(small) <= clique_bound(small) <= least_height(small)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_the_heaviest_clique_is_found(problem: Problem):
    """Among all subsets; and any number of nodes gives one."""
    n = len(problem.buffers)
    beside = never_share(problem)
    assert all(bool(beside[i] >> j & 1) == together(problem, i, j) for i, j in combinations(range(n), 2))
    weights = [b.size for b in problem.buffers]
    cliques = [
        some for k in range(n + 1) for some in combinations(range(n), k)
        if all(together(problem, i, j) for i, j in combinations(some, 2))
    ]  # fmt: skip
    found = heaviest_clique(weights, beside, 10_000)
    assert tuple(found) in cliques
    assert sum(weights[i] for i in found) == max(sum(weights[i] for i in some) for some in cliques)
    assert tuple(heaviest_clique(weights, beside, 2)) in cliques
