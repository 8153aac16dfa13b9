"""Segments of about equal time: what lies between their ends is dropped on the way there, made again on the way back.

Source: Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016, section 4 and algorithm 3:
with the square root of n segments a chain of n ops needs memory in that order; the best number is found by trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.stop import Limits
from lowtide_research.recompute.dropping import droppable, turn_of, with_dropped


@dataclass(frozen=True)
class Chen:
    """Segments that run again as a whole (Chen et al., 2016): the cheapest number of them that fits."""

    name: ClassVar[str] = "chen"
    moves: ClassVar[bool] = False
    segments: int = 0  # how many; 0: each number up to the ops before the turn is tried

    def __post_init__(self) -> None:
        if self.segments < 0:
            raise InputError(f"chen.segments is {self.segments}; give a number of segments, or 0 for the best")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether ops and results are all there is."""
        return shares_storages(problem)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The cheapest number of segments whose peak is within the budget."""
        turn, best = turn_of(problem, order), (0, ())
        numbers = [self.segments] if self.segments else range(1, turn + 2)
        tried, ended = 0, "complete"
        for number in numbers:
            if limits.over():
                ended = "time"
                break
            tried += 1
            sequence = segmented(problem, order, turn, number)
            cost = sum(problem.costs.units[i] for i in sequence)
            if (not best[1] or cost < best[0]) and peak_of(problem, sequence) <= budget:
                best = (cost, tuple(sequence))
        return Repeated(best[1], ended, "segments of about equal time", counters={"tried": tried})


def segmented(problem: Sequenced, order: Sequence[int], turn: int, number: int) -> list[int]:
    """The sequence with so many segments before the turn: values that only one segment and the way back read are gone
    at the turn, and come back with all of their segment."""
    units, before = problem.costs.units, list(order[:turn])
    total, spent, segment_of = sum(units[i] for i in before), 0, {}
    for k, i in enumerate(before):
        segment_of[i] = min(number - 1, (spent * number // total) if total else k * number // len(before))
        spent += units[i]
    crossing = {x for i in before for x in problem.ops[i].reads if _made_in(problem, segment_of, x) != segment_of[i]}
    dropped = [x for x in droppable(problem, order, turn) if x not in crossing]
    members: dict[int, list[int]] = {}
    for x in dropped:
        members.setdefault(segment_of[problem.values[x].maker], []).append(x)
    together = {x: members[segment_of[problem.values[x].maker]] for x in dropped}
    return with_dropped(problem, order, turn, set(dropped), together)


def _made_in(problem: Sequenced, segment_of: dict[int, int], value: int) -> int:
    """The segment that makes a value; -1: it is there from the start."""
    return segment_of.get(problem.values[value].maker, -1)
