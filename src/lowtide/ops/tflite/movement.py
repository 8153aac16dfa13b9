"""TFLite operators that move data: concatenation and splitting, gathers, fills, blocks."""

from __future__ import annotations

from lowtide.ops import forms
from lowtide.ops.access import Access
from lowtide.ops.index import Index, fit, fixed
from lowtide.ops.node import Node, NoForm, Row


def _pack(node: Node) -> forms.Form:
    """Operand i is row i of a new dimension, which is untiled."""
    rank = len(node.result())
    new = node.dim(int(node.attribute("axis", 0)), rank)
    axes = [d for d in range(rank) if d != new]
    number = {d: axis for axis, d in enumerate(axes)}
    data = tuple(Index(number[d]) for d in axes)
    result = tuple(number.get(d) for d in range(rank))
    return forms.Custom("piece", Access(tuple(node.result()[d] for d in axes), (result,), (data,) * len(node.operands)))


def _unpack(node: Node) -> forms.Form:
    rank = node.rank()
    gone = node.dim(int(node.attribute("axis", 0)), rank)
    data: forms.Labels = tuple(None if d == gone else d for d in range(rank))
    result: forms.Labels = tuple(d for d in range(rank) if d != gone)
    return forms.Labelled("gather", (data,), (result,) * len(node.writes))


def _split(node: Node) -> forms.Form:
    """The dimension comes first, then the data."""
    (dim,) = node.values(0)
    rank = node.rank(1)
    divided = node.dim(int(dim), rank)
    data: forms.Labels = tuple(None if d == divided else d for d in range(rank))
    return forms.Labelled("gather", ((None,) * node.rank(0), data), (data,) * len(node.writes), literal=(0,))


def _split_by_sizes(node: Node) -> forms.Form:
    node.values(1)
    (dim,) = node.values(2)
    return forms.Split(node.dim(int(dim), node.rank()), (1, 2))


def _slice(node: Node) -> forms.Form:
    starts = node.values(1)
    node.peek(2)
    return forms.Indexed("piece", tuple(Index(d, 1, 1, int(s), int(s)) for d, s in enumerate(starts)), (1, 2))


def _strided_slice(node: Node) -> forms.Form:
    """Dimensions may be left out of the result (`shrink_axis_mask`); new ones and ellipses are not taken."""
    if node.attribute("ellipsis_mask") or node.attribute("new_axis_mask"):
        raise NoForm("an ellipsis, or a new dimension")
    starts, steps = node.values(1), node.values(3)
    node.peek(2)
    begin, shrink = int(node.attribute("begin_mask", 0)), int(node.attribute("shrink_axis_mask", 0))
    indices: list[Index] = []
    result = 0
    for d, size in enumerate(node.shape()):
        if d >= len(starts):
            indices.append(Index(result))
            result += 1
            continue
        start, step = int(starts[d]), int(steps[d])
        if shrink >> d & 1:
            row = start + size if start < 0 else start
            indices.append(fixed(row, row + 1))
            continue
        if begin >> d & 1:
            start = 0 if step > 0 else size - 1
        start = start + size if start < 0 else start
        start = min(max(start, 0), size if step > 0 else size - 1)
        indices.append(Index(result, step, 1, start, start))
        result += 1
    return forms.Indexed("piece", tuple(indices), (1, 2, 3))


def _pad(node: Node) -> forms.Form:
    pads = node.values(1)
    indices = tuple(Index(d, 1, 1, -int(pads[2 * d]), -int(pads[2 * d])) for d in range(node.rank()))
    return forms.Indexed("piece", indices, (1,))


def _mirror_pad(node: Node) -> forms.Form:
    """Mode 0 leaves the edge row out of the mirror, 1 does not."""
    pads, symmetric = node.values(1), bool(node.attribute("mode", 0))
    indices: list[Index] = []
    for d, size in enumerate(node.shape()):
        before, behind = int(pads[2 * d]), int(pads[2 * d + 1])
        rows = []
        for i in range(-before, size + behind):
            at = -i - symmetric if i < 0 else i
            at = 2 * (size - 1) - at + symmetric if at >= size else at
            at = min(max(at, 0), size - 1)
            rows.append((at, at + 1))
        indices.append(fit(d, rows, 1, 1) if before or behind else Index(d))
    return forms.Indexed("piece", tuple(indices), (1,))


def _blocks(spread: bool) -> Row:
    return lambda node: forms.Blocks((1, 2), 3, int(node.attribute("block_size", 0)), spread)


def _batches(node: Node) -> forms.Form:
    """Space goes to batches and back: only channels stay where they are."""
    rank = node.rank()
    kept: forms.Labels = (*(None,) * (rank - 1), rank - 1)
    return forms.Labelled("gather", (kept, *((None,) * len(s or ()) for s in node.reads[1:])), (kept,), literal=(1, 2))


def _gather(node: Node) -> forms.Form:
    rank, picks = node.rank(), node.rank(1)
    axis = node.dim(int(node.attribute("axis", 0)), rank)
    batch = int(node.attribute("batch_dims", 0))
    if batch:
        raise NoForm("a gather for each batch")
    data: forms.Labels = tuple(d if d < axis else None if d == axis else d - 1 + picks for d in range(rank))
    chosen: forms.Labels = tuple(range(axis, axis + picks))
    return forms.Labelled(
        "gather", (data, chosen), (tuple(range(rank - 1 + picks)),), limits=((1, node.shape()[axis]),)
    )


def _gather_nd(node: Node) -> forms.Form:
    depth, outer = node.shape(1)[-1], node.rank(1) - 1
    tail = node.rank() - depth
    data: forms.Labels = (*(None,) * depth, *range(outer, outer + tail))
    limit = min(node.shape()[:depth])
    return forms.Labelled("gather", (data, (*range(outer), None)), (tuple(range(outer + tail)),), limits=((1, limit),))


def _embedding(node: Node) -> forms.Form:
    """Operands: indices, table."""
    rest: forms.Labels = tuple(range(1, node.rank(1)))
    return forms.Labelled("gather", ((0,), (None, *rest)), ((0, *rest),), limits=((0, node.shape(1)[0]),))


def _reverse(node: Node) -> forms.Form:
    turned = {node.dim(int(d), node.rank()) for d in node.values(1)}
    return forms.Indexed(
        "piece",
        tuple(Index(d, -1, 1, s - 1, s - 1) if d in turned else Index(d) for d, s in enumerate(node.shape())),
        (1,),
    )


def _fill(node: Node) -> forms.Form:
    """Operands: a shape, a value."""
    rank = len(node.result())
    return forms.Labelled("gather", ((None,) * node.rank(0), ()), (tuple(range(rank)),), literal=(0,))


def _select(node: Node) -> forms.Form:
    """The condition of the old SELECT may be a vector that runs along the first dimension."""
    rank = len(node.result())
    if node.rank() == 1 and rank > 1:
        labels: forms.Labels = tuple(range(rank))
        return forms.Labelled("pointwise", ((0,), labels, labels), (labels,), broadcast=True)
    return forms.Pointwise()


ROWS: dict[str, Row] = {
    "TRANSPOSE": lambda node: forms.Transpose(tuple(node.dim(int(d), node.rank()) for d in node.values(1)), (1,)),
    "CONCATENATION": lambda node: forms.Concat(node.dim(int(node.attribute("axis", 0)), node.rank())),
    "PACK": _pack,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "SPLIT_V": _split_by_sizes,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "PAD PADV2": _pad,
    "MIRROR_PAD": _mirror_pad,
    "DEPTH_TO_SPACE": _blocks(True),
    "SPACE_TO_DEPTH": _blocks(False),
    "SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND": _batches,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "EMBEDDING_LOOKUP": _embedding,
    "REVERSE_V2": _reverse,
    "BROADCAST_TO": lambda node: forms.Pointwise((1,), 0),
    "TILE": lambda node: forms.Repeat((1,)),
    "FILL": _fill,
    "SHAPE RANK": lambda node: forms.Generate(False),
    "SELECT": _select,
}
