"""The well-known greedy allocators, and the best of them.

Each rule is an order in which buffers are placed, and a fit. First fit takes the lowest offset at which nothing is in
the way; best fit the low end of the gap with least slack, above everything only if there is no gap. All are
deterministic: whatever a rule leaves open is decided by the buffers' indices. The native core places them
(core/place/placer.h says how).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowtide import _core
from lowtide.allocate.buffers import Problem
from lowtide.stop import Limits

WORK = 1_500_000_000
"""What a portfolio may spend on one instance, in nanoseconds or so of a pass as the core reckons them.

Counted, not measured, so that the same instance always gets the same passes."""

KEYS = {
    "tflm": "TFLM's order: decreasing size; of equal sizes the one added last comes first. "
    "`GreedyMemoryPlanner::CalculateOffsetsIfNeeded` (tflite-micro, micro/memory_planner/greedy_memory_planner.cc) "
    "fills its list from the tail and sorts it stably, hence the ties; its fit is first fit.",
    "tflite": "TFLite's order: what is there from the first step to the end, by index; the rest by decreasing size, "
    "then start. `ArenaPlanner::CreateTensorAllocationVector` (tensorflow/lite/arena_planner.cc); the fit is best fit, "
    "that of `SimpleMemoryArena::Allocate` (simple_memory_arena.cc). Also Pisarchyk and Lee (arXiv 2001.03288), greedy "
    "by size.",
    "size": "Decreasing size, then decreasing duration.",
    "area": "Decreasing bytes times steps.",
    "duration": "Decreasing duration, then decreasing size.",
    "start": "As they come: ascending start, then decreasing size.",
    "contention": "Minimalloc's TWA: decreasing load around it (total), then duration (width), then area.",
    "contention-area": "Minimalloc's TAW: decreasing load around it (total), then area, then duration (width).",
}
"""The orders in which buffers may be placed. Equal ones by ascending index."""


@dataclass(frozen=True)
class GreedyRule:
    """A greedy: in which order buffers are placed (one of `KEYS`), and whether by best or by first fit."""

    name: str
    key: str
    best_fit: bool

    def order(self, problem: Problem) -> list[int]:
        """Indices of the buffers in the order in which they are placed."""
        return problem.core.order(self.key)

    def place(self, problem: Problem) -> tuple[int, ...]:
        """Offsets that this rule alone gives."""
        core = problem.core
        offsets = core.place(core.order(self.key), self.best_fit)
        assert offsets is not None, "it has no ceiling"
        return tuple(offsets)


RULES: tuple[GreedyRule, ...] = (
    GreedyRule("tflm", "tflm", best_fit=False),
    GreedyRule("tflite", "tflite", best_fit=True),
    GreedyRule("contention/first", "contention", best_fit=False),
    GreedyRule("area/first", "area", best_fit=False),
    GreedyRule("size/first", "size", best_fit=False),
    GreedyRule("start/best", "start", best_fit=True),
    GreedyRule("duration/first", "duration", best_fit=False),
    GreedyRule("contention-area/first", "contention-area", best_fit=False),
    GreedyRule("contention/best", "contention", best_fit=True),
    GreedyRule("area/best", "area", best_fit=True),
    GreedyRule("size/best", "size", best_fit=True),
    GreedyRule("start/first", "start", best_fit=False),
    GreedyRule("duration/best", "duration", best_fit=True),
    GreedyRule("contention-area/best", "contention-area", best_fit=True),
)
"""In the order in which the portfolio tries them: the likeliest first, for it stops at the load bound."""


@dataclass(frozen=True)
class Packing:
    """Where an engine put the buffers."""

    offsets: tuple[int, ...]  # per buffer, bytes
    height_bytes: int  # bytes that all of it takes
    lower_bound_bytes: int  # bytes that no placement beats, as far as proved
    engine: str  # which one found it, and how
    counters: dict[str, int]  # the engine's own figures
    interrupted: bool = False  # whether the user stopped the engine

    @property
    def optimal(self) -> bool:
        """Whether the height is proved optimal."""
        return self.height_bytes == self.lower_bound_bytes


@dataclass(frozen=True)
class Portfolio:
    """Engine that tries every rule and keeps the lowest, on each stretch of time that no buffer crosses.

    A stretch is done once its height is at the load bound of the problem, or below the height of another
    stretch. Large instances get the first rules only, at least one: as many as `work` allows.
    """

    name: ClassVar[str] = "greedy"
    rules: tuple[GreedyRule, ...] = RULES
    work: int = WORK

    def supports(self, problem: Problem) -> str | None:
        """Every instance."""
        return None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack; takes no notice of the time limit, so that the result does not depend on a clock."""
        answer = problem.core.portfolio([(r.key, r.best_fit) for r in self.rules], self.work)
        counters = {
            "buffers": len(problem.buffers),
            "stretches": answer.stretches,
            "pairs": answer.pairs,
            "passes": answer.passes,
            "work": answer.work,
        }
        return packing(answer, self.rules[answer.rule].name, counters)


def packing(answer: _core.Packing, winner: str, counters: dict[str, int]) -> Packing:
    """What the core found, and who found it."""
    engine = winner if answer.rule >= 0 else "nothing to place"
    return Packing(tuple(answer.offsets), answer.height, answer.bound, engine, counters)
