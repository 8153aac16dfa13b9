"""One walk over a graph in its own order, in which each node's types and small values follow from those before it.

ONNX's own inference follows some values only, and what a node makes may hang on one: here a node's types come from
ONNX's schema with the values that `propagate` knows, so that one walk goes through any number of such steps.

Values that sizes hang on: small tensors that follow from the shapes of others, before anything runs.

Exporters spell a size as arithmetic on shapes (``Shape`` - ``Gather`` - ``Div`` - ``Cast`` - ``Concat`` - ``Reshape``).
ONNX's own inference follows part of the operators; here each such node is computed by ONNX's reference evaluator. The
plan's graph keeps the node: a runtime runs it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

from lowtide.ops.kinds import kind_of
from lowtide.read.onnx.attributes import default_domain, has_subgraph
from lowtide.read.onnx.contrib import contrib_types, standard_node
from lowtide.read.onnx.proto import protobuf_classes
from lowtide.read.onnx.structure import opset_version
from lowtide.read.onnx.types import BOOL, FLOAT, TensorType, broadcast, constant_of_node, constant_type, type_of

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto, TensorProto

_BOOLEAN = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
)

ValueOf = Callable[[str], "TensorProto | None"]
"""The value of a tensor, by its name, if that is known before anything runs."""
NodeTypes = Callable[["NodeProto", Mapping[str, TensorType], ValueOf], list[TensorType | None]]


def follow_types(
    model: ModelProto,
    declared: Mapping[str, TensorType],
    node_types: NodeTypes,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, TensorProto],
) -> tuple[dict[str, TensorType], ValueOf]:
    """Types that follow from `declared`: by broadcasting, from what `node_types` says, from ONNX's schemas; and what
    is known of values then. `model`: not changed. `declared`: types by name. `node_types`: gives a node's output
    types where no row of ours has them (for nodes with bodies, which know more). `shapes`: what the user says of
    tensors whose shape nothing tells. `values`: of graph inputs."""
    walk = _Walk(model, dict(declared), shapes, values)
    version = opset_version(model)
    for node in model.graph.node:
        if not walk.knows(node):
            one = _elementwise_type(node, walk.types)
            made = [one] if one is not None else node_types(node, walk.types, walk.value_of)
            if one is not None and node.op_type == "Dropout":  # ONNX infers no mask before opset 10
                made.append(TensorType(one.element if version < 10 else BOOL, one.shape))
            walk.take(node, made or contrib_types(node, walk.types))
        if not walk.knows(node):
            walk.by_schema(node)
        walk.by_value(node)
        if not walk.knows(node):
            walk.by_user(node)
    return walk.found, walk.value_of


class _Walk:
    """What is known up to a node."""

    def __init__(
        self,
        model: ModelProto,
        types: dict[str, TensorType],
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[str, TensorProto],
    ) -> None:
        self.types = types
        self.found: dict[str, TensorType] = {}
        self._shapes = shapes
        self._values = Values(model, values.values())
        self.value_of: ValueOf = self._values.tensor
        self._opsets = list(model.opset_import)
        self._version = opset_version(model)
        declared = (*model.graph.value_info, *model.graph.output)
        self._elements = {v.name: v.type.tensor_type.elem_type for v in declared}

    def knows(self, node: NodeProto) -> bool:
        """Whether all that a node makes has a type."""
        return all(name in self.types for name in node.output if name)

    def take(self, node: NodeProto, outputs: Sequence[TensorType | None]) -> None:
        """Types of a node's outputs, in their order, as far as they are news."""
        for name, kind in zip(node.output, outputs, strict=False):
            if name and name not in self.types and kind is not None:
                self.types[name] = self.found[name] = kind

    def by_schema(self, node: NodeProto) -> None:
        """What ONNX's schema says of a node, given the values of what it reads."""
        from onnx.defs import get_schema
        from onnx.helper import make_tensor_type_proto
        from onnx.shape_inference import infer_node_outputs

        node = standard_node(node)
        names = [name for name in node.input if name]
        if not default_domain(node.domain) or has_subgraph(node) or not all(name in self.types for name in names):
            return
        values = {name: self._values.tensor(name) for name in names}
        given = {name: value for name, value in values.items() if value is not None}
        read = {name: make_tensor_type_proto(*self.types[name]) for name in names}
        try:
            schema = get_schema(node.op_type, self._version, "")
            made = infer_node_outputs(schema, node, read, given, opset_imports=self._opsets)
        except Exception:  # onnx raises SchemaError, InferenceError, RuntimeError: the file is named by who asks
            return
        self.take(node, [type_of(made[name]) if name in made else None for name in node.output])
        self._elements |= {name: kind.tensor_type.elem_type for name, kind in made.items()}

    def by_value(self, node: NodeProto) -> None:
        """What a node makes out of values that are known."""
        self._values.add(node, self.types)
        if not self.knows(node):
            values = [self._values.tensor(name) for name in node.output]
            self.take(node, [None if value is None else constant_type(value) for value in values])

    def by_user(self, node: NodeProto) -> None:
        """Shapes that the user gave; elements are as declared, or as those of the first operand."""
        first = next((self.types[name].element for name in node.input if name in self.types), FLOAT)
        given = [self._shapes.get(name) for name in node.output]
        elements = [self._elements.get(name) or first for name in node.output]
        self.take(node, [s if s is None else TensorType(e, s) for e, s in zip(elements, given, strict=True)])


def _elementwise_type(node: NodeProto, types: Mapping[str, TensorType]) -> TensorType | None:
    row = kind_of(node.op_type) if default_domain(node.domain) else None
    if row is None or not any(node.input):
        return None
    read = [types.get(name) for name in node.input if name]
    if row.family in ("identity", "batch_normalisation", "clip", "unary", "activation", "cast"):
        read = read[:1]
    elif row.family not in ("binary", "variadic"):
        return None
    shape = broadcast([kind.shape for kind in read if kind is not None])
    first = read[-1] if node.op_type == "Where" else read[0]
    if shape is None or first is None or None in read:
        return None
    element = BOOL if node.op_type in _BOOLEAN else first.element
    if node.op_type == "Cast":
        element = next((a.i for a in node.attribute if a.name == "to"), element)
    elif node.op_type == "CastLike":
        like = types.get(node.input[1]) if len(node.input) > 1 else None
        if like is None:
            return None
        element = like.element
    return TensorType(element, shape)


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
"""Operators without chance whose results are not much larger than what they read, except `Range`: that is counted."""
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
