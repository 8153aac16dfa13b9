"""What onnxruntime's own operators make has the type and the shape that onnxruntime's kernels give it."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lowtide.read.onnx.contrib import contrib_types
from lowtide.read.onnx.reader import read_onnx
from lowtide.read.onnx.types import FLOAT, TensorType
from support.onnx_builder import saved

F, U8, I8, I32 = np.float32, np.uint8, np.int8, np.int32
SCALE, ZERO = np.ones((), F), np.zeros((), U8)
X, Q = np.ones((2, 4, 8), F), np.ones((2, 4, 8), U8)
WIDE, IMAGE = np.ones(8, F), np.ones((1, 4, 6, 6), U8)
IDS = np.ones((2, 5), I32)
NONE = None

ROWS = [
    ("Gelu", [X], {}),
    ("FastGelu", [X], {}),
    ("QuickGelu", [X], {}),
    ("BiasGelu", [X, WIDE], {}),
    ("SkipLayerNormalization", [X, X, WIDE, WIDE, WIDE], {}),
    ("SkipSimplifiedLayerNormalization", [X, X, WIDE], {}),
    ("EmbedLayerNormalization", [IDS, IDS, np.ones((9, 8), F), np.ones((7, 8), F), np.ones((3, 8), F), WIDE, WIDE], {}),
    ("Inverse", [np.eye(3, dtype=F)], {}),
    ("QLinearSigmoid", [Q, SCALE, ZERO, SCALE, ZERO], {}),
    ("QLinearLeakyRelu", [Q, SCALE, ZERO, SCALE, ZERO], {"alpha": 0.1}),
    ("QLinearSoftmax", [Q, SCALE, ZERO, SCALE, ZERO], {"axis": -1, "opset": 13}),
    ("QLinearAdd", [Q, SCALE, ZERO, Q[:, :1], SCALE, ZERO, SCALE, ZERO], {}),
    ("QLinearMul", [Q, SCALE, ZERO, Q[:1], SCALE, ZERO, SCALE, ZERO], {}),
    ("QLinearConcat", [SCALE, ZERO, Q, SCALE, ZERO, Q[:, :2], SCALE, ZERO], {"axis": 1}),
    ("QLinearConcat", [SCALE, ZERO, Q, SCALE, ZERO, Q[..., :3], SCALE, ZERO], {"axis": -1}),
    ("QLinearGlobalAveragePool", [IMAGE, SCALE, ZERO, SCALE, ZERO], {"channels_last": 0}),
    ("QLinearGlobalAveragePool", [IMAGE, SCALE, ZERO, SCALE, ZERO], {"channels_last": 1}),
    ("QGemm", [Q[0], SCALE, ZERO, np.ones((8, 3), U8), SCALE, ZERO, NONE, SCALE, ZERO], {}),
    ("QGemm", [Q[0], SCALE, ZERO, np.ones((3, 8), U8), SCALE, ZERO], {"transB": 1}),
    ("MatMulNBits", [X[..., :16], np.ones((5, 1, 8), U8), np.ones(5, F)],
     {"K": 8, "N": 5, "bits": 4, "block_size": 16}),
    ("FusedMatMul", [X, np.ones((2, 8, 3), F)], {}),
    ("FusedMatMul", [X, np.ones((2, 3, 8), F)], {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [X, np.ones((2, 4, 3), F)], {"transA": 1}),
    ("FusedMatMul", [X, np.ones(8, F)], {}),
    ("FusedMatMul", [X, np.ones((3, 4, 8), F)], {"transB": 1, "transBatchA": 1, "transBatchB": 1}),
    ("FusedMatMul", [X, np.ones((2, 4, 3), F)], {"transA": 1, "transBatchA": 1, "transBatchB": 1}),
    ("FusedMatMul", [X, np.ones((8, 2, 3), F)], {"transBatchB": 1}),
    ("MatMulIntegerToFloat", [Q, np.ones((8, 3), U8), SCALE, SCALE], {}),
    ("DynamicQuantizeMatMul", [X, np.ones((8, 3), U8), SCALE], {}),
    ("DequantizeLinear", [Q, SCALE, ZERO], {}),
    ("QuantizeLinear", [X, SCALE, np.zeros((), I8)], {}),
    ("Attention", [X, np.ones((8, 24), F), np.ones(24, F)], {"num_heads": 2}),
    ("Attention", [X, np.ones((8, 20), F), np.ones(20, F)], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]}),
    ("MultiHeadAttention", [X, X, np.ones((2, 4, 6), F)], {"num_heads": 2}),
    ("GroupQueryAttention", [np.ones((2, 1, 16), F), np.ones((2, 1, 8), F), np.ones((2, 1, 8), F),
     np.zeros((2, 1, 3, 8), F), np.zeros((2, 1, 3, 8), F), np.full(2, 3, I32), np.full(1, 4, I32)],
     {"num_heads": 2, "kv_num_heads": 1}),
    ("GroupQueryAttention", [np.ones((2, 1, 32), F), NONE, NONE,
     np.zeros((2, 1, 3, 8), F), np.zeros((2, 1, 3, 8), F), np.full(2, 3, I32), np.full(1, 4, I32)],
     {"num_heads": 2, "kv_num_heads": 1}),
    ("RotaryEmbedding", [X, np.zeros((2, 4), np.int64), np.ones((9, 4), F), np.ones((9, 4), F)], {}),
    ("FusedConv", [np.ones((1, 4, 6, 6), F), np.ones((3, 4, 3, 3), F), np.ones(3, F)],
     {"activation": "Relu", "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("DynamicQuantizeLSTM",
     [np.ones((5, 2, 3), F), np.ones((2, 3, 16), np.uint8), np.ones((2, 4, 16), np.uint8), np.ones((2, 32), F),
      None, np.zeros((2, 2, 4), F), np.zeros((2, 2, 4), F), None,
      *[np.ones(2, F), np.zeros(2, np.uint8)] * 2], {"hidden_size": 4, "direction": "bidirectional"}),
    ("FusedGemm", [X[0], np.ones((3, 8), F)], {"transB": 1, "activation": "Relu"}),
]  # fmt: skip
MORE_OUTPUTS = {"GroupQueryAttention": 3, "EmbedLayerNormalization": 2}
"""Operators of which more than one output cannot be left out, or is known too."""


def _model(op, operands, attributes):
    names = ["" if o is None else f"i{k}" for k, o in enumerate(operands)]
    outputs = [f"y{k}" for k in range(MORE_OUTPUTS.get(op, 1))]
    made = helper.make_node(op, names, outputs, domain="com.microsoft", **attributes)
    given = [helper.make_tensor_value_info("i0", helper.np_dtype_to_tensor_dtype(operands[0].dtype), operands[0].shape)]
    constants = [numpy_helper.from_array(o, n) for o, n in zip(operands[1:], names[1:], strict=True) if o is not None]
    declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([made], "g", given, declared, constants)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{len(row[1])}")
def test_a_contrib_operator_makes_what_onnxruntime_makes(row, tmp_path):
    """Element type and shape of its first output, where the file declares neither."""
    ort = pytest.importorskip("onnxruntime")
    op, operands, attributes = row
    proto = _model(op, operands, attributes)
    types = {"i0": TensorType(helper.np_dtype_to_tensor_dtype(operands[0].dtype), operands[0].shape)}
    types |= {t.name: TensorType(t.data_type, tuple(t.dims)) for t in proto.graph.initializer}
    try:
        session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        y = session.run(None, {"i0": operands[0]})[0]
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        pytest.skip(f"this onnxruntime has no such kernel on the CPU: {str(error)[:80]}")
    if MORE_OUTPUTS.get(op) is None:
        read = read_onnx(saved(proto, tmp_path)).tensors[-1]
        made = read.shape, read.dtype, read.size
    else:
        first = contrib_types(proto.graph.node[0], types)[0]
        made = first.shape, {FLOAT: "float32"}[first.element], 4 * int(np.prod(first.shape))
    assert made == (y.shape, str(y.dtype), y.nbytes)


def test_other_domains_and_broken_nodes_are_not_known():
    """A node of another domain, one without its operands, one whose pieces do not fit."""
    foreign = helper.make_node("Gelu", ["x"], ["y"], domain="com.example")
    bare = helper.make_node("QLinearConcat", ["s", "z"], ["y"], domain="com.microsoft", axis=0)
    other = helper.make_node("MatMulNBits", ["x"], ["y"], domain="com.microsoft")
    wrong = helper.make_node("QLinearAdd", ["x", "s", "z", "w", "s", "z"], ["y"], domain="com.microsoft")
    types = {"x": TensorType(TensorProto.UINT8, (3,)), "w": TensorType(TensorProto.UINT8, (2,))}
    assert [contrib_types(node, types) for node in (foreign, bare, other, wrong)] == [[], [], [], []]
