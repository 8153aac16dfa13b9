"""A step as plain calls of ATen operators: what is given, what runs in its own order, and what comes out.

No type here needs torch. A tensor is a name; an argument is a number, a text, a `Word` of source, a `Ref` to a tensor,
a list of these, or a `Call` that is made there and then: views, and temporaries that die in the op.

::

    Traced    what torch returned: views, clones and all                             (capture.py)
    Program   compute ops alone; views stand where they are read, updates inside     (storages.py)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lowtide.read.aten.trace import Form, Ref

Role = Literal["parameter", "buffer", "batch", "constant", "state"]


class Word(str):
    """Source text, unquoted: ``torch.float32``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator. `target`: its name below ``torch.ops``: ``aten.mm.default``. `args`, `kwargs`: values
    as the operator takes them. `pick`: which of several results is meant; None: all of them."""

    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    pick: int | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A tensor that is there before the step: a parameter, a buffer, part of the batch, an optimizer's state.

    `target` is its name in the module, its number in the batch, or ``"exp_avg:layer.weight"``. `name` is its name in
    the source.
    """

    name: str
    role: Role
    target: str
    form: Form


@dataclass(frozen=True, slots=True)
class Action:
    """An op of the step. `name`: unique among the ops. `call`: what runs. `outputs`: names of what it makes,
    position by position; None where the operator gives nothing. `several`: whether the operator returns a tuple.
    `writes`: names of the given tensors that it changes. `random`: whether it makes something else on every run."""

    name: str
    call: Call
    outputs: tuple[str | None, ...] = ()
    several: bool = False
    writes: tuple[str, ...] = ()
    random: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What comes out: the loss, the gradient of the parameter `target`, the norm of all gradients, a buffer's or an
    output's new value."""

    kind: Literal["loss", "gradient", "norm", "buffer", "output"]
    target: str
    value: Ref | Call


@dataclass(frozen=True)
class Traced:
    """What a capture hands over: calls in eager's order, each with the names of what it gives.

    `views` are the calls' names whose results lie in the memory of their first tensor; `forms` has every tensor's
    shape, strides, type and device.
    """

    name: str
    givens: tuple[Given, ...]
    calls: tuple[Action, ...]
    views: frozenset[str]
    forms: Mapping[str, Form]
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """A function that precedes the step; a call of it has the target ``body.NAME``. `source`: the function.
    `actions`: what it computes, each op for all rows. `parts`: how often each of them runs, on some of the rows.
    `live_bytes`: for each action what is live while it runs, in addition to the function's results and without its
    kernel's workspace, by the shapes. `full_bytes`: for each action, what every part of it moves all the same:
    operands without rows, and sums twice."""

    source: str
    actions: tuple[Action, ...]
    parts: int
    live_bytes: tuple[int, ...]
    full_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A step in its own order. `outputs` are what it returns, in the order of `results`; `bodies` functions by name;
    `updates` are an optimizer's own code to measure: functions of a parameter and its gradient."""

    name: str
    givens: tuple[Given, ...]
    actions: tuple[Action, ...]
    forms: Mapping[str, Form]
    results: tuple[Result, ...]
    bodies: Mapping[str, Body] = field(default_factory=dict)
    updates: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def device(self) -> tuple[str, int | None]:
        """Where it runs: the device of its tensors that is not the CPU, if there is one, as kind and number."""
        return next((form.device for form in self.forms.values() if form.device[0] != "cpu"), ("cpu", None))


def refs(value: Any) -> Iterator[Ref]:
    """Every reference in a value, calls in it included, from left to right."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Call):
        yield from refs(value.args)
        for _, inner in value.kwargs:
            yield from refs(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from refs(inner)


def instead_of(value: Any, new: Mapping[Any, Any]) -> Any:
    """A value with references, and calls, replaced by what `new` has for them."""
    if isinstance(value, Ref | Call) and value in new:
        return new[value]
    if not isinstance(value, Call):
        return value
    return replace(value, args=tuple([instead_of(arg, new) for arg in value.args]))


def replaced(value: Any, instead: Mapping[str, Any]) -> Any:
    """A value with references replaced by what `instead` has for their names."""
    if isinstance(value, Ref):
        return instead.get(value.name, value)
    if isinstance(value, Call):
        kwargs = tuple([(key, replaced(inner, instead)) for key, inner in value.kwargs])
        return Call(value.target, replaced(value.args, instead), kwargs, value.pick)
    if isinstance(value, tuple):
        return tuple([replaced(inner, instead) for inner in value])
    return value
