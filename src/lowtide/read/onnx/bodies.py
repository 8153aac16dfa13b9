"""Subgraphs of If, Loop and Scan as graphs, and the types of what a loop makes.

A body becomes a model of its own: what it captures are further inputs (constants: initializers), and its
inputs take their types from the op where the file does not declare them. It is then read as any model is. What it
captures has size 0 there: it lives outside, and counts there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.read.onnx.attributes import default_domain, subgraphs
from lowtide.read.onnx.forward import ValueOf
from lowtide.read.onnx.proto import protobuf_classes
from lowtide.read.onnx.structure import captured
from lowtide.read.onnx.types import BOOL, INT64, TensorType, constant_type, static_type
from lowtide.read.onnx.wire import KEEP_BYTES

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


@dataclass(frozen=True)
class Scope:
    """What a body takes from outside."""

    captured: Collection[str] = frozenset()  # tensors that live outside and are counted there
    constants: Collection[str] = frozenset()  # those of them that are constants
    # Those of them whose values are known: shapes inside may hang on them.
    values: Mapping[str, TensorProto] = field(default_factory=dict)
    # What the user says of tensors, in the model's own graph alone.
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


ReadGraph = Callable[["ModelProto", str, Scope], Graph]
ReadTypes = Callable[["ModelProto", str, Scope], Mapping[str, TensorType]]


def body_graphs(
    node: NodeProto,
    label: str,
    types: Mapping[str, TensorType],
    constants: Mapping[str, TensorProto | None],
    value_of: ValueOf,
    model: ModelProto,
    place: str,
    read: ReadGraph,
) -> tuple[Graph, ...]:
    """A node's bodies that may run, in the order of the file; what they capture has size 0.

    `node`, `label`: the node, and its name for messages.
    `types`: types in the graph around it.
    `constants`: the constants of that graph, with their values where known.
    `value_of`: what is known of values in that graph: of an If whose condition is known, one branch runs.
    `model`: gives the opsets and the local functions.
    `place`: put before every message.
    `read`: reads the body as a graph.
    Raises `InputError`: a body is malformed, or a tensor in it has no static shape.
    """
    given = _input_types(node, types)
    bodies = []
    for body in _that_may_run(node, value_of):
        alone, scope = _alone(body, given, types, constants, value_of, model)
        bodies.append(read(alone, f"{place}: body of {label}", scope))
    return tuple(bodies)


def body_types(
    node: NodeProto, types: Mapping[str, TensorType], value_of: ValueOf, model: ModelProto, place: str, read: ReadTypes
) -> list[TensorType | None]:
    """Types of what an If or a Loop makes, where its bodies say them; None for the others. ONNX infers none where
    branches differ, and none of a Loop's carried outputs. An If makes what the branch that runs does, where its
    condition is known, or what all of them do. A Loop makes what its body hands on in the shape that it was given."""
    if node.op_type not in ("If", "Loop") or not default_domain(node.domain):
        return []
    given = _input_types(node, types)
    made: list[list[TensorType | None]] = []
    for body in _that_may_run(node, value_of):
        alone, scope = _alone(body, given, types, {}, value_of, model)
        try:
            inside = read(alone, place, scope)
        except InputError:
            return [None] * len(node.output)
        made.append([inside.get(value.name) for value in body.output])
    if node.op_type == "If":
        return [kinds[0] if len(set(kinds)) == 1 else None for kinds in zip(*made, strict=False)]
    carried = zip(given[2:], made[0][1:] if made else (), strict=False)
    kept = [kind if kind and returned and kind.shape == returned.shape else None for kind, returned in carried]
    return [*kept, *[None] * len(node.output)][: len(node.output)]


def _that_may_run(node: NodeProto, value_of: ValueOf) -> list[GraphProto]:
    """A node's bodies; of an If whose condition is known, the branch that runs."""
    condition = value_of(node.input[0]) if node.op_type == "If" and node.input and default_domain(node.domain) else None
    if condition is not None:
        from onnx.numpy_helper import to_array

        taken = "then_branch" if to_array(condition).any() else "else_branch"
        branches = [a.g for a in node.attribute if a.name == taken and a.HasField("g")]
        if branches:
            return branches
    return list(subgraphs(node))


def _alone(
    body: GraphProto,
    given: list[TensorType | None],
    types: Mapping[str, TensorType],
    constants: Mapping[str, TensorProto | None],
    value_of: ValueOf,
    model: ModelProto,
) -> tuple[ModelProto, Scope]:
    """A body as a model of its own, and what it takes from outside."""
    from onnx.helper import make_tensor_type_proto

    alone = type(model)(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    alone.graph.CopyFrom(body)
    for value, kind in zip(alone.graph.input, given, strict=False):
        if kind is not None and static_type(value) is None:
            value.type.CopyFrom(make_tensor_type_proto(*kind))
    inside = {v.name for v in body.input}
    outside = [name for name in captured_by(body) if name not in inside]
    for name in outside:
        tensor = constants.get(name)
        if tensor is not None and tensor.ByteSize() <= KEEP_BYTES:
            alone.graph.initializer.add().CopyFrom(tensor)
        else:
            kind = types.get(name) or (constant_type(tensor) if tensor is not None else None)
            value = alone.graph.input.add(name=name)
            if kind is not None:
                value.type.CopyFrom(make_tensor_type_proto(*kind))
    known = {name: value for name in outside if (value := value_of(name)) is not None}
    return alone, Scope(frozenset(outside), frozenset(n for n in outside if n in constants), known)


def captured_by(body: GraphProto) -> list[str]:
    """Names that one body reads from outside, each once."""
    classes = protobuf_classes()
    holder = classes.AttributeProto(type=classes.AttributeProto.GRAPH, g=body)
    return captured(classes.NodeProto(attribute=[holder]))


def _input_types(node: NodeProto, types: Mapping[str, TensorType]) -> list[TensorType | None]:
    """Types of a body's inputs as the node gives them: a Loop's, and a Scan's since opset 9; else none."""
    if not default_domain(node.domain):
        return []
    read = [types.get(name) for name in node.input]
    if node.op_type == "Loop":
        return [TensorType(INT64, ()), TensorType(BOOL, ()), *read[2:]]
    if node.op_type != "Scan":
        return []
    attributes = {a.name: a for a in node.attribute}
    scanned = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
    axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else [0] * scanned
    states = len(read) - scanned
    given = read[:states]
    for kind, axis in zip(read[states:], axes, strict=False):
        if kind is None or not -len(kind.shape) <= axis < len(kind.shape):
            given.append(None)
        else:
            shape = list(kind.shape)
            del shape[axis]
            given.append(TensorType(kind.element, tuple(shape)))
    return given
