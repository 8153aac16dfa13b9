"""Graph JSON with its ops in another order, and graph JSON of any graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from lowtide.analyse.storage import body_bytes
from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.graph import Graph, Op
from lowtide.ops.kinds import names_only
from lowtide.outputs import Outputs
from lowtide.read.graph_json import parse_graph_json
from lowtide.target import BUILT_IN
from lowtide.write.slots import fill_slots

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)


class _Id(msgspec.Struct):
    id: int


class _Ids(msgspec.Struct):
    ops: list[_Id]


def write_graph_json(
    source: str | Path, order: Sequence[int], target: str | Path, outputs: Outputs | None = None
) -> None:
    """Write a graph JSON file with its ops in another order; every other byte stays, unknown keys included.

    `source`: the file; never changed. `order`: ids of the ops that run, each once; folded ones keep their place, as in
    `lowtide.write.slots`. `target`: the file to write; replaced if it exists. `outputs`: write into these, to be
    committed by the caller together with others; else `target` is there on return. Raises `InputError`: `source` cannot
    be read or is no graph JSON; `order` is no topological order of it; `target` is the input or cannot be written.
    """
    with Outputs() if outputs is None else nullcontext(outputs) as outputs:
        place = str(source)
        outputs.protect(source)
        data = read_all(source)
        graph = parse_graph_json(data, place)
        ids = [op.id for op in msgspec.json.decode(data, type=_Ids).ops]
        ops = [graph.op_by_id[i] for i in ids]
        sequence = fill_slots(ops, {op.id for op in graph.folded}, order, place)
        outputs.write(target, _permuted(data, ids, sequence, place))


def _permuted(data: bytes, ids: Sequence[int], sequence: Sequence[int], place: str) -> bytes:
    slots = _op_ranges(data, place)
    assert len(slots) == len(ids)
    text = {op_id: data[begin:end] for op_id, (begin, end) in zip(ids, slots, strict=True)}
    parts, at = [], 0
    for (begin, end), op_id in zip(slots, sequence, strict=True):
        parts += [data[at:begin], text[op_id]]
        at = end
    return b"".join((*parts, data[at:]))


def _op_ranges(data: bytes, place: str) -> list[tuple[int, int]]:
    """Byte range of each object in the array under the top-level key ``ops``; `data` is known to be valid
    JSON."""
    ranges: list[list[tuple[int, int]]] = []
    depth = begin = 0
    key: bytes | None = None
    at_key = inside = False
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token in b"[{":
            depth += 1
            at_key = depth == 1
            if depth == 2:
                inside = token == b"[" and key is not None and msgspec.json.decode(key) == "ops"
                if inside:
                    ranges.append([])
            elif depth == 3 and inside:
                begin = match.start()
        elif token in b"]}":
            if depth == 3 and inside:
                ranges[-1].append((begin, match.end()))
            inside = inside and depth > 2
            depth -= 1
        elif token == b",":
            at_key = depth == 1
        elif depth == 1 and at_key:
            key, at_key = token, False
    if len(ranges) != 1:
        raise InputError(f"the key 'ops' is there {len(ranges)} times; keep one", place)
    return ranges[0]


def graph_json_bytes(graph: Graph, order: Sequence[int] | None = None) -> bytes:
    """Graph JSON of any graph, one line for each tensor and op.

    `graph`: read from whatever format. Attributes of ops are not part of graph JSON, nor are bodies: what the worst one
    needs under ``strict`` is the op's workspace. `order`: ids of the ops that run, each once; None: file order. Folded
    ops come in the place that the file gives them, by their ids where those ascend with it (ONNX, TFLite), else before
    the others; see `lowtide.write.slots`. Raises `InputError`: `order` is no topological order of the graph.
    """
    ops = _in_file_order(graph)
    sequence = fill_slots(
        ops, {op.id for op in graph.folded}, graph.own_order if order is None else order, graph.source or graph.name
    )
    tensors = []
    for t in graph.tensors:
        entry: dict[str, Any] = {"id": t.id, "size": t.size, "kind": str(t.kind)}
        entry |= {"name": t.name} if t.name else {}
        entry |= {} if t.shape is None else {"shape": t.shape}
        entry |= {} if t.dtype is None else {"dtype": t.dtype}
        if t.alias_of is not None:
            entry |= {"alias_of": t.alias_of, "alias_offset": t.alias_offset}
        tensors.append(entry)
    lines = [_op_entry(graph, graph.op_by_id[i]) for i in sequence]
    head = msgspec.json.encode(graph.name)
    if graph.dialect == "labels":
        head += b',\n"dialect": "labels"'
    return b'{"name": %s,\n"tensors": [\n%s\n],\n"ops": [\n%s\n]}\n' % (head, _lines(tensors), _lines(lines))


def _in_file_order(graph: Graph) -> list[Op]:
    own, folded = [op.id for op in graph.ops], [op.id for op in graph.folded]
    running = set(own)
    if [op_id for op_id in graph.file_order if op_id in running] == own and len(graph.file_order) == len(
        graph.op_by_id
    ):
        return [graph.op_by_id[op_id] for op_id in graph.file_order]
    if own == sorted(own) and folded == sorted(folded):
        return sorted((*graph.ops, *graph.folded), key=lambda op: op.id)
    return [*graph.folded, *graph.ops]


def _op_entry(graph: Graph, op: Op) -> dict[str, Any]:
    workspace = op.workspace + body_bytes(graph, op, BUILT_IN["strict"])
    entry: dict[str, Any] = {"id": op.id, "inputs": op.inputs, "outputs": op.outputs}
    entry |= {"name": op.name} if op.name else {}
    entry |= {"type": op.type} if op.type else {}
    entry |= {"workspace": workspace} if workspace else {}
    entry |= {} if op.flops is None else {"flops": op.flops}
    entry |= {"after": op.after} if op.after else {}
    entry |= {} if op.overwrites is None else {"overwrites": op.overwrites}
    if op.writes or _is_view(graph, op):
        entry["writes"] = op.writes
    if graph.dialect == "labels":
        entry |= {name: op.attributes[name] for name in ("labels", "torch") if name in op.attributes}
    return entry


def _is_view(graph: Graph, op: Op) -> bool:
    """Whether an op makes an alias and writes over nothing, which its type does not say; ATen's that write do not."""
    made = any(graph.tensor_by_id[t].alias_of is not None for t in op.outputs)
    return made and op.writes == () and not names_only(op.type) and not op.type.startswith("aten.")


def _lines(entries: Sequence[dict[str, Any]]) -> bytes:
    return b",\n".join(msgspec.json.encode(entry) for entry in entries)
