"""Workspace of the kernels of tiles, for tiles of a few sizes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from math import prod

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.forms import Pointwise
from lowtide.ops.part import given_box
from lowtide.target import Target
from lowtide.transform.cut import Cutter

_SIZES = (1, 2, 3, 4, 5, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224, 256)
"""Rows of the parts that are requested; between two, the larger one counts."""


class PartWorkspaces:
    """What parts take, worked out once for all ops of a graph that are alike."""

    def __init__(self, cutter: Cutter, target: Target) -> None:
        self.cutter, self.target = cutter, target
        self._known = cutter.kernel_bytes

    def of(self, op: Op, axis: int) -> list[tuple[int, int]]:
        """Rows of a part along an axis, ascending, each with the bytes that a kernel for it takes.

        Empty where the runtime's kernels are not known: then a part takes what the op does.
        """
        known = self.cutter.meaning(op.id)
        if not self.target.rule or known is None or isinstance(known.form, Pointwise):
            return []
        key = (self.target, axis, *_likeness(self.cutter.graph, op))
        if key not in self._known:
            size, grain = known.access.sizes[axis], known.access.grain_of(axis)
            sizes = sorted({min(size, -(-rows // grain) * grain) for rows in (*_SIZES, size)})
            result = [(rows, _of_part(self.cutter, self.target, op, axis, rows)) for rows in sizes if rows <= size]
            self._known[key] = result if any(amount for _, amount in result) else [(size, 0)]
        return self._known[key]


def _likeness(graph: Graph, op: Op) -> tuple[Hashable, ...]:
    """All of an op that a kernel's memory may hang on: alike in it, two ops differ by names and places alone."""
    place: dict[int, int] = {}
    positions = [
        -1 if t is None else place.setdefault(t, len(place)) for t in (*(op.operands or op.inputs), *op.outputs)
    ]
    tensors = tuple(
        (t.size, t.shape, t.dtype, t.kind is Kind.CONSTANT, t.value, repr(t.quant))
        for t in map(graph.tensor_by_id.__getitem__, place)
    )
    attributes = repr(sorted(op.attributes.items()))
    return (op.type, op.workspace, attributes, tuple(positions), len(op.outputs), tensors)


def _of_part(cutter: Cutter, target: Target, op: Op, axis: int, rows: int) -> int:
    """Of a part in the middle of the axis, which has no padding there."""
    graph, known, how = cutter.graph, cutter.meaning(op.id), cutter.spelling(op.id, axis)
    assert known is not None, op.label
    assert how is not None, op.label
    access, size = known.access, known.access.sizes[axis]
    first = (size - rows) // 2 // how.grain * how.grain
    part = (first, min(size, first + rows))
    shapes = {}
    for i, t in enumerate(op.operands or op.inputs):
        if t is not None:
            box = given_box(access, i, graph.tensor_by_id[t].shape or (), axis, part)
            shapes[t] = tuple(b - a for a, b in box)
    for j, t in enumerate(op.outputs):
        box = access.written(j, graph.tensor_by_id[t].shape or (), {axis: how.around(part)})
        shapes[t] = tuple(b - a for a, b in box)
    lowered = how.spell(part, tuple(shapes[t] for t in op.outputs))
    if lowered.padding:
        shapes[op.inputs[0]] = tuple(
            size + sum(more) for size, more in zip(shapes[op.inputs[0]], lowered.padding, strict=True)
        )
    return target.workspace(_alone(graph, op, shapes), replace(op, attributes=lowered.attributes))


def _alone(graph: Graph, op: Op, shapes: dict[int, tuple[int, ...]]) -> Graph:
    """The op's tensors, with other shapes."""
    tensors = []
    for t in dict.fromkeys((*op.inputs, *op.outputs)):
        tensor, shape = graph.tensor_by_id[t], shapes.get(t)
        if shape is not None and tensor.shape is not None:
            size = tensor.size * prod(shape) // max(1, prod(tensor.shape))
            kind = tensor.kind if tensor.kind is Kind.CONSTANT else Kind.INPUT if t in op.inputs else Kind.ACTIVATION
            tensor = replace(tensor, shape=shape, size=size, kind=kind, alias_of=None, alias_offset=0)
        tensors.append(tensor)
    return Graph(graph.name, tuple(tensors), (), dialect=graph.dialect, opset=graph.opset)
