"""ATen ops that move data: views of another order, concatenation and splitting, gathers, fills."""

from __future__ import annotations

from typing import Any

from lowtide.ops import forms
from lowtide.ops.access import Access
from lowtide.ops.index import Index, fixed
from lowtide.ops.node import Node, NoForm, Row


def required(node: Node, name: str) -> Any:
    """An argument that the op cannot do without. Raises `NoForm`: it is not among the attributes: the graph carries
    sizes alone."""
    value = node.attribute(name)
    if value is None:
        raise NoForm(f"its argument {name} is not known")
    return value


def _transpose(node: Node) -> forms.Form:
    rank = node.rank()
    order = list(range(rank))
    a, b = node.dim(required(node, "dim0"), rank), node.dim(required(node, "dim1"), rank)
    order[a], order[b] = b, a
    return forms.Transpose(tuple(order))


def _permute(node: Node) -> forms.Form:
    required(node, "dims")
    return forms.Transpose(tuple(node.dim(d, node.rank()) for d in node.ints("dims")))


def _concat(node: Node) -> forms.Form:
    """An operand of no element and one dimension is not concatenated, as in torch."""
    if any(shape == (0,) for shape in node.reads) and node.result() != (0,):
        raise NoForm("an empty operand of another rank")
    return forms.Concat(node.dim(node.attribute("dim", 0), node.rank()))


def _stack(node: Node) -> forms.Form:
    """Operand i is row i of a new dimension, which is untiled."""
    rank = len(node.result())
    new = node.dim(node.attribute("dim", 0), rank)
    axes = [d for d in range(rank) if d != new]
    number = {d: axis for axis, d in enumerate(axes)}
    data = tuple(Index(number[d]) for d in axes)
    return forms.Custom(
        "piece",
        Access(
            tuple(node.result()[d] for d in axes),
            (tuple(number.get(d) for d in range(rank)),),
            tuple(None if shape is None else data for shape in node.reads),
        ),
    )


def _unbind(node: Node) -> forms.Form:
    """Every result lacks the dimension, which is untiled in operand 0."""
    rank = node.rank()
    gone = node.dim(node.attribute("dim", 0), rank)
    data = tuple(None if d == gone else d for d in range(rank))
    result = tuple(d for d in range(rank) if d != gone)
    return forms.Labelled("gather", (data,), (result,) * len(node.writes))


def _slice(node: Node) -> forms.Form:
    rank = node.rank()
    d = node.dim(required(node, "dim") if "dim" in node.op.attributes else 0, rank)
    size, step = node.shape()[d], int(node.attribute("step", 1))
    if "start" not in node.op.attributes and node.result()[d] != size:
        raise NoForm("its argument start is not known")
    start = int(node.attribute("start") or 0)
    start = min(max(start + size if start < 0 else start, 0), size)
    indices = [Index(axis) for axis in range(rank)]
    indices[d] = Index(d, step, 1, start, start)
    return forms.Indexed("piece", tuple(indices))


def _select(node: Node) -> forms.Form:
    rank = node.rank()
    gone = node.dim(required(node, "dim"), rank)
    row = int(required(node, "index")) % max(1, node.shape()[gone])
    indices = [Index(d if d < gone else d - 1) for d in range(rank)]
    indices[gone] = fixed(row, row + 1)
    return forms.Indexed("piece", tuple(indices))


def _pad(node: Node) -> forms.Form:
    """Pads are given for the last dimension first, before and after."""
    rank = node.rank()
    required(node, "pad")
    pads = node.ints("pad")
    indices = [Index(d) for d in range(rank)]
    for k in range(len(pads) // 2):
        d = rank - 1 - k
        indices[d] = Index(d, 1, 1, -pads[2 * k], -pads[2 * k])
    return forms.Indexed("piece", tuple(indices))


def _flip(node: Node) -> forms.Form:
    rank = node.rank()
    required(node, "dims")
    turned = {node.dim(d, rank) for d in node.ints("dims")}
    return forms.Indexed(
        "piece",
        tuple(Index(d, -1, 1, size - 1, size - 1) if d in turned else Index(d) for d, size in enumerate(node.shape())),
    )


def _roll(node: Node) -> forms.Form:
    """Rolled dimensions are untiled: a tile would need two ranges."""
    rank = node.rank()
    required(node, "shifts")
    rolled = {node.dim(d, rank) for d in node.ints("dims")} or set(range(rank))
    return forms.Indexed("piece", tuple(None if d in rolled else Index(d) for d in range(rank)))


def _embedding(node: Node) -> forms.Form:
    """Operands: table (rows, width), indices."""
    picks = node.rank(1)
    chosen = tuple(range(picks))
    return forms.Labelled("gather", ((None, picks), chosen), ((*chosen, picks),), limits=((1, node.shape()[0]),))


def _index_select(node: Node) -> forms.Form:
    rank = node.rank()
    dim = node.dim(required(node, "dim"), rank)
    data = tuple(None if d == dim else d for d in range(rank))
    return forms.Labelled("gather", (data, (dim,)), (tuple(range(rank)),), limits=((1, node.shape()[dim]),))


def _gather(node: Node) -> forms.Form:
    """Other dimensions than `dim` may be longer in the data, whose first rows are read: then they are untiled."""
    rank = node.rank()
    dim = node.dim(required(node, "dim"), rank)
    same = [a == b for a, b in zip(node.shape(), node.shape(1), strict=True)]
    data = tuple(d if d != dim and same[d] else None for d in range(rank))
    everywhere = tuple(range(rank))
    return forms.Labelled("gather", (data, everywhere), (everywhere,), limits=((1, node.shape()[dim]),))


def _index(node: Node) -> forms.Form:
    """One operand of indices for the first dimension; more of them are left to themselves."""
    if len(node.operands) != 2 or not node.given(1) or node.operands[1].dtype == "bool":  # type: ignore[union-attr]
        raise NoForm("several tensors of indices, or a mask")
    picks, rank = node.rank(1), node.rank()
    if len(node.result()) != picks + rank - 1:
        raise NoForm("indices that are not for the first dimension")
    data = (None, *range(picks, picks + rank - 1))
    return forms.Labelled(
        "gather", (data, tuple(range(picks))), (tuple(range(picks + rank - 1)),), limits=((1, node.shape()[0]),)
    )


ROWS: dict[str, Row] = {
    "transpose": _transpose,
    "t": lambda node: forms.Transpose(tuple(reversed(range(node.rank())))),  # `t`: a matrix; a vector stays
    "permute": _permute,
    "cat": _concat,
    "stack": _stack,
    "split split_with_sizes chunk": lambda node: forms.Split(node.dim(node.attribute("dim", 0), node.rank())),
    "unbind": _unbind,
    "slice narrow": _slice,
    "select": _select,
    "constant_pad_nd": _pad,
    "flip": _flip,
    "roll": _roll,
    "embedding": _embedding,
    "index_select": _index_select,
    "gather": _gather,
    "index": _index,
    "repeat": lambda node: forms.Repeat(),
    "full full_like zeros ones empty new_zeros new_full scalar_tensor rand randn": lambda node: forms.Generate(True),
    "arange eye": lambda node: forms.Generate(False),  # numbers that count from the first row: no part is alike
    "_reshape_copy view_copy _reshape_alias unflatten": lambda node: forms.Reshape(),
}
