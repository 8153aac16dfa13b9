"""Small networks of convolutions between norms, and means that weigh channels, as ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Pick = Callable[[Sequence[Any]], Any]


class NormNet:
    """Nodes on images of one size after another; channels are `width`."""

    def __init__(self, pick: Pick, *, width: int = 4, side: int = 16, opset: int = 20) -> None:
        self.pick, self.width, self.opset = pick, width, opset
        self.shape = (1, width, side, side)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.declared: list[onnx.ValueInfoProto] = []
        self.rng = np.random.default_rng(0)
        self.x = "x"
        self.input = helper.make_tensor_value_info("x", 1, self.shape)

    def node(self, kind: str, reads: Sequence[str], **attributes: Any) -> str:
        """A node of one result."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(reads), [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def floats(self, shape: Sequence[int], mean: float = 0.0) -> str:
        """Random weights."""
        return self._weight((mean + 0.3 * self.rng.standard_normal(shape)).astype(np.float32))

    def integers(self, *values: int) -> str:
        """Whole numbers."""
        return self._weight(np.array(values, np.int64))

    def _weight(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str) -> str:
        """Three by three, the size stays."""
        weights = self.floats((self.width, self.width, 3, 3))
        return self.node("Conv", [x, weights, self.floats((self.width,))], pads=[1, 1, 1, 1])

    def norm(self, x: str, how: str) -> str:
        """Of one channel each, of groups between reshapes, or as an op of its own, where the operator set has one."""
        _, c, h, w = self.shape
        groups = max(1, c // 2)
        if how == "channels":
            return self.node("InstanceNormalization", [x, self.floats((c,), 1.0), self.floats((c,))], epsilon=1e-3)
        if how == "op":
            many = c if self.opset >= 21 else groups
            numbers = [self.floats((many,), 1.0), self.floats((many,))]
            made = self.node("GroupNormalization", [x, *numbers], num_groups=groups)
            self.declared.append(helper.make_tensor_value_info(made, 1, self.shape))  # set 18 does not infer it
            return made
        rows = self.node("Reshape", [x, self.integers(1, groups, c // groups * h * w)])
        even = self.node("InstanceNormalization", [rows, self.floats((groups,), 1.0), self.floats((groups,))])
        return self.node("Reshape", [even, self.integers(1, c, h, w)])

    def mean(self, x: str, how: str) -> str:
        """Channels weighed by their mean."""
        if how == "pool":
            pooled = self.node("GlobalAveragePool", [x])
        else:
            by_operand = self.opset >= 18
            axes = [self.integers(2, 3)] if by_operand else []
            pooled = self.node("ReduceMean", [x, *axes], **({} if by_operand else {"axes": [2, 3]}), keepdims=1)
        weights = self.floats((self.width, self.width, 1, 1))
        return self.node("Mul", [x, self.node("Sigmoid", [self.node("Conv", [pooled, weights])])])

    def block(self, kind: str, residual: bool) -> None:
        """A statistic between convolutions."""
        y = self.conv(self.x)
        y = self.mean(y, kind) if kind in ("pool", "mean") else self.norm(y, kind)
        y = self.conv(self.node("Relu", [y]))
        self.x = self.node("Add", [self.x, y]) if residual else y

    def stretch(self) -> None:
        """Twice as high and wide."""
        shape = (*self.shape[:2], 2 * self.shape[2], 2 * self.shape[3])
        scales = self._weight(np.array([1, 1, 2, 2], np.float32))
        where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        up = self.node("Resize", [self.x, "", scales], mode="nearest", **where)
        self.x, self.shape = up, shape
        self.x = self.conv(self.x)

    def shrink(self) -> None:
        """A quarter as high and wide."""
        weights = self.floats((self.width, self.width, 4, 4))
        self.x = self.node("Conv", [self.x, weights], strides=[4, 4])
        self.shape = (*self.shape[:2], self.shape[2] // 4, self.shape[3] // 4)

    def model(self) -> onnx.ModelProto:
        """What the last node makes is the result."""
        out = helper.make_tensor_value_info(self.x, 1, self.shape)
        graph = helper.make_graph(self.nodes, "g", [self.input], [out], self.weights, value_info=self.declared)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", self.opset)])


KINDS = ("channels", "groups", "op", "pool", "mean")


def norm_net(pick: Pick, blocks: int = 3) -> onnx.ModelProto:
    """A network of about so many blocks."""
    opset = pick((13, 17, 18, 20, 21))
    net = NormNet(pick, width=pick((2, 4, 6)), side=pick((8, 9, 12)), opset=opset)
    for _ in range(blocks):
        kind = pick(KINDS)
        net.block("groups" if kind == "op" and opset < 18 else kind, pick((True, False)))
        if pick((True, False, False)):
            net.stretch()
    return net.model()
