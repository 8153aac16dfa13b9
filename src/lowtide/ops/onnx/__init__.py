"""ONNX ops as forms: one row a type. Names are ONNX's, those of other domains as ``domain::Type``.

What differs by opset version is read off the node where it can be (axes, pads and starts are attributes or operands),
else the graph says the version: softmax before 13 sees everything from its axis on as one.
"""

from __future__ import annotations

from dataclasses import replace

from lowtide.ops.forms import Along, Channelwise, Form, Pointwise, Reduction, Reshape
from lowtide.ops.kinds import kind_of
from lowtide.ops.node import Node, NoForm, by_type
from lowtide.ops.onnx import blocked, movement, norms, products, resize, windows

ROWS = by_type(
    windows.ROWS, products.ROWS, norms.ROWS, movement.ROWS, resize.ROWS, blocked.ROWS,
    {"com.microsoft::QuickGelu": lambda node: Pointwise(cost=4, exact="kernel")},
)  # fmt: skip
"""What is not in here is elementwise or a view in `ops/kinds.py`, or opaque."""

_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)

_BY_PLACE = frozenset(
    {
        "Acos", "Asin", "Atan", "Celu", "Cos", "Elu", "Log", "Mish", "Selu", "Sin", "Softplus",
        "GroupNormalization", "InstanceNormalization", "LRN", "MeanVarianceNormalization", "ReduceMean", "ReduceSum",
    }
)  # fmt: skip
"""Ops whose floats hang on where they lie: onnxruntime's loops of several numbers at once compute, or add up, the last
few of a tensor in another way. Measured on onnxruntime 1.31 for x86-64; all other elementwise ops, norms and reductions
gave the same bits in every cut."""

HALF = ("float16", "bfloat16")  # element types that few kernels of onnxruntime's CPU provider take


def form(node: Node) -> Form:
    """Canonical parameters of an ONNX op. Raises `NoForm`: there is no row for its type, or what the row asks for is
    not known."""
    result = _form(node)
    floats = node.type in _BY_PLACE and "float" in (node.results[0].dtype or "")
    if floats and isinstance(result, Pointwise | Along | Channelwise | Reduction):
        return replace(result, exact="kernel")
    return result


def _form(node: Node) -> Form:
    row = ROWS.get(node.type)
    if row is not None:
        return row(node)
    kind = kind_of(node.type)
    if kind is None:
        raise NoForm(f"no row for {node.type}" + (", which has a body" if node.op.bodies else ""))
    if kind.view and node.type not in ("Identity", "Dropout"):
        return Reshape(tuple(range(1, len(node.operands))))
    _check_broadcast(node)
    return Pointwise(cost=int(kind.elementwise))


def _check_broadcast(node: Node) -> None:
    """Before version 7 an operand could be aligned with a dimension in the middle, if an attribute said so."""
    if node.attribute("broadcast") and node.attribute("axis") is not None:
        raise NoForm("its operands are aligned as opset versions before 7 did")


def is_random(node: Node) -> bool:
    """Whether the op draws random numbers."""
    return node.type in _RANDOM or bool(node.attribute("random"))


def mutates(node: Node) -> tuple[int, ...]:
    """None: ONNX ops write over nothing."""
    return ()


def rounds_by_neighbours(node: Node) -> bool:
    """Whether an operand or a result has half precision. onnxruntime's CPU provider has few kernels for these types.
    Around all others it casts to float32 and back, and drops the two casts between neighbours, its optimiser
    switched off or not: a slice, a join or a second run of an op between them decides where values are rounded to 16
    bits. Measured on onnxruntime 1.32."""
    return any(t is not None and t.dtype in HALF for t in (*node.operands, *node.results))
