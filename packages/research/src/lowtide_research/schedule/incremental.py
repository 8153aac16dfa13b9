"""Exact search of what has changed: a graph in segments between its waists, each solved once.

A graph that is searched again and again, a little different each time, is cut at the waists of its last order
(`lowtide_research.schedule.waists`). Between two of them lies a problem of its own, with fixed ends; it is asked of the
exact scheduler, and the answer kept under a hash of the problem, so that only what has changed is searched, and blocks
that are alike are searched once. The peak is the highest of the segments', and so is the bound: nothing is lost.
Source: incremental scheduling of MAGIS (ASPLOS 2024, section 6.1, algorithm 2), whose partition is a heuristic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowtide import _core
from lowtide.analyse.model import MemoryModel
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide_research.schedule.waists import Segment, Waists

_SHARE, _LONGER, _AGAIN = 0.5, 0.5, 1 / 12
"""Part of the time that is left for the search of one segment; how much of it one whose bound was left open must have
had so as not to be asked again; and how much of it one has that was left open before it changed."""


@dataclass(frozen=True)
class Solved:
    """A segment's best order, in its own numbers, its peak and what no order of it stays below, in bytes; and how many
    seconds the search for it had."""

    order: tuple[int, ...]
    peak: int
    bound: int
    seconds: float


@dataclass(frozen=True)
class Incremented:
    """What was found of a graph."""

    order: tuple[int, ...]  # positions in the graph's own order
    # peak, lower_bound: bytes; equal where the order is proved optimal.
    peak: int
    lower_bound: int
    # segments, searched, known: how many there are, how many of them the exact scheduler was asked, and how many it had
    # been asked before. The others need no search: as they run now, they stay within what another one needs.
    segments: int
    searched: int
    known: int
    states: int  # that the exact scheduler expanded, beams included


@dataclass
class Incremental:
    """Searches graphs that have much in common; what it has solved, it keeps."""

    _solved: dict[bytes, Solved] = field(default_factory=dict[bytes, Solved])
    _open: dict[int, float] = field(default_factory=dict[int, float])  # seconds of ops whose segment was left open

    def search(self, model: MemoryModel, order: Sequence[int], limits: Limits) -> Incremented:
        """The order of least peak, the highest segments first. Where the search of a segment was left open and the
        segment has changed since, it is left open again soon: the order to begin with has what was found of it.
        `order`: to begin with, positions in the graph's own order: the best one before the graph changed. Raises
        `KeyboardInterrupt`: Ctrl-C came; what was solved until then is kept."""
        waists = Waists(model, order)
        segments = list(waists.segments())
        peaks = [s.around + s.model.peak(s.order) for s in segments]
        orders = [s.order for s in segments]
        bound = searched = known = states = 0
        for k in sorted(range(len(segments)), key=lambda k: -peaks[k]):
            if peaks[k] <= bound:
                break
            segment = segments[k]
            found = self._solved.get(segment.key)
            seconds = limits.left_seconds * _SHARE
            if found is None or (found.bound < found.peak and found.seconds < _LONGER * seconds):
                ids = [model.graph.ops[i].id for i in segment.ops]
                found, spent = self._solve(segment, found, limits, seconds, ids)
                searched, states = searched + 1, states + spent
            else:
                known += 1
            orders[k], peaks[k] = found.order, segment.around + found.peak
            bound = max(bound, segment.around + found.bound)
        whole = tuple([s.ops[i] for s, own in zip(segments, orders, strict=True) for i in own])
        peak, before = max(peaks, default=0), model.core.peak(order)
        if before < peak:  # by way of the waists it was higher, and no search was long enough
            whole, peak = tuple(order), before
        return Incremented(whole, peak, bound, len(segments), searched, known, states)

    def _solve(
        self, segment: Segment, before: Solved | None, limits: Limits, seconds: float, ids: Sequence[int]
    ) -> tuple[Solved, int]:
        """The exact scheduler's answer, and how many states it took; `ids`: of the segment's ops."""
        start = list(segment.order if before is None else before.order)
        had = sorted(self._open.get(v, 0.0) for v in ids)[len(ids) // 2]  # most of them
        changed = before is None and had > 0 and had >= _LONGER * seconds
        result = _core.solve(
            segment.model,
            start=start,
            switches=Exact().switches,
            seconds=seconds * _AGAIN if changed else seconds,
            memory_bytes=limits.memory_bytes,
            seed=limits.seed,
            budget=-1,
            until_decided=False,
            until_impossible=False,
            first_slice=Exact().first_slice,
            report=None,
            gap=limits.gap,
        )
        if result.stopped == "interrupt":
            raise KeyboardInterrupt
        bound = max(result.lower_bound, before.bound if before else 0)
        solved = Solved(tuple(result.order), result.peak, bound, seconds)
        self._solved[segment.key] = solved
        self._open |= dict.fromkeys(ids, seconds if bound < result.peak else 0.0)
        return solved, result.states + result.beam_states
