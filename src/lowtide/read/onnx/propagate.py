"""Values that sizes hang on: small tensors that follow from the shapes of others, before anything runs.

Exporters spell a size as arithmetic on shapes (``Shape`` - ``Gather`` - ``Div`` - ``Cast`` - ``Concat`` - ``Reshape``).
ONNX's own inference follows part of the operators; here each such node is computed by ONNX's reference evaluator. The
plan's graph keeps the node: a runtime runs it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

from lowtide.read.onnx.attributes import default_domain
from lowtide.read.onnx.proto import protobuf_classes
from lowtide.read.onnx.types import TensorType, constant_of_node

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto, TensorProto

MOST_ELEMENTS = 4096  # of a tensor whose value is followed

_OF_SHAPES = frozenset({"Shape", "Size"})
_NO_LARGER = frozenset(
    {"Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat",
     "CumSum", "Div", "Equal", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Greater",
     "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Neg",
     "NonZero", "Not", "Or", "Pow", "Range", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
     "ReduceSum", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Slice", "Split", "Sqrt", "Squeeze",
     "Sub", "Sum", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where", "Xor"}
)  # fmt: skip
"""Operators without chance whose results are not much larger than what they read, `Range` apart: that is counted."""
_LARGER = frozenset({"ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Tile"})
"""Computed only once it is known how large the result is."""


class Values:
    """What is known of a model's tensors in addition to their types. `model`: its small initializers are taken; not
    changed. `given`: values of graph inputs."""

    def __init__(self, model: ModelProto, given: Iterable[TensorProto] = ()) -> None:
        self._opsets = list(model.opset_import)
        self._arrays: dict[str, Any] = {}
        for tensor in (*model.graph.initializer, *given):
            self._put(tensor)

    def _put(self, tensor: TensorProto) -> None:
        from onnx.numpy_helper import to_array

        if tensor.data_location == 0 and prod(tensor.dims) <= MOST_ELEMENTS and _has_data(tensor):
            with suppress(
                ArithmeticError, LookupError, TypeError, ValueError
            ):  # a damaged file: nothing is known of it
                self._arrays[tensor.name] = to_array(tensor)

    def tensor(self, name: str) -> TensorProto | None:
        """The value of a tensor, if it is known."""
        from onnx.numpy_helper import from_array

        return from_array(self._arrays[name], name) if name in self._arrays else None

    def add(self, node: NodeProto, types: Mapping[str, TensorType]) -> None:
        """See what a node makes, if the values that it reads are known, or the shapes that it asks for."""
        if not default_domain(node.domain):
            return
        tensor = constant_of_node(node)
        if tensor is not None:
            self._put(tensor)
        else:
            self._arrays.update(self._results(node, types))

    def _results(self, node: NodeProto, types: Mapping[str, TensorType]) -> dict[str, Any]:
        """What a node makes, by name; nothing if that is not known, too large, or what the evaluator cannot do."""
        import numpy as np

        if node.op_type in _OF_SHAPES:
            kind = types.get(node.input[0]) if node.input else None
            operands = None if kind is None else {node.input[0]: np.broadcast_to(np.int8(0), kind.shape)}
        else:
            names = [name for name in node.input if name]
            known = self._worth_it(node, types) and all(name in self._arrays for name in names)
            operands = {name: self._arrays[name] for name in names} if known else None
        if operands is None:
            return {}
        outputs = [name for name in node.output if name]
        results = _evaluate(self._alone(node, list(operands), outputs), operands)
        arrays = {name: np.asarray(result) for name, result in zip(outputs, results, strict=False)}
        small = all(a.size <= MOST_ELEMENTS and a.dtype.kind in "biuf" for a in arrays.values())
        return arrays if small and len(arrays) == len(outputs) else {}

    def _worth_it(self, node: NodeProto, types: Mapping[str, TensorType]) -> bool:
        """Whether a node's result is surely small."""
        if node.op_type in _LARGER:
            kinds = [types.get(name) for name in node.output if name]
            return all(kind is not None and prod(kind.shape) <= MOST_ELEMENTS for kind in kinds)
        if node.op_type == "Range" and len(node.input) == 3 and all(n in self._arrays for n in node.input):
            first, end, step = (self._arrays[name].item() for name in node.input)
            return bool(step) and (end - first) / step <= MOST_ELEMENTS
        return node.op_type in _NO_LARGER and node.op_type != "Range"

    def _alone(self, node: NodeProto, inputs: list[str], outputs: list[str]) -> FunctionProto:
        """A node as a function, which has an operator set, as a node has not."""
        function = protobuf_classes().FunctionProto
        return function(name="one", domain="one", input=inputs, output=outputs, node=[node], opset_import=self._opsets)


def _evaluate(function: FunctionProto, operands: Mapping[str, Any]) -> list[Any]:
    from onnx.reference import ReferenceEvaluator

    try:
        with warnings.catch_warnings():  # numpy's, of a division by zero
            warnings.simplefilter("ignore")
            return list(ReferenceEvaluator(function).run(None, dict(operands), attributes={}))
    except Exception:  # the evaluator is Python on whatever the file says: it raises what numpy raises
        return []


def _has_data(tensor: TensorProto) -> bool:
    """Whether an initializer's numbers are in the message; large ones are left out where it is read."""
    if not prod(tensor.dims) or tensor.HasField("raw_data"):
        return True
    return any(len(getattr(tensor, f"{kind}_data")) for kind in ("float", "int32", "int64", "double", "uint64"))
