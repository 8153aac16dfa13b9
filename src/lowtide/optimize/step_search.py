"""A published search of tiled and recomputed training steps: what it is given, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from lowtide.cost.labelled import Families
    from lowtide.graph import Graph
    from lowtide.optimize.parted import Found
    from lowtide.optimize.recompute.swaps import Bandwidth
    from lowtide.stop import Limits
    from lowtide.target import Target


@dataclass(frozen=True)
class StepProblem:
    """A training step, and the bound that plans of it keep: on bytes or on seconds, the other one is None.

    `graph`: costs of its ops are seconds. `order`: positions of a good order. `bandwidth`: None if nothing leaves
    memory.
    """

    graph: Graph
    target: Target
    order: tuple[int, ...]
    families: Families
    bandwidth: Bandwidth | None
    most_bytes: int | None
    most_seconds: float | None


@runtime_checkable
class StepSearch(Protocol):
    """A method of recomputation that tiles steps, too (``--allow recompute,tile``)."""

    def search_step(self, step: StepProblem, limits: Limits) -> Sequence[Found]:
        """Tiled regions with sequences of what runs around them, the best first; those that miss the bound last."""
        ...
