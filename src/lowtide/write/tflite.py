"""A TFLite model with its operators in another order and, for TFLM, an offline plan; every other byte as it was.

The operators of a subgraph are a vector of offsets: permuting those is all that a new order takes. New metadata needs
a longer vector of metadata and of buffers, and offsets in a flatbuffer only lead forward. So what is new is put in
front, with a root table of its own that leads into the old file, which follows it unmodified::

    before         | root | operator codes | subgraphs | buffers | weights ...
    after  | new root | new vectors | offline plan | root | operator codes | subgraphs | buffers | weights ...
                 |          |                               ^                       ^
                 +----------+-------------------------------+-----------------------+

The old root is dead then. A plan of the same length in the old file is overwritten in place.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import open_bytes
from lowtide.outputs import Outputs
from lowtide.read.tflite.dependencies import CONTROL_DEPENDENCIES, dependency_bytes
from lowtide.read.tflite.model import KERNELS, OFFLINE_PLAN, Extent, TfliteModel, parse_file
from lowtide.read.tflite.reader import graph_of
from lowtide.read.tflite.schema import IDENTIFIER
from lowtide.read.tflite.wire import Flatbuffer, Table, WireError
from lowtide.rules.tflm.rule import ALIGNMENT, NPU
from lowtide.runtimes.tflm.offline import ONLINE, emptied_tensors, listed_offsets
from lowtide.write.slots import fill_slots

_BUFFERS, _METADATA, _LAST_FIELD = 4, 6, 9
KERNELS_BYTES = 16
"""Room for the name of a kernel library, always as much, so that a later plan overwrites it where it stands."""


def write_tflite(
    source: str | Path,
    order: Sequence[int],
    target: str | Path,
    outputs: Outputs | None = None,
    offsets: Mapping[int, int] | None = None,
    kernels: str = "",
) -> None:
    """Write a TFLite model with its operators in another order.

    `source`: the model; never changed. `order`: operator indices of subgraph 0, each once. `target`: the file to write;
    replaced if it exists. `outputs`: write into these, to be committed by the caller together with others; else
    `target` is there on return. `offsets`: offset in TFLM's arena of each tensor of subgraph 0 that is planned; None:
    no offline plan. A plan that the file holds already is replaced then, or, if the order changes, emptied. `kernels`:
    for whose kernels the offsets hold, for `lowtide verify`: metadata of lowtide's own; empty: not said. Raises
    `InputError`: `source` cannot be read; `order` is no order of it, or puts operators with state out of their order;
    `target` is the input or cannot be written; TFLM cannot take an offline plan for this file.
    """
    with Outputs() if outputs is None else nullcontext(outputs) as outputs:
        outputs.protect(source)
        with open_bytes(Path(source)) as data:
            outputs.write(target, planned_bytes(bytes(data), order, offsets, str(source), kernels))


def planned_bytes(
    data: bytes, order: Sequence[int], offsets: Mapping[int, int] | None, place: str, kernels: str = ""
) -> bytes:
    """The bytes that `write_tflite` writes. Raises as it does."""
    file = parse_file(data, place)
    model, listed = file.model, file.dependencies
    graph = graph_of(model, listed, place, "")
    sequence = fill_slots(graph.ops, (), order, place)
    out = bytearray(data)
    _permute(out, model, sequence)
    moved = sequence != sorted(sequence)
    if any(op.type == NPU for op in graph.ops) and (moved or offsets is not None):
        raise InputError(
            "Vela's operators hold fixed places in the arena; plan the model before Vela compiles it", place
        )
    wanted: dict[str, bytes | None] = {}
    if moved and listed:
        slot = {op: i for i, op in enumerate(sequence)}
        remapped = [[(slot[a], slot[b]) for a, b in listed[0]], *listed[1:]]
        wanted[CONTROL_DEPENDENCIES] = dependency_bytes(remapped)
    if offsets is not None:
        for i in emptied_tensors(model, offsets):
            struct.pack_into("<i", out, model.subgraphs[0].tensors[i].shape_at or 0, 0)
        wanted[OFFLINE_PLAN] = offline_plan(model, offsets)
    elif moved and any(name == OFFLINE_PLAN for name, _ in model.metadata):
        wanted[OFFLINE_PLAN] = None
    written = offsets is not None and kernels
    if written or (OFFLINE_PLAN in wanted and any(name == KERNELS for name, _ in model.metadata)):
        wanted[KERNELS] = (kernels if written else "").encode("ascii").ljust(KERNELS_BYTES, b"\0")
    left = {name: new for name, new in wanted.items() if not _overwritten(out, model, name, new)}
    if not left:
        return bytes(out)
    try:
        return bytes(_with_head(out, model, left, place))
    except WireError as error:
        raise InputError(f"the file is damaged outside of the graph: {error}; export it again", place) from None


def offline_plan(model: TfliteModel, offsets: Mapping[int, int]) -> bytes:
    """Buffer of TFLM's metadata: version 0, number of subgraphs, number of all tensors, an offset for each. Raises
    `InputError`: as `listed_offsets`."""
    listed = listed_offsets(model, offsets)
    return struct.pack(f"<{3 + len(listed)}i", 0, len(model.subgraphs), len(listed), *listed)


def _permute(out: bytearray, model: TfliteModel, sequence: Sequence[int]) -> None:
    """Let entry i of the vector of operators lead to operator ``sequence[i]``."""
    at = model.subgraphs[0].operators_at
    if at is None:
        return
    leads = [at + 4 * i + struct.unpack_from("<I", out, at + 4 * i)[0] for i in range(len(sequence))]
    for i, op in enumerate(sequence):
        struct.pack_into("<I", out, at + 4 * i, leads[op] - (at + 4 * i))


def _overwritten(out: bytearray, model: TfliteModel, name: str, new: bytes | None) -> bool:
    """Put metadata in place of the old metadata of that name; False if there is none, or no such room for it alone.
    None empties an offline plan: every tensor is TFLM's to place."""
    own = [buffer for known, buffer in model.metadata if known == name]
    users = [buffer for _, buffer in model.metadata]
    users += [t.buffer for graph in model.subgraphs for t in graph.tensors]
    extent = model.metadata_extent(name)
    if len(own) != 1 or users.count(own[0]) != 1 or extent is None or model.buffers.count(extent) != 1:
        return False
    if new is None:
        tensors = sum(len(graph.tensors) for graph in model.subgraphs)
        if extent.size != 4 * (3 + tensors):
            return False
        new = struct.pack(f"<{3 + tensors}i", 0, len(model.subgraphs), tensors, *[ONLINE] * tensors)
    if len(new) != extent.size:
        return False
    out[extent.at : extent.at + extent.size] = new
    return True


def _with_head(old: bytearray, model: TfliteModel, new: Mapping[str, bytes | None], place: str) -> bytearray:
    """The file after a new root whose metadata are the old ones and `new`; None leaves one out."""
    if any(extent is not None and _behind(old, extent) for extent in model.buffers):
        raise InputError("its weights follow the flatbuffer, and would have to move; nothing can be added", place)
    file = Flatbuffer(bytes(old))
    root = file.root()
    if any(root.place(slot) is not None for slot in range(_LAST_FIELD + 1, 64)):
        raise InputError("its root has fields that this version does not know; nothing can be added", place)
    kept = [at for at, (name, _) in zip(leads(file, root, _METADATA), model.metadata, strict=True) if name not in new]
    added = [(name, content) for name, content in new.items() if content is not None]
    buffers = leads(file, root, _BUFFERS)

    # Every part has a fixed size, so that places are known before anything is filled in.
    root_at = 8 + _padded(4 + 2 * (_LAST_FIELD + 1), 4)
    fields = {slot: root_at + 4 + 4 * slot for slot in range(_LAST_FIELD + 1)}
    metadata_at = root_at + 4 + 4 * (_LAST_FIELD + 1)
    buffers_at = metadata_at + 4 + 4 * (len(kept) + len(added))
    tables_at = buffers_at + 4 + 4 * (len(buffers) + len(added))
    entry_vtable = struct.pack("<HHHH", 8, 12, 4, 8)
    buffer_vtable = struct.pack("<HHH", 6, 8, 4) + b"\0\0"
    at = tables_at + len(entry_vtable) + len(buffer_vtable)
    places = []
    for name, content in added:
        entry = at
        holder = entry + 12
        text = holder + 8
        vector = text + 4 + _padded(len(name.encode()) + 1, 4)
        vector += -(vector + 4) % ALIGNMENT
        at = vector + 4 + _padded(len(content), 4)
        places.append((entry, holder, text, vector))
    shift = _padded(at, ALIGNMENT)

    front = bytearray(shift)
    struct.pack_into("<I4s", front, 0, root_at, IDENTIFIER)
    there = [slot for slot in fields if root.place(slot) is not None or slot == _METADATA]
    slots = [fields[slot] - root_at if slot in there else 0 for slot in fields]
    struct.pack_into(f"<{2 + len(slots)}H", front, 8, 4 + 2 * len(slots), metadata_at - root_at, *slots)
    struct.pack_into("<i", front, root_at, root_at - 8)
    for slot in there:
        inside = root.place(slot)
        if slot == 0:
            struct.pack_into("<I", front, fields[slot], root.number(0, "I"))
        elif slot == _METADATA:
            struct.pack_into("<I", front, fields[slot], metadata_at - fields[slot])
        elif slot == _BUFFERS:
            struct.pack_into("<I", front, fields[slot], buffers_at - fields[slot])
        elif inside is not None:
            struct.pack_into("<I", front, fields[slot], shift + file.offset(inside) - fields[slot])
    _vector(front, metadata_at, [*(shift + t for t in kept), *(p[0] for p in places)])
    _vector(front, buffers_at, [*(shift + t for t in buffers), *(p[1] for p in places)])
    front[tables_at : tables_at + 8] = entry_vtable
    front[tables_at + 8 : tables_at + 16] = buffer_vtable
    for i, ((name, content), (entry, holder, text, vector)) in enumerate(zip(added, places, strict=True)):
        struct.pack_into("<iII", front, entry, entry - tables_at, text - (entry + 4), len(buffers) + i)
        struct.pack_into("<iI", front, holder, holder - (tables_at + 8), vector - (holder + 4))
        struct.pack_into("<I", front, text, len(name.encode()))
        front[text + 4 : text + 4 + len(name.encode())] = name.encode()
        struct.pack_into("<I", front, vector, len(content))
        front[vector + 4 : vector + 4 + len(content)] = content
    return front + old


def leads(file: Flatbuffer, table: Table, slot: int) -> list[int]:
    """Where the entries of a vector of tables lead."""
    vector = table.vector(slot, 4)
    return [] if vector is None else [file.offset(vector[0] + 4 * i) for i in range(vector[1])]


def _vector(front: bytearray, at: int, leads: Sequence[int]) -> None:
    struct.pack_into("<I", front, at, len(leads))
    for i, to in enumerate(leads):
        place = at + 4 + 4 * i
        struct.pack_into("<I", front, place, to - place)


def _behind(old: bytearray, extent: Extent) -> bool:
    """Whether a buffer is held by its place in the file, not by a vector: its length does not stand before it."""
    return extent.at < 4 or struct.unpack_from("<I", old, extent.at - 4)[0] != extent.size


def _padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
