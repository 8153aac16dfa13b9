"""Norms and means as sums over rows: ops that can be tiled along the rows of their operand, and small ones.

    InstanceNormalization(x)        rows       ReduceMean, Sub, ReduceSumSquare over each row of x    cut by rows
                             =>     statistic  mean and variance of all, from those of the rows       a few numbers
                                    apply      Mul, Add: x times a number a channel, plus another     cut by rows

A norm's variance is that of each row around the row's own mean, and of the rows' means around the mean of all: every
term is a square of a difference, so nothing cancels, however far from zero the mean is, and no number depends on the
tiles. A mean is a sum and a product. The terms are the same, added in another order.

Source: parallel variance of Chan, Golub and LeVeque (1983), with rows of equal count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.names import FreeNames
from lowtide.ops.forms import Reduction
from lowtide.ops.meaning import meaning
from lowtide.transform.part_builder import all_names

_AXES_BY_OPERAND = {"ReduceSum": 13, "ReduceMean": 18, "ReduceSumSquare": 18}
"""Operator set from which on the axes are an operand."""
_LEAST_OPSET = 13
"""Below it arithmetic broadcasts, reduces and reshapes in other ways, or not at all."""
ROWS_DIM = 2
"""Of a norm's operand: batch, channels, rows, columns."""


@dataclass(frozen=True)
class Statistic:
    """An op that can be computed by sums over rows."""

    op: int  # id of the norm or the mean
    gone: tuple[int, ...]  # ids of the ops that are not run then: it, and reshapes around it
    # source, result: tensors: the operand and the result.
    source: int
    result: int
    # dims, keep: of a mean: dimensions that are reduced, and whether they stay with one row.
    dims: tuple[int, ...] = ()
    keep: bool = True
    groups: int = 0  # of a norm: channels of as many groups have a mean and a variance each; 0: it is a mean
    # scale, shift: tensors of its parameters, one number for each group or for each channel.
    scale: int = -1
    shift: int = -1
    epsilon: float = 1e-5  # added to the variance


@dataclass(frozen=True)
class Expansion:
    """The replacement of a statistic: new ops in the order in which they run, and all new tensors."""

    statistic: Statistic
    ops: tuple[int, ...]
    tensors: tuple[int, ...]


@dataclass(frozen=True)
class Expanded:
    """A graph with statistics as sums, and the replacement of each."""

    graph: Graph
    expansions: tuple[Expansion, ...]


def statistics(graph: Graph) -> tuple[Statistic, ...]:
    """Norms and means of a graph that can be computed of sums over rows, in file order."""
    if graph.dialect != "onnx" or 0 < graph.opset < _LEAST_OPSET:
        return ()
    found = (_norm(graph, op) or _mean(graph, op) for op in graph.ops if not op.bodies and not op.after)
    return tuple(s for s in found if s is not None)


def _floats(graph: Graph, tensors: Iterable[int]) -> bool:
    return all(graph.tensor_by_id[t].dtype == "float32" and graph.tensor_by_id[t].shape for t in tensors)


def _shape(graph: Graph, tensor: int) -> tuple[int, ...]:
    return graph.tensor_by_id[tensor].shape or ()


def _mean(graph: Graph, op: Op) -> Statistic | None:
    if op.type not in ("GlobalAveragePool", "ReduceMean") or not _floats(graph, (op.inputs[0], op.outputs[0])):
        return None
    rank = len(graph.tensor_by_id[op.inputs[0]].shape or ())
    dims, keep = tuple(range(2, rank)), True
    if op.type == "ReduceMean":
        known = meaning(graph, op)
        if known is None or not isinstance(known.form, Reduction):
            return None
        dims, keep = known.form.dims, known.form.keep
    if not dims or graph.tensor_by_id[op.inputs[0]].kind is Kind.CONSTANT:
        return None
    return Statistic(op.id, (op.id,), op.inputs[0], op.outputs[0], tuple(dims), keep)


def _norm(graph: Graph, op: Op) -> Statistic | None:
    """A norm of groups of channels, alone or between reshapes that make the groups, as exporters write it."""
    if op.type not in ("InstanceNormalization", "GroupNormalization") or len(op.inputs) != 3:
        return None
    source, result, gone = op.inputs[0], op.outputs[0], (op.id,)
    shape = _shape(graph, source)
    if len(shape) == 3 and op.type == "InstanceNormalization":
        before = graph.op_by_id.get(graph.producer.get(source, -1))
        behind = [graph.op_by_id[o] for o in graph.consumers.get(result, ())]
        alone = graph.consumers.get(source) == (op.id,) and len(behind) == 1
        kept = {graph.tensor_by_id[t].kind for t in (source, result)} == {Kind.ACTIVATION}
        if before is None or not alone or not kept or before.type != "Reshape" or behind[0].type != "Reshape":
            return None
        source, result, gone = before.inputs[0], behind[0].outputs[0], (before.id, op.id, behind[0].id)
    image = _shape(graph, source)
    groups = int(op.attributes.get("num_groups", 0)) or (shape[1] if len(shape) > 1 else 0)
    fits = len(image) == 4 and image == (graph.tensor_by_id[result].shape or ()) and groups and not image[1] % groups
    if not fits or not _floats(graph, (source, result, *op.inputs[1:])):
        return None
    if len(gone) == 3 and shape != (image[0], groups, image[1] // groups * image[2] * image[3]):
        return None
    numbers = [graph.tensor_by_id[t].shape for t in op.inputs[1:]]
    if numbers[0] != numbers[1] or numbers[0] not in ((groups,), (image[1],)):
        return None
    epsilon = float(op.attributes.get("epsilon", 1e-5))
    return Statistic(op.id, gone, source, result, (), True, groups, op.inputs[1], op.inputs[2], epsilon)


def expand(graph: Graph, chosen: Sequence[Statistic]) -> Expanded:
    """The graph with some statistics as sums. Ids hang on which are chosen and on their order alone."""
    maker = _Maker(graph)
    expansions, instead = [], dict[int, list[Op]]()
    for statistic in chosen:
        own = graph.op_by_id[statistic.op]
        maker.begin(own.name or own.type)
        (_write_norm if statistic.groups else _write_mean)(maker, statistic)
        instead[statistic.op] = maker.ops
        new = tuple(op.id for op in maker.ops)
        expansions.append(Expansion(statistic, new, tuple(t.id for t in maker.tensors)))
    gone = {op for statistic in chosen for op in statistic.gone}
    ops = [op for own in graph.ops for op in instead.get(own.id, [] if own.id in gone else [own])]
    used = {t for op in (*ops, *graph.folded) for t in (*op.inputs, *op.outputs)}
    lost = {t for op in gone for t in graph.op_by_id[op].outputs} - used
    kept = [t for t in graph.tensors if t.id not in lost]
    return Expanded(
        replace(graph, tensors=(*kept, *maker.all_tensors), ops=tuple(ops), file_order=()), tuple(expansions)
    )


@dataclass
class _Maker:
    """Makes ops and tensors with unused ids and names."""

    graph: Graph
    ops: list[Op] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    all_tensors: list[Tensor] = field(default_factory=list)
    label: str = ""

    def __post_init__(self) -> None:
        graph = self.graph
        self.next_op = max((op.id for op in (*graph.ops, *graph.folded)), default=-1) + 1
        self.next_tensor = max((t.id for t in graph.tensors), default=-1) + 1
        self.names = FreeNames(all_names(graph))
        self.shapes: dict[int, tuple[int, ...]] = {t.id: t.shape or () for t in graph.tensors}

    def begin(self, label: str) -> None:
        """Begin the replacement of the op of this label."""
        self.ops, self.tensors, self.label = [], [], label

    def op(
        self, kind: str, operands: Sequence[int], shape: Sequence[int], into: int | None = None, **attributes: Any
    ) -> int:
        """An op of one float result, which is tensor `into` if that is given."""
        out = self._tensor(kind, tuple(shape)) if into is None else into
        given = tuple(operands)
        name = self.names.take(f"{self.label}/{kind}")
        self.ops.append(Op(self.next_op, given, (out,), name, kind, attributes=attributes, operands=given))
        self.next_op += 1
        return out

    def reduce(self, kind: str, read: int, dims: Sequence[int], *, keep: bool = True, into: int | None = None) -> int:
        """A reduction, with its axes in the form of the operator set."""
        full = self.shapes[read]
        shape = [1 if d in dims else size for d, size in enumerate(full) if keep or d not in dims]
        if 0 < self.graph.opset < _AXES_BY_OPERAND[kind]:
            return self.op(kind, [read], shape, into, axes=tuple(dims), keepdims=int(keep))
        return self.op(kind, [read, self.integers(dims)], shape, into, keepdims=int(keep))

    def reshape(self, read: int, shape: Sequence[int]) -> int:
        """The same numbers in another shape."""
        return self.op("Reshape", [read, self.integers(shape)], shape)

    def integers(self, values: Sequence[int]) -> int:
        """A constant of integers."""
        return self._constant("int64", (len(values),), struct.pack(f"<{len(values)}q", *values))

    def number(self, value: float) -> int:
        """A constant of one float."""
        return self._constant("float32", (1,), struct.pack("<f", value))

    def _constant(self, dtype: str, shape: tuple[int, ...], value: bytes) -> int:
        at = self._tensor("constant", shape, dtype)
        self.tensors[-1] = replace(self.tensors[-1], kind=Kind.CONSTANT, value=value)
        self.all_tensors[-1] = self.tensors[-1]
        return at

    def _tensor(self, word: str, shape: tuple[int, ...], dtype: str = "float32") -> int:
        size = prod(shape) * (8 if dtype == "int64" else 4)
        name = self.names.take(f"{self.label}/{word}")
        tensor = Tensor(self.next_tensor, size, Kind.ACTIVATION, name, shape, dtype)
        self.tensors.append(tensor)
        self.all_tensors.append(tensor)
        self.shapes[tensor.id] = shape
        self.next_tensor += 1
        return tensor.id


def _write_mean(make: _Maker, s: Statistic) -> None:
    shape = make.shapes[s.source]
    total = make.reduce("ReduceSum", s.source, s.dims, keep=s.keep)
    share = make.number(1.0 / prod(shape[d] for d in s.dims))
    make.op("Mul", [total, share], make.shapes[total], s.result)


def _write_norm(make: _Maker, s: Statistic) -> None:
    batch, channels, height, width = make.shapes[s.source]
    groups, each = s.groups, channels // s.groups
    image, grouped = make.shapes[s.source], (batch, groups, each * height)
    # of each row
    means = make.reduce("ReduceMean", s.source, [3])
    around = make.op("Sub", [s.source, means], image)
    squares = make.reduce("ReduceSumSquare", around, [3])
    # of all rows of a group
    rows = make.reshape(means, grouped)
    mean = make.reduce("ReduceMean", rows, [2])
    apart = make.op("Sub", [rows, mean], grouped)
    between = make.reduce("ReduceSumSquare", apart, [2])
    within = make.reduce("ReduceSum", make.reshape(squares, grouped), [2])
    wide = make.op("Mul", [between, make.number(float(width))], (batch, groups, 1))
    both = make.op("Add", [within, wide], (batch, groups, 1))
    share = make.number(1.0 / (each * height * width))
    variance = make.op("Mul", [both, share], (batch, groups, 1))
    more = make.op("Add", [variance, make.number(s.epsilon)], (batch, groups, 1))
    deviation = make.op("Sqrt", [more], (batch, groups, 1))
    # y = x scale / deviation + (shift - mean scale / deviation), a number for each channel
    count, width_of = (groups, groups) if make.shapes[s.scale] == (groups,) else (channels, channels)
    spread = [_each(make, t, batch, groups, width_of) for t in (deviation, mean)]
    factor = make.op("Div", [s.scale, spread[0]], (batch, count))
    moved = make.op("Mul", [spread[1], factor], (batch, count))
    offset = make.op("Sub", [s.shift, moved], (batch, count))
    columns = [_column(make, t, batch, count, channels) for t in (factor, offset)]
    scaled = make.op("Mul", [s.source, columns[0]], image)
    make.op("Add", [scaled, columns[1]], image, s.result)


def _each(make: _Maker, read: int, batch: int, groups: int, count: int) -> int:
    """A number for each group as one for each of `count` channels, or of as many groups."""
    if count == groups:
        return make.reshape(read, (batch, groups))
    wide = (batch, groups, count // groups)
    return make.reshape(make.op("Expand", [read, make.integers(wide)], wide), (batch, count))


def _column(make: _Maker, read: int, batch: int, count: int, channels: int) -> int:
    """Numbers as a factor of an image: one for each channel."""
    if count < channels:
        wide = (batch, count, channels // count)
        apart = make.reshape(read, (batch, count, 1))
        read = make.op("Expand", [apart, make.integers(wide)], wide)
    return make.reshape(read, (batch, channels, 1, 1))
