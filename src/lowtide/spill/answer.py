"""The answer: an order, who is in the fast memory when and where, and the moves that this takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

from lowtide.analyse.storage import Overwrite
from lowtide.plan import Stopped
from lowtide.spill.problem import SpillProblem
from lowtide.spill_plan import TrafficProof
from lowtide.stop import Limits

MoveKind = Literal["spill", "fill"]


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """Storage `storage` is in memory `memory` at `offset` during the steps ``[start, end)``."""

    storage: int
    start: int
    end: int
    offset: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """Before the op of `step` runs, `bytes` of a storage go from one memory to another (indices into the problem's)."""

    step: int
    kind: MoveKind
    storage: int
    bytes: int
    source: int
    goal: int


@dataclass(frozen=True)
class SpillAnswer:
    """What a method found."""

    order: tuple[int, ...]  # positions in file order
    # Residency in each memory, by storage and start. Where two intervals of a storage in one memory touch it is moved
    # to another offset through the next level, and filled; COSMA's equation (1) rules that out, and the bounds are of
    # answers without it. The online baselines need it.
    intervals: tuple[Interval, ...]
    moves: tuple[Move, ...]  # by step; spills before fills
    in_place: tuple[Overwrite, ...]  # the overwrites that the offsets rely on
    # Op position to the offset of its workspace in the fast memory; ops without one are absent.
    workspace_offsets: dict[int, int]
    traffic_bytes: int  # sum of the moves' bytes
    # No order, residency and addresses move fewer bytes, as far as the method proved it.
    traffic_lower_bound_bytes: int = 0
    proof: TrafficProof = field(default_factory=partial(TrafficProof, kind="none"))  # why
    stopped: Stopped = "complete"  # why the method ended
    counters: dict[str, Any] = field(default_factory=dict)  # the method's own figures

    @property
    def optimal(self) -> bool:
        """Whether no answer has less traffic."""
        return self.traffic_bytes == self.traffic_lower_bound_bytes


class NoRoomError(Exception):
    """No order was found in which every op fits the fast memory; `proved` if there is none.

    Each op may fit alone and yet no order exist, where two of them have to be the last to read what they overwrite.
    """

    def __init__(self, *, proved: bool) -> None:
        super().__init__("no order fits the fast memory")
        self.proved = proved


class SpillMethod(Protocol):
    """A way to spill: a frozen dataclass whose fields are its options."""

    name: ClassVar[str]

    def supports(self, problem: SpillProblem) -> str | None:
        """None if the method can do this problem, else the reason why not, in a few words."""
        ...

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Find an answer within the limits. The capacity is at least that of the largest op. Raises `NoRoomError`:
        None was found."""
        ...
