"""Placing buffers one after another: the kernel that every greedy shares.

A placed piece with bytes ``[floor, top)`` that is there at the same time as a piece ``[low, low + size)`` of
the buffer to place forbids that buffer the offsets between ``floor - low - size`` and ``top - low``, both
excluded. What these open intervals leave are gaps of allowed offsets:

    offset 0 ...   (  forbidden  )      gap       (  forbidden  )   ... and everything above
                                 |<-- slack -->|

First fit takes the lowest allowed offset. Best fit takes the low end of the gap with least slack, which for
plain rectangles is the tightest hole; above everything only if there is no gap.

Two ways to find the placed pieces in the way, with equal results. With lists of neighbours, built by a sweep:
quickest while there are few pairs of pieces that meet. With arrays of pieces sorted by start, one per class
of durations, where the pieces that can meet a lifetime are a slice: for crowds, in memory linear in the
pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from lowtide.allocate.buffers import Buffer
from lowtide.errors import InputError

PAIRS_FOR_LISTS = 3_000_000
"""Up to this many pairs of pieces that meet, neighbours are listed."""


class Placer(Protocol):
    """Places the buffers it was made for.

    Attributes
    ----------
    cost
        Work of one pass, in tenths of a microsecond or so.
    pairs
        Pairs of pieces of different buffers that are there at the same time.
    """

    cost: int
    pairs: int

    def place(self, order: Sequence[int], *, best_fit: bool, ceiling: int | None = None) -> list[int] | None:
        """Place the buffers in an order.

        Parameters
        ----------
        order
            Each index of a buffer once. Buffers with a fixed offset are placed before all others.
        best_fit
            Whether to take the tightest gap, else the lowest.
        ceiling
            Give up as soon as a buffer would end at this byte or above.

        Returns
        -------
        list of int or None
            Offset of each buffer; None if given up.

        Raises
        ------
        InputError
            Two buffers have fixed offsets at which they overlap.
        """
        ...


def placer(buffers: Sequence[Buffer]) -> Placer:
    """Choose the way by the number of pairs."""
    pairs = _count_pairs(buffers)
    return ListPlacer(buffers, pairs) if pairs <= PAIRS_FOR_LISTS else ArrayPlacer(buffers, pairs)


def height_of(buffers: Iterable[Buffer], offsets: Iterable[int]) -> int:
    """Bytes that a placement takes."""
    return max((offset + b.size for b, offset in zip(buffers, offsets, strict=True)), default=0)


def _count_pairs(buffers: Sequence[Buffer]) -> int:
    ends: list[int] = []
    pairs = 0
    for start, end in sorted((p.start, p.end) for b in buffers for p in b.pieces):
        while ends and ends[0] <= start:
            heappop(ends)
        pairs += len(ends)
        heappush(ends, end)
    return pairs


def _fixed_first(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    fixed = [i for i in order if buffers[i].offset is not None]
    return [*fixed, *(i for i in order if buffers[i].offset is None)] if fixed else list(order)


def _clash(buffer: Buffer) -> InputError:
    return InputError(
        f"buffer {buffer.name} cannot lie at its fixed offset {buffer.offset}: another fixed buffer is there "
        "at the same time; move or free one of them"
    )


class ListPlacer:
    """Placer with a list of neighbours per piece."""

    def __init__(self, buffers: Sequence[Buffer], pairs: int) -> None:
        self._buffers = buffers
        self.pairs = pairs
        owner = [i for i, b in enumerate(buffers) for _ in b.pieces]
        pieces = [p for b in buffers for p in b.pieces]
        self.cost = 3 * pairs + 35 * len(pieces)
        near: list[list[int]] = [[] for _ in pieces]
        active: list[int] = []
        for k in sorted(range(len(pieces)), key=lambda k: pieces[k].start):
            start = pieces[k].start
            active = [j for j in active if pieces[j].end > start]
            for j in active:
                near[j].append(k)
            near[k] += active
            active.append(k)
        self._parts: list[list[tuple[int, int, int, list[int]]]] = [[] for _ in buffers]
        for k, p in enumerate(pieces):
            self._parts[owner[k]].append((k, p.low, p.low + p.size, near[k]))

    def place(self, order: Sequence[int], *, best_fit: bool, ceiling: int | None = None) -> list[int] | None:
        """Place the buffers in an order; see `Placer`."""
        buffers = self._buffers
        n_pieces = sum(len(parts) for parts in self._parts)
        floor, top = [0] * n_pieces, [0] * n_pieces  # top 0: not placed yet
        offsets = [0] * len(buffers)
        for i in _fixed_first(buffers, order):
            parts = self._parts[i]
            if not parts:
                continue
            forbidden = [(floor[q] - high, top[q] - low) for _, low, high, near in parts for q in near if top[q]]
            buffer = buffers[i]
            if buffer.offset is not None:
                at = buffer.offset
                if any(below < at < above for below, above in forbidden):
                    raise _clash(buffer)
            else:
                forbidden.sort()
                at = _lowest(forbidden, buffer.alignment, best_fit)
            if ceiling is not None and at + buffer.size >= ceiling:
                return None
            offsets[i] = at
            for k, low, high, _ in parts:
                floor[k], top[k] = at + low, at + high
        return offsets


def _lowest(forbidden: list[tuple[int, int]], alignment: int, best_fit: bool) -> int:
    at = 0
    best, best_slack = -1, -1
    for below, above in forbidden:
        if below >= at:
            if not best_fit:
                return at
            if best < 0 or below - at < best_slack:
                best, best_slack = at, below - at
                if best_slack == 0:
                    break
        if above > at:
            at = above if alignment == 1 else -(-above // alignment) * alignment
    return at if best < 0 else best


class ArrayPlacer:
    """Placer with arrays sorted by start, one stretch of them per class of durations."""

    def __init__(self, buffers: Sequence[Buffer], pairs: int) -> None:
        import numpy as np

        self._buffers = buffers
        self.pairs = pairs
        pieces = [p for b in buffers for p in b.pieces]
        owner = [i for i, b in enumerate(buffers) for _ in b.pieces]
        start = np.array([p.start for p in pieces], np.int64)
        end = np.array([p.end for p in pieces], np.int64)
        duration_class = np.array([((p.end - p.start).bit_length() - 1) // 3 for p in pieces], np.int64)
        by_class = np.lexsort((start, duration_class))
        self._end = end[by_class]
        sorted_start, sorted_class = start[by_class], duration_class[by_class]
        slot = np.empty(len(pieces), np.int64)
        slot[by_class] = np.arange(len(pieces))
        stretches = []
        for c in np.unique(sorted_class):
            a, b = np.searchsorted(sorted_class, [c, c + 1])
            longest = (self._end[a:b] - sorted_start[a:b]).max()
            from_ = a + np.searchsorted(sorted_start[a:b], start - longest, side="right")
            to = a + np.searchsorted(sorted_start[a:b], end, side="left")
            stretches.append((from_.tolist(), to.tolist()))
        self._parts: list[list[tuple[int, int, int, int, list[slice]]]] = [[] for _ in buffers]
        for k, p in enumerate(pieces):
            slices = [slice(f[k], t[k]) for f, t in stretches if f[k] < t[k]]
            self._parts[owner[k]].append((int(slot[k]), p.start, p.low, p.low + p.size, slices))
        self.cost = 220 * len(pieces) + pairs

    def place(self, order: Sequence[int], *, best_fit: bool, ceiling: int | None = None) -> list[int] | None:
        """Place the buffers in an order; see `Placer`."""
        import numpy as np

        buffers = self._buffers
        n_pieces = len(self._end)
        floor, top = np.zeros(n_pieces, np.int64), np.zeros(n_pieces, np.int64)
        until = np.full(n_pieces, np.iinfo(np.int64).min)  # end of a placed piece
        offsets = [0] * len(buffers)
        for i in _fixed_first(buffers, order):
            parts = self._parts[i]
            if not parts:
                continue
            below, above = [], []
            for _, start, low, high, slices in parts:
                for s in slices:
                    meets = until[s] > start
                    below.append(floor[s][meets] - high)
                    above.append(top[s][meets] - low)
            begins, ends = np.concatenate(below), np.concatenate(above)
            buffer = buffers[i]
            if buffer.offset is not None:
                at = buffer.offset
                if ((begins < at) & (at < ends)).any():
                    raise _clash(buffer)
            else:
                at = 0
                if begins.size:
                    by_begin = begins.argsort()
                    begins = begins[by_begin]
                    reached = np.maximum(np.maximum.accumulate(ends[by_begin]), 0)
                    reached = -(-reached // buffer.alignment) * buffer.alignment
                    slack = begins.copy()
                    slack[1:] -= reached[:-1]
                    gaps = np.flatnonzero(slack >= 0)
                    if not gaps.size:
                        at = int(reached[-1])
                    else:
                        gap = int(gaps[slack[gaps].argmin()] if best_fit else gaps[0])
                        at = int(reached[gap - 1]) if gap else 0
            if ceiling is not None and at + buffer.size >= ceiling:
                return None
            offsets[i] = at
            for k, _, low, high, _ in parts:
                floor[k], top[k], until[k] = at + low, at + high, self._end[k]
        return offsets
