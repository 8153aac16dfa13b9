"""Reuse only where the capacity demands it: as many buffers as can be get bytes of their own.

Bytes that one buffer leaves to the next make the second wait for the first; runtimes that overlap transfers or run ops
in parallel lose by it. A buffer that is there at every step shares no byte with anything, so buffers are given the
full time as their lifetime, the smallest first, for as long as all of it is still placed within the capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowtide.allocate.arena import Engine, allocate_best
from lowtide.allocate.buffers import Problem, Rectangle
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.stop import Limits

ENGINES: tuple[Engine, ...] = (Portfolio(work=20_000_000),)  # asked many times, so only the quick ones

ROUNDS = 40  # placements that are tried at the most


def minimise_reuse(problem: Problem, capacity: int, placed: Packing, limits: Limits) -> tuple[Packing, int]:
    """A placement within the capacity with as many buffers to themselves as is found, and how many those are. `placed`:
    a placement of the problem; it stays if it is above the capacity."""
    if placed.height_bytes > capacity:
        return placed, 0
    tied = {i for p in problem.pairs for i in (p.lower, p.upper)}
    free = [i for i, b in enumerate(problem.buffers) if b.rectangles and i not in tied]
    order = sorted(free, key=lambda i: (problem.buffers[i].size, i))
    best, low, high = placed, 0, len(order) + 1
    for _ in range(ROUNDS):
        if high - low <= 1:
            break
        middle = len(order) if high == len(order) + 1 and low == 0 else (low + high) // 2
        trial = _alone(problem, order[:middle])
        packing = allocate_best(trial, replace(limits, enough_bytes=capacity), ENGINES)
        if packing.height_bytes <= capacity:
            low, best = middle, packing
        else:
            high = middle
    return replace(best, lower_bound_bytes=placed.lower_bound_bytes), low


def _alone(problem: Problem, members: Sequence[int]) -> Problem:
    """The problem with these buffers there at every step."""
    start = min((b.start for b in problem.buffers if b.rectangles), default=0)
    end = max((b.end for b in problem.buffers), default=1)
    alone = set(members)
    return replace(
        problem,
        buffers=tuple(
            replace(b, rectangles=(Rectangle(start, end, 0, b.size),)) if i in alone else b
            for i, b in enumerate(problem.buffers)
        ),
    )
