"""Values saved or dropped one by one: those first that cost least time for each byte.

The rule of selective activation checkpointing by a budget in PyTorch's trainers (torchtitan's automatic policy): a
greedy knapsack over the values between the two ways of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.stop import Limits
from lowtide_research.recompute.dropping import droppable, turn_of, with_dropped


@dataclass(frozen=True)
class Torchtitan:
    """A greedy knapsack, as in PyTorch's trainers: values dropped in the order of time for each byte, until it fits."""

    name: ClassVar[str] = "torchtitan"
    moves: ClassVar[bool] = False

    def supports(self, problem: Sequenced) -> str | None:
        """Whether ops and results are all there is."""
        return shares_storages(problem)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The fewest of these values whose sequence is within the budget."""
        turn, units, among = turn_of(problem, order), problem.costs.units, "values dropped one by one"
        values = droppable(problem, order, turn)
        values.sort(key=lambda x: (units[problem.values[x].maker] / problem.values[x].size, x))
        for count in range(
            len(values) + 1
        ):  # what is made again takes room too, so that more may not fit where less did
            if limits.over():
                return Repeated((), "time", among, counters={"dropped": count})
            sequence = with_dropped(problem, order, turn, set(values[:count]), {})
            if peak_of(problem, sequence) <= budget:
                return Repeated(tuple(sequence), "complete", among, counters={"dropped": count})
        return Repeated((), "complete", among, counters={"dropped": len(values)})
