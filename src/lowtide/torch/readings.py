"""What the ops of a step read for some rows of what they make: accesses of `lowtide.ops`, and views of storages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lowtide.ops.access import Access
from lowtide.ops.index import NOTHING, Index
from lowtide.ops.kinds import kind_of
from lowtide.ops.meaning import meaning
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
     "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "gelu", "gelu_backward", "silu_backward",
     "tanh_backward", "sigmoid_backward", "threshold_backward", "leaky_relu_backward", "hardswish_backward",
     "hardsigmoid_backward", "hardtanh_backward", "elu_backward", "softplus_backward", "convolution",
     "convolution_backward"}
)  # fmt: skip
"""Ops beside elementwise ones of which no argument is a size of the rows, or `slices` puts another in its place."""

BATCH_SIZE: dict[str, int | None] = {
    "native_group_norm": 3, "native_group_norm_backward": 5, "upsample_nearest2d_backward": 2,
    "upsample_bilinear2d_backward": 2, "upsample_nearest2d": None, "upsample_bilinear2d": None, "avg_pool2d": None,
    "avg_pool2d_backward": None, "max_pool2d_with_indices": None, "max_pool2d_with_indices_backward": None,
    "_adaptive_avg_pool2d": None, "_adaptive_avg_pool2d_backward": None, "mean": None,
}  # fmt: skip
"""Ops that run for part of the batch and along no other axis; and which argument is the batch's size, or begins with
it."""


_UPDATES = frozenset({"add_", "mul_", "div_", "add", "sqrt", "lerp_", "addcmul_", "addcdiv_"})
"""What an optimizer's ops are made of: each computes an element from those at the same place."""


@dataclass(frozen=True)
class Read:
    """A tensor that an op reads: its position among the arguments (-1: within one), what is there, and the views up to
    it from the tensor whose memory it is in (None: one of them is not known)."""

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
    """What an op reads, and the access: its inputs are `reads`, in their order. `outputs`: for each result and
    dimension the axis, as in the access; nothing for a result that is not requested."""

    reads: tuple[Read, ...]
    access: Access
    outputs: tuple[tuple[int | None, ...], ...]


def reading(torch: Any, program: Program, action: Action) -> Reading | None:
    """What an op reads; None if it may not run for some rows, or nothing is known of it."""
    space, _, name = action.call.target.partition(".")
    name, _, overload = name.partition(".")
    kind = kind_of(action.call.target)
    if action.writes:
        return _update(torch, program, action)
    free = name in _WITHOUT_SIZES or name in BATCH_SIZE or (kind is not None and kind.elementwise)
    if space != "aten" or not free or action.random or action.call.pick is not None:
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
    if known is None or known.opaque is not None:
        return None
    access = known.access
    if name in BATCH_SIZE or dict(arguments).get("groups", 1) != 1:
        access = _by_batch(access)
    if access is None or (name == "mean" and access.reduce):
        return None
    dims = iter(access.outputs)
    placed = tuple([() if output is None else next(dims) for output in action.outputs])
    return Reading(tuple(reads), access, placed)


def _update(torch: Any, program: Program, action: Action) -> Reading | None:
    """What an optimizer's op reads, which changes a tensor element by element; None for another op that writes."""
    shape = program.forms[action.writes[0]].shape
    reads: list[Read] = []
    for value in dict.fromkeys(_leaves(action.call)):
        form = None if value is None else _shape(torch, program, value)
        if value is None or form is None or form.shape != shape:
            return None
        reads.append(Read(-1, value, _chain(torch, program, value)))
    every = tuple([Index(axis) for axis in range(len(shape))])
    return Reading(tuple(reads), Access(shape, (), (every,) * len(reads)), ())


def _leaves(value: Any) -> Iterator[Ref | Call | None]:
    """The tensors that calls of `_UPDATES` within each other take, views as one; None for any other call."""
    space, name, _ = (*value.target.split("."), "")[:3]
    if space != "aten" or name not in _UPDATES:
        yield None
        return
    for arg in value.args:
        if isinstance(arg, Ref) or (isinstance(arg, Call) and arg.target.split(".")[1] in VIEWS):
            yield arg
        elif isinstance(arg, Call):
            yield from _leaves(arg)


def _by_batch(access: Access) -> Access | None:
    """The same op cut along the first dimension of its first operand alone; None if that is no axis, or is reduced by
    more than a sum."""
    first = (access.inputs[0] or (None,))[0]
    if first is None or first.axis < 0:
        return None
    axis = first.axis
    inputs = tuple([
        None if dims is None else tuple([
            index if index == NOTHING else index.on(0) if index is not None and index.axis == axis else None
            for index in dims
        ])
        for dims in access.inputs
    ])  # fmt: skip
    outputs = tuple([tuple([0 if dim == axis else None for dim in dims]) for dims in access.outputs])
    reduce = (0,) if axis in access.reduce else ()
    return replace(access, sizes=(access.sizes[axis],), outputs=outputs, inputs=inputs, reduce=reduce, grain=())


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
