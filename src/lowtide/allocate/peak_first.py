"""Peak first: stack what is live at the step of most load without a hole, then place everything else around it.

At the step of the peak every byte counts, and all that is live there is live at once, so any order of it from the
bottom up fits exactly. A greedy that goes by size or by time has put something in the way by the time it comes to
the last of them:

    bytes ^    +--+
          |    |  +-----+
          |  +-+--+--+  |      what crosses the peak is fixed: long-lived low, short-lived on top, say;
          |  |       +--+--+   left and right of it there is room, for there the load is lower
          +--+-------+-----+--> steps
                 ^ peak

This is the rule of thumb for training steps, whose load has one summit that thousands of buffers cross.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from lowtide import _core
from lowtide.allocate.buffers import Buffer, Problem, load_bound
from lowtide.allocate.greedy import RULES, GreedyRule, Packing
from lowtide.graph import MAX_BYTES
from lowtide.sizes import round_up
from lowtide.stop import Limits

STACKS: Mapping[str, Callable[[Buffer], tuple[int, ...]]] = MappingProxyType(
    {
        "duration": lambda b: (b.start - b.end,),
        "size": lambda b: (-b.size,),
        "start": lambda b: (b.start, b.start - b.end),
        "end": lambda b: (-b.end,),
        "area": lambda b: (-b.area,),
    }
)
"""What lies lowest at the peak: the keys by which it is sorted from the bottom up; equal ones by index."""

FIRST = (
    ("duration", "contention-area/best"),
    ("size", "start/best"),
    ("duration", "size/first"),
    ("size", "contention-area/best"),
    ("area", "contention-area/first"),
    ("start", "contention-area/best"),
)
"""Stack and rule: what reaches the bound most often is tried first, then every other pair."""

BUFFERS_TO_PLACE = 800_000  # attempts are made up to this many buffers all together


@dataclass(frozen=True)
class PeakFirst:
    """Engine that fixes the buffers of the peak, one on another, and places the others by the greedy rules."""

    name: ClassVar[str] = "peak first"
    rules: tuple[GreedyRule, ...] = RULES
    work: int = BUFFERS_TO_PLACE

    def supports(self, problem: Problem) -> str | None:
        """What may lie anywhere and shares no bytes, of sizes that can be counted with offsets besides."""
        if 2 * sum(b.size + b.alignment for b in problem.buffers) > MAX_BYTES:
            return "buffers too large to be stacked and counted"
        if problem.pairs:
            return "buffers that may overlap"
        return "fixed offsets" if any(b.offset is not None for b in problem.buffers) else None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack, at least once; the time limit ends it, but attempts are counted, so that it ends by itself."""
        base, bound = problem.core, load_bound(problem)
        by_name = {rule.name: rule for rule in self.rules}
        every = [(stack, rule.name) for rule in self.rules for stack in STACKS]
        attempts = [a for a in dict.fromkeys((*FIRST, *every)) if a[1] in by_name]
        most = max(1, self.work // max(1, len(problem.buffers)))
        stacked: dict[str, _core.Buffers] = {}
        orders: dict[str, list[int]] = {}
        best: tuple[int, list[int], str] | None = None
        passes = 0
        for stack, name in attempts[:most]:
            if best is not None and (best[0] == bound or limits.left_seconds <= 0):
                break
            rule = by_name[name]
            if stack not in stacked:
                stacked[stack] = _stacked(problem, stack)
            if rule.key not in orders:
                orders[rule.key] = base.order(rule.key)
            passes += 1
            offsets = stacked[stack].place(orders[rule.key], rule.best_fit, -1 if best is None else best[0])
            if offsets is not None:
                best = base.height(offsets), offsets, f"{self.name}: {stack}, then {rule.name}"
        assert best is not None, "the first attempt has no ceiling"
        return Packing(tuple(best[1]), best[0], bound, best[2], {"peak first passes": passes})


def _stacked(problem: Problem, stack: str) -> _core.Buffers:
    """The problem with the buffers of its first highest step fixed."""
    hulls: dict[int, tuple[int, int]] = {}
    for i, low, size in problem.core.at_peak():
        least, most = hulls.get(i, (low, low))
        hulls[i] = (min(least, low), max(most, low + size))
    rectangles = [(i, low, high - low) for i, (low, high) in hulls.items()]
    order = sorted(rectangles, key=lambda p: (STACKS[stack](problem.buffers[p[0]]), p[0]))
    for full in (False, True):  # buffers of other steps may be in each other's way where those of the peak are not
        fixed: list[tuple[int, int]] = []
        top = 0
        for i, low_at_peak, size_at_peak in order:
            buffer = problem.buffers[i]
            low, size = (0, buffer.size) if full else (low_at_peak, size_at_peak)
            fixed.append((i, round_up(max(0, top - low), buffer.alignment)))
            top = fixed[-1][1] + low + size
        core = problem.core.fixed_at(fixed)
        if core.clash() < 0:
            return core
        assert not full, "whole buffers, one on another, are in nobody's way"
    raise AssertionError("the second stack holds")
