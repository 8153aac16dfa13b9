"""Arenas, row by row: one allocator on the buffers of one instance."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lowtide.allocate.arena import ENGINES, THOROUGH, Engine, allocate_best
from lowtide.allocate.buffers import Problem, load_bound
from lowtide.allocate.greedy import RULES, GreedyRule, Packing
from lowtide.stop import Limits
from lowtide_research.bench.machine import one_line, quickest

OURS = "lowtide"  # all engines in turn, as `lowtide research plan` and `lowtide research allocate` ask them
OURS_TO_CAPACITY = "lowtide to capacity"


@dataclass(frozen=True)
class Row:
    """An allocator on an instance; a row of the results. Sizes are bytes."""

    instance: str  # name of its file
    buffers: int
    allocator: str  # a greedy rule, an engine, or `OURS`
    # ``"ok"``, or why there is no height.
    status: Literal["ok", "unsupported", "error"] = "ok"
    reason: str | None = None
    # capacity_bytes, fits: what the file's name says there is, and whether the height is within it.
    capacity_bytes: int | None = None
    fits: bool | None = None
    load_bytes: int | None = None  # of the highest step: no placement of these buffers is lower
    height_bytes: int | None = None
    lower_bound_bytes: int | None = None  # the best that any allocator of this run proved of these buffers
    optimal: bool = False  # whether the height is that bound
    # Processor time of all threads, of placing alone, the least of `runs` runs.
    cpu_seconds: float = 0.0
    runs: int = 0
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Height over load."""
        return self.height_bytes / self.load_bytes if self.height_bytes is not None and self.load_bytes else None


@dataclass(frozen=True)
class Greedy:
    """One greedy rule by itself."""

    rule: GreedyRule

    @property
    def name(self) -> str:
        """The rule's."""
        return self.rule.name

    def supports(self, problem: Problem) -> str | None:
        """Every problem."""
        return None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Place in the rule's order."""
        offsets = self.rule.place(problem)
        height = max((at + b.size for at, b in zip(offsets, problem.buffers, strict=True)), default=0)
        return Packing(offsets, height, load_bound(problem), self.name, {})


@dataclass(frozen=True)
class Ours:
    """All engines in turn, until the time is over; with a capacity, until the buffers fit: minimalloc's question."""

    name: str = OURS
    capacity: int | None = None

    def supports(self, problem: Problem) -> str | None:
        """Every problem."""
        return None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Ask them until one has proved its height."""
        limits = replace(limits, enough_bytes=self.capacity)
        return allocate_best(problem, limits, THOROUGH)


Allocator = Greedy | Ours | Engine


def allocators() -> dict[str, Allocator]:
    """Every one there is by name: the greedy rules, our engines, and all engines in turn."""
    everyone: list[Allocator] = [*(Greedy(rule) for rule in RULES), *ENGINES, Ours()]
    return {a.name: a for a in everyone}


def measure(problem: Problem, allocator: Allocator, seconds: float, about: dict[str, Any]) -> Row:
    """Run an allocator and check what it gives; whatever it raises is a row. `seconds`: wall time that it may search.
    `about`: fields of the row: what the problem is. Raises `KeyboardInterrupt`: Ctrl-C."""
    about = {**about, "buffers": len(problem.buffers), "allocator": allocator.name}
    try:
        reason = allocator.supports(problem)
        if reason is not None:
            return Row(**about, status="unsupported", reason=reason)
        packing, seconds_used, runs = quickest(
            lambda: allocator.pack(problem, Limits(seconds)), lambda p: "interrupt" if p.interrupted else ""
        )
        wrong = overlap(problem, packing.offsets)
        assert wrong is None, wrong
    except Exception as error:  # one that fails is a row, and the others go on
        return Row(**about, status="error", reason=one_line(error))
    capacity = about.get("capacity_bytes")
    return Row(
        **about,
        fits=None if capacity is None else packing.height_bytes <= capacity,
        load_bytes=load_bound(problem),
        height_bytes=packing.height_bytes,
        lower_bound_bytes=packing.lower_bound_bytes,
        cpu_seconds=round(seconds_used, 6),
        runs=runs,
        counters={"winner": packing.engine, **packing.counters},
    )


def overlap(problem: Problem, offsets: Sequence[int]) -> str | None:
    """What is wrong with a placement of buffers that share no bytes, by a sweep over time; None if nothing is."""
    if problem.pairs or problem.apart:
        return None
    events: list[tuple[int, int, int, int]] = []
    for i, (b, at) in enumerate(zip(problem.buffers, offsets, strict=True)):
        if at < 0 or at % b.alignment or b.offset not in (None, at):
            return f"{b.name} lies at {at}"
        for p in b.rectangles:
            low = at + p.low
            events += [(p.start, 1, low, i), (p.end, 0, low, i)]
    size = [{p.start: p.size for p in b.rectangles} for b in problem.buffers]
    live: list[tuple[int, int, int]] = []
    ends: dict[tuple[int, int], int] = {}
    for step, begins, low, i in sorted(events):
        if begins:
            high = low + size[i][step]
            k = bisect_left(live, (low, high, i))
            if (k and live[k - 1][1] > low) or (k < len(live) and live[k][0] < high):
                return f"{problem.buffers[i].name} overlaps another at step {step}"
            live.insert(k, (low, high, i))
            ends[i, low] = high
        else:
            del live[bisect_left(live, (low, ends.pop((i, low)), i))]
    return None
