"""Simulated annealing over sequences: runs are put in, taken away and moved at random (`core/sequence/anneal`).

Source: "A Fast Heuristic to Optimize Time-Space Tradeoff for Large Models" (FastSA, Preferred Networks, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.sizes import format_size
from lowtide.stop import Limits, Progress


@dataclass(frozen=True)
class FastSA:
    """Simulated annealing over sequences (FastSA, 2023): runs put in, taken away and moved at random."""

    name: ClassVar[str] = "fastsa"
    moves: ClassVar[bool] = False
    steps: int = 1_000_000  # changes that are tried; it cools down over this many, and starts at the best order

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"fastsa.steps is {self.steps}; give a whole number from 1")

    def supports(self, problem: Sequenced) -> str | None:
        """Any problem."""
        return None

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The cheapest sequence that it came by."""
        from lowtide._core import anneal_sequence

        def tell(seconds: float, best: int) -> bool:
            if limits.report is not None:
                limits.report(Progress(0, 0, seconds, f"trying {format_size(budget)}"))
            return False

        core, begin = problem.core(problem.model.alignment), problem.without_views(order)
        result = anneal_sequence(core, begin, budget, limits.seed, limits.left_seconds, self.steps, report=tell)
        ended = "time" if result.stopped != "complete" else "complete"
        return Repeated(tuple(result.order) if result.found else (), ended, "any", counters={"steps": result.steps})
