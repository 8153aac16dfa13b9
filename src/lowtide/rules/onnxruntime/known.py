"""Kernels of onnxruntime's CPU provider of which it is known what they take from the arena in addition to their
outputs.

Each was measured by itself (`tests/rules/onnxruntime/test_known.py`). A graph with any other op gets an arena that is
*at least* needed: what is missing is taken from the system when it runs. Apart from kernels that were not measured,
those are unknown whose memory hangs on more than the file says: QLinearConv that may read by pointers, which depends on
the CPU; types that onnxruntime converts behind the file's back (16-bit floats run in float32, between Casts of its
own); a DequantizeLinear that several ops read, of which it makes one for each; and in a file with free dimensions ops
that may write over an input: onnxruntime does that only where it knows without the sizes that both tensors are as
large.
"""

from __future__ import annotations

from itertools import product

from lowtide.graph import Graph, Kind, Op
from lowtide.rules.onnxruntime.einsum import einsum_chunks
from lowtide.rules.onnxruntime.rule import ALIAS, OnnxRuntimeRule, kept_chunks, reads_by_pointers

_ONNX = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitwiseAnd BitwiseOr
BitwiseXor Cast CastLike Ceil Celu Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten
Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
GreaterOrEqual GridSample HardSigmoid Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool Mean Min Mod Mul
Neg Not OneHot Or PRelu Pad Pow QLinearConv QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2
ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign
SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan
Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""
_CONTRIB = """
BiasGelu DequantizeLinear DynamicQuantizeMatMul EmbedLayerNormalization ExpandDims FastGelu FusedConv FusedGemm
FusedMatMul Gelu Inverse MatMulIntegerToFloat MatMulNBits QLinearAdd QLinearConcat QLinearGlobalAveragePool
QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuantizeLinear QuickGelu RotaryEmbedding
SkipLayerNormalization SkipSimplifiedLayerNormalization
"""
_BLOCKED = """
AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool ReorderInput ReorderOutput Upsample
"""

MEASURED = frozenset(_ONNX.split()).union(
    (f"com.microsoft::{name}" for name in _CONTRIB.split()),
    (f"com.microsoft.nchwc::{name}" for name in _BLOCKED.split()),
)
"""Kernels that take what `lowtide.rules.onnxruntime.rule.chunks` says, most of them nothing."""

CONDITIONAL = "If"  # the op that runs one of its bodies; what it makes is there before
MOST_CONDITIONAL = 4  # a block is tried with each choice of branches up to this many conditional ops

UNTYPED = "ops without a type"  # what is named for those of a graph that says no types
_CONVERTED = frozenset({"float16", "bfloat16"})
_RULE = OnnxRuntimeRule()
_ANY_TYPE = ALIAS | {"Cast", "Constant", "Shape", "Size"}


def unknown_kernels(graph: Graph) -> list[str]:
    """Types of the ops, those in bodies too, of which it is not known what their kernels take, each once, sorted."""
    found = {op.type or UNTYPED for op in graph.ops if not _is_measured(graph, op)}
    if getattr(graph.file, "dims", ()):
        found.update(_overwriting(graph))
    if _conditionals(graph) > MOST_CONDITIONAL:
        found.add(CONDITIONAL)
    for op in graph.ops:
        for body in op.bodies:
            found.update(unknown_kernels(body))
    return sorted(found)


def _overwriting(graph: Graph) -> set[str]:
    """Types of the ops, those in bodies too, that write over an input that has no other consumer if it is as large."""
    found: set[str] = set()
    for op in graph.ops:
        own = [graph.tensor_by_id[t] for t in _RULE.in_place_inputs(graph, op)]
        if any(t.kind is Kind.ACTIVATION and len(graph.consumers.get(t.id, ())) == 1 for t in own):
            found.add(op.type)
        for body in op.bodies:
            found |= _overwriting(body)
    return found


def branch_choices(graph: Graph) -> list[tuple[int, ...]]:
    """Each choice of bodies for the conditional ops of a graph and of its bodies; of many, all first and all last."""
    count = _conditionals(graph)
    if count > MOST_CONDITIONAL:
        return [(0,) * count, (1,) * count]
    return list(product((0, 1), repeat=count))


def _unread(body: Graph) -> bool:
    """Whether an op of a body makes a tensor without a consumer: it is not given back at once there."""
    return any(
        t not in body.consumers and body.tensor_by_id[t].kind is not Kind.OUTPUT for op in body.ops for t in op.outputs
    )


def _conditionals(graph: Graph) -> int:
    own = sum(op.type == CONDITIONAL for op in graph.ops)
    return own + sum(_conditionals(body) for op in graph.ops for body in op.bodies)


def _is_measured(graph: Graph, op: Op) -> bool:
    tensors = graph.tensor_by_id
    types = {tensors[t].dtype for t in (*op.inputs, *op.outputs)}
    if op.type not in MEASURED or (types & _CONVERTED and op.type not in _ANY_TYPE):
        return False
    shapes = [tensors[t].shape for t in op.inputs]
    match op.type:
        case "DequantizeLinear":
            return len(graph.consumers.get(op.outputs[0], ())) <= 1
        case "QLinearConv":
            flat = shapes[0] is not None and len(shapes[0]) == 4
            return (
                flat
                and len(shapes) > 3
                and not reads_by_pointers(op, shapes[0], shapes[3], tensors[op.outputs[0]].shape)
            )
        case "If":
            return not any(kept_chunks(body) or _unread(body) for body in op.bodies)
        case "BatchNormalization" | "Dropout":
            return not op.attributes.get("training_mode")
        case "Resize":
            return not op.attributes.get("antialias")
        case "Einsum":
            equation, operands = op.attributes.get("equation"), [shape for shape in shapes if shape is not None]
            known = isinstance(equation, str) and len(operands) == len(shapes)
            return known and einsum_chunks(str(equation), operands, 4) is not None
        case _:
            return True
