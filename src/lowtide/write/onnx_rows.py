"""Rows of an ONNX model's weights, as initializers of their own.

Where the rows are contiguous in external data they are an offset into it, and no byte is copied; else they are raw
data in the file. What is no dense tensor of full bytes (computed by a folded node, packed, text) has no rows here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from lowtide.errors import InputError
from lowtide.files import Buffer, open_bytes
from lowtide.graph import ELEMENT_BITS
from lowtide.ops.access import Box, box_elements
from lowtide.read.onnx.proto import protobuf_classes
from lowtide.read.onnx.types import element_name

_EXTERNAL = 1
_NUMPY = frozenset(
    {"float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"}
)
"""Element types whose values may be listed in other fields than raw data, and are read from there."""


@dataclass(frozen=True)
class Weights:
    """Where the weights of a model are."""

    source: Path  # the model's file
    data: Buffer  # its bytes
    initializers: Mapping[str, tuple[int, int]]  # range of the TensorProto of each dense initializer, by name
    constants: Mapping[str, tuple[int, int]]  # range of the NodeProto of each Constant node, by the name of its result

    def rows(self, of: str, box: Box, name: str) -> Any:
        """A TensorProto `name` of rows `box` of a weight; None if they are to be had otherwise only. Raises
        `InputError`: they are in external data that is not there, is too short, or is outside the model's directory."""
        tensor = self._proto(of)
        bits = 0 if tensor is None else ELEMENT_BITS.get(element_name(tensor.data_type), 0)
        if tensor is None or bits == 0 or bits % 8 or len(tensor.dims) != len(box):
            return None
        proto = protobuf_classes().TensorProto
        rows = proto(name=name, data_type=tensor.data_type, dims=[b - a for a, b in box])
        if tensor.data_location == _EXTERNAL:
            return self._external(tensor, box, bits // 8, rows)
        raw = _raw(tensor)
        if raw is None:
            return None
        rows.raw_data = _cut(raw, tuple(tensor.dims), box, bits // 8)
        return rows

    def _proto(self, name: str) -> Any:
        """The TensorProto of a weight."""
        classes = protobuf_classes()
        if name in self.initializers:
            begin, end = self.initializers[name]
            return classes.TensorProto.FromString(self.data[begin:end])
        if name in self.constants:
            begin, end = self.constants[name]
            node = classes.NodeProto.FromString(self.data[begin:end])
            return next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
        return None

    def _external(self, tensor: Any, box: Box, width: int, rows: Any) -> Any:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        shape = tuple(tensor.dims)
        location, offset = entries.get("location", ""), int(entries.get("offset", 0))
        first = _first_if_together(shape, box)
        if first is not None:
            rows.data_location = _EXTERNAL
            size = box_elements(box) * width
            for key, value in (("location", location), ("offset", offset + first * width), ("length", size)):
                rows.external_data.add(key=key, value=str(value))
            return rows
        home = Path(os.path.realpath(self.source.parent))
        path = Path(os.path.realpath(home / PurePosixPath(location)))
        if not location or not path.is_relative_to(home):
            raise InputError(f"external data {location!r} lies outside the model's directory", str(self.source))
        with open_bytes(path) as data:
            size = prod(shape) * width
            if offset + size > len(data):
                raise InputError(f"{tensor.name!r} ends after the end of the file; save the model again", str(path))
            rows.raw_data = _cut(memoryview(data)[offset : offset + size], shape, box, width)
        return rows


def _raw(tensor: Any) -> bytes | None:
    """The bytes of a tensor, row by row, little-endian; None: they are not known."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    if element_name(tensor.data_type) not in _NUMPY:
        return None
    from onnx import numpy_helper

    values = numpy_helper.to_array(tensor)
    return values.astype(values.dtype.newbyteorder("<")).tobytes()


def _cut(raw: bytes | memoryview, shape: tuple[int, ...], box: Box, width: int) -> bytes:
    """The bytes of some rows of a tensor."""
    values = np.frombuffer(raw, np.dtype((np.void, width))).reshape(shape)
    result = values[tuple(slice(a, b) for a, b in box)].tobytes()
    del values  # a mapped file cannot be closed while it is looked at
    return result


def _first_if_together(shape: tuple[int, ...], box: Box) -> int | None:
    """Element at which the rows of a box begin if they are contiguous.

    >>> _first_if_together((4, 3), ((1, 3), (0, 3)))
    3
    >>> _first_if_together((4, 3), ((1, 3), (0, 2))) is None
    True
    """
    cut = next((d for d, (a, b) in enumerate(box) if b - a != 1), len(box))
    if any((a, b) != (0, size) for (a, b), size in zip(box[cut + 1 :], shape[cut + 1 :], strict=True)):
        return None
    return sum(a * prod(shape[d + 1 :]) for d, (a, _) in enumerate(box[: cut + 1]))
