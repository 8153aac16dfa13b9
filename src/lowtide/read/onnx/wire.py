"""An ONNX file on the wire: protobuf records as byte ranges, and a file's structure without its weights.

A protobuf message is a sequence of records, each a tag (field number and wire type) and a payload; a record
of wire type 2 is a tag, a length and that many bytes, which may be another message::

    ModelProto  | ir_version | ... | graph (7)                                              | opset_import |
    ...
                                   | node (1) | node (1) | ... | initializer (5) | name (2) |

The protobuf library refuses messages over 2 GiB, and what plans needs no weights: `skeleton` leaves them out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.files import Buffer, open_bytes
from lowtide.graph import MAX_VALUE_BYTES
from lowtide.read.onnx.proto import protobuf_classes

if TYPE_CHECKING:
    from onnx import ModelProto

Record = tuple[int, int, int, int, int]
"""``(field, wire type, begin, body, end)``: the record is ``data[begin:end]``, its payload
``data[body:end]``."""

LENGTH_DELIMITED = 2
GRAPH_FIELD = 7
"""Field of ModelProto that holds the GraphProto."""
_METADATA_FIELD = 14
NODE_FIELD = 1
"""Field of GraphProto that holds a NodeProto."""

KEEP_BYTES = 2 * MAX_VALUE_BYTES
"""Records up to this size are kept whole: small tensors that shapes and values come from."""
_PARSE_LIMIT_BYTES = 2**31 - 1
_DEPTH_LIMIT = 100

_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {4: "data", 5: "data", 6: "data", 7: "data", 9: "data", 10: "data", 11: "data"},
}


class WireError(ValueError):
    """The bytes are no protobuf message, or the message is cut short."""


def records(data: Buffer, start: int, end: int) -> Iterator[Record]:
    """Walk the records of the message ``data[start:end]``. Raises `WireError`: a record that runs over the end, or that
    no protobuf writer writes."""
    at = start
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        wire = tag & 7
        if wire == LENGTH_DELIMITED:
            length, body = _varint(data, at, end)
            at = body + length
        else:
            body = at
            at = _skip(data, tag, at, end, 0)
        if at > end:
            raise WireError(f"the record at byte {begin} claims {at - end} bytes more than there are")
        if tag < 8:
            raise WireError(f"there is no protobuf record at byte {begin}")
        yield tag >> 3, wire, begin, body, at


def read_metadata(path: Path) -> dict[str, str]:
    """The texts that an ONNX file says of itself, by their keys, of equal ones the last; none if it cannot be read."""
    found: dict[str, str] = {}
    try:
        with open_bytes(path) as data:
            for field, wire, _, body, end in records(data, 0, len(data)):
                if (field, wire) == (_METADATA_FIELD, LENGTH_DELIMITED):
                    entry = {f: bytes(data[a:b]).decode(errors="replace") for f, _, _, a, b in records(data, body, end)}
                    found[entry.get(1, "")] = entry.get(2, "")
    except (WireError, InputError):
        return {}
    return found


def _varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise WireError(f"a number is cut short at byte {at}")


def _skip(data: Buffer, tag: int, at: int, end: int, depth: int) -> int:
    wire = tag & 7
    if wire == 0:
        return _varint(data, at, end)[1]
    if wire == 1:
        return at + 8
    if wire == 2:
        length, at = _varint(data, at, end)
        return at + length
    if wire == 5:
        return at + 4
    if wire == 3 and depth < _DEPTH_LIMIT:
        while True:
            inner, at = _varint(data, at, end)
            if inner & 7 == 4:
                return at
            at = _skip(data, inner, at, end, depth + 1)
    raise WireError(f"wire type {wire} at byte {at} is none that ONNX uses")


def skeleton(data: Buffer, keep_bytes: int = KEEP_BYTES) -> bytes:
    """A ModelProto without the payload of any tensor whose record is larger than `keep_bytes`. Every other record
    stays, unknown ones included, in its order. Raises `WireError`: as `records`."""
    return b"".join(_shrink(data, 0, len(data), "model", keep_bytes, 0))


def _shrink(data: Buffer, start: int, end: int, message: str, keep_bytes: int, depth: int) -> list[bytes]:
    if end - start <= keep_bytes or depth > _DEPTH_LIMIT:
        return [data[start:end]]
    children = _CHILDREN[message]
    parts: list[bytes] = []
    kept_from = start
    for field, wire, begin, body, stop in records(data, start, end):
        child = children.get(field)
        if child is None or (child != "data" and (wire != LENGTH_DELIMITED or stop - body <= keep_bytes)):
            continue
        parts.append(data[kept_from:begin])
        kept_from = stop
        if child != "data":
            inner = _shrink(data, body, stop, child, keep_bytes, depth + 1)
            parts.append(varint(field << 3 | LENGTH_DELIMITED) + varint(sum(map(len, inner))))
            parts.extend(inner)
    parts.append(data[kept_from:end])
    return parts


def varint(value: int) -> bytes:
    """A number as protobuf writes it, seven bits a byte.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def load_model(path: Path) -> tuple[ModelProto, str]:
    """Parse an ONNX file, without its weights if it is large, and digest it. Returns: the message, and the hex digest
    of the file's bytes. Raises `InputError`: the file cannot be read or holds no ModelProto with a graph."""
    with open_bytes(path) as data:
        return parse_model(data, str(path)), hashlib.sha256(data).hexdigest()


def parse_model(data: Buffer, place: str) -> ModelProto:
    """Parse an ONNX file's bytes; of a mapped file the weights are left out first (see `skeleton`). Raises
    `InputError`: the bytes hold no ModelProto with opsets and a graph that has nodes and outputs."""
    from google.protobuf.message import DecodeError

    try:
        message = data if isinstance(data, bytes) else skeleton(data)
        if len(message) > _PARSE_LIMIT_BYTES:
            raise InputError("without its weights the model is still over 2 GB; split the model", place)
        model = protobuf_classes().ModelProto.FromString(message)
    except (WireError, DecodeError, UnicodeDecodeError) as error:
        reason = f" ({error})" if isinstance(error, WireError) else ""
        raise InputError(f"not an ONNX model, or cut short{reason}; export it again", place) from None
    if not model.HasField("graph"):
        raise InputError("no graph in it: not an ONNX model, or cut short; export it again", place)
    if not model.opset_import and (model.ir_version >= 3 or not model.HasField("ir_version")):
        raise InputError("no opset_import in it: not an ONNX model, or cut short; export it again", place)
    if not model.graph.node:
        raise InputError("the graph has no nodes: cut short, or nothing to plan; export it again", place)
    if not model.graph.output:
        raise InputError("the graph has no outputs: cut short, or nothing to keep; declare one", place)
    return model
