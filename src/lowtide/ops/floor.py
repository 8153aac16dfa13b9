"""The least working set of any cut: what each op needs for its smallest part, whatever is done around it (floor B0).

A part of an op needs its operands' rows and its own rows in memory at once. However a model is cut along one axis an
op, without running anything twice, some part of each op runs, so the largest of these working sets over the ops, each
along its best axis, is a lower bound. So are the graph's inputs together, which are there when it begins, and its
results together, which are there when it ends, unless they are streamed. Weights are not counted. It holds where
results lie beside what they are made of; with `overlap` also where they may take its place. Weak, and cheap: it says
what cuts cannot give, and which op stands in the way. Cuts along two axes at once can go below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Access, Box, Part, box_elements
from lowtide.ops.meaning import Meaning, meaning
from lowtide.ops.table import kind_of


@dataclass(frozen=True, slots=True)
class OpFloor:
    """Least working set of one part of an op.

    Attributes
    ----------
    op
        Id.
    size
        Bytes of the smallest part along the best axis.
    whole
        Bytes of the op uncut, counted the same way.
    axis
        The best axis, one of `Access.sizes`; None: not cut.
    opaque
        Why nothing is known of the op; None if something is.
    """

    op: int
    size: int
    whole: int
    axis: int | None = None
    opaque: str | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """Least working set of a model under any cut.

    Attributes
    ----------
    size
        Bytes.
    op
        Id of the op that needs them; None: the inputs or the results do.
    ops
        Every op that is no view.
    """

    size: int
    op: int | None
    ops: tuple[OpFloor, ...]


def floor(graph: Graph, *, streamed: bool = False, overlap: bool = False) -> Floor:
    """Lower bound on the peak of a graph over all cuts along one axis an op (B0).

    Parameters
    ----------
    streamed
        Whether inputs come, and results go, part by part; else each is whole from when it is there.
    overlap
        Whether a result may lie where an operand lay that is read for the last time.
    """
    ops = tuple(
        op_floor(graph, op, meaning(graph, op), streamed=streamed, overlap=overlap)
        for op in graph.ops
        if not _is_view(op)
    )
    worst = max(ops, key=lambda part: part.size, default=None)
    ends = 0
    if not streamed:
        outputs = {t.id for t in graph.tensors if t.kind is Kind.OUTPUT}
        read = {t for op in graph.ops for t in op.inputs}
        ends = max(
            sum(t.size for t in graph.tensors if t.kind is Kind.INPUT and t.id in read),
            sum(graph.tensor_by_id[t].size for t in outputs),
        )
    if worst is None or ends >= worst.size:
        return Floor(ends, None, ops)
    return Floor(worst.size, worst.op, ops)


def op_floor(
    graph: Graph, op: Op, op_meaning: Meaning | None, *, streamed: bool = False, overlap: bool = False
) -> OpFloor:
    """Least working set of one part of an op, over the axes that it can be cut along."""
    whole = _working_set(graph, op, None, {}, streamed, overlap)
    if op_meaning is None:
        return OpFloor(op.id, whole, whole, opaque="ops of no known format")
    if op_meaning.opaque is not None:
        return OpFloor(op.id, whole, whole, opaque=op_meaning.opaque)
    best = OpFloor(op.id, whole, whole)
    for axis in op_meaning.access.cuttable():
        parts = (
            _working_set(graph, op, op_meaning.access, part, streamed, overlap)
            for part in _grains(op_meaning.access, axis)
        )
        size = max(parts)
        if size < best.size:
            best = OpFloor(op.id, size, whole, axis)
    return best


def _is_view(op: Op) -> bool:
    kind = kind_of(op.type)
    return kind is not None and kind.view


def _grains(access: Access, axis: int) -> Iterator[Part]:
    """The first grain of an axis, the last, and one between: all of them run, so the largest counts."""
    size, grain = access.sizes[axis], access.grain_of(axis)
    for at in dict.fromkeys((0, size // grain // 2 * grain, (size - 1) // grain * grain)):
        yield {axis: (at, min(size, at + grain))}


def _working_set(graph: Graph, op: Op, access: Access | None, part: Part, streamed: bool, overlap: bool) -> int:
    """Bytes of a part's operands and results; None: of the op uncut."""
    tensors = graph.tensor_by_id
    reads: dict[int, int] = {}
    for i, t in enumerate(op.operands or op.inputs):
        if t is None or tensors[t].kind is Kind.CONSTANT:
            continue
        tensor = tensors[t]
        held = access is None or (tensor.kind is Kind.INPUT and not streamed)
        box = None if held or access is None else access.need(i, tensor.shape or (), part)
        reads[t] = max(reads.get(t, 0), _bytes(tensor, box))
    for t in op.inputs:  # what bodies capture is no operand
        if t not in reads and tensors[t].kind is not Kind.CONSTANT:
            reads[t] = tensors[t].size
    writes = 0
    for j, t in enumerate(op.outputs):
        tensor = tensors[t]
        held = access is None or (tensor.kind is Kind.OUTPUT and not streamed)
        writes += _bytes(tensor, None if held or access is None else access.written(j, tensor.shape or (), part))
    return max(sum(reads.values()), writes) if overlap else sum(reads.values()) + writes


def _bytes(tensor: Tensor, box: Box | None) -> int:
    """Bytes of a box of a tensor, rounded up; of all of it without one."""
    if box is None or not tensor.size:
        return tensor.size
    elements = 1
    for size in tensor.shape or ():
        elements *= size
    return -(-tensor.size * box_elements(box) // max(1, elements))
