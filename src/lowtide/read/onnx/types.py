"""What an ONNX tensor occupies: element types, static types, and the constants that shapes hang on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from lowtide.errors import InputError
from lowtide.graph import ELEMENT_BITS, MAX_BYTES
from lowtide.read.onnx.proto import protobuf_classes

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, SparseTensorProto, TensorProto, TypeProto, ValueInfoProto

_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}
FLOAT, UINT8, INT32, INT64, STRING, BOOL = 1, 2, 6, 7, 8, 9
"""TensorProto.DataType values that the reader asks for by number."""


def check_utf8(names: Iterable[str | bytes], place: str) -> None:
    """Refuse names that are not UTF-8; protobuf gives those as bytes. Raises `InputError`: there is one."""
    for name in names:
        if isinstance(name, bytes):
            raise InputError(f"the name {name!r} is not UTF-8: the file is damaged; export it again", place)


class TensorType(NamedTuple):
    """Element type (a TensorProto.DataType) and static shape."""

    element: int
    shape: tuple[int, ...]


@cache
def element_name(element: int) -> str:
    """Name of an element type, as `lowtide.graph.ELEMENT_BITS` has it."""
    types = protobuf_classes().TensorProto.DataType
    name = types.Name(element) if element in types.values() else f"number {element}"
    return _NAMES.get(name, name.lower())


def size_bytes(kind: TensorType, name: str, place: str) -> int:
    """Bytes of a tensor; elements below 8 bits are packed. Raises `InputError`: a negative dimension, an element type
    without a fixed size, or more than 2^62 bytes."""
    if kind.shape and min(kind.shape) < 0:
        raise InputError(f"tensor {name!r} has shape {list(kind.shape)}: a dimension is negative; fix it", place)
    bits = ELEMENT_BITS.get(element_name(kind.element))
    if bits is None:
        what = "is of strings" if kind.element == STRING else f"has element type {element_name(kind.element)}"
        raise InputError(f"tensor {name!r} {what}, which has no fixed size; cut that part of the model off", place)
    size = (math.prod(kind.shape) * bits + 7) // 8
    if size > MAX_BYTES:
        raise InputError(
            f"tensor {name!r} has shape {list(kind.shape)}: {size} bytes are more than 2^62; fix the shape", place
        )
    return size


def static_type(value: ValueInfoProto) -> TensorType | None:
    """Type of a declared tensor, or None if it is no tensor or its shape is not wholly known."""
    return type_of(value.type)


def type_of(value: TypeProto) -> TensorType | None:
    """The static type that a message says, or None as `static_type`."""
    kind = value.tensor_type
    if not kind.elem_type or not kind.HasField("shape"):
        return None
    shape = []
    for dim in kind.shape.dim:
        size = dim.dim_value
        if size < 0 or (not size and not dim.HasField("dim_value")):
            return None
        shape.append(size)
    return TensorType(kind.elem_type, tuple(shape))


def other_than_tensor(value: ValueInfoProto) -> str | None:
    """``"sequence"``, ``"optional"``, ``"map"``... for a declared value that is no dense tensor."""
    which = value.type.WhichOneof("value")
    return None if which in (None, "tensor_type") else which.removesuffix("_type").replace("_", " ")


def constant_type(tensor: TensorProto) -> TensorType:
    """Type of an initializer."""
    return TensorType(tensor.data_type, tuple(tensor.dims))


def constant_size(tensor: TensorProto, place: str) -> int:
    """Bytes of an initializer; one of strings counts the characters that are in the file. Raises `InputError`: as
    `size_bytes`."""
    if tensor.data_type == STRING:
        return sum(map(len, tensor.string_data))
    return size_bytes(constant_type(tensor), tensor.name, place)


def sparse_size(tensor: SparseTensorProto, place: str) -> int:
    """Bytes of a sparse initializer: its values and its indices. Raises `InputError`: as `size_bytes`."""
    name = tensor.values.name
    return size_bytes(constant_type(tensor.values), name, place) + size_bytes(
        constant_type(tensor.indices), name, place
    )


def constant_of_node(node: NodeProto) -> TensorProto | None:
    """The tensor that a Constant node holds, named as its output; None if it is sparse or another op."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or not node.output:
        return None
    tensor = protobuf_classes().TensorProto(name=node.output[0])
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                tensor.CopyFrom(attribute.t)
                tensor.name = node.output[0]
            case "value_int":
                tensor.data_type = INT64
                tensor.int64_data.append(attribute.i)
            case "value_ints":
                tensor.data_type = INT64
                tensor.dims.append(len(attribute.ints))
                tensor.int64_data.extend(attribute.ints)
            case "value_float":
                tensor.data_type = FLOAT
                tensor.float_data.append(attribute.f)
            case "value_floats":
                tensor.data_type = FLOAT
                tensor.dims.append(len(attribute.floats))
                tensor.float_data.extend(attribute.floats)
            case "value_string":
                tensor.data_type = STRING
                tensor.string_data.append(attribute.s)
            case "value_strings":
                tensor.data_type = STRING
                tensor.dims.append(len(attribute.strings))
                tensor.string_data.extend(attribute.strings)
            case _:
                continue
        return tensor
    return None


def constants_of(graph: GraphProto) -> dict[str, TensorProto]:
    """Initializers and Constant nodes by name."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        tensor = constant_of_node(node)
        if tensor is not None:
            constants[tensor.name] = tensor
    return constants


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """numpy's broadcasting; None where the shapes do not agree."""
    shapes = list(shapes)
    rank = max(map(len, shapes), default=0)
    result = []
    for dims in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        sizes = set(dims) - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)
