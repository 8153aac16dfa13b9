"""Several levels: which spilled copies lie in the memories between the fast one and the host, and where.

What moves is decided for the fast memory alone: a copy costs the same bytes in any memory. Between its spill and its
last fill it takes room in one memory; the nearest levels are filled with what is moved most. Copies that exist anyway
(graph inputs, constants, outputs that are written) are the host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lowtide.allocate.arena import allocate_best
from lowtide.allocate.buffers import Buffer, Problem, block
from lowtide.spill.answer import Interval, Move, SpillAnswer
from lowtide.spill.problem import SpillProblem
from lowtide.spill.repair import QUICK
from lowtide.stop import Limits

MOST_FOR_EXACT = 14
"""Up to this many copies every choice is tried; above, copies are taken as long as they fit, most moved bytes first."""


@dataclass(frozen=True)
class Copy:
    """A copy of a storage outside the fast memory in steps ``[start, end)``, and the moves (indices) to and from it.

    The step of its last fill is one of them, for the spills of a step come before its fills.
    """

    storage: int
    start: int
    end: int
    moves: tuple[int, ...]
    moved_bytes: int


def in_levels(problem: SpillProblem, answer: SpillAnswer, limits: Limits) -> SpillAnswer:
    """The answer with its copies in the memories there are; those that find no room there are on the host."""
    host = len(problem.memories)
    moves = [_with_outside(m, host) for m in answer.moves]
    intervals = list(answer.intervals)
    left = copies_of(answer.moves)
    for level in range(1, host):
        chosen = _fill_level(problem, left, level, limits)
        for copy, offset in chosen:
            intervals.append(Interval(copy.storage, copy.start, copy.end, offset, level))
            for k in copy.moves:
                moves[k] = _with_outside(moves[k], level)
        kept = {copy for copy, _ in chosen}
        left = [copy for copy in left if copy not in kept]
    beyond = sum(m.bytes for m in moves if host in (m.source, m.goal))
    return replace(
        answer,
        intervals=tuple(sorted(intervals, key=lambda v: (v.memory, v.storage, v.start))),
        moves=tuple(moves),
        counters=answer.counters | {"host_traffic_bytes": beyond},
    )


def _with_outside(move: Move, memory: int) -> Move:
    return replace(move, goal=memory) if move.kind == "spill" else replace(move, source=memory)


def copies_of(moves: Sequence[Move]) -> list[Copy]:
    """The copies that spills make and fills use, in the order of the spills; none for a spill that is never filled."""
    open_: dict[int, list[int]] = {}
    done: list[list[int]] = []
    for k, move in enumerate(moves):
        if move.kind == "spill":
            open_[move.storage] = [k]
            done.append(open_[move.storage])
        elif move.storage in open_:
            open_[move.storage].append(k)
    result = []
    for group in done:
        if len(group) < 2:
            continue
        first = moves[group[0]]
        result.append(
            Copy(first.storage, first.step, moves[group[-1]].step + 1, tuple(group), sum(moves[k].bytes for k in group))
        )
    return result


def _fill_level(problem: SpillProblem, copies: Sequence[Copy], level: int, limits: Limits) -> list[tuple[Copy, int]]:
    """The copies for one memory, with their offsets: the most moved bytes if there are few."""
    ranked = sorted(copies, key=lambda c: (-c.moved_bytes, c.start, c.storage))
    if len(ranked) > MOST_FOR_EXACT:
        kept: list[Copy] = []
        for copy in ranked:
            if _pack(problem, [*kept, copy], level, limits) is not None:
                kept.append(copy)
        best: tuple[Copy, ...] = tuple(kept)
    else:
        best = _most_moved(problem, ranked, level, limits)
    offsets = _pack(problem, best, level, limits)
    assert offsets is not None
    return list(zip(best, offsets, strict=True))


def _most_moved(problem: SpillProblem, ranked: Sequence[Copy], level: int, limits: Limits) -> tuple[Copy, ...]:
    """Branch and bound over which copies are taken, the heaviest decided first."""
    rest = [0] * (len(ranked) + 1)
    for k in range(len(ranked) - 1, -1, -1):
        rest[k] = rest[k + 1] + ranked[k].moved_bytes
    best: tuple[int, tuple[Copy, ...]] = (-1, ())

    def decide(k: int, kept: tuple[Copy, ...], moved: int) -> None:
        nonlocal best
        if moved + rest[k] <= best[0]:
            return
        if k == len(ranked):
            best = (moved, kept)
            return
        if _pack(problem, (*kept, ranked[k]), level, limits) is not None:
            decide(k + 1, (*kept, ranked[k]), moved + ranked[k].moved_bytes)
        decide(k + 1, kept, moved)

    decide(0, (), 0)
    return best[1]


def _pack(problem: SpillProblem, copies: Iterable[Copy], level: int, limits: Limits) -> tuple[int, ...] | None:
    """Offsets in a memory, or None if the engines find no room."""
    unit = problem.model.alignment
    buffers: list[Buffer] = [
        block(f"{c.storage}@{c.start}", c.start, c.end, problem.model.storages[c.storage].size, unit) for c in copies
    ]
    capacity = problem.memories[level].capacity_bytes
    packing = allocate_best(Problem(tuple(buffers)), replace(limits, enough_bytes=capacity), QUICK)
    return tuple(packing.offsets) if packing.height_bytes <= capacity else None
