"""How a step is called: batches by position or by name, what of them a plan depends on, and where they differ."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowtide.errors import InputError

Key = tuple[Any, ...]
"""What a plan depends on in a batch: how it is nested, then type, shape, strides and device of each tensor."""


def as_batch(example: Sequence[Any] | Mapping[str, Any], like: Sequence[Any] = ()) -> tuple[Any, ...]:
    """A batch as a tuple: a dict is a batch of that dict alone, and every kind of mapping is a dict, with its keys in
    the order of those in `like`. Raises `InputError`: it is a tensor, or something else that is no batch.

    >>> as_batch({"x": 1}), as_batch(({"y": 2, "x": 1},), ({"x": 0, "y": 0},))
    (({'x': 1},), ({'x': 1, 'y': 2},))
    """
    if not isinstance(example, tuple | list | Mapping):
        what = "give a tuple of what a call takes, as (x, y) or (x,), or a dict"
        raise InputError(f"the example is of type {type(example).__name__}; {what}")
    parts = []
    for k, part in enumerate([example] if isinstance(example, Mapping) else example):
        before = like[k] if k < len(like) else None
        if isinstance(part, Mapping):
            known = [key for key in before if key in part] if isinstance(before, Mapping) else []
            part = {key: part[key] for key in dict.fromkeys([*known, *part])}
        parts.append(part)
    return tuple(parts)


def called(
    model: Any,
    loss_fn: Callable[..., Any] | None,
    example: Sequence[Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> tuple[Any, ...]:
    """The batch of a call. Names are keys of the example's dict, or parameters of the module and of the loss. Raises
    `InputError`: a name is neither; or a part of the batch is missing or is given twice."""
    if not named:
        return as_batch(tuple(args), example)
    if len(example) == 1 and isinstance(example[0], Mapping) and not args:
        return as_batch((named,), example)
    names = _names(model, loss_fn, len(example))
    values, left = dict(enumerate(args)), dict(named)
    for k, name in enumerate(names):
        if k not in values and name in left:
            values[k] = left.pop(name)
    free = [k for k in range(len(example)) if k not in values]
    if len(free) == len(left) == 1:  # one name that is not known, and one part that it can be
        values[free[0]] = left.popitem()[1]
        free = []
    if left or free:
        message = f"the step takes {', '.join(names)}, and got {', '.join([*map(str, range(len(args))), *named])}"
        raise InputError(f"{message}; give the batch by position, in the order of the example")
    return as_batch([values[k] for k in range(len(example))], example)


def _names(model: Any, loss_fn: Callable[..., Any] | None, count: int) -> list[str]:
    """Names of a batch's parts: the module's parameters, or its first and those of the loss after its first."""
    names = _parameters(model.forward)
    if loss_fn is not None:
        names = [*names[:1], *_parameters(getattr(loss_fn, "forward", loss_fn))[1:]]
    return [*names, *(f"part {k}" for k in range(len(names), count))][:count]


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _takes(function: Callable[..., Any], names: Mapping[str, Any]) -> list[str]:
    """Those of some names that a function takes as keywords: all where it does not say which."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [*names]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return [*names]
    known = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    return [name for name in names if name in known]


def step_output(model: Any, loss_fn: Callable[..., Any] | None, batch: Sequence[Any]) -> Any:
    """What eager computes of a batch: the loss, or the output where there is no loss function.

    A dict goes to the module by its keys. Keys that the module does not take go to the loss; without one, the module
    gets the dict itself. Raises `InputError`: the module takes none of the keys; or there is a loss, and no batch.
    """
    first: Any = batch[0] if batch else None
    if loss_fn is not None and not batch:
        raise InputError("the example is empty; give what the module and the loss take, as (x, y)")
    if loss_fn is None:
        if len(batch) == 1 and isinstance(first, Mapping) and len(_takes(model.forward, first)) == len(first):
            return model(**first)
        return model(*batch)
    if isinstance(first, tuple | list):
        return loss_fn(model(*first), *batch[1:])
    if not isinstance(first, Mapping):
        return loss_fn(model(first), *batch[1:])
    taken = _takes(model.forward, first)
    if not taken:
        takes = ", ".join(_parameters(model.forward)) or "nothing by name"
        raise InputError(f"the module's forward takes {takes}, and the batch has {', '.join(map(str, first))}")
    others = {name: value for name, value in first.items() if name not in taken}
    return loss_fn(model(**{name: first[name] for name in taken}), *batch[1:], **others)


def loss_alone(output: Any) -> Any:
    """The loss in what a module returns that is its own loss: ``output["loss"]`` or ``output.loss``."""
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    return getattr(output, "loss", output)


def loss_place(torch: Any, output: Any) -> int:
    """At which place among the tensors of an output the loss is: under ``"loss"``, or the first."""
    if not isinstance(output, Mapping) or "loss" not in output:
        return 0
    leaves = [x for x in torch.utils._pytree.tree_leaves(output) if isinstance(x, torch.Tensor)]
    return next((k for k, leaf in enumerate(leaves) if leaf is output["loss"]), 0)


def key_of(torch: Any, batch: Sequence[Any]) -> Key:
    """What a plan depends on in a batch."""
    leaves, spec = torch.utils._pytree.tree_flatten(tuple(batch))
    return (str(spec), *(
        (str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape), tuple(leaf.stride()), str(leaf.device))
        if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ))  # fmt: skip


def elements(key: Key) -> int:
    """Elements of all tensors of a batch."""
    return sum(math.prod(leaf[1]) for leaf in key[1:] if isinstance(leaf, tuple))


def other_sizes(key: Key, got: Key) -> bool:
    """Whether two batches differ in sizes alone, and do."""
    pairs = list(zip(key[1:], got[1:], strict=False))
    tensors = [(a, b) for a, b in pairs if isinstance(a, tuple) and isinstance(b, tuple)]
    alike = all((a[0], len(a[1]), a[3]) == (b[0], len(b[1]), b[3]) for a, b in tensors)
    rest = all(a == b for a, b in pairs if not (isinstance(a, tuple) and isinstance(b, tuple)))
    return key[0] == got[0] and len(key) == len(got) and alike and rest and any(a[1] != b[1] for a, b in tensors)


def difference(key: Key, got: Key) -> str:
    """In what a batch differs from the one that a step is planned for, in words."""
    words = f"the step is planned for {_text(key)}, and got {_text(got)}"
    if _text(key) != _text(got):
        return words
    if key[0] != got[0]:
        return f"{words}, put together in another way (a step is called as step(x, y), like its example)"
    pairs = [(a, b) for a, b in zip(key[1:], got[1:], strict=True) if a != b]
    (_, _, strides, device), (_, _, other, elsewhere) = pairs[0]
    if device != elsewhere:
        return f"{words} on {elsewhere}, not on {device}"
    return f"{words} with strides {other}, not {strides}"


def _text(key: Key) -> str:
    leaves = [f"{leaf[0]}{list(leaf[1])}" if isinstance(leaf, tuple) else repr(leaf) for leaf in key[1:]]
    return ", ".join(leaves) or "nothing"
