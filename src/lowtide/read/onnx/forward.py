"""One walk over a graph in its own order, in which each node's types and small values follow from those before it.

ONNX's own inference follows some values only, and what a node makes may hang on one: here a node's types are asked of
ONNX's schema with the values that `propagate` knows, so that one walk goes through any number of such steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lowtide.ops.table import kind_of
from lowtide.read.onnx.attributes import default_domain, has_subgraph
from lowtide.read.onnx.contrib import contrib_types, standard_node
from lowtide.read.onnx.propagate import Values
from lowtide.read.onnx.structure import opset_version
from lowtide.read.onnx.types import BOOL, TensorType, broadcast, constant_type, type_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_BOOLEAN = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
)

NodeTypes = Callable[["NodeProto", Mapping[str, TensorType]], list[TensorType | None]]


def follow_types(model: ModelProto, known: Mapping[str, TensorType], node_types: NodeTypes) -> dict[str, TensorType]:
    """Types that follow from `known`: by broadcasting, from what `node_types` says, from ONNX's schemas.

    Parameters
    ----------
    model
        Not changed.
    known
        Types by name.
    node_types
        Asked for a node's output types where no row of ours has them (for loops, whose bodies know more).
    """
    found: dict[str, TensorType] = {}
    types = dict(known)
    numbers = Values(model)
    version = opset_version(model)
    for node in model.graph.node:
        names = [name for name in node.output if name]
        if not all(name in types for name in names):
            one = _elementwise_type(node, types)
            made = [one] if one is not None else node_types(node, types)
            if one is not None and node.op_type == "Dropout":  # ONNX infers no mask before opset 10
                made.append(TensorType(one.element if version < 10 else BOOL, one.shape))
            made = made or contrib_types(node, types) or _by_schema(model, node, types, numbers)
            for name, kind in zip(node.output, made, strict=False):
                if name and name not in types and kind is not None:
                    types[name] = found[name] = kind
        numbers.add(node, types)
        for name in names:
            value = numbers.tensor(name) if name not in types else None
            if value is not None:
                types[name] = found[name] = constant_type(value)
    return found


def _by_schema(
    model: ModelProto, node: NodeProto, types: Mapping[str, TensorType], numbers: Values
) -> list[TensorType | None]:
    """What ONNX's schema says of a node, given the values of what it reads."""
    from onnx.defs import get_schema
    from onnx.helper import make_tensor_type_proto
    from onnx.shape_inference import infer_node_outputs

    node = standard_node(node)
    names = [name for name in node.input if name]
    if not default_domain(node.domain) or has_subgraph(node) or not all(name in types for name in names):
        return []
    tensors = {name: numbers.tensor(name) for name in names}
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    read = {name: make_tensor_type_proto(*types[name]) for name in names}
    try:
        schema = get_schema(node.op_type, opset_version(model), "")
        made = infer_node_outputs(schema, node, read, given, opset_imports=list(model.opset_import))
    except Exception:  # onnx raises SchemaError, InferenceError, RuntimeError: the file is named by who asks
        return []
    return [type_of(made[name]) if name in made else None for name in node.output]


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
