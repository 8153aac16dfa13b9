"""Optimizers of any kind inside the step: the user's own optimizer updates one parameter at a time.

::

    p.grad = gradient                                 its code runs as it is (foreach, amsgrad, Muon, Adafactor, ...),
    optimizer.param_groups = [group of p alone]       on one parameter after the last reader of that; then the
    optimizer.step()                                  gradient is freed

This equals a step over all parameters only where the optimizer keeps nothing but state of each parameter.
`check_single_updates` tries that on small tensors: three steps over all at once, and parameter by parameter in the
opposite order, have to be equal bit for bit.
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from lowtide.errors import InputError, first_line

_LARGEST = 3  # elements along each axis of the small tensors
_TRIED = 4  # parameters of each group that are tried

FIX = "leave optimizer= out, and call its step() after the step, which leaves gradients in .grad"


def update(optimizer: Any, group: Mapping[str, Any], parameter: Any, gradient: Any) -> None:
    """Update one parameter by the optimizer's own code; the gradient is dropped."""
    groups, members = optimizer.param_groups, group["params"]
    optimizer.param_groups = [group]
    group["params"] = [parameter]  # type: ignore[index]
    before, parameter.grad = parameter.grad, gradient
    try:
        _step_of(optimizer)(optimizer)
    finally:
        parameter.grad = before
        group["params"] = members  # type: ignore[index]
        optimizer.param_groups = groups


def _step_of(optimizer: Any) -> Callable[[Any], Any]:
    """The optimizer's own code, without what torch wraps around it."""
    return inspect.unwrap(type(optimizer).step)


def run_update(torch: Any, optimizer: Any) -> None:
    """Update all parameters that have a gradient, by the optimizer's own code."""
    with torch.no_grad():
        _step_of(optimizer)(optimizer)


def words_of(optimizer: Any, group: Mapping[str, Any]) -> str:
    """Name of an optimizer with the options that are on, as a cost table has it.

    >>> class Lion: ...
    >>> words_of(Lion(), {"params": [], "lr": 0.1, "foreach": True, "maximize": False})
    'Lion foreach'
    """
    return " ".join([type(optimizer).__name__, *(name for name, value in group.items() if value is True)])


def stand_in(optimizer: Any, group: Mapping[str, Any]) -> Callable[[Any, Any], None]:
    """The update of any tensor by such an optimizer with state of its own, to measure what it takes."""
    other, alone = without_state(optimizer), {**group, "params": []}

    def run(parameter: Any, gradient: Any) -> None:
        if parameter not in other.state:
            other.state.clear()
        update(other, alone, parameter, gradient)

    return run


def check_single_updates(torch: Any, optimizer: Any) -> None:
    """That an optimizer may update its parameters one at a time, in any order. Raises `InputError`: it may not: its
    step needs a closure, or all gradients at once."""
    name = type(optimizer).__name__
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            together, single = (_trial(torch, optimizer, alone=alone) for alone in (False, True))
    except Exception as error:  # a user's optimizer raises whatever it likes
        message = f"{name} cannot update one parameter at a time: {first_line(error)}"
        raise InputError(f"{message}; {FIX}") from error
    if not all(torch.equal(a, b) for a, b in zip(together, single, strict=True)):
        raise InputError(f"{name} updates its parameters together, not one at a time; {FIX}")


def without_state(optimizer: Any) -> Any:
    """An optimizer with the same options, without parameters and state."""
    other = copy.copy(optimizer)
    other.state, other.param_groups = defaultdict(dict), []
    return other


def _trial(torch: Any, optimizer: Any, *, alone: bool) -> list[Any]:
    """Small parameters after three steps, over all at once or each alone."""
    torch.manual_seed(0)
    other, tensors = without_state(optimizer), []
    for group in optimizer.param_groups:
        shapes = [[min(size, _LARGEST) for size in p.shape] for p in group["params"][:_TRIED]]
        made = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        other.param_groups.append({**copy.copy(dict(group)), "params": made})
        tensors += made
    for _ in range(3):
        gradients = [torch.randn_like(tensor) for tensor in tensors]
        for tensor, gradient in zip(tensors, gradients, strict=True):
            tensor.grad = gradient
        if not alone:
            _step_of(other)(other)
            continue
        for group in reversed(other.param_groups):
            for tensor in reversed(group["params"]):
                update(other, group, tensor, tensor.grad)
    return tensors
