"""How much an op has to do: operations, and bytes that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.graph import Graph, Op
from lowtide.ops.forms import Convolution
from lowtide.ops.meaning import Meaning


@dataclass(frozen=True)
class Work:
    """What an op has to do."""

    family: str  # name of the `lowtide.cost.file.CostFamily` that it is estimated by
    flops: int  # operations
    bytes: int  # read and written


def work_of(graph: Graph, op: Op, op_meaning: Meaning | None) -> Work:
    """What an op has to do."""
    size = sum(graph.tensor_by_id[t].size for t in (*op.inputs, *op.outputs))
    flops = op.flops if op_meaning is None or op_meaning.opaque is not None else op_meaning.flops
    return Work(family_of(op_meaning), flops or 0, size)


def full_bytes(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> int:
    """Of these bytes those that every part along an axis reads or writes: weights of a convolution cut along rows."""
    total = 0
    for i, t in enumerate(op.operands or op.inputs):
        dims = op_meaning.access.inputs[i] if i < len(op_meaning.access.inputs) else None
        if t is not None and not any(index is not None and index.axis == axis for index in dims or ()):
            total += graph.tensor_by_id[t].size
    for j, t in enumerate(op.outputs):
        if axis not in op_meaning.access.outputs[j]:
            total += graph.tensor_by_id[t].size
    return total


def family_of(op_meaning: Meaning | None) -> str:
    """Name of the family: the op's own, convolutions by what kernels there are for them."""
    if op_meaning is None:
        return "opaque"
    form = op_meaning.form
    if isinstance(form, Convolution):
        taps = max((window.taps for _, window in form.windows), default=1)
        return f"{'grouped ' if form.groups > 1 else ''}convolution{' 1x1' if taps == 1 else ''}"
    return op_meaning.family
