"""Inductor's fused graph as JSON, which `torch._inductor.config.reorder_for_peak_memory_debug` writes.

`nodes` are in the order in which they would run, each with the names of the buffers that it makes; `buffers` say how
many bytes are taken when they are made, how many are given back when they die, and which buffers their node reads.

A buffer of which other buffers are parts takes bytes and gives none back: its parts do, each when it dies itself. Here
its node makes room for each of them, which holds the part that its own node makes. Where the parts are not all of
the bytes, they lie in the buffer, which stays until the last of them dies.

Source: torch/_inductor/memory.py of torch 2.13, `export_graph_for_simulator`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import msgspec

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor

Bytes = Annotated[int, msgspec.Meta(ge=0)]


class BufferEntry(msgspec.Struct):
    """A buffer and what its node reads."""

    name: str
    size_alloc: Bytes
    size_free: Bytes
    is_input: bool
    is_output: bool
    deps: list[str]


class NodeEntry(msgspec.Struct):
    """A fused kernel and the buffers that it makes."""

    name: str
    buffer_names: list[str]


class Document(msgspec.Struct):
    """The file."""

    nodes: list[NodeEntry]
    buffers: list[BufferEntry]


def is_inductor(data: bytes) -> bool:
    """Whether a JSON file is one of Inductor's: its first key is `nodes`, which no graph JSON has."""
    head = data[:64].split()
    return b"".join(head).startswith(b'{"nodes":')


def parse_inductor(data: bytes, source: str = "") -> Graph:
    """Graph of a file's bytes; what a node reads and nothing here makes is the caller's, and costs nothing. Raises
    `InputError`: not JSON, a key that is missing or of another type, a name twice, a node that makes a buffer that is
    not there, or a graph that `Graph` refuses."""
    try:
        document = msgspec.json.decode(data, type=Document)
    except msgspec.ValidationError as error:
        hint = "take it as reorder_for_peak_memory_debug of torch 2.13 writes it"
        raise InputError(f"not a graph of Inductor's: {error}; {hint}", source) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}; is the file complete?", source) from None
    buffers = {b.name: b for b in document.buffers}
    if len(buffers) < len(document.buffers):
        twice = next(b.name for k, b in enumerate(document.buffers) if b.name in {c.name for c in document.buffers[:k]})
        raise InputError(f"two buffers have the same name, {twice[:80]}; give each its own", source)
    ids = {name: number for number, name in enumerate(buffers)}
    homes = _homes(document, buffers)
    rooms = _rooms(document, buffers, homes)
    split: dict[str, list[int]] = {}
    for part, room in rooms.items():
        split.setdefault(homes[part], []).append(room)
    tensors = [_tensor(b, ids, homes, rooms, split) for b in document.buffers]
    for part, number in rooms.items():
        tensors.append(Tensor(number, buffers[part].size_free, Kind.ACTIVATION, f"room of {part}"))
    ops: list[Op] = []
    for number, node in enumerate(document.nodes):
        unknown = [name for name in node.buffer_names if name not in ids]
        if unknown:
            raise InputError(f"node {node.name[:80]} makes {unknown[0][:80]}, which is no buffer; list it", source)
        read = dict.fromkeys(
            ids[dep] for name in node.buffer_names for dep in buffers[name].deps
            if dep in ids and dep not in node.buffer_names
        )  # fmt: skip
        made = (
            *(ids[name] for name in node.buffer_names),
            *(room for name in node.buffer_names for room in split.get(name, ())),
        )
        parents = [rooms[name] for name in node.buffer_names if name in rooms and homes[name] not in node.buffer_names]
        ops.append(Op(number, (*read, *parents), made, node.name, "kernel"))
    name = Path(source).name.partition(".")[0] or "inductor"
    return Graph(name, tuple(tensors), tuple(ops), (), source, hashlib.sha256(data).hexdigest())


def _homes(document: Document, buffers: dict[str, BufferEntry]) -> dict[str, str]:
    """The buffer that a part is of: the one it reads, perhaps by way of some without bytes, that takes its parts'."""
    homes: dict[str, str] = {}
    for b in document.buffers:
        if b.size_alloc or not b.size_free or b.is_input:
            continue
        seen, left = {b.name}, list(b.deps)
        while left and b.name not in homes:
            name = left.pop(0)
            buffer = buffers.get(name)
            if buffer is None or name in seen or buffer.size_free:
                continue
            seen.add(name)
            if buffer.size_alloc:
                homes[b.name] = name
            else:
                left += buffer.deps
    return homes


def _rooms(document: Document, buffers: dict[str, BufferEntry], homes: dict[str, str]) -> dict[str, int]:
    """Number of the room of each part of a buffer whose parts are all of it."""
    parts: dict[str, int] = {}
    for part, home in homes.items():
        parts[home] = parts.get(home, 0) + buffers[part].size_free
    separate = [part for part, home in homes.items() if parts[home] == buffers[home].size_alloc]
    return {part: len(document.buffers) + k for k, part in enumerate(separate)}


def _tensor(
    b: BufferEntry, ids: dict[str, int], homes: dict[str, str], rooms: dict[str, int], split: dict[str, list[int]]
) -> Tensor:
    kind = Kind.OUTPUT if b.is_output else Kind.INPUT if b.is_input else Kind.ACTIVATION
    home = homes.get(b.name)
    if home is not None:
        return Tensor(ids[b.name], b.size_free, kind, b.name, alias_of=rooms.get(b.name, ids[home]))
    return Tensor(ids[b.name], 0 if b.name in split else max(b.size_alloc, b.size_free), kind, b.name)
