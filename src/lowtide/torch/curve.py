"""Peaks that a training step can have, and the time that each takes: the front to choose a budget from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.arguments import Batch, typed
from lowtide.errors import InputError
from lowtide.sizes import format_size
from lowtide.torch.batch import as_batch
from lowtide.torch.capture import library
from lowtide.torch.optimizer import rules_of
from lowtide.torch.planning import POINTS, plan_front
from lowtide.torch.step import Job
from lowtide.torch.step_options import StepOptions, allowed, clip_of, measurable, options_of
from lowtide.torch.step_plan import StepPlan

SECONDS = 60.0  # of search for all points, where a call does not say how many


@dataclass(frozen=True)
class CurvePoint:
    """Bytes that a call allocates at once, the share of eager's time that it takes in addition (predicted), and the
    plan, for ``compile_step(..., plan=point.plan)``."""

    peak_bytes: int
    slower: float
    plan: StepPlan


@dataclass(frozen=True, repr=False)
class Curve:
    """Points from file order down: each is lower and takes longer than the one before.

    `caveats`: what the figures do not hold, and where its steps are not eager's, in words.
    """

    name: str
    points: tuple[CurvePoint, ...]
    caveats: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Curve({'; '.join([f'{self.name}: {len(self.points)} points', *self.caveats])})"

    def __str__(self) -> str:
        rows = [f"{format_size(p.peak_bytes):>12}  {p.slower:+8.2%}" for p in self.points]
        return "\n".join([f"{self.name}: peak bytes, added time over eager's", *rows, *self.caveats])


@typed
def curve(
    model: Any,
    loss_fn: Callable[..., Any] | None,
    example: Batch,
    *,
    optimizer: Any = None,
    clip_grad_norm: float | None = None,
    points: int = POINTS,
    allow: str | Sequence[str] = "recompute",
    options: StepOptions | None = None,
) -> Curve:
    """The front of bytes against time of a training step: one sweep of ever lower budgets.

    Parameters
    ----------
    points
        Budgets that are tried, 2 at least, evenly from file order's peak to what the largest op takes.
    options
        As in `compile_step`; `time` is that of all budgets, 60 s if not given.

    The others are those of `compile_step`.

    Raises
    ------
    InputError
        As `compile_step` raises it.
    MissingExtraError
        torch is not installed.
    """
    if points < 2:
        raise InputError(f"a curve has 2 points at least, and not {points}")
    torch = library()
    rules = () if optimizer is None else rules_of(torch, optimizer)
    if "offload" in allowed(allow):
        raise InputError("a curve has no plans with offload; leave it out, or give compile_step a budget= or slower=")
    wanted = options_of(None, None, options or StepOptions(), allow, seconds=SECONDS)
    clip = clip_of(clip_grad_norm, optimizer)
    job = Job(model, loss_fn, optimizer, rules, wanted, True, False, clip=clip)
    batch = as_batch(example)
    captured, program, compared = job.traced(batch)
    found = plan_front(torch, program, measurable(wanted, captured), points, compared)
    rows = [CurvePoint(p.plan.peak_bytes, p.plan.slower, p.plan) for p in found]
    caveats = [words for words in (found[0].unmeasured, *job.caveats(captured, batch)) if words]
    return Curve(program.name, tuple(rows), tuple(caveats))
