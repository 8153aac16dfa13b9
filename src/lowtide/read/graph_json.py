"""Graph JSON (`*.graph.json`): for compilers that have no model file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec

from lowtide.errors import InputError
from lowtide.graph import Dialect, Graph, Kind, Op, Tensor
from lowtide.names import did_you_mean
from lowtide.ops.effects import in_order_of_writes
from lowtide.ops.folding import fold_constants
from lowtide.ops.kinds import names_only
from lowtide.schemas import json_schema

OWN_KEYS = "x_"  # keys that begin so are the writer's own, and mean nothing here

Id = Annotated[int, msgspec.Meta(ge=0)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]


class TensorEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A value: `size` bytes are what counts. `alias_of`: it is `alias_offset` bytes from the start of that tensor."""

    id: Id
    size: Bytes
    kind: Kind
    name: str = ""
    shape: list[int] | None = None
    dtype: str | None = None
    alias_of: Id | None = None
    alias_offset: Bytes = 0


class OpEntry(msgspec.Struct, forbid_unknown_fields=True):
    """An operator. `after`: ops that run earlier though no tensor says so. `overwrites`: the inputs that its only
    output may lie over, if they die there; null: as the target says of its type. `cost`: how long a run takes,
    in a unit of the graph's own, for plans that rematerialise. `labels`: which rows it reads for which rows of its
    results, as in einsum: ``"n c . ., o c . . -> n o . ."`` (dialect ``labels``). `torch`: what it is in PyTorch, an
    expression with ``{0}`` for its first operand (dialect ``labels``; for code that lowtide-research writes, nothing
    here runs it). `writes`: the inputs over whose bytes it writes, so that who reads the old ones runs earlier;
    ``[]``: none, as a view; null: it may, where it makes an alias."""

    id: Id
    inputs: list[Id]
    outputs: list[Id]
    name: str = ""
    type: str = ""
    workspace: Bytes = 0
    flops: int | None = None
    after: list[Id] = []
    overwrites: list[Id] | None = None
    cost: Annotated[float, msgspec.Meta(ge=0)] | None = None
    labels: str | None = None
    torch: str | None = None
    writes: list[Id] | None = None


class GraphDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A graph whose file order is the order of `ops`. `dialect`: whose names the types of the ops are. `source`: where
    it comes from, for people."""

    name: str
    tensors: list[TensorEntry]
    ops: list[OpEntry]
    version: Literal[1] = 1
    dialect: Dialect = ""
    source: str = ""


def parse_graph_json(data: bytes, source: str = "") -> Graph:
    """Graph from the bytes of a graph JSON file; constant-only ops are folded. The key ``dialect`` (``onnx``,
    ``tflite``, ``aten`` or ``labels``) says whose names the types of the ops are, if they are a format's; it may be
    left out. Attributes, values and operand positions are no part of the format. Raises `InputError`: not JSON, a
    key missing, of the wrong type or unknown (and not beginning with ``x_``), or a graph that `Graph` refuses."""
    raw = _decode(data, source)
    entries = {t.id: t for t in raw.tensors}
    tensors = [
        Tensor(
            t.id, _held_bytes(t, entries), t.kind, t.name, None if t.shape is None else tuple(t.shape), t.dtype,
            t.alias_of, t.alias_offset,
        )
        for t in raw.tensors
    ]  # fmt: skip
    aliases = {t.id for t in raw.tensors if t.alias_of is not None}
    ops = [
        Op(
            o.id, tuple(o.inputs), tuple(o.outputs), o.name, o.type, o.workspace, o.flops, tuple(o.after),
            overwrites=None if o.overwrites is None else tuple(o.overwrites), cost=o.cost,
            attributes={k: text for k, text in (("labels", o.labels), ("torch", o.torch)) if text is not None},
            writes=_writes(o, aliases),
        )
        for o in raw.ops
    ]  # fmt: skip
    marked, remaining, folded = fold_constants(tensors, ops)
    digest = hashlib.sha256(data).hexdigest()
    file_order = tuple(op.id for op in ops) if folded else ()
    graph = Graph(
        raw.name, tuple(marked), tuple(remaining), tuple(folded), source, digest, raw.dialect, file_order=file_order
    )
    _check_said(graph, source)
    return in_order_of_writes(graph)


def _held_bytes(tensor: TensorEntry, entries: Mapping[int, TensorEntry]) -> int:
    """Bytes of memory that a tensor takes: an expanded view has one copy of what it repeats."""
    at, seen = tensor, {tensor.id}
    while at.alias_of is not None and at.alias_of not in seen and (viewed := entries.get(at.alias_of)) is not None:
        if at.size != viewed.size and not _repeats(viewed, at):
            break
        at = viewed
        seen.add(at.id)
    return at.size


def _repeats(viewed: TensorEntry, view: TensorEntry) -> bool:
    """Whether a view is larger than what it views because dimensions of size 1, or new ones, are repeated."""
    if viewed.shape is None or view.shape is None or not len(viewed.shape) <= len(view.shape):
        return False
    pairs = zip(reversed(viewed.shape), reversed(view.shape), strict=False)
    return view.size > viewed.size and all(own in (1, size) for own, size in pairs)


def _check_said(graph: Graph, source: str) -> None:
    """Raise `InputError` where an entry says what means nothing, or what its memory cannot hold."""
    for t in graph.tensors:
        if t.alias_of is None and t.alias_offset:
            raise InputError(
                f"{t.label} has alias_offset and no alias_of; name the tensor that it is allocated in", source
            )
        end, at = t.size, t
        while at.alias_of is not None:
            end, at = end + at.alias_offset, graph.tensor_by_id[at.alias_of]
        if t.size and end > at.size:
            message = f"{t.label} ends {end} B from the start of {at.label}, which has {at.size} B"
            raise InputError(f"{message}; correct its alias_offset or a size", source)
    for op in (*graph.ops, *graph.folded):
        if "labels" in op.attributes and graph.dialect != "labels":
            raise InputError(
                f'{op.label} has labels, which dialect "labels" alone reads; name it, or drop them', source
            )


def _writes(entry: OpEntry, aliases: set[int]) -> tuple[int, ...] | None:
    """What an op says that it writes over; None where it makes an alias, is no view by its type, and says nothing."""
    if entry.writes is not None:
        return tuple(entry.writes)
    return () if names_only(entry.type) or aliases.isdisjoint(entry.outputs) else None


def _decode(data: bytes, source: str) -> GraphDocument:
    """The document without keys of the writer's own: those cost a second look, which most files do not need."""
    try:
        try:
            return msgspec.json.decode(data, type=GraphDocument)
        except msgspec.ValidationError:
            return msgspec.convert(_without_own_keys(msgspec.json.decode(data), source), GraphDocument)
    except msgspec.ValidationError as error:
        raise InputError(f"not a graph JSON: {error}{_words(str(error))}", source) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}", source) from None


def _words(error: str) -> str:
    """The words that a key takes, where msgspec says only which one it does not."""
    words = {"kind": [kind.value for kind in Kind], "dialect": get_args(Dialect), "version": [1]}
    key = error.rstrip("`").rpartition(".")[2]
    if not error.startswith("Invalid enum value") or key not in words:
        return ""
    return f"; use one of {', '.join(map(repr, words[key]))}"


def _without_own_keys(document: Any, source: str) -> Any:
    """The same document with keys that the format has; anything but an object stays for msgspec to refuse."""
    if not isinstance(document, dict):
        return document
    result = _own_fields(document, GraphDocument, "the graph", source)
    for key, struct in (("tensors", TensorEntry), ("ops", OpEntry)):
        entries = result.get(key)
        if isinstance(entries, list):
            result[key] = [
                _own_fields(entry, struct, f"{key}[{i}]", source) if isinstance(entry, dict) else entry
                for i, entry in enumerate(entries)
            ]
    return result


def _own_fields(entry: Mapping[str, Any], struct: type[msgspec.Struct], where: str, source: str) -> dict[str, Any]:
    fields = struct.__struct_fields__
    for key in entry:
        if key not in fields and not key.startswith(OWN_KEYS):
            hint = did_you_mean(key, fields)
            fix = hint or f"; {where} has {', '.join(fields)}"
            raise InputError(f"unknown key {key[:80]!r} in {where}{fix} (keys of your own begin with x_)", source)
    return {key: value for key, value in entry.items() if key in fields}


def schema() -> dict[str, Any]:
    """JSON Schema of a graph JSON: msgspec's, with room for keys that begin with ``x_``."""
    return json_schema(GraphDocument, own_keys=OWN_KEYS)
