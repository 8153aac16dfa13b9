"""Graph JSON (`*.graph.json`): for compilers that have no model file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from lowtide.errors import InputError
from lowtide.files import read_whole
from lowtide.graph import Dialect, Graph, Kind, Op, Tensor
from lowtide.ops.folding import fold_constants


class _Tensor(msgspec.Struct):
    id: int
    size: int
    kind: Kind
    name: str = ""
    shape: list[int] | None = None
    dtype: str | None = None
    alias_of: int | None = None
    alias_offset: int = 0


class _Op(msgspec.Struct):
    id: int
    inputs: list[int]
    outputs: list[int]
    name: str = ""
    type: str = ""
    workspace: int = 0
    flops: int | None = None
    after: list[int] = []


class _Graph(msgspec.Struct):
    name: str
    tensors: list[_Tensor]
    ops: list[_Op]
    dialect: Dialect = ""


def read_graph_json(path: str | Path) -> Graph:
    """Read a graph JSON file; unknown keys are ignored, constant-only ops folded.

    The key ``dialect`` (``onnx``, ``tflite`` or ``aten``) says whose names the types of the ops are, if they are a
    format's; it may be left out. Attributes, values and operand positions are no part of the format.

    Raises
    ------
    InputError
        Unreadable file, not JSON, a key missing or of the wrong type, or a graph that `Graph` refuses.
    """
    return parse_graph_json(read_whole(path), str(path))


def parse_graph_json(data: bytes, source: str = "") -> Graph:
    """Graph from the bytes of a graph JSON file. Raises as `read_graph_json`."""
    try:
        raw = msgspec.json.decode(data, type=_Graph)
    except msgspec.ValidationError as error:
        raise InputError(f"not a graph JSON: {error}", source) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}", source) from None
    tensors = [
        Tensor(
            t.id, t.size, t.kind, t.name, None if t.shape is None else tuple(t.shape), t.dtype, t.alias_of,
            t.alias_offset,
        )
        for t in raw.tensors
    ]  # fmt: skip
    ops = [
        Op(o.id, tuple(o.inputs), tuple(o.outputs), o.name, o.type, o.workspace, o.flops, tuple(o.after))
        for o in raw.ops
    ]
    marked, remaining, folded = fold_constants(tensors, ops)
    digest = hashlib.sha256(data).hexdigest()
    file_order = tuple(op.id for op in ops) if folded else ()
    return Graph(
        raw.name, tuple(marked), tuple(remaining), tuple(folded), source, digest, raw.dialect, file_order=file_order
    )
