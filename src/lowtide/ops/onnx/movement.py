"""ONNX ops that move data: concatenation and splitting, gathers and scatters, what comes from shapes."""

from __future__ import annotations

from lowtide.ops import forms
from lowtide.ops.index import MOST_ROWS, Index, fit, fixed
from lowtide.ops.node import Node, NoForm, Row


def _transpose(node: Node) -> forms.Form:
    rank = node.rank()
    return forms.Transpose(node.ints("perm", tuple(range(rank))[::-1]))


def _split(node: Node) -> forms.Form:
    literal = tuple(range(1, len(node.operands)))
    return forms.Split(node.dim(node.attribute("axis", 0), node.rank()), literal)


def _slice(node: Node) -> forms.Form:
    """Starts, axes and steps from attributes (before version 10) or from constant operands."""
    if len(node.operands) > 1:
        starts = node.values(1)
        axes = node.values(3) if node.given(3) else tuple(range(len(starts)))
        steps = node.values(4) if node.given(4) else (1,) * len(starts)
        literal = tuple(range(1, len(node.operands)))
    else:
        starts = node.ints("starts")
        axes, steps, literal = node.ints("axes", tuple(range(len(starts)))), (1,) * len(starts), ()
    indices: list[Index] = [Index(d) for d in range(node.rank())]
    for start, axis, step in zip(starts, axes, steps, strict=True):
        d = node.dim(axis, node.rank())
        size = node.shape()[d]
        start = start + size if start < 0 else start
        start = min(max(start, 0), size if step > 0 else size - 1)
        indices[d] = Index(d, step, 1, start, start)
    return forms.Indexed("piece", tuple(indices), literal)


def _pad(node: Node) -> forms.Form:
    rank = node.rank()
    pads = node.values(1) if node.given(1) else node.ints("pads", node.ints("paddings"))
    axes = node.values(3) if node.given(3) else tuple(range(rank))
    mode = node.text("mode", "constant")
    before = [0] * rank
    behind = [0] * rank
    for i, axis in enumerate(axes):
        d = node.dim(int(axis), rank)
        before[d], behind[d] = int(pads[i]), int(pads[i + len(axes)])
    indices = tuple(_padded(d, node.shape()[d], before[d], behind[d], mode) for d in range(rank))
    return forms.Indexed("piece", indices, node.literals())


def _padded(d: int, size: int, before: int, behind: int, mode: str) -> Index | None:
    if mode == "constant" or (before <= 0 and behind <= 0):
        return Index(d, 1, 1, -before, -before)
    if mode == "wrap" or not size or size + before + behind > MOST_ROWS:
        return None
    rows = []
    for i in range(size + before + behind):
        at = i - before
        if mode == "reflect":
            at = abs(at) if size > 1 else 0
            at = at if at < size else 2 * (size - 1) - at
        at = min(max(at, 0), size - 1)
        rows.append((at, at + 1))
    return fit(d, rows, 1, 1)


def _gather(node: Node) -> forms.Form:
    """A single constant index is a fixed row, which the map names."""
    rank, picks = node.rank(), node.rank(1)
    axis = node.dim(node.attribute("axis", 0), rank)
    size = node.shape()[axis]
    known = node.peek(1)
    if known is not None and len(known) == 1:
        row = int(known[0]) % size
        indices = [Index(d if d < axis else d - 1 + picks) for d in range(rank)]
        indices[axis] = fixed(row, row + 1)
        return forms.Indexed("gather", tuple(indices), (1,))
    data = tuple(d if d < axis else None if d == axis else d - 1 + picks for d in range(rank))
    chosen = tuple(range(axis, axis + picks))
    return forms.Labelled("gather", (data, chosen), (tuple(range(rank - 1 + picks)),), limits=((1, size),))


def _but(rank: int, dim: int) -> tuple[int | None, ...]:
    return tuple(None if d == dim else d for d in range(rank))


def _gather_elements(node: Node) -> forms.Form:
    rank = node.rank()
    axis = node.dim(node.attribute("axis", 0), rank)
    everywhere = tuple(range(rank))
    return forms.Labelled("gather", (_but(rank, axis), everywhere), (everywhere,), limits=((1, node.shape()[axis]),))


def _gather_nd(node: Node) -> forms.Form:
    batch, depth = node.attribute("batch_dims", 0), node.shape(1)[-1]
    outer = node.rank(1) - 1
    tail = node.rank() - batch - depth
    data = (*range(batch), *(None,) * depth, *range(outer, outer + tail))
    limit = min(node.shape()[batch : batch + depth])
    return forms.Labelled("gather", (data, (*range(outer), None)), (tuple(range(outer + tail)),), limits=((1, limit),))


def _scatter_nd(node: Node) -> forms.Form:
    """Updates can land in any row of the dimensions that indices name; the others are cut."""
    rank, depth = node.rank(), node.shape(1)[-1]
    data = (*(None,) * depth, *range(depth, rank))
    updates = (*(None,) * (node.rank(1) - 1), *range(depth, rank))
    limit = min(node.shape()[:depth])
    return forms.Labelled("gather", (data, (None,) * node.rank(1), updates), (data,), limits=((1, limit),))


def _scatter_elements(node: Node) -> forms.Form:
    rank = node.rank()
    axis = node.dim(node.attribute("axis", 0), rank)
    labels = _but(rank, axis)
    return forms.Labelled("gather", (labels, labels, labels), (labels,), limits=((1, node.shape()[axis]),))


def _one_hot(node: Node) -> forms.Form:
    rank = len(node.result())
    axis = node.dim(node.attribute("axis", -1), rank)
    labels = _but(rank, axis)
    picks = tuple(label for label in labels if label is not None)
    return forms.Labelled("gather", (picks, (None,) * node.rank(1), (None,)), (labels,), literal=(1,))


def _blocks(spread: bool) -> Row:
    def row(node: Node) -> forms.Form:
        return forms.Blocks((2, 3), 1, node.attribute("blocksize"), spread, node.text("mode", "DCR") == "CRD")

    return row


def _tile(node: Node) -> forms.Form:
    if len(node.operands) > 2:
        raise NoForm("tiles as opset versions before 6 did")
    return forms.Repeat((1,))


def _grid_sample(node: Node) -> forms.Form:
    rank = node.rank()
    places = range(2, rank)
    return forms.Labelled(
        "resample", ((0, 1, *(None,) * (rank - 2)), (0, *places, None)), ((0, 1, *places),), exact="kernel"
    )


def _regions(node: Node) -> forms.Form:
    """Regions of interest: each by itself, from anywhere in the image."""
    reads = ((None, 1, None, None), (0, None), (0,))
    return forms.Labelled("resample", reads, ((0, 1, None, None),), limits=((2, node.shape()[0]),), exact="kernel")


def _from_shape(free: bool, literal: tuple[int, ...] = ()) -> Row:
    return lambda node: forms.Generate(free, literal)


ROWS: dict[str, Row] = {
    "Transpose": _transpose,
    "Concat": lambda node: forms.Concat(node.dim(node.attribute("axis", 1), node.rank())),
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "ScatterElements Scatter": _scatter_elements,
    "OneHot": _one_hot,
    "DepthToSpace": _blocks(True),
    "SpaceToDepth": _blocks(False),
    "Expand": lambda node: forms.Pointwise((1,), 0),
    "Tile": _tile,
    "Range Shape Size EyeLike": _from_shape(False),
    "GridSample": _grid_sample,
    "RoiAlign": _regions,
    "ConstantOfShape": _from_shape(True, (0,)),
    "RandomNormal RandomUniform RandomNormalLike RandomUniformLike": _from_shape(True),
}
