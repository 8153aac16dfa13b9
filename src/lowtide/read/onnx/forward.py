"""One walk over a graph in its own order, in which each node's types and small values follow from those before it.

ONNX's own inference follows some values only, and what a node makes may hang on one: here a node's types are asked of
ONNX's schema with the values that `propagate` knows, so that one walk goes through any number of such steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lowtide.ops.table import kind_of
from lowtide.read.onnx.attributes import default_domain, has_subgraph
from lowtide.read.onnx.contrib import contrib_types, standard_node
from lowtide.read.onnx.propagate import Values
from lowtide.read.onnx.structure import opset_version
from lowtide.read.onnx.types import BOOL, FLOAT, TensorType, broadcast, constant_type, type_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

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
    """Types that follow from `declared`: by broadcasting, from what `node_types` says, from ONNX's schemas; and what is
    known of values then.

    `model`: not changed. `declared`: types by name. `node_types`: asked for a node's output types where no row of ours
    has them (for nodes with bodies, which know more). `shapes`: what the user says of tensors whose shape nothing
    tells. `values`: of graph inputs.
    """
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
