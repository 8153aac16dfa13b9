"""A published method of recomputation: one sequence for a problem, an order and a budget.

A method is a frozen dataclass whose fields are its options (``--set METHOD.OPTION=VALUE``), as a scheduling method is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from lowtide.errors import InputError
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.stop import Limits

Ended = Literal["optimal", "infeasible", "complete", "time"]
"""How a method ended: the cheapest of its class is proved, or that its class has none within the budget; it has done
what it does, which proves nothing; or its time was up."""


@dataclass(frozen=True)
class Repeated:
    """What a method found."""

    order: tuple[int, ...]  # positions as they run; empty if nothing was found
    ended: Ended  # what that means
    among: str  # its class in a few words, for people: what it chooses among
    bound_units: int = 0  # units of cost that no sequence of its class takes less than; 0 if it proves nothing
    counters: Mapping[str, int] = field(default_factory=dict)  # the method's own figures


class RecomputeMethod(Protocol):
    """A method of recomputation within a budget; if it `moves`, also of transfers."""

    name: ClassVar[str]
    moves: ClassVar[bool]

    def supports(self, problem: Sequenced) -> str | None:
        """None if the method can do this problem, else the reason why not, in a few words."""
        ...

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """A sequence of little cost.

        Parameters
        ----------
        order
            Positions of the best order in which every op runs once.
        budget
            Bytes, sizes as they are.
        """
        ...


@dataclass(frozen=True)
class Microbatch:
    """A step in micro-batches, without its updates; no recomputation (``--allow recompute,tile``)."""

    name: ClassVar[str] = "microbatch"
    moves: ClassVar[bool] = False
    # Number of micro-batches; 0: of 2, 4, 8 and so on the fewest within the budget, or those of least peak in time.
    parts: int = 0

    def __post_init__(self) -> None:
        if self.parts < 0 or self.parts == 1:
            raise InputError(f"microbatch.parts is {self.parts}; give a number of parts from 2, or 0 for the best")

    def supports(self, problem: Sequenced) -> str | None:
        """It tiles, and is no method of recomputation."""
        return "it cuts ops; write --allow recompute,tile"

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """Nothing: it cuts."""
        return Repeated((), "complete", "no sequences")


def shares_storages(problem: Sequenced) -> str | None:
    """The reason why a method that knows only ops and results cannot do a problem; None if it can."""
    if any(v.shared for v in problem.values) or any(op.view for op in problem.ops):
        return "ops that share a storage"
    return None
