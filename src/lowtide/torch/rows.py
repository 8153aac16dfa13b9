"""Ops of a step that can run for some rows at a time: found from what each op reads for a part of its result.

The loss of a language model is where a step is highest: scores of every word for every token, their logarithms, and the
gradients of both. Each row of these hangs on one token alone::

    hidden (n, d) --mm--> scores (n, v) --log_softmax--> (n, v) --nll--> loss             sums over rows
                             |                             |
    gradient (n, d) <--mm-- (n, v) <--log_softmax_backward-+---nll_backward
    gradient (v, d) <--mm----+                                                            a sum over rows

A region is all that makes or reads tensors above a size which run along one axis, closed so that nothing lies between
its ops. Where each result has that axis or is a sum over it, some rows of everything can be made, used and dropped
before the next ones. Which axis is which says `lowtide.ops`, the same accesses that cuts of ONNX models rest on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lowtide.graph import Graph
from lowtide.ops.access import Access
from lowtide.ops.index import NOTHING, Index
from lowtide.ops.meaning import meaning
from lowtide.ops.table import kind_of
from lowtide.read.aten.build import build
from lowtide.read.aten.trace import Call as ReadCall
from lowtide.read.aten.trace import Form, Ref, Trace
from lowtide.read.aten.views import VIEWS
from lowtide.torch.program import Action, Call, Program, refs
from lowtide.torch.work import viewed

_ROUNDS = 8
"""Times that a region is closed over what lies between its ops."""

_SMALLEST = 16
"""Tensors down to this part of the largest op's largest may set the size above which a region reaches."""

_WITHOUT_SIZES = frozenset(
    {"mm", "addmm", "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data", "_to_copy",
     "clone", "sum", "nll_loss_forward", "nll_loss_backward", "mse_loss", "mse_loss_backward", "native_layer_norm",
     "_fused_rms_norm", "gelu", "gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward"}
)  # fmt: skip
"""Ops beside elementwise ones of which no argument is a size of the rows, or `slices` puts another in its place."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that an op reads: where it stands among the arguments, the view that is read, its dimension that runs
    along the rows (None: it is whole in every part)."""

    position: int
    value: Ref | Call
    dim: int | None

    @property
    def root(self) -> str:
        """Whose memory it lies in."""
        return next(refs(self.value)).name


@dataclass(frozen=True, slots=True)
class Row:
    """An op of a region: its position in the program, its operands, and for each result the dimension that runs along
    the rows; None: it is a sum over them."""

    index: int
    operands: tuple[Operand, ...]
    dims: tuple[int | None, ...]


@dataclass(frozen=True)
class Region:
    """Ops in own order that can run for some of `rows` rows at a time; `given`: names that they read and do not make,
    `made`: names of theirs that are read elsewhere."""

    ops: tuple[Row, ...]
    rows: int
    given: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def indices(self) -> tuple[int, ...]:
        """Positions of its ops."""
        return tuple([row.index for row in self.ops])


def regions(torch: Any, program: Program, graph: Graph, seed: int) -> list[Region]:
    """The regions around an op, smallest first; none where it cannot be cut.

    Parameters
    ----------
    graph
        The program's (`storages.as_graph`).
    seed
        Position of the op: the largest, say.
    """
    finder = _Finder(torch, program, graph)
    sizes = {name: program.forms[name].extent_bytes for name in finder.maker}
    action = program.actions[seed]
    touched = [name for name in (*(ref.name for ref in refs(action.call)), *action.outputs) if name in sizes]
    most = max((sizes[str(name)] for name in touched), default=0)
    found: dict[tuple[int, ...], Region] = {}
    for size in sorted({s for s in sizes.values() if most // _SMALLEST <= s <= most and s > 0}, reverse=True):
        region = finder.region(seed, {name for name, s in sizes.items() if s >= size})
        if region is not None:
            found.setdefault(region.indices, region)
    return sorted(found.values(), key=lambda region: len(region.ops))


class _Contradiction(Exception):
    """No region: an op would have to be cut along two axes, or reads a row of all rows."""


@dataclass(frozen=True)
class _Reading:
    """What an op reads: for each tensor argument its position and value, and of which dimension of its storage each of
    its dimensions is (None: the view is another one); and the access."""

    operands: tuple[tuple[int, Ref | Call, tuple[int, ...] | None], ...]
    access: Access


class _Finder:
    """Looks for regions of one program."""

    def __init__(self, torch: Any, program: Program, graph: Graph) -> None:
        self.torch, self.program, self.graph = torch, program, graph
        self.maker: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        self.readings: dict[int, _Reading | None] = {}
        for k, action in enumerate(program.actions):
            self.maker.update({name: k for name in action.outputs if name is not None})
            for name in dict.fromkeys(ref.name for ref in refs(action.call)):
                self.readers.setdefault(name, []).append(k)
        self.ends = {ref.name for result in program.results for ref in refs(result.value)}

    def reading(self, k: int) -> _Reading | None:
        """Of an op; None if it cannot stand in a region."""
        if k not in self.readings:
            self.readings[k] = _reading(self.torch, self.program, self.program.actions[k])
        return self.readings[k]

    def region(self, seed: int, large: set[str]) -> Region | None:
        """All ops that touch large tensors on the rows of the seed's, whichever of its axes those are."""
        reading = self.reading(seed)
        for axis in () if reading is None else reading.access.cuttable():
            wide = set(large)
            for _ in range(_ROUNDS):
                try:
                    axes = self._grown(seed, axis, wide)
                except _Contradiction:
                    break
                between = self._between(axes)
                if not between:
                    region = self._checked(axes)
                    if region is not None:
                        return region
                    break
                for k in between:
                    action = self.program.actions[k]
                    names = (*action.outputs, *(ref.name for ref in refs(action.call)))
                    wide |= {name for name in names if name in self.maker}
        return None

    def _grown(self, seed: int, axis: int, large: set[str]) -> dict[int, int]:
        """The axis of each op that a large tensor of these rows leads to."""
        axes, dims, waiting = {seed: axis}, dict[str, int](), [seed]
        while waiting:
            k = waiting.pop()
            for name, dim in self._dims(k, axes[k]):
                if dims.setdefault(name, dim) != dim:
                    raise _Contradiction
                if name not in large:
                    continue
                for other in (self.maker[name], *self.readers.get(name, ())):
                    along = self._axis(other, name, dim)
                    if along is None or along == axes.get(other):
                        continue
                    if other in axes:
                        raise _Contradiction
                    axes[other] = along
                    waiting.append(other)
        return axes

    def _dims(self, k: int, axis: int) -> Iterator[tuple[str, int]]:
        """Names that an op makes or reads, of those that the step makes, and their dimension along its axis."""
        reading = self._known(k)
        for name, dims in zip(self.program.actions[k].outputs, reading.access.outputs, strict=False):
            if name is not None and axis in dims:
                yield name, dims.index(axis)
        for n, (_, value, of) in enumerate(reading.operands):
            dim, root = _along(reading.access, n, axis), next(refs(value)).name
            if dim is not None and root in self.maker and of is not None:
                yield root, of[dim]

    def _axis(self, k: int, name: str, dim: int) -> int | None:
        """The axis of an op that runs along a dimension of what it makes or reads; None: it asks for the shape."""
        reading = self._known(k)
        for made, dims in zip(self.program.actions[k].outputs, reading.access.outputs, strict=False):
            if made == name:
                if dims[dim] is None:
                    raise _Contradiction
                return dims[dim]
        found: set[int] = set()
        for n, (_, value, of) in enumerate(reading.operands):
            indices = reading.access.inputs[n]
            if next(refs(value)).name != name or indices is None:
                continue
            index = indices[of.index(dim)] if of is not None else None
            if index is None:
                raise _Contradiction
            if index != NOTHING:
                found.add(index.axis)
        if len(found) > 1:
            raise _Contradiction
        return next(iter(found), None)

    def _known(self, k: int) -> _Reading:
        reading = self.reading(k)
        if reading is None:
            raise _Contradiction
        return reading

    def _between(self, axes: Mapping[int, int]) -> list[int]:
        """Ops that must run behind one of these and before another."""
        before = self.graph.predecessors
        n = len(self.program.actions)
        behind, ahead = [k in axes for k in range(n)], [k in axes for k in range(n)]
        for k in range(n):
            behind[k] = behind[k] or any(behind[u] for u in before[k])
        for k in reversed(range(n)):
            if ahead[k]:
                for u in before[k]:
                    ahead[u] = True
        return [k for k in range(n) if behind[k] and ahead[k] and k not in axes]

    def _checked(self, axes: Mapping[int, int]) -> Region | None:
        """The region of these ops, if each of them can run for some rows."""
        rows: list[Row] = []
        dims: dict[str, int | None] = {}
        sizes = set[int]()
        for k in sorted(axes):
            reading, axis, action = self._known(k), axes[k], self.program.actions[k]
            sizes.add(reading.access.sizes[axis])
            outputs = tuple([d.index(axis) if axis in d else None for d in reading.access.outputs])
            if None in outputs and not _adds_up(reading.access, axis):
                return None
            operands = []
            for n, (position, value, of) in enumerate(reading.operands):
                operand = Operand(position, value, _along(reading.access, n, axis))
                asked = reading.access.inputs[n]
                shape_only = bool(asked) and all(index == NOTHING for index in asked or ())
                if not self._fits(operand, of, dims, shape_only, action):
                    return None
                operands.append(operand)
            dims.update({name: d for name, d in zip(action.outputs, outputs, strict=False) if name is not None})
            rows.append(Row(k, tuple(operands), outputs))
        made = [name for name in dims if name in self.ends or any(r not in axes for r in self.readers.get(name, ()))]
        given = dict.fromkeys(o.root for row in rows for o in row.operands if o.root not in dims)
        if len(sizes) != 1 or len(rows) < 2:
            return None
        return Region(tuple(rows), sizes.pop(), tuple(given), tuple(made))

    def _fits(
        self,
        operand: Operand,
        of: tuple[int, ...] | None,
        dims: Mapping[str, int | None],
        shape_only: bool,
        action: Action,
    ) -> bool:  # fmt: skip
        """Whether rows of an operand are at hand when rows of the others are."""
        if operand.root not in dims:
            return not shape_only
        own = dims[operand.root]
        if own is None:
            return is_total_weight(action, operand.position)
        return of is not None and (shape_only or (operand.dim is not None and of[operand.dim] == own))


def is_total_weight(action: Action, position: int) -> bool:
    """Whether that argument is the number of rows that count, which is known before the first of them."""
    return action.call.target.startswith("aten.nll_loss_backward.") and position == 6


def _along(access: Access, operand: int, axis: int) -> int | None:
    """The dimension of an operand of which rows at the same place are read. Raises `_Contradiction` for other rows."""
    found = None
    for dim, index in enumerate(access.inputs[operand] or ()):
        if index is not None and index.axis == axis:
            if index != Index(axis) or found is not None:
                raise _Contradiction
            found = dim
    return found


def _adds_up(access: Access, axis: int) -> bool:
    return axis in access.reduce and access.merge == "sum" and not access.once and access.merged != "never"


def _reading(torch: Any, program: Program, action: Action) -> _Reading | None:
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
    arguments, operands = [], []
    for position, (key, value) in enumerate(given):
        if isinstance(value, Ref | Call):
            shaped = _shape(torch, program, value)
            if shaped is None or position >= len(action.call.args):
                return None
            forms[f"operand {position}"] = shaped
            operands.append((position, value, _dims_of(torch, program, value, shaped.shape)))
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
    names = tuple([f"operand {position}" for position, *_ in operands])
    graph = build(Trace(action.name, names, outputs, (call,), forms), (), action.name)
    known = meaning(graph, graph.ops[0])
    if known is None or known.opaque is not None or len(outputs) != len(action.outputs):
        return None
    return _Reading(tuple(operands), known.access)


def _shape(torch: Any, program: Program, value: Ref | Call) -> Form | None:
    """Form of a view; None if what stands there is none."""
    if isinstance(value, Ref):
        return program.forms[value.name]
    inner = value
    while isinstance(inner, Call):
        if inner.target.split(".")[1] not in VIEWS or any(True for arg in inner.args[1:] for _ in refs(arg)):
            return None
        inner = inner.args[0]
    seen = viewed(torch, program, value)
    return replace(program.forms[inner.name], shape=tuple(seen.shape), strides=tuple(seen.stride()), offset=0)


def _dims_of(torch: Any, program: Program, value: Ref | Call, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Of which dimension of its storage each dimension of a view is; None where they are not one for one."""
    if isinstance(value, Ref):
        return tuple(range(len(shape)))
    inner, name = value.args[0], value.target.split(".")[1]
    before = tuple(viewed(torch, program, inner).shape)
    dims = _dims_of(torch, program, inner, before)
    if dims is None or len(dims) != len(shape):
        return None
    if name in ("view", "_unsafe_view") and before == shape:
        return dims
    return (dims[1], dims[0]) if name == "t" and len(shape) == 2 else None
