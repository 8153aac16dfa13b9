"""Attributes of ONNX nodes as plain values, and what two of ours say: ``random`` and ``training_mode``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError
from lowtide.graph import MAX_VALUE_BYTES, Array
from lowtide.names import shorten
from lowtide.read.onnx.types import BOOL, constant_of_node
from lowtide.read.onnx.values import array_of, array_of_sparse

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
_MAY_DRAW = _RANDOM | {"Dropout"}
FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS, SPARSE, SPARSES, TYPE, TYPES = range(1, 15)
"""AttributeProto.AttributeType."""

_FIELDS = {  # in this order they are looked for in a file that does not say the kind
    FLOAT: "f", INT: "i", STRING: "s", TENSOR: "t", GRAPH: "g", SPARSE: "sparse_tensor", TYPE: "tp",
    FLOATS: "floats", INTS: "ints", STRINGS: "strings", TENSORS: "tensors", GRAPHS: "graphs",
    SPARSES: "sparse_tensors", TYPES: "type_protos",
}  # fmt: skip
_REPEATED = frozenset({FLOATS, INTS, STRINGS, TENSORS, GRAPHS, SPARSES, TYPES})
_NAMES = {FLOAT: "a float", INT: "an integer", STRING: "a string", FLOATS: "floats", INTS: "integers"}
_MOST_NUMBERS = MAX_VALUE_BYTES // 8

_EXPECTED: Mapping[str, int] = {
    **dict.fromkeys(("strides", "pads", "dilations", "kernel_shape", "axes", "perm", "starts", "ends", "output_shape",
                     "output_padding", "split", "scan_input_axes", "scan_output_axes"), INTS),
    **dict.fromkeys(("group", "axis", "keepdims", "to", "transA", "transB", "ceil_mode", "count_include_pad", "size",
                     "allowzero", "blocksize", "training_mode", "linear_before_reset", "num_scan_inputs", "batch_dims",
                     "hidden_size", "exclusive", "reverse"), INT),
    **dict.fromkeys(("auto_pad", "mode", "equation", "direction", "coordinate_transformation_mode", "nearest_mode"),
                    STRING),
}  # fmt: skip
"""Kinds of attributes that mean one thing in every operator of ONNX's own set, and that plans hang on."""
_AT_LEAST_1 = frozenset({"strides", "dilations", "group", "blocksize", "size"})
_CHECKED_DOMAINS = ("", "ai.onnx", "com.microsoft")


def default_domain(domain: str) -> bool:
    """Whether a node's domain is ONNX's own."""
    return domain in ("", "ai.onnx")


def has_subgraph(node: NodeProto) -> bool:
    """Whether a node has a body."""
    return any((a.type or _kind_by_content(a)) in (GRAPH, GRAPHS) for a in node.attribute)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The bodies of a node."""
    for attribute in node.attribute:
        kind = attribute.type or _kind_by_content(attribute)
        if kind == GRAPH:
            yield attribute.g
        elif kind == GRAPHS:
            yield from attribute.graphs


def nesting(node: NodeProto, limit: int) -> int:
    """How deep a node's bodies are nested, counted up to `limit`; 0 if it has none."""
    if not has_subgraph(node) or limit == 0:
        return 0
    inner = (nesting(other, limit - 1) for body in subgraphs(node) for other in body.node)
    return 1 + max(inner, default=0)


def plain_values(node: NodeProto, place: str) -> tuple[dict[str, Any], int]:
    """All attributes of a node by name, as `lowtide.graph.Op` describes them, graphs by their index among the bodies;
    and how many bodies there are. Raises `InputError`: an attribute of one of ONNX's own operators is of another kind
    than it must be, or a stride, a dilation or a number of groups below 1."""
    values: dict[str, Any] = {}
    checked = node.domain in _CHECKED_DOMAINS
    bodies = 0
    for attribute in node.attribute:
        kind = attribute.type or _kind_by_content(attribute)
        name = attribute.name
        if kind in _PLAIN:
            value = _PLAIN[kind](attribute)
        elif kind == GRAPH:
            value, bodies = bodies, bodies + 1
        elif kind == GRAPHS:
            value = tuple(range(bodies, bodies + len(attribute.graphs)))
            bodies += len(attribute.graphs)
        else:
            value = _of_tensors(attribute, kind, place)
        if checked and name in _EXPECTED and (kind != _EXPECTED[name] or type(value) is Array or name in _AT_LEAST_1):
            _check(node, name, kind, value, place)
        values[name] = value
    return values, bodies


def _kind_by_content(attribute: AttributeProto) -> int:
    """Kind of an attribute that does not say it, as files before version 2 of the format: what is there."""
    for kind, field in _FIELDS.items():
        if len(getattr(attribute, field)) if kind in _REPEATED else attribute.HasField(field):
            return kind
    return INTS


def _numbers(numbers: Any, dtype: str) -> Any:
    return tuple(numbers) if len(numbers) <= _MOST_NUMBERS else Array(dtype, (len(numbers),))


def _text(data: bytes) -> str | bytes | Array:
    if len(data) > MAX_VALUE_BYTES:
        return Array("string", (1,))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _texts(texts: Any) -> Any:
    if len(texts) > _MOST_NUMBERS or sum(map(len, texts)) > MAX_VALUE_BYTES:
        return Array("string", (len(texts),))
    return tuple(_text(t) for t in texts)


_PLAIN: Mapping[int, Callable[[Any], Any]] = {
    FLOAT: lambda a: a.f,
    INT: lambda a: a.i,
    STRING: lambda a: _text(a.s),
    FLOATS: lambda a: _numbers(a.floats, "float32"),
    INTS: lambda a: _numbers(a.ints, "int64"),
    STRINGS: lambda a: _texts(a.strings),
}


def _of_tensors(attribute: AttributeProto, kind: int, place: str) -> Any:
    """Value of an attribute that holds tensors, or their types: those as the bytes that the file has for them."""
    if kind == TENSOR:
        return array_of(attribute.t, place)
    if kind == SPARSE:
        return array_of_sparse(attribute.sparse_tensor)
    if kind == TENSORS:
        return tuple(array_of(t, place) for t in attribute.tensors)
    if kind == SPARSES:
        return tuple(array_of_sparse(t) for t in attribute.sparse_tensors)
    types = [attribute.tp] if kind == TYPE else attribute.type_protos
    spelt = tuple(t.SerializeToString(deterministic=True) for t in types)
    return spelt[0] if kind == TYPE else spelt


def _check(node: NodeProto, name: str, kind: int, value: Any, place: str) -> None:
    if kind != _EXPECTED[name]:
        wrong = f"attribute {name!r} of another kind than {_NAMES[_EXPECTED[name]]}; mend it"
    elif isinstance(value, Array):
        wrong = f"attribute {name!r} with {value.shape[0]} entries; no operator has so many"
    elif name in _AT_LEAST_1 and min(value if isinstance(value, tuple) else (value,), default=1) < 1:
        wrong = f"{name} {value}; give whole numbers from 1 up"
    else:
        return
    label = f"{node.op_type} {shorten(str(node.name), 60)!r}" if node.name else f"a node of type {node.op_type}"
    raise InputError(f"{label} has {wrong}", place)


class NodeAttributes:
    """Attributes of nodes, with what the op table, a target and `fold_constants` ask in addition."""

    def __init__(
        self, graph: GraphProto, opset: int, functions: Mapping[tuple[str, str], FunctionProto], place: str
    ) -> None:
        self._graph = graph
        self._opset = opset
        self._functions = functions
        self._place = place

    def of(self, node: NodeProto) -> tuple[dict[str, Any], int]:
        """Attributes of a node, ``random`` and ``training_mode`` among them where they are true, and how many bodies it
        has. Raises as `plain_values`."""
        values, bodies = plain_values(node, self._place)
        match node.op_type:
            case "Dropout":
                if self._dropout_trains(node):
                    values["training_mode"] = 1
            case "BatchNormalization":
                if self._opset < 14 and len([o for o in node.output if o]) > 1:
                    values["training_mode"] = 1
            case _:
                pass
        if (bodies or self._functions or node.op_type in _MAY_DRAW) and self._draws(node, 0, bodies > 0):
            values["random"] = 1
        return values, bodies

    def _draws(self, node: NodeProto, depth: int, holds_graph: bool) -> bool:
        """Whether a node's outputs differ from run to run, so that it must not be computed beforehand."""
        if node.op_type in _RANDOM or depth > 50:
            return True
        if node.op_type == "Dropout" and depth == 0:
            return self._dropout_trains(node)
        function = self._functions.get((node.domain, node.op_type))
        if function is not None and any(self._draws(inner, depth + 1, has_subgraph(inner)) for inner in function.node):
            return True
        return holds_graph and any(
            self._draws(inner, depth + 1, has_subgraph(inner)) for body in subgraphs(node) for inner in body.node
        )

    def _dropout_trains(self, node: NodeProto) -> bool:
        if self._opset < 7:
            return not any(a.name == "is_test" and a.i for a in node.attribute)
        if len(node.input) < 3 or not node.input[2]:
            return False
        value = _constant(self._graph, node.input[2])
        return value is None or _is_true(value)


def _constant(graph: GraphProto, name: str) -> TensorProto | None:
    for tensor in graph.initializer:
        if tensor.name == name:
            return tensor
    for node in graph.node:
        if name in node.output:
            return constant_of_node(node)
    return None


def _is_true(tensor: TensorProto) -> bool:
    """Whether a scalar boolean holds true; taken as true when its value is not in the file."""
    if tensor.data_type != BOOL or tensor.data_location:
        return True
    return any(tensor.raw_data) or any(tensor.int32_data)
