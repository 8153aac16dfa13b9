"""Values of small ONNX constants: of initializers, of Constant nodes, and of what attributes hold."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.graph import MAX_VALUE_BYTES, Array, Op
from lowtide.read.onnx.types import constant_type, element_name, size_bytes

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto

_EXTERNAL = 1
_FIELDS = {
    "float32": ("float_data", "f"), "complex64": ("float_data", "f"),
    "float64": ("double_data", "d"), "complex128": ("double_data", "d"),
    "int64": ("int64_data", "q"), "uint64": ("uint64_data", "Q"), "uint32": ("uint64_data", "I"),
    "int32": ("int32_data", "i"), "int16": ("int32_data", "h"), "int8": ("int32_data", "b"),
    "uint16": ("int32_data", "H"), "float16": ("int32_data", "H"), "bfloat16": ("int32_data", "H"),
    "bool": ("int32_data", "?"),
}  # fmt: skip
"""Where a tensor's numbers lie if not in `raw_data`, and their `struct` form; of the other types (below 8 bits, and
floats of 8), one byte stands in each entry of ``int32_data``."""


def tensor_value(tensor: TensorProto, size: int) -> bytes | None:
    """Bytes of a constant of `size` bytes, row by row; None if they are many, elsewhere, or not as many as said."""
    if size > MAX_VALUE_BYTES or tensor.data_location == _EXTERNAL:
        return None
    if tensor.HasField("raw_data"):
        return tensor.raw_data if len(tensor.raw_data) == size else None
    name, form = _FIELDS.get(element_name(tensor.data_type), ("int32_data", "B"))
    numbers = getattr(tensor, name)
    if len(numbers) * struct.calcsize("<" + form) != size:
        return None
    try:
        return struct.pack(f"<{len(numbers)}{form}", *numbers)
    except struct.error:  # a number that its type does not hold
        return None


def array_of(tensor: TensorProto, place: str) -> Array:
    """A tensor in an attribute. It has no value if its type has no fixed size (strings)."""
    kind = constant_type(tensor)
    try:
        size = size_bytes(kind, tensor.name, place)
    except InputError:
        return Array(element_name(kind.element), kind.shape)
    return Array(element_name(kind.element), kind.shape, tensor_value(tensor, size))


def array_of_sparse(tensor: SparseTensorProto) -> Array:
    """A sparse tensor in an attribute: its dense shape and its type."""
    return Array(element_name(tensor.values.data_type), tuple(tensor.dims))


def value_of_constant(op: Op) -> bytes | None:
    """Bytes of what a Constant node makes, if they are few; None for texts, sparse tensors and other ops."""
    for name, value in op.attributes.items():
        match name, value:
            case "value", Array(value=held):
                return held
            case "value_int", int():
                return struct.pack("<q", value)
            case "value_float", float():
                return struct.pack("<f", value)
            case "value_ints", tuple():
                return struct.pack(f"<{len(value)}q", *value)
            case "value_floats", tuple():
                return struct.pack(f"<{len(value)}f", *value)
            case _:
                continue
    return None
