"""What the ops of a step read for some rows of what they make: accesses of `lowtide.ops`, and views of storages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lowtide.ops.access import Access
from lowtide.ops.meaning import meaning
from lowtide.ops.table import kind_of
from lowtide.read.aten.build import build
from lowtide.read.aten.trace import Call as ReadCall
from lowtide.read.aten.trace import Form, Ref, Trace
from lowtide.read.aten.views import VIEWS
from lowtide.torch.along import Along, Seen, back, forth
from lowtide.torch.program import Action, Call, Program, refs
from lowtide.torch.work import viewed

_WITHOUT_SIZES = frozenset(
    {"mm", "addmm", "bmm", "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data",
     "_to_copy", "clone", "sum", "nll_loss_forward", "nll_loss_backward", "mse_loss", "mse_loss_backward",
     "native_layer_norm", "_fused_rms_norm", "gelu", "gelu_backward", "silu_backward", "tanh_backward",
     "sigmoid_backward"}
)  # fmt: skip
"""Ops beside elementwise ones of which no argument is a size of the rows, or `slices` puts another in its place."""


@dataclass(frozen=True)
class Read:
    """A tensor that an op reads: its position among the arguments, what is there, and the views up to it from
    the tensor whose memory it is in (None: one of them is not known)."""

    position: int
    value: Ref | Call
    chain: tuple[Seen, ...] | None

    @cached_property
    def root(self) -> str:
        """Whose memory it is in."""
        return next(refs(self.value)).name

    def forth(self, along: Along) -> Along | None:
        """Where rows of that memory's tensor lie in what is read."""
        return None if self.chain is None else forth(self.chain, along)

    def back(self, along: Along) -> Along | None:
        """Where rows of what is read lie in that tensor."""
        return None if self.chain is None else back(self.chain, along)


@dataclass(frozen=True)
class Reading:
    """What an op reads, and the access: its inputs are `reads`, in their order."""

    reads: tuple[Read, ...]
    access: Access


def reading(torch: Any, program: Program, action: Action) -> Reading | None:
    """What an op reads; None if it may not run for some rows, or nothing is known of it."""
    space, _, name = action.call.target.partition(".")
    name, _, overload = name.partition(".")
    kind = kind_of(action.call.target)
    free = name in _WITHOUT_SIZES or (kind is not None and kind.elementwise)
    if space != "aten" or not free or action.writes or action.random or action.call.pick is not None:
        return None
    schema = getattr(getattr(torch.ops.aten, name), overload)._schema
    given = [*((a.name, v) for a, v in zip(schema.arguments, action.call.args, strict=False)), *action.call.kwargs]
    forms: dict[str, Form] = {}
    arguments, reads = [], []
    for position, (key, value) in enumerate(given):
        if isinstance(value, Ref | Call):
            shaped = _shape(torch, program, value)
            if shaped is None or position >= len(action.call.args):
                return None
            forms[f"operand {position}"] = shaped
            reads.append(Read(position, value, _chain(torch, program, value)))
            value = Ref(f"operand {position}")
        elif any(True for _ in refs(value)):
            return None
        elif key == "reduction" and name == "nll_loss_forward":
            if action.call.args[2] is not None:
                return None
            value = 2  # a mean is a sum whose divisor is known beforehand
        arguments.append((key, value))
    outputs = tuple([f"result {k}" for k, output in enumerate(action.outputs) if output is not None])
    made = [output for output in action.outputs if output is not None]
    forms.update({text: program.forms[output] for text, output in zip(outputs, made, strict=True)})
    call = ReadCall(f"torch.ops.{action.call.target}", tuple(arguments), outputs, action.name)
    names = tuple([f"operand {read.position}" for read in reads])
    graph = build(Trace(action.name, names, outputs, (call,), forms), (), action.name)
    known = meaning(graph, graph.ops[0])
    if known is None or known.opaque is not None or len(outputs) != len(action.outputs):
        return None
    return Reading(tuple(reads), known.access)


def _shape(torch: Any, program: Program, value: Ref | Call) -> Form | None:
    """Form of a view; None if it is none."""
    if isinstance(value, Ref):
        return program.forms[value.name]
    inner = value
    while isinstance(inner, Call):
        if inner.target.split(".")[1] not in VIEWS or any(True for arg in inner.args[1:] for _ in refs(arg)):
            return None
        inner = inner.args[0]
    seen = viewed(torch, program, value)
    return replace(program.forms[inner.name], shape=tuple(seen.shape), strides=tuple(seen.stride()), offset=0)


def _chain(torch: Any, program: Program, value: Ref | Call) -> tuple[Seen, ...] | None:
    """The views of a tensor, innermost first; None where one is of another type."""
    calls = list(_calls(value))[::-1]
    if any(call.target.endswith(".dtype") for call in calls):
        return None
    shapes = [program.forms[next(refs(value)).name].shape]
    shapes += [tuple(viewed(torch, program, call).shape) for call in calls]
    return tuple([Seen(call, before, after) for call, before, after in zip(calls, shapes, shapes[1:], strict=False)])


def _calls(value: Ref | Call) -> Iterator[Call]:
    while isinstance(value, Call):
        yield value
        value = value.args[0]
