"""Reuse only where the capacity demands it."""

from random import Random

from lowtide.allocate.arena import allocate_best
from lowtide.allocate.buffers import Problem, block
from lowtide.allocate.placed import minimise_reuse
from lowtide.stop import Limits


def _alone(problem: Problem, offsets: tuple[int, ...]) -> int:
    """Buffers that share no byte with any other one."""
    spans = [range(at, at + b.size) for b, at in zip(problem.buffers, offsets, strict=True)]
    return sum(
        all(i == j or min(s.stop, t.stop) <= max(s.start, t.start) for j, t in enumerate(spans))
        for i, s in enumerate(spans)
    )


def test_as_many_as_the_capacity_allows():
    """None at the least height, all where everything fits side by side, and never above the capacity."""
    problem = Problem((block("a", 0, 2, 8), block("b", 2, 4, 8), block("c", 4, 6, 8), block("d", 0, 6, 8)))
    least = allocate_best(problem, Limits(5.0))
    counts = []
    for capacity in (16, 24, 32):
        packing, alone = minimise_reuse(problem, capacity, least, Limits(5.0))
        assert packing.height_bytes <= capacity
        assert alone <= _alone(problem, packing.offsets)
        counts.append(_alone(problem, packing.offsets))
    assert counts[0] < counts[1] < counts[2] == 4


def test_random_problems_stay_valid():
    """What is there at once shares no byte, whatever the capacity; the bound stays the placement's own."""
    rng = Random(9)
    for _ in range(30):
        buffers = tuple(
            block(f"b{i}", start, start + rng.randint(1, 4), rng.randint(1, 9))
            for i in range(rng.randint(1, 8))
            for start in (rng.randint(0, 8),)
        )
        problem = Problem(buffers)
        known = allocate_best(problem, Limits(5.0))
        capacity = known.height_bytes + rng.randint(0, 20)
        packing, alone = minimise_reuse(problem, capacity, known, Limits(5.0))
        assert packing.height_bytes <= capacity
        assert packing.lower_bound_bytes == known.lower_bound_bytes
        assert 0 <= alone <= len(buffers)
        for i, a in enumerate(buffers):
            for j, b in enumerate(buffers[:i]):
                if a.start < b.end and b.start < a.end:
                    x, y = packing.offsets[i], packing.offsets[j]
                    assert x + a.size <= y or y + b.size <= x


def test_a_placement_above_the_capacity_stays():
    """There is nothing to give away."""
    problem = Problem((block("a", 0, 2, 8), block("b", 1, 3, 8)))
    known = allocate_best(problem, Limits(5.0))
    assert minimise_reuse(problem, 15, known, Limits(5.0)) == (known, 0)
