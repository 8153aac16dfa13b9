"""From residency to moves, to the letter of `docs/contract.md`, section Files.

What is moved for nothing: the first load of a graph input or constant, and the one write of a graph output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from lowtide.spill.answer import Interval, Move
from lowtide.spill.problem import Gap, SpillProblem, Timeline


def intervals_of(line: Timeline, dropped: Iterable[Gap]) -> list[Interval]:
    """Residency in the fast memory if the gaps in `dropped` are out and all others in; no offsets yet."""
    out = {(gap.storage, gap.start) for gap in dropped}
    late = {gap.storage: gap.start for gap in line.gaps if not gap.read_bytes}
    ends = {gap.storage: gap.end for gap in line.gaps if not gap.read_bytes}
    result = []
    for s, touches in enumerate(line.touches):
        if not touches:
            continue
        start = touches[0]
        for t, after in pairwise(touches):
            if (s, t + 1) in out:
                result.append(Interval(s, start, t + 1))
                start = after
        end = touches[-1] + 1
        if s in late and (s, late[s]) not in out:
            end = ends[s]
        result.append(Interval(s, start, end))
    return result


def moves_of(problem: SpillProblem, order: Sequence[int], intervals: Iterable[Interval]) -> tuple[Move, ...]:
    """Moves between the fast memory and the next level that these intervals of the fast memory take. A spill takes
    place where a storage leaves and is needed later without there being a valid copy; a fill where it comes back."""
    step_of = {i: step for step, i in enumerate(order)}
    stays: dict[int, list[Interval]] = {}
    for interval in sorted(intervals):
        stays.setdefault(interval.storage, []).append(interval)
    moves = [move for visits in stays.values() for move in moves_of_one(problem, visits, step_of)]
    return tuple(sorted(moves, key=lambda m: (m.step, m.kind != "spill", m.storage)))


def moves_of_one(problem: SpillProblem, visits: Sequence[Interval], step_of: Mapping[int, int]) -> list[Move]:
    """The same for the intervals of one storage, by start; `step_of` are the steps of all ops."""
    s, n = visits[0].storage, len(step_of)
    size = problem.traffic_bytes[s]
    writes = sorted(step_of[i] for i in problem.writers[s])
    copied = problem.copied[s] or (problem.written_free[s] and not writes)
    moves = []
    for k, visit in enumerate(visits):
        if k:
            moves.append(Move(visit.start, "fill", s, size, 1, 0))
        if any(visit.start <= w < visit.end for w in writes):
            copied = problem.written_free[s] and writes[-1] < visit.end
        needed = k + 1 < len(visits) or (problem.is_output[s] and visit.end < n)
        if needed and not copied:
            moves.append(Move(visit.end, "spill", s, size, 0, 1))
            copied = problem.semantics.write_once
    return moves


def traffic_of(moves: Iterable[Move]) -> int:
    """Bytes moved."""
    return sum(move.bytes for move in moves)
