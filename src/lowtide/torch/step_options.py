"""What a call asks for, as it is written: a budget, seconds, a batch; each refused in one line where it cannot be."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

from lowtide.arguments import check_fields
from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.sizes import parse_size
from lowtide.torch.capture import Capture
from lowtide.torch.cost import Costs, read_costs
from lowtide.torch.planning import PlanOptions
from lowtide.torch.step_plan import StepPlan, read_step_plan

SLOWER = 0.05  # the share of eager's time that a step may take in addition where a call asks for nothing
SHAPES = 3  # batches of other sizes that a step plans by itself, such as the last one of an epoch
SECONDS = 10.0  # of search, where a call does not say how many
_CHANGES = ("recompute", "tile", "offload")  # what of a step may be changed


def part_of(budget: str | float) -> float | None:
    """A budget in per cent of eager's peak as a part of one; None where it is bytes. Raises `InputError`: it is above
    100 %, or no number; or a part of one without its sign.

    >>> part_of("60%"), part_of("2GiB")
    (0.6, None)
    """
    if isinstance(budget, float) and 0 < budget <= 1:
        part = f"write '{100 * budget:g}%' for that share of eager's peak"
        raise InputError(f"budget={budget!r} is no number of bytes; {part}")
    if not isinstance(budget, str) or not budget.strip().endswith("%"):
        return None
    try:
        part = float(budget.strip().removesuffix("%")) / 100
    except ValueError:
        part = -1.0
    if not 0 < part <= 1:
        raise InputError(f"budget={budget!r} is no share of eager's peak; write 60%, or bytes as 1GiB")
    return part


def seconds_of(time: float) -> float:
    """Seconds of search. Raises `InputError`: no number, or below zero."""
    if isinstance(time, bool) or not isinstance(time, Real) or not 0 <= time < math.inf:
        raise InputError(f"time is {time!r}; write seconds of search, such as 10")
    return float(time)


def slower_of(slower: float | str | None) -> float | None:
    """A share of the time, as a number or in per cent. Raises `InputError`: no number, or below zero.

    >>> slower_of("10%"), slower_of(0.1)
    (0.1, 0.1)
    """
    if slower is None:
        return None
    part: Any = slower
    if isinstance(slower, str) and slower.strip().endswith("%"):
        with contextlib.suppress(ValueError):
            part = float(slower.strip().removesuffix("%")) / 100
    if isinstance(part, bool) or not isinstance(part, Real) or not 0 <= float(part) < math.inf:
        raise InputError(f"slower is a share of eager's time, such as 0.1 or '10%', and not {slower!r}")
    return float(part)


def check_call(torch: Any, model: Any, loss_fn: Any) -> None:
    """That a module and a loss are what they are called, so that torch's words about them need not be read. Raises
    `InputError`: one of them is something else."""
    for value, what in ((model, "the model"), (loss_fn, "loss_fn")):
        if isinstance(value, type):
            raise InputError(f"{what} is the class {value.__name__}; make one, as {value.__name__}(...)")
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"the model is of type {type(model).__name__}; give a torch.nn.Module")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError("the model is a ScriptModule, which cannot be traced; give the module that it was made from")
    if isinstance(model, torch.nn.DataParallel):
        raise InputError("the model is a DataParallel, and a step is of one device; give model.module")
    if loss_fn is not None and not callable(loss_fn):
        raise InputError(
            f"loss_fn is of type {type(loss_fn).__name__}; give a function of the module's output and the rest of the "
            "batch, or None where the module returns the loss"
        )


def check_gradient_hooks(model: Any) -> None:
    """That no parameter has a hook on its gradient, which a step, where autograd does not run, would not call.
    Raises `InputError`: one has."""
    for name, parameter in model.named_parameters():
        for made_by in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if parameter.requires_grad and getattr(parameter, made_by, None):
                call = "register_hook" if made_by == "_backward_hooks" else "register_post_accumulate_grad_hook"
                message = f"parameter {name!r} has a hook on its gradient ({call}), which a step does not run"
                raise InputError(f"{message}; remove it, and change .grad between the step and the optimizer")


def clip_of(norm: float | None, optimizer: Any) -> float | None:
    """The norm that gradients are clipped to. Raises `InputError`: it is not above zero; or there is no optimizer in
    the step."""
    if norm is None:
        return None
    if not 0 < norm < math.inf:
        raise InputError(f"clip_grad_norm is {norm!r}; write the most that the gradients' norm may be, such as 1.0")
    if optimizer is None:
        message = "clip_grad_norm= clips before the update, which optimizer= brings into the step; give both, or call"
        raise InputError(f"{message} torch.nn.utils.clip_grad_norm_ between the step and your optimizer")
    return float(norm)


def measurable(options: PlanOptions, captured: Capture) -> PlanOptions:
    """The settings, without measuring where a model has no memory."""
    return replace(options, measure=options.measure and not captured.empty)


@dataclass(frozen=True)
class StepOptions:
    """How a step is measured, searched for and planned anew; most calls need none of it.

    Attributes
    ----------
    time
        Seconds of search; None: 10, and 60 for a curve. 0 without a budget: file order.
    costs
        A cost table (`measure`), or its file.
    measure
        Whether to run each op that the table lacks by itself, once, for its time, workspace and real sizes; on the
        meta device none is. What workspace an op takes that was not measured is not counted, so that a call may take
        more than the budget: the step's `repr` and the last line to `report` say of how many ops that is so.
    replan
        How many batches of other sizes are planned when they come, such as the last one of an epoch. True: any number,
        and modules in another mode too. What is not planned is an error.
    report
        Called with a line of progress now and then; ``print`` will do.
    """

    time: float | None = None
    costs: Costs | str | Path | None = None
    measure: bool = True
    replan: bool | int = SHAPES
    report: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def options_of(
    budget: int | str | None,
    plan: StepPlan | str | Path | None,
    options: StepOptions,
    allow: str | Sequence[str] | None = None,
    slower: float | str | None = None,
    seconds: float = SECONDS,
) -> PlanOptions:
    """What a call asks for, its words read and its files; without bytes, time and plan, the least bytes within
    `SLOWER` more time. `seconds` of search where the options name none. Raises `InputError`: a word or a file is not
    what it should be; or both bytes and time are bounded."""
    if slower is not None and (budget is not None or plan is not None):
        raise InputError("slower= asks for the least bytes within a time; leave budget= and plan= out")
    costs = options.costs
    table = costs if costs is None or isinstance(costs, Costs) else read_costs(costs)
    saved = plan if plan is None or isinstance(plan, StepPlan) else read_step_plan(plan)
    part = None if budget is None else part_of(budget)
    least = None if budget is None or part is not None else parse_size(budget, "budget")
    more = SLOWER if budget is None and plan is None and slower is None else slower_of(slower)
    time = seconds_of(seconds if options.time is None else options.time)
    words = allowed("recompute" if allow is None else allow)
    return PlanOptions(
        least, table, options.measure, time, saved, options.report, words, more, part, parts_if_needed=allow is None
    )


def allowed(words: str | Sequence[str]) -> tuple[str, ...]:
    """What may be changed of a step. Raises `InputError` for an unknown word."""
    listed = [word for word in (words.split(",") if isinstance(words, str) else words) if word]
    for word in listed:
        if word not in _CHANGES:
            hint = did_you_mean(word, _CHANGES)
            raise InputError(f"allow does not know {word[:40]!r}; of a step it may be {', '.join(_CHANGES)}{hint}")
    if "recompute" not in listed:
        raise InputError(
            "a step is planned with recomputation; write allow='recompute', with tile or offload if wanted"
        )
    return tuple(listed)
