"""A plan of a step, as a file that another process replays."""

from __future__ import annotations

from pathlib import Path

import msgspec

from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.names import brief
from lowtide.outputs import Outputs

VERSION = 2


class StepCut(msgspec.Struct, frozen=True, kw_only=True):
    """Ops of the step, by position, as the cuts before left it, that run for some rows at a time, in so many
    parts.

    Attributes
    ----------
    ops, again
        What runs here alone, and what runs in its own place, too.
    axis, each
        Of the first of these the axis, and how many of its places are one row.
    """

    ops: list[int]
    parts: int
    again: list[int] = []
    axis: int = 0
    each: int = 1


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which op of a step runs when, and what that takes.

    Attributes
    ----------
    version
        Of this file's format.
    program_sha256
        Of the source of the step in its own order: what the plan is for.
    costs_sha256
        Of the cost table; empty if nothing was measured.
    torch
        Version of torch that the step was traced with.
    cuts
        Ops that became one, each cut in parts; `ops` speaks of the step that has these.
    ops
        Ids of the ops as they run; a recomputed one occurs twice. With n ops, n + 2 t is where tensor t of the graph
        has been stored on the host, and n + 2 t + 1 where it begins to be loaded.
    budget_bytes
        What was requested, or None.
    peak_bytes, own_order_peak_bytes, eager_peak_bytes
        Most bytes that a call allocates at once: as planned; in file order, where parameters are updated inside the
        backward pass; and in eager mode, where they are updated after it. Parameters, buffers, batch and the
        optimizer's state are there before and do not count.
    update_saving_bytes
        By how much the file order's peak is lower with updates inside the backward pass than after it. With clipped
        gradients, which are all live until their norm is known, that is what clipping costs.
    floor_bytes
        What the largest op takes with what it reads, workspace included: no plan of these ops is below.
    seconds, own_order_seconds
        Sums of the ops' costs.
    unmeasured
        Ops whose seconds are a roofline's, and whose workspace is taken as none.
    """

    version: int = VERSION
    program_sha256: str
    costs_sha256: str
    torch: str
    ops: list[int]
    budget_bytes: int | None
    peak_bytes: int
    own_order_peak_bytes: int
    eager_peak_bytes: int
    update_saving_bytes: int
    floor_bytes: int
    seconds: float
    own_order_seconds: float
    unmeasured: int
    cuts: list[StepCut] = []

    @property
    def slower(self) -> float:
        """The predicted share of eager's time that the plan takes in addition."""
        return self.seconds / self.own_order_seconds - 1 if self.own_order_seconds else 0.0

    def __repr__(self) -> str:
        return brief(
            self, "peak_bytes eager_peak_bytes own_order_peak_bytes budget_bytes floor_bytes ops unmeasured torch"
        )

    def to_json(self) -> bytes:
        """The file."""
        return msgspec.json.encode(self) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write the file. Raises `InputError` if it cannot be written."""
        with Outputs() as outputs:
            outputs.write(path, self.to_json())


class OverBudgetError(InputError):
    """No plan within the budget is known; `plan` is the lowest that was found, for ``plan=``."""

    def __init__(self, message: str, place: str, plan: StepPlan) -> None:
        self.plan = plan
        super().__init__(message, place)

    def __reduce__(self) -> tuple[object, ...]:
        return OverBudgetError, (str(self), "", self.plan)


def read_step_plan(path: str | Path) -> StepPlan:
    """A plan from a file. Raises `InputError`: it is none, or of another version."""
    try:
        plan = msgspec.json.decode(read_all(path, "step plan"), type=StepPlan)
    except msgspec.DecodeError as error:
        raise InputError(f"it is no plan of a step: {error}; save it again", str(path)) from None
    if plan.version != VERSION:
        raise InputError(f"it is of version {plan.version}, and this reads version {VERSION}; save it again", str(path))
    return plan
