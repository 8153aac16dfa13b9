"""ATen's backward ops: several results, each with axes of its own.

Cut along the batch, gradients of activations lie side by side and gradients of parameters add up: the batch is an axis
that the latter lack, so it is reduced. What `output_mask` leaves out has no say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from lowtide.ops.access import labelled
from lowtide.ops.aten.norms import normalised, one_dim
from lowtide.ops.aten.windows import outer, planes, required_ints
from lowtide.ops.families import access_of, untiled
from lowtide.ops.forms import Custom, Form, Labelled, Labels
from lowtide.ops.index import NOTHING
from lowtide.ops.node import Node, NoForm, Row


def output_mask(node: Node, count: int = 3) -> tuple[bool, ...]:
    """Which results there are, at their positions."""
    mask = node.attribute("output_mask")
    if mask is None:
        return (True,) * count
    return tuple(bool(m) for m in mask)


def custom(node: Node, family: str, reads: Sequence[Labels | None], writes: Sequence[Labels], flops: int) -> Custom:
    """An access from labels of all operands and of all results that there can be. Raises `NoForm`: the graph lists
    another number of results than were requested, or than there can be."""
    there = output_mask(node, len(writes))
    if len(node.writes) == len(writes):
        kept = tuple(
            labels if given else (None,) * len(shape or ())
            for labels, given, shape in zip(writes, there, node.writes, strict=True)
        )
    else:
        kept = tuple(labels for labels, given in zip(writes, there, strict=True) if given)
    if len(kept) != len(node.writes):
        raise NoForm(f"{len(node.writes)} results where {len(kept)} were requested")
    access = labelled(tuple(reads), kept, node.reads, node.writes, broadcast=False)
    return Custom(family, replace(access, exact="kernel"), flops)


def _convolution(node: Node) -> Form:
    """Operands: gradient, data, weights. Results: gradients of data (n, c, ...), weights (o, c, ...) and bias (o).
    The batch n is in the first and summed in the others, output channels o the other way round. Input channels c are
    untiled where the gradient of a bias is requested too: it would be the same in every part of them."""
    required_ints(node, "stride")
    if int(node.attribute("groups", 1)) != 1:
        return _convolution_by_batch(node)
    rest = (None,) * (node.rank() - 2)
    n, o, c = 0, 1, None if output_mask(node)[2] else 2
    weights: Labels = (c, o, *rest) if node.attribute("transposed", False) else (o, c, *rest)
    reads = ((n, o, *rest), (n, c, *rest), weights, *(untiled(shape) for shape in node.reads[3:]))
    return custom(node, "convolution", reads, ((n, c, *rest), weights, (o,)), _convolution_flops(node))


def _convolution_by_batch(node: Node) -> Form:
    rest = (None,) * (node.rank() - 1)
    reads = ((0, *rest), (0, *rest), *(untiled(shape) for shape in node.reads[2:]))
    writes = ((0, *rest), (None,) * node.rank(2), (None,))
    return custom(node, "convolution", reads, writes, _convolution_flops(node))


def _convolution_flops(node: Node) -> int:
    """Each of the two large gradients costs what the forward convolution did."""
    data, weights = node.shape(0), node.shape(2)
    if node.attribute("transposed", False):
        once = 2 * prod(node.shape(1)) * prod(weights[1:])
    else:
        once = 2 * prod(data) * prod(weights[1:])
    return once * sum(output_mask(node)[:2])


def _layer_norm(node: Node) -> Form:
    """Operands: gradient, data, mean, deviation, weight, bias. Leading rows lie side by side, summed for weights."""
    dims = normalised(node)
    lead = node.rank() - len(dims)
    data: Labels = (*range(lead), *(None,) * len(dims))
    reads = tuple(
        None if s is None else data if len(s) == len(data) and i < 4 else (None,) * len(s)
        for i, s in enumerate(node.reads)
    )
    vector = (None,) * len(dims)
    return custom(node, "along", reads, (data, vector, vector), 10 * prod(node.shape()))


def _batch_norm(node: Node) -> Form:
    """Operands: gradient, data, then numbers of each channel. A batch's statistics leave all but channels untiled."""
    vectors = tuple(range(2, len(node.operands)))
    rank = node.rank()
    data: Labels = (None, 1, *(None,) * (rank - 2))
    reads = tuple(
        None if s is None else data if i < 2 else (1,) if i in vectors and len(s) == 1 else (None,) * len(s)
        for i, s in enumerate(node.reads)
    )
    form = custom(node, "channelwise", reads, (data, (1,), (1,)), 10 * prod(node.shape()))
    unused = (3, 4) if node.attribute("train", True) else (5, 6)
    inputs = tuple((NOTHING,) if i in unused and dims else dims for i, dims in enumerate(form.access.inputs))
    return replace(form, access=replace(form.access, inputs=inputs))


def _group_norm(node: Node) -> Form:
    """Operands: gradient, data, mean, deviation (batch, groups), weight. The batch is cut."""
    data: Labels = (0, *(None,) * (node.rank() - 1))
    reads = tuple(
        None if s is None else data if i < 2 else (0, None) if i < 4 and len(s) == 2 else (None,) * len(s)
        for i, s in enumerate(node.reads)
    )
    return custom(node, "channelwise", reads, (data, (None,), (None,)), 10 * prod(node.shape()))


def _embedding(node: Node) -> Form:
    """Rows are added to a table of which every part holds all: operands (..., width), indices; result (rows, width)."""
    picks = node.rank(1)
    chosen = tuple(range(picks))
    reads: tuple[Labels, Labels] = ((*chosen, picks), chosen)
    access = labelled(reads, ((None, picks),), node.reads, node.writes, broadcast=False)
    return Custom("gather", access, prod(node.shape()))


def unread(form: Labelled, node: Node, *operands: int) -> Custom:
    """The form with operands whose shape is requested and not what is in them."""
    access = access_of(form, node.reads, node.writes)
    inputs = tuple((NOTHING,) * len(dims) if i in operands and dims else dims for i, dims in enumerate(access.inputs))
    return Custom(form.family, replace(access, inputs=inputs), form.flops, form.limits)


def _max_pool(node: Node) -> Form:
    """Operands: gradient, data (its shape), places in the data's plane."""
    rows, columns = node.shape(1)[-2:]
    return unread(replace(planes(node, 2), limits=((2, rows * columns),)), node, 1)


def _loss(node: Node) -> Form:
    """`mse_loss`: rows by rows with no reduction, else everything is summed (a mean keeps the uncut divisor)."""
    labels: Labels = tuple(range(node.rank()))
    result = labels if node.result() else ()
    access = labelled((labels, labels), (result,), node.reads, node.writes, broadcast=False)
    return Custom("reduction", access, 3 * prod(node.shape()))


def _loss_back(node: Node) -> Form:
    """Operands: gradient (a scalar, or of every row), data, target."""
    labels: Labels = tuple(range(node.rank(1)))
    return Labelled(
        "pointwise", (labels if node.rank() else (), labels, labels), (labels,), flops=3 * prod(node.shape(1))
    )


def _nll(node: Node) -> Form:
    """Results: loss, and the weight that it is divided by. Cut where each row has a loss of its own, or all are
    summed. A mean is over rows that are not left out, whose number no part knows."""
    rank = node.rank()
    apart = int(node.attribute("reduction", 1)) != 1 and rank == 2
    row = 0 if apart else None
    others = tuple(untiled(shape) for shape in node.reads[2:])
    reads = ((row, *(None,) * (rank - 1)), (row,) if node.rank(1) else (), *others)
    result: Labels = (row,) if node.result() else ()  # the weight is summed, and 0 where nothing is
    access = labelled(reads, (result, ()), node.reads, node.writes, broadcast=False)
    return Custom("gather", access, node.shape()[0], ((1, node.shape()[-1]),))


def _nll_back(node: Node) -> Form:
    """Operands: gradient, data (rows, classes; its shape), target (rows), perhaps a weight, the total weight."""
    rank = node.rank(1)
    data: Labels = (0, *(None,) * (rank - 1))
    reads = tuple(
        None if s is None else data if i == 1 else (0,) if i == 2 or (i == 0 and len(s) == 1) else (None,) * len(s)
        for i, s in enumerate(node.reads)
    )
    if rank != 2:
        raise NoForm("classes that are not the second of two dimensions")
    return unread(Labelled("gather", reads, (data,), limits=((2, node.shape(1)[1]),)), node, 1)


ROWS: dict[str, Row] = {
    "convolution_backward": _convolution,
    "native_layer_norm_backward": _layer_norm,
    "native_batch_norm_backward": _batch_norm,
    "native_group_norm_backward": _group_norm,
    "embedding_dense_backward": _embedding,
    "_softmax_backward_data _log_softmax_backward_data": one_dim(),
    "mse_loss": _loss,
    "mse_loss_backward": _loss_back,
    "nll_loss_forward": _nll,
    "nll_loss_backward": _nll_back,
    "max_pool2d_with_indices_backward": _max_pool,
    # Operands: gradient, data (its shape).
    "avg_pool2d_backward _adaptive_avg_pool2d_backward": lambda node: unread(planes(node, 2), node, 1),
    "upsample_nearest2d_backward": outer(2),
    "upsample_bilinear2d_backward": outer(2, 8),
    "constant_pad_nd_backward": outer(2, 0),
}
