"""ONNX ops whose results depend on all of some dimensions: softmax, norms, cumulative sums; and those of one number a
channel."""

from __future__ import annotations

from lowtide.ops.forms import Along, Channelwise, Form, Labelled, Pointwise
from lowtide.ops.node import Node, NoForm, Row


def _from_axis(node: Node, default: int) -> tuple[int, ...]:
    rank = node.rank()
    return tuple(range(node.dim(node.attribute("axis", default), rank), rank))


def _softmax(node: Node) -> Form:
    """Version 13 looks along one axis; earlier ones at everything from it on, with 1 as the default axis."""
    if node.graph.opset == 0 or node.graph.opset >= 13:
        return Along((node.dim(node.attribute("axis", -1), node.rank()),))
    return Along(_from_axis(node, min(1, max(0, node.rank() - 1))))


def _last(node: Node) -> Form:
    return Along((node.rank() - 1,))


def _mean_variance(node: Node) -> Form:
    return Along(tuple(node.dim(d, node.rank()) for d in node.ints("axes", (0, 2, 3))))


def _cumulative(node: Node) -> Form:
    (axis,) = node.values(1)
    return Along((node.dim(int(axis), node.rank()),), literal=node.literals(), cost=1)


def _top(node: Node) -> Form:
    axis = node.dim(node.attribute("axis", -1), node.rank())
    literal = (1,) if node.given(1) else ()
    return Along((axis,), literal=literal, cost=1)


def _reverse_sequence(node: Node) -> Form:
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    data = tuple(None if d == time else d for d in range(node.rank()))
    return Labelled("along", (data, (batch,)), (data,), limits=((1, node.shape()[time]),))


def _batch_norm(node: Node) -> Form:
    if node.rank() < 2:
        raise NoForm("no dimension of channels")
    if node.attribute("spatial", 1) == 0:
        raise NoForm("statistics of each place, as opset versions before 9 had them")
    training = bool(node.attribute("training_mode"))
    if training:  # sums of several numbers at once, as `_BY_PLACE` has it
        return Channelwise(1, (1, 2, 3, 4), (0, *range(2, node.rank())), exact="kernel")
    return Channelwise(1, (1, 2, 3, 4))


def _group_norm(node: Node) -> Form:
    return Channelwise(1, (1, 2), tuple(range(2, node.rank())), node.attribute("num_groups"), cost=5)


def _quantise(node: Node) -> Form:
    """One scale, one along an axis, or one for each block of it."""
    scale = node.shape(1)
    block = node.attribute("block_size", 0)
    vectors = tuple(range(1, len(node.operands)))
    if block:
        axis = node.dim(node.attribute("axis", 1), node.rank())
        return Channelwise(axis, blocks=tuple((i, block) for i in vectors if node.given(i)), cost=1)
    if scale in ((), (1,)):
        return Pointwise()
    return Channelwise(node.dim(node.attribute("axis", 1), node.rank()), vectors, cost=1)


def _cast_like(node: Node) -> Form:
    data = tuple(range(node.rank()))
    return Labelled("pointwise", (data, (None,) * node.rank(1)), (data,))


ROWS: dict[str, Row] = {
    "Softmax LogSoftmax Hardmax": _softmax,
    "LpNormalization": lambda node: Along((node.dim(node.attribute("axis", -1), node.rank()),)),
    "LayerNormalization RMSNormalization SimplifiedLayerNormalization": lambda node: Along(_from_axis(node, -1)),
    "com.microsoft::SkipLayerNormalization com.microsoft::SkipSimplifiedLayerNormalization Multinomial": _last,
    "MeanVarianceNormalization": _mean_variance,
    "CumSum": _cumulative,
    "TopK": _top,
    # A triangle's diagonal counts from the corner.
    "Trilu": lambda node: Along((node.rank() - 2, node.rank() - 1), literal=(1,) if node.given(1) else (), cost=0),
    "ReverseSequence": _reverse_sequence,
    "DynamicQuantizeLinear": lambda node: Along(tuple(range(node.rank())), cost=3),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": lambda node: Channelwise(1, (1, 2), tuple(range(2, node.rank())), cost=5),
    "GroupNormalization": _group_norm,
    "QuantizeLinear DequantizeLinear": _quantise,
    "CastLike": _cast_like,
    "Bernoulli com.microsoft::Gelu com.microsoft::FastGelu com.microsoft::BiasGelu "
    "com.microsoft::QuickGelu": lambda node: Pointwise(),
}
