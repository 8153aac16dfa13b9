"""The schemes that COSMA is compared with (section V-A): an order, a replacement policy, TFLite's linear arena."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lowtide.spill.answer import SpillAnswer
from lowtide.spill.online import Leaving, cheapest, furthest, simulate_arena, why_not_apart
from lowtide.spill.problem import SpillProblem, order_by
from lowtide.stop import Limits

OrderName = Literal["own", "exact", "hmcos"]  # orders to spill from: the own one, and those of least peak


@dataclass(frozen=True)
class Belady:
    """Belady's replacement on TFLite's arena: whoever is used furthest in the future leaves. Proves nothing."""

    name: ClassVar[str] = "belady"

    order: OrderName = "own"  # the file order, or that of a scheduling method: of least peak, as the paper's MPMF

    def supports(self, problem: SpillProblem) -> str | None:
        """See `why_not_apart`."""
        return why_not_apart(problem)

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Run the order on the arena."""
        return _run(problem, self.order, furthest, limits)


@dataclass(frozen=True)
class GreedySpill:
    """Greedy replacement on TFLite's arena: each time the set leaves that makes room for the least traffic.

    Proves nothing.
    """

    name: ClassVar[str] = "greedy-spill"

    order: OrderName = "own"  # the file order, or that of a scheduling method: of least peak, as the paper's MPMF

    def supports(self, problem: SpillProblem) -> str | None:
        """See `why_not_apart`."""
        return why_not_apart(problem)

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Run the order on the arena."""
        return _run(problem, self.order, cheapest, limits)


def _run(problem: SpillProblem, order: OrderName, leaving: Leaving, limits: Limits) -> SpillAnswer:
    return simulate_arena(problem, order_by(order, problem, limits), leaving)
