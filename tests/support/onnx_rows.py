"""One small instance of every row of the ONNX operator table, and more where a row has branches."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from lowtide.graph import Graph
from lowtide.read import read_model

Operand = Any
"""A shape (float32), (dtype, shape), an array (an initializer), or None (left out)."""


@dataclass(frozen=True)
class Instance:
    """A node by itself. `results` are shapes that ONNX does not infer, with their types where they are not float32."""

    kind: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 20
    outputs: tuple[str, ...] = ("y",)
    results: tuple[tuple[str, tuple[int, ...]], ...] = ()
    domain: str = ""

    @property
    def type(self) -> str:
        """The op type as a graph has it."""
        return f"{self.domain}::{self.kind}" if self.domain else self.kind

    @property
    def label(self) -> str:
        """For a test's name."""
        said = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.kind}[{said[:40]}]{self.opset}"

    def model(self, ir_version: int = 10) -> ModelProto:
        """A model of this one node."""
        names, inputs, fixed = [], [], []
        for i, operand in enumerate(self.operands):
            names.append("" if operand is None else f"x{i}")
            if isinstance(operand, np.ndarray):
                fixed.append(numpy_helper.from_array(operand, f"x{i}"))
            elif operand is not None:
                dtype, shape = operand if operand and isinstance(operand[0], str) else ("float32", operand)
                inputs.append(helper.make_tensor_value_info(f"x{i}", _element(dtype), shape))
        node = helper.make_node(self.kind, names, list(self.outputs), domain=self.domain, **self.attributes)
        made = [name for name in self.outputs if name]
        values = [helper.make_empty_tensor_value_info(name) for name in made]
        for value, (dtype, shape) in zip(values, self.results, strict=False):
            value.CopyFrom(helper.make_tensor_value_info(value.name, _element(dtype), shape))
        alone = helper.make_graph([node], "g", inputs, values, fixed)
        opsets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        return helper.make_model(alone, ir_version=ir_version, opset_imports=opsets)

    def graph(self) -> Graph:
        """The graph of this one node, as the reader has it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            path.write_bytes(self.model().SerializeToString())
            return read_model(path)


def _element(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def ints(*values: int) -> np.ndarray:
    """A list of integers as an initializer."""
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    """A list of floats as an initializer."""
    return np.array(values, np.float32)


I = Instance  # noqa: E741
X = (2, 3, 7, 6)
MS = "com.microsoft"

INSTANCES: tuple[Instance, ...] = (
    # convolutions and pools
    I("Conv", (X, (4, 3, 3, 2), (4,)), {"strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}),
    I("Conv", ((1, 4, 9), (6, 2, 3)), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2]}),
    I("Conv", ((1, 4, 9), (4, 1, 2), (4,)), {"group": 4, "auto_pad": "SAME_LOWER"}),
    I("Conv", ((1, 2, 5, 4, 6), (3, 2, 3, 1, 2), (3,)), {"pads": [1, 0, 0, 1, 0, 1]}),
    I("ConvTranspose", (X, (3, 2, 3, 3), (2,)), {"strides": [2, 2], "pads": [1, 1, 0, 0], "output_padding": [1, 0]}),
    I("ConvTranspose", ((1, 4, 6), (4, 3, 4)), {"group": 2, "strides": [3]}),
    I("ConvTranspose", ((1, 3, 5), (3, 2, 3)), {"strides": [2], "output_shape": [10], "auto_pad": "SAME_UPPER"}),
    I("ConvTranspose", ((1, 3, 5), (3, 2, 3)), {"strides": [2], "output_shape": [10]}),
    I("ConvInteger", (("uint8", (1, 2, 6)), ("uint8", (3, 2, 2))), {}),
    I("QLinearConv", (("uint8", (1, 2, 6)), floats(0.05).reshape(()), np.array(9, np.uint8), ("uint8", (4, 2, 3)),
                      (4,), np.array([4, 5, 6, 7], np.uint8), floats(2.0).reshape(()), np.array(1, np.uint8),
                      ("int32", (4,))), {"pads": [1, 1]}),
    I("FusedConv", (X, (4, 3, 3, 3), (4,)), {"activation": "Relu", "kernel_shape": [3, 3], "strides": [1, 1]},
      results=(("float32", (2, 4, 5, 4)),), domain=MS),
    I("MaxPool", (X,), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    I("MaxPool", (X,), {"kernel_shape": [2, 2], "dilations": [2, 1], "auto_pad": "VALID"}),
    I("AveragePool", (X,), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1], "count_include_pad": 1}),
    I("LpPool", (X,), {"kernel_shape": [2, 2]}),
    I("GlobalAveragePool", (X,)),
    I("GlobalMaxPool", (X,)),
    I("GlobalLpPool", (X,)),
    I("LRN", ((1, 6, 3, 2),), {"size": 3, "alpha": 1.0}),
    # products, sums, recurrent layers
    I("MatMul", ((2, 3, 4), (4, 5))),
    I("MatMul", ((4,), (2, 4, 5))),
    I("MatMul", ((3, 4), (4,))),
    I("MatMul", ((2, 1, 3, 4), (5, 4, 2))),
    I("MatMul", (("int64", (3, 4)), ("int64", (4, 2)))),
    I("MatMulInteger", (("uint8", (3, 4)), ("uint8", (4, 5)), np.array(3, np.uint8), ("uint8", (5,)))),
    I("QLinearMatMul", (("uint8", (3, 4)), floats(0.1).reshape(()), np.array(3, np.uint8), ("uint8", (4, 5)), (5,),
                        np.array([1, 2, 3, 4, 5], np.uint8), floats(1.0).reshape(()), np.array(9, np.uint8))),
    I("Gemm", ((3, 4), (4, 5), (5,)), {"alpha": 0.5, "beta": 2.0}),
    I("Gemm", ((4, 3), (5, 4), (3, 1)), {"transA": 1, "transB": 1}),
    I("Gemm", ((3, 4), (4, 5))),
    I("FusedGemm", ((3, 4), (4, 5), (5,)), {"activation": "Relu"}, results=(("float32", (3, 5)),), domain=MS),
    I("FusedMatMul", ((2, 4, 3), (2, 5, 4)), {"transA": 1, "transB": 1}, results=(("float32", (2, 3, 5)),), domain=MS),
    I("FusedMatMul", ((3, 1, 2, 4), (5, 1, 2, 4)), {"transB": 1, "transBatchA": 1, "transBatchB": 1, "alpha": 0.5},
      results=(("float32", (1, 2, 3, 5)),), domain=MS),
    I("FusedMatMul", ((2, 3, 4, 5), (5, 2, 3, 2)), {"transBatchB": 1}, results=(("float32", (2, 3, 4, 2)),), domain=MS),
    I("FusedMatMul", ((4, 2, 3), (5, 2, 4)), {"transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1},
      results=(("float32", (2, 3, 5)),), domain=MS),
    I("Einsum", ((2, 3, 4), (2, 5, 4)), {"equation": "bij,bkj->bik"}),
    I("Einsum", ((2, 3, 4), (4, 5)), {"equation": "...ij,jk->...ik"}),
    I("Einsum", ((3, 4), (4, 2)), {"equation": "ij, jk"}),
    I("Einsum", ((3, 3),), {"equation": "ii->i"}),
    I("ArgMax", (X,), {"axis": 2, "keepdims": 0}),
    I("ArgMin", (X,), {"axis": -1}),
    *(I(f"Reduce{name}", (X, ints(1, -1)), {"keepdims": 0})
      for name in ("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Prod")),
    I("ReduceMean", (X,), {"axes": [1], "keepdims": 1}, 13),
    I("ReduceSum", (("int64", (3, 4)),)),
    I("ReduceMean", (("int64", (3, 4)), ints(1))),
    I("ReduceSum", ((3, 4),), {"noop_with_empty_axes": 1}),
    I("LSTM", ((3, 4, 5), (1, 8, 5), (1, 8, 2), (1, 16), None, (1, 4, 2), (1, 4, 2)), {"hidden_size": 2},
      outputs=("y", "h", "c")),
    I("LSTM", ((3, 4, 5), (1, 8, 5), (1, 8, 2)), {"hidden_size": 2}, outputs=("", "h")),
    I("GRU", ((3, 4, 5), (2, 6, 5), (2, 6, 2), (2, 12), np.array([3, 2, 1, 3], np.int32)),
      {"hidden_size": 2, "direction": "bidirectional"}, outputs=("y", "h")),
    I("RNN", ((3, 4, 5), (1, 2, 5), (1, 2, 2)), {"hidden_size": 2}),
    # norms
    I("Softmax", (X,), {"axis": 2}),
    I("Softmax", (X,), {"axis": 2}, 11),
    I("Softmax", (X,), {}, 11),
    I("LogSoftmax", (X,), {"axis": -1}),
    I("Hardmax", (X,), {"axis": 1}),
    I("LpNormalization", (X,), {"axis": 1}),
    I("LayerNormalization", ((2, 3, 4), (3, 4), (3, 4)), {"axis": 1}),
    I("LayerNormalization", ((2, 3, 4), (4,)), {}, outputs=("y", "mean", "deviation")),
    I("RMSNormalization", ((2, 3, 4), (4,)), {}, 23),
    I("SimplifiedLayerNormalization", ((2, 3, 4), (4,)), {}, results=(("float32", (2, 3, 4)),)),
    I("SkipLayerNormalization", ((2, 3, 4), (2, 3, 4), (4,), (4,)), {}, results=(("float32", (2, 3, 4)),), domain=MS),
    I("SkipSimplifiedLayerNormalization", ((2, 3, 4), (2, 3, 4), (4,)), {}, results=(("float32", (2, 3, 4)),),
      domain=MS),
    I("MeanVarianceNormalization", (X,), results=(("float32", X),)),
    I("CumSum", ((3, 4), np.array(1, np.int64))),
    I("TopK", ((3, 5), ints(2)), {"axis": 1}, outputs=("y", "at")),
    I("Trilu", ((2, 4, 5), np.array(1, np.int64))),
    I("ReverseSequence", ((5, 4, 2), ints(3, 2, 5, 1))),
    I("DynamicQuantizeLinear", ((3, 4),), {}, outputs=("y", "scale", "zero")),
    I("BatchNormalization", (X, (3,), (3,), (3,), (3,))),
    I("BatchNormalization", (X, (3,), (3,), (3,), (3,)), {"training_mode": 1}, outputs=("y", "mean", "variance")),
    I("InstanceNormalization", (X, (3,), (3,))),
    I("GroupNormalization", ((2, 6, 4), (6,), (6,)), {"num_groups": 3}, 21, results=(("float32", (2, 6, 4)),)),
    I("GroupNormalization", ((2, 6, 4), (3,), (3,)), {"num_groups": 3}, 20, results=(("float32", (2, 6, 4)),)),
    I("QuantizeLinear", (X, floats(0.02, 0.05, 0.1), np.array([1, 2, 3], np.uint8)), {"axis": 1}),
    I("QuantizeLinear", (X, floats(0.02).reshape(()), np.array(1, np.uint8))),
    I("DequantizeLinear", (("uint8", X), (3,), ("uint8", (3,))), {"axis": 1}),
    I("DequantizeLinear", (("uint8", (3, 8)), (3, 4), ("uint8", (3, 4))), {"axis": 1, "block_size": 2}, 21),
    I("CastLike", ((3, 4), ("int32", (2,)))),
    *(I(name, ((3, 4),), {}, results=(("float32", (3, 4)),), domain=MS)
      for name in ("Gelu", "FastGelu", "QuickGelu")),
    I("BiasGelu", ((3, 4), (4,)), {}, results=(("float32", (3, 4)),), domain=MS),
    # what is elementwise or a view in the table of op kinds
    I("Relu", (X,)),
    I("Add", (X, (3, 1, 1))),
    I("Where", (("bool", (3, 1)), (3, 4), (4,))),
    I("Clip", ((3, 4), floats(-0.5).reshape(()), floats(0.5).reshape(()))),
    I("Cast", ((3, 4),), {"to": 7}),
    I("IsNaN", ((3, 4),)),
    I("Equal", (("int64", (3, 4)), ("int64", (4,)))),
    I("PRelu", (X, (3, 1, 1))),
    I("Identity", ((3, 4),)),
    I("Dropout", ((3, 4),)),
    I("Reshape", ((6, 4, 5), ints(2, 3, 20))),
    I("Reshape", ((6, 4), ints(8, 3))),
    I("Flatten", (X,), {"axis": 2}),
    I("Squeeze", ((3, 1, 4), ints(1))),
    I("Unsqueeze", ((3, 4), ints(0, 3))),
    I("Unsqueeze", ((3, 4),), {"axes": [1]}, 11),
    # pieces, gathers, what comes from shapes
    I("Transpose", (X,), {"perm": [2, 0, 3, 1]}),
    I("Transpose", ((2, 3, 4),)),
    I("Concat", ((2, 3), (2, 1), (2, 4)), {"axis": -1}),
    I("Split", ((4, 6), ints(2, 4)), {"axis": 1}, outputs=("y", "z")),
    I("Split", ((6, 4),), {"num_outputs": 3}, outputs=("a", "b", "c")),
    I("Slice", ((8, 9), ints(1, 8), ints(7, 0), ints(0, 1), ints(2, -3))),
    I("Slice", ((8, 9), ints(-5), ints(2**62))),
    I("Slice", ((8, 9),), {"starts": [2], "ends": [-1], "axes": [1]}, 9),
    I("Pad", ((3, 4), ints(1, 0, 2, 1), floats(2.0).reshape(()))),
    I("Pad", ((3, 4), ints(-1, 2, 0, -1))),
    I("Pad", ((5, 6), ints(2, 0, 1, 3)), {"mode": "reflect"}),
    I("Pad", ((5, 6), ints(2, 0, 1, 3)), {"mode": "edge"}),
    I("Pad", ((5, 6), ints(2, 0, 1, 0)), {"mode": "wrap"}),
    I("Pad", ((5, 6), ints(2, 1), None, ints(1)), {}),
    I("Pad", ((5, 6),), {"pads": [1, 0, 0, 2]}, 10),
    I("Gather", ((3, 5, 2), ("int64", (2, 4))), {"axis": 1}),
    I("Gather", ((3, 5, 2), np.array(-2, np.int64)), {"axis": 1}),
    I("Gather", ((3, 5, 2), ints(4)), {"axis": 1}),
    I("GatherElements", ((3, 5), ("int64", (2, 4))), {"axis": 1}),
    I("GatherND", ((2, 3, 4, 5), ("int64", (2, 3, 1))), {"batch_dims": 1}),
    I("ScatterND", ((4, 5, 6), ("int64", (3, 2)), (3, 6)), {"reduction": "add"}),
    I("ScatterND", ((4, 6), ints(2, 0).reshape(2, 1), (2, 6))),
    I("ScatterElements", ((3, 5), ("int64", (2, 4)), (2, 4)), {"axis": 1, "reduction": "add"}),
    I("Scatter", ((3, 5), ("int64", (3, 2)), (3, 2)), {"axis": 1}, 9),
    I("OneHot", (("int64", (3, 4)), np.array(5, np.int64), (2,)), {"axis": 1}),
    I("DepthToSpace", ((1, 8, 3, 2),), {"blocksize": 2}),
    I("DepthToSpace", ((1, 8, 3, 2),), {"blocksize": 2, "mode": "CRD"}),
    I("SpaceToDepth", ((1, 2, 6, 4),), {"blocksize": 2}),
    I("Expand", ((3, 1), ints(2, 1, 4))),
    I("Tile", ((2, 3), ints(3, 1))),
    I("Range", (("int64", ()), ("int64", ()), ("int64", ())), {}, results=(("int64", (5,)),)),
    I("GridSample", ((1, 2, 4, 5), (1, 3, 2, 2)), {"align_corners": 1}),
    I("RoiAlign", ((2, 3, 6, 6), (4, 4), ("int64", (4,))), {"output_height": 2, "output_width": 2}),
    I("Shape", (X,)),
    I("Size", (X,)),
    I("EyeLike", ((3, 4),)),
    I("ConstantOfShape", (("int64", (2,)),), {}, results=(("float32", (3, 4)),)),
    # resampling
    I("Resize", ((1, 2, 4, 5), None, floats(1, 1, 2, 2)), {"coordinate_transformation_mode": "asymmetric",
                                                           "nearest_mode": "floor"}),
    I("Resize", ((1, 2, 4, 5), None, None, ints(1, 2, 7, 3))),
    I("Resize", ((1, 2, 4, 5), None, None, ints(1, 2, 7, 3)), {"mode": "linear"}),
    I("Resize", ((1, 2, 5, 4), None, None, ints(1, 2, 10, 12)), {"mode": "linear"}),
    I("Resize", ((1, 2, 5, 4), None, None, ints(1, 2, 5, 8)), {"mode": "linear"}),
    I("Resize", ((1, 2, 6, 3), None, floats(1, 1, 4, 2)),
      {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    I("Resize", ((1, 2, 6, 3), None, floats(1, 1, 2, 3)),
      {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
    I("Resize", ((1, 2, 6, 3), None, floats(1, 1, 2, 2)),
      {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    I("Resize", ((1, 2, 3, 5), None, floats(1, 1, 3, 1)),
      {"coordinate_transformation_mode": "align_corners", "nearest_mode": "floor"}),
    I("Resize", ((1, 2, 9, 6), None, floats(1, 1, 3, 2)), {"mode": "cubic"}),
    I("Resize", ((1, 2, 9, 6), None, floats(1, 1, 3, 2)), {"mode": "nearest", "nearest_mode": "ceil"}),
    I("Resize", ((1, 2, 8, 7), None, None, ints(1, 2, 3, 9)),
      {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    I("Resize", ((1, 2, 4, 5), None, floats(1, 1, 2, 1)),
      {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    I("Resize", ((1, 2, 8, 6), None, floats(1, 1, 1.5, 2)), {"mode": "cubic"}),
    I("Resize", ((1, 2, 12, 5), None, None, ints(1, 2, 4, 5)), {"mode": "linear", "antialias": 1}),
    I("Resize", ((1, 2, 5, 5), None, floats(1, 1, 0.6, 1)), {"nearest_mode": "ceil"}),
    I("Resize", ((1, 2, 5, 5), None, floats(1, 1, 2.5, 1)), {"nearest_mode": "round_prefer_ceil"}),
    I("Resize", ((1, 2, 5, 5), None, floats(2, 1)),
      {"axes": [2, 3], "coordinate_transformation_mode": "half_pixel_symmetric", "mode": "linear"}),
    I("Upsample", ((1, 2, 4, 3), floats(1, 1, 2, 3)), {"mode": "nearest"}, 9),
    I("Upsample", ((1, 2, 4, 3),), {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}, 7),
)  # fmt: skip
RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Rows whose ops draw random numbers: what they read cannot be told by running them twice."""
