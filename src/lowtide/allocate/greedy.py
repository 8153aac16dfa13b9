"""The well-known greedy allocators, and the best of them.

Each rule is an order in which buffers are placed and a fit; `lowtide.allocate.place` says what the fits are.
All are deterministic: whatever a rule leaves open is decided by the buffers' indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from lowtide.allocate.buffers import Buffer, load_bound, load_sections
from lowtide.allocate.place import height_of, placer
from lowtide.stop import Limits

WORK = 15_000_000
"""What a portfolio may spend on one instance, in the units of `Placer.cost`: about a second and a half.

Counted, not measured, so that the same instance always gets the same passes."""


class Facts:
    """What the rules ask about the buffers of an instance."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self._sorted: dict[Callable[[Facts, int], Key], list[int]] = {}

    def order(self, key: Callable[[Facts, int], Key]) -> list[int]:
        """Indices of the buffers by ascending key; sorted once for all rules of the same key."""
        if key not in self._sorted:
            self._sorted[key] = sorted(range(len(self.buffers)), key=lambda i: key(self, i))
        return self._sorted[key]

    @cached_property
    def last(self) -> int:
        """Step at which the last buffer ends."""
        return max(self.end, default=0)

    @cached_property
    def size(self) -> list[int]:
        """Per buffer, bytes from its offset to its end."""
        return [b.size for b in self.buffers]

    @cached_property
    def start(self) -> list[int]:
        """Per buffer, the first step at which it is there."""
        return [b.start for b in self.buffers]

    @cached_property
    def end(self) -> list[int]:
        """Per buffer, the step after the last one at which it is there."""
        return [b.end for b in self.buffers]

    @cached_property
    def area(self) -> list[int]:
        """Per buffer, bytes times steps."""
        return [b.area for b in self.buffers]

    @cached_property
    def contention(self) -> list[int]:
        """Per buffer, the most bytes that are live at once during its lifetime, itself included."""
        steps, loads = load_sections(self.buffers)
        at = {step: k for k, step in enumerate(steps)}
        levels = [loads]  # levels[j][k]: most of loads[k : k + 2**j]
        while 2 ** len(levels) <= len(loads):
            below, half = levels[-1], 2 ** (len(levels) - 1)
            levels.append([max(a, b) for a, b in zip(below, below[half:], strict=False)])
        result = []
        for b in self.buffers:
            if not b.pieces:
                result.append(0)
                continue
            lo, hi = at[b.start], at[b.end]
            j = (hi - lo).bit_length() - 1
            result.append(max(levels[j][lo], levels[j][hi - 2**j]))
        return result


Key = tuple[int, ...]


def tflm(facts: Facts, i: int) -> Key:
    """TFLM's order: decreasing size; of equal sizes the one added last comes first.

    `GreedyMemoryPlanner::CalculateOffsetsIfNeeded` (tflite-micro,
    micro/memory_planner/greedy_memory_planner.cc) fills its list from the tail and sorts it stably by
    decreasing size, hence the ties; its fit is first fit.
    """
    return (-facts.size[i], -i)


def tflite(facts: Facts, i: int) -> Key:
    """TFLite's order: what is there from the first step to the end, by index; the rest by size, then start.

    `ArenaPlanner::CreateTensorAllocationVector` (tensorflow/lite/arena_planner.cc); the fit is best fit, that
    of `SimpleMemoryArena::Allocate` (simple_memory_arena.cc). Also Pisarchyk and Lee (arXiv 2001.03288),
    greedy by size.
    """
    if facts.start[i] == 0 and facts.end[i] == facts.last:
        return (0, 0, 0, i)
    return (1, -facts.size[i], facts.start[i], i)


def by_size(facts: Facts, i: int) -> Key:
    """Decreasing size, then decreasing duration."""
    return (-facts.size[i], facts.start[i] - facts.end[i], i)


def by_area(facts: Facts, i: int) -> Key:
    """Decreasing bytes times steps."""
    return (-facts.area[i], i)


def by_duration(facts: Facts, i: int) -> Key:
    """Decreasing duration, then decreasing size."""
    return (facts.start[i] - facts.end[i], -facts.size[i], i)


def by_start(facts: Facts, i: int) -> Key:
    """As they come: ascending start, then decreasing size."""
    return (facts.start[i], -facts.size[i], i)


def by_contention(facts: Facts, i: int) -> Key:
    """Minimalloc's TWA: decreasing load around it (total), then duration (width), then area."""
    return (-facts.contention[i], facts.start[i] - facts.end[i], -facts.area[i], i)


def by_contention_and_area(facts: Facts, i: int) -> Key:
    """Minimalloc's TAW: decreasing load around it (total), then area, then duration (width)."""
    return (-facts.contention[i], -facts.area[i], facts.start[i] - facts.end[i], i)


@dataclass(frozen=True)
class Rule:
    """A greedy: in which order buffers are placed (ascending `key`), and whether by best or by first fit."""

    name: str
    key: Callable[[Facts, int], Key]
    best_fit: bool

    def order(self, facts: Facts) -> list[int]:
        """Indices of the buffers in the order in which they are placed."""
        return facts.order(self.key)

    def place(self, buffers: Sequence[Buffer]) -> tuple[int, ...]:
        """Offsets that this rule alone gives."""
        offsets = placer(buffers).place(self.order(Facts(buffers)), best_fit=self.best_fit)
        assert offsets is not None
        return tuple(offsets)


RULES: tuple[Rule, ...] = (
    Rule("tflm", tflm, best_fit=False),
    Rule("tflite", tflite, best_fit=True),
    Rule("contention/first", by_contention, best_fit=False),
    Rule("area/first", by_area, best_fit=False),
    Rule("size/first", by_size, best_fit=False),
    Rule("start/best", by_start, best_fit=True),
    Rule("duration/first", by_duration, best_fit=False),
    Rule("contention-area/first", by_contention_and_area, best_fit=False),
    Rule("contention/best", by_contention, best_fit=True),
    Rule("area/best", by_area, best_fit=True),
    Rule("size/best", by_size, best_fit=True),
    Rule("start/first", by_start, best_fit=False),
    Rule("duration/best", by_duration, best_fit=True),
    Rule("contention-area/best", by_contention_and_area, best_fit=True),
)
"""In the order in which the portfolio tries them: the likeliest first, for it stops at the load bound."""


@dataclass(frozen=True)
class Packing:
    """Where an engine put the buffers.

    Attributes
    ----------
    offsets
        Per buffer, bytes.
    height_bytes
        Bytes that all of it takes.
    lower_bound_bytes
        Bytes that no placement beats, as far as proved.
    engine
        Which one found it, and how.
    counters
        The engine's own figures.
    """

    offsets: tuple[int, ...]
    height_bytes: int
    lower_bound_bytes: int
    engine: str
    counters: dict[str, int]

    @property
    def optimal(self) -> bool:
        """Whether the height is proved least."""
        return self.height_bytes == self.lower_bound_bytes


@dataclass(frozen=True)
class Portfolio:
    """Engine that tries every rule and keeps the lowest, on each stretch of time that no buffer crosses.

    A stretch is done once its height is at the load bound of the whole, or below the height of another
    stretch. Large instances get the first rules only, at least one: as many as `work` allows.
    """

    name: ClassVar[str] = "greedy"
    rules: tuple[Rule, ...] = RULES
    work: int = WORK

    def supports(self, buffers: Sequence[Buffer]) -> str | None:
        """Every instance."""
        return None

    def pack(self, buffers: Sequence[Buffer], limits: Limits) -> Packing:
        """Pack; takes no notice of the time limit, so that the result does not depend on a clock."""
        counters = {"buffers": len(buffers), "stretches": 0, "pairs": 0, "passes": 0, "work": 0}

        def pack_one(part: Sequence[Buffer], goal: int) -> tuple[list[int], str]:
            return self._pack_stretch(part, goal, counters)

        return pack_stretches(buffers, pack_one, counters)

    def _pack_stretch(self, buffers: Sequence[Buffer], goal: int, counters: dict[str, int]) -> tuple[list[int], str]:
        kernel, facts = placer(buffers), Facts(buffers)
        best: list[int] = []
        best_height, winner = None, ""
        for rule in self.rules:
            if best_height is not None and counters["work"] + kernel.cost > self.work:
                break
            counters["passes"] += 1
            counters["work"] += kernel.cost
            found = kernel.place(rule.order(facts), best_fit=rule.best_fit, ceiling=best_height)
            if found is not None:
                best, best_height, winner = found, height_of(buffers, found), rule.name
                if best_height <= goal:
                    break
        counters["stretches"] += 1
        counters["pairs"] += kernel.pairs
        return best, winner


def pack_stretches(
    buffers: Sequence[Buffer],
    pack_one: Callable[[Sequence[Buffer], int], tuple[list[int], str]],
    counters: dict[str, int],
) -> Packing:
    """Pack each stretch of time that no buffer crosses by itself, the one of the largest load first.

    Parameters
    ----------
    buffers
        All of them.
    pack_one
        From the buffers of a stretch, and a height at which it is good enough, to their offsets and who found
        them.
    counters
        Given back with the result.
    """
    bound = load_bound(buffers)
    offsets = [b.offset or 0 for b in buffers]
    floor, deciding = bound, ""
    stretches = [(load_bound(buffers[i] for i in members), members) for members in split(buffers)]
    for _, members in sorted(stretches, key=lambda s: -s[0]):
        part = [buffers[i] for i in members]
        found, who = pack_one(part, floor)
        for i, offset in zip(members, found, strict=True):
            offsets[i] = offset
        height = height_of(part, found)
        if not deciding or height > floor:
            floor, deciding = max(floor, height), who
    return Packing(tuple(offsets), floor, bound, deciding or "nothing to place", counters)


def split(buffers: Sequence[Buffer]) -> list[list[int]]:
    """Indices of the buffers in each stretch of time that no buffer crosses; empty buffers are in none."""
    stretches: list[list[int]] = []
    until = None
    for i in sorted((i for i, b in enumerate(buffers) if b.pieces), key=lambda i: buffers[i].start):
        if until is None or buffers[i].start >= until:
            stretches.append([])
            until = buffers[i].end
        stretches[-1].append(i)
        until = max(until, buffers[i].end)
    return [sorted(members) for members in stretches]
