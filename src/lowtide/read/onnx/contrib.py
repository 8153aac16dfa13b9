"""Types of what onnxruntime's own operators (``com.microsoft``) make: ONNX's inference knows none of them.

Each row follows the shape functions that onnxruntime documents in its ContribOperators page. Of an operator that is not
here, or whose attributes say something unusual, nothing is known: the file has to declare it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from lowtide.read.onnx.types import FLOAT, INT32, UINT8, TensorType, broadcast

if TYPE_CHECKING:
    from onnx import NodeProto

DOMAIN = "com.microsoft"
STANDARD = {"FusedConv": "Conv", "FusedGemm": "Gemm"}
"""Operators with the shape of one of ONNX's own, whose attributes they have beside others."""
_ONNX_ATTRIBUTES = frozenset(
    {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "transA", "transB", "alpha", "beta"}
)


@dataclass(frozen=True)
class Call:
    """A node's attributes, and the types of what it reads: None for what is left out or not known."""

    attributes: Mapping[str, Any]
    read: Sequence[TensorType | None]

    def at(self, position: int) -> TensorType | None:
        """Type of an operand."""
        return self.read[position] if position < len(self.read) else None

    def shape(self, position: int, rank: int = 1) -> tuple[int, ...]:
        """Shape of an operand. Raises `LookupError` unless it is known and has that many dimensions at least."""
        kind = self.at(position)
        if kind is None or len(kind.shape) < rank:
            raise LookupError(position)
        return kind.shape

    def element(self, position: int) -> int:
        """Element type of an operand. Raises `LookupError` unless it is known."""
        kind = self.at(position)
        if kind is None:
            raise LookupError(position)
        return kind.element


Made = list[TensorType | None]


def contrib_types(node: NodeProto, types: Mapping[str, TensorType]) -> Made:
    """Types of a node's outputs, in their order; nothing for operators that are not known."""
    from onnx.helper import get_attribute_value

    row = _ROWS.get(node.op_type)
    if row is None or node.domain != DOMAIN:
        return []
    call = Call({a.name: get_attribute_value(a) for a in node.attribute}, [types.get(n) for n in node.input])
    try:
        return row(call)
    except (
        LookupError,
        TypeError,
        ValueError,
        ZeroDivisionError,
    ):  # an operand or an attribute is not there, or is no such thing
        return []


def standard_node(node: NodeProto) -> NodeProto:
    """A node as one of ONNX's own operators, if it has the shape of one; else the node itself."""
    if node.domain != DOMAIN or node.op_type not in STANDARD:
        return node
    kept = [a for a in node.attribute if a.name in _ONNX_ATTRIBUTES]
    operands = list(node.input[:3])  # the sum that a fused convolution adds is the fourth
    return type(node)(op_type=STANDARD[node.op_type], input=operands, output=node.output[:1], attribute=kept)


def _same(call: Call) -> Made:
    return [call.at(0)]


def _normalised(call: Call) -> Made:
    """Output, mean, inverse deviation, and the sum that was normalised."""
    kind, statistics = call.at(0), TensorType(FLOAT, (*call.shape(0)[:-1], 1))
    return [kind, statistics, statistics, kind]


def _embedded(call: Call) -> Made:
    batch, length = call.shape(0, 2)[:2]
    kind = TensorType(call.element(2), (batch, length, call.shape(2, 2)[1]))
    return [kind, TensorType(INT32, (batch,)), kind]


def _binary(call: Call) -> Made:
    shape = broadcast([call.shape(0, 0), call.shape(3, 0)])
    return [] if shape is None else [TensorType(call.element(0), shape)]


def _concatenated(call: Call) -> Made:
    """Operands are at every third position, after the scale and the zero point of the result."""
    shapes = [call.shape(i) for i in range(2, len(call.read), 3)]
    axis = call.attributes["axis"] % len(shapes[0])
    length = sum(shape[axis] for shape in shapes)
    return [TensorType(call.element(2), (*shapes[0][:axis], length, *shapes[0][axis + 1 :]))]


def _global_pool(call: Call) -> Made:
    batch, *places = call.shape(0, 3)
    if call.attributes.get("channels_last"):
        shape = (batch, *(1 for _ in places[:-1]), places[-1])
    else:
        shape = (batch, places[0], *(1 for _ in places[1:]))
    return [TensorType(call.element(0), shape)]


def _turned(shape: tuple[int, ...], turn: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if turn and len(shape) > 1 else shape


def _product(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of numpy's matmul. Raises `LookupError` if there is none."""
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    batch = broadcast([left[:-2], right[:-2]])
    if batch is None:
        raise LookupError("batch")
    return (*batch, *rows, *columns)


def _fused_matmul(call: Call) -> Made:
    operands = []
    for i, side in enumerate("AB"):
        shape = call.shape(i)
        if call.attributes.get(f"transBatch{side}"):  # the batches stand between the dimensions of the matrices
            first, *batches, last = shape
            shape = (*batches, first, last)
        operands.append(_turned(shape, bool(call.attributes.get(f"trans{side}"))))
    return [TensorType(call.element(0), _product(*operands))]


def _matmul_of(element: Callable[[Call], int]) -> Callable[[Call], Made]:
    return lambda call: [TensorType(element(call), _product(call.shape(0), call.shape(1)))]


def _quantised_gemm(call: Call) -> Made:
    rows = _turned(call.shape(0, 2), bool(call.attributes.get("transA")))[0]
    columns = _turned(call.shape(3, 2), bool(call.attributes.get("transB")))[1]
    result = call.at(8)
    return [TensorType(FLOAT if result is None else result.element, (rows, columns))]


def _quantised(call: Call) -> Made:
    zero = call.at(2)
    return [TensorType(UINT8 if zero is None else zero.element, call.shape(0, 0))]


def _recurrent(call: Call) -> Made:
    """All states, the last ones, and the last cells, of an LSTM whose weights are of 8 bits."""
    length, batch = call.shape(0, 3)[:2]
    directions, hidden = call.shape(2, 3)[0], int(call.attributes["hidden_size"])
    last = TensorType(FLOAT, (directions, batch, hidden))
    return [TensorType(FLOAT, (length, directions, batch, hidden)), last, last]


def _attention(call: Call) -> Made:
    """One matrix makes queries, keys and values side by side."""
    batch, length, _ = call.shape(0, 3)
    sizes = call.attributes.get("qkv_hidden_sizes")
    hidden = sizes[2] if sizes else call.shape(1, 2)[1] // 3
    return [TensorType(call.element(0), (batch, length, hidden))]


def _multi_head(call: Call) -> Made:
    """Queries of rank 3 have values of rank 3, of separate heads (rank 4), or none: packed into the keys."""
    (batch, length, hidden), values = call.shape(0, 3), call.at(2)
    if values is not None:
        hidden = values.shape[2] if len(values.shape) == 3 else values.shape[1] * values.shape[3]
    return [TensorType(call.element(0), (batch, length, hidden))]


def _grouped(call: Call) -> Made:
    """Where no keys are given, queries hold them and the values too."""
    *places, hidden = call.shape(0, 3)
    heads, pairs = call.attributes["num_heads"], call.attributes["kv_num_heads"]
    hidden = hidden if call.at(1) is not None else prod((hidden, heads)) // (heads + 2 * pairs)
    return [TensorType(call.element(0), (*places, hidden))]


_ROWS: dict[str, Callable[[Call], Made]] = {
    **dict.fromkeys(
        ("BiasGelu", "FastGelu", "Gelu", "GroupNorm", "Inverse", "QLinearLeakyRelu", "QLinearSigmoid",
         "QLinearSoftmax", "QuickGelu", "RotaryEmbedding"), _same
    ),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _normalised),
    "Attention": _attention,
    "BiasAdd": _same,
    "BiasDropout": _same,
    "DequantizeLinear": lambda call: [TensorType(call.element(1), call.shape(0, 0))],
    "DynamicQuantizeLSTM": _recurrent,
    "DynamicQuantizeMatMul": _matmul_of(lambda call: FLOAT),
    "EmbedLayerNormalization": _embedded,
    "FusedMatMul": _fused_matmul,
    "GroupQueryAttention": _grouped,
    "MatMulIntegerToFloat": _matmul_of(lambda call: call.element(2)),
    "MatMulNBits": lambda call: [TensorType(call.element(0), (*call.shape(0)[:-1], call.attributes["N"]))],
    "MultiHeadAttention": _multi_head,
    "QGemm": _quantised_gemm,
    "QLinearAdd": _binary,
    "QLinearConcat": _concatenated,
    "QLinearGlobalAveragePool": _global_pool,
    "QLinearMul": _binary,
    "QuantizeLinear": _quantised,
    "TransposeMatMul": _fused_matmul,
}  # fmt: skip
