"""What a call asks for, as it is written: a budget, seconds, a batch; each refused in one line where it cannot be."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from lowtide.errors import InputError


def part_of(budget: str | float) -> float | None:
    """A budget in per cent of eager's peak as a part of one; None where it is bytes.

    Raises
    ------
    InputError
        It is above 100 %, or no number; or a part of one without its sign.

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
    """Seconds of search.

    Raises
    ------
    InputError
        No number, or below zero.
    """
    if isinstance(time, bool) or not isinstance(time, Real) or not 0 <= time < math.inf:
        raise InputError(f"time is {time!r}; write seconds of search, such as 10")
    return float(time)


def slower_of(slower: float | str | None) -> float | None:
    """A share of the time, as a number or in per cent.

    Raises
    ------
    InputError
        No number, or below zero.

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


def check_call(torch: Any, model: Any, loss_fn: Any, example: Any) -> None:
    """That a module, a loss and a batch are what they are called, so that torch's words about them need not be read.

    Raises
    ------
    InputError
        One of them is something else.
    """
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"the model is of type {type(model).__name__}; give a torch.nn.Module")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError("the model is a ScriptModule, which is not traced again; give the module that it was made of")
    if isinstance(model, torch.nn.DataParallel):
        raise InputError("the model is a DataParallel, and a step is of one device; give model.module")
    if loss_fn is not None and not callable(loss_fn):
        raise InputError(
            f"loss_fn is of type {type(loss_fn).__name__}; give a function of the module's output and the rest of the "
            "batch, or None where the module returns the loss"
        )
    if isinstance(example, str | Mapping) or not isinstance(example, tuple | list):
        raise InputError(
            f"the example is of type {type(example).__name__}; give a tuple of what a call takes, as (x, y) or (x,)"
        )


def check_gradient_hooks(model: Any) -> None:
    """That no parameter has a hook on its gradient, which a step, where autograd does not run, would not call.

    Raises
    ------
    InputError
        One has.
    """
    for name, parameter in model.named_parameters():
        for made_by in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if parameter.requires_grad and getattr(parameter, made_by, None):
                call = "register_hook" if made_by == "_backward_hooks" else "register_post_accumulate_grad_hook"
                message = f"parameter {name!r} has a hook on its gradient ({call}), which a step does not run"
                raise InputError(f"{message}; remove it, and change .grad between the step and the optimizer")
