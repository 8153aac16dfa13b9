"""A view as bytes for the page: columns of integers and lists of names, small enough for the file.

    data    = length of the JSON as a varint, the JSON, then every column
    column  = its numbers one after another: each as its difference to the one before (the first to 0), zigzag, varint

The JSON holds what is no column, and `columns`: name and length of each, in order, with a name of the form
``VIEW.COLUMN``. The data is deflated where that makes it smaller (zlib's form, which `DecompressionStream` reads), and
written in base64.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.read.onnx.wire import varint
from lowtide.report.peak import modules
from lowtide.report.view import KINDS, PlanView

SMALL_BYTES = 2000  # data shorter than this is stored as it is
SLOW_BYTES = 10**6  # from this many on the best compression takes seconds, and gains little


@dataclass(frozen=True)
class Packed:
    """Base64 text, and whether what it holds is deflated."""

    text: str
    deflated: bool


def pack(views: Sequence[PlanView], titles: Sequence[str]) -> Packed:
    """Views as the page's script reads them; `titles` are what they are called."""
    import msgspec

    columns: list[tuple[str, list[int]]] = []
    described = []
    for k, (view, title) in enumerate(zip(views, titles, strict=True)):
        names, module_of = modules(view)
        described.append({**_described(view, title), "modules": names})
        columns += [(f"{k}.{name}", column) for name, column in _columns(view)]
        columns.append((f"{k}.module", module_of))
    head: dict[str, Any] = {"views": described, "columns": [[name, len(column)] for name, column in columns]}
    text = msgspec.json.encode(head)
    data = b"".join([varint(len(text)), text, *(encoded(column) for _, column in columns)])
    small = zlib.compress(data, 9 if len(data) < SLOW_BYTES else 6)
    deflated = len(data) > SMALL_BYTES and len(small) < len(data)
    return Packed(base64.b64encode(small if deflated else data).decode("ascii"), deflated)


def _described(view: PlanView, title: str) -> dict[str, Any]:
    """What is no column. Lists of names are as long as there are ops and rectangles."""
    types = sorted({op.type for op in view.ops})
    return {
        "title": title,
        "memories": [[m.name, m.size, m.capacity] for m in view.memories],
        "kinds": list(KINDS),
        "bound": view.bound_bytes,
        "room": view.room_bytes,
        "moving": view.plan.moves is not None,
        "repeated": view.repeated,
        "ops": [op.name for op in view.ops],
        "types": types,
        "of": {i: op.of for i, op in enumerate(view.ops) if op.of != op.name},
        "edits": {i: op.edit for i, op in enumerate(view.ops) if op.edit},
        "names": [r.name for r in view.rectangles],
        "forms": {i: " ".join(filter(None, (r.dtype, r.shape))) for i, r in enumerate(view.rectangles) if r.dtype},
        "shares": {i: ", ".join(r.shares) for i, r in enumerate(view.rectangles) if r.shares},
        "uses": {i: list(r.used) for i, r in enumerate(view.rectangles) if r.used != (r.start, r.end)},
    }


def _columns(view: PlanView) -> Iterable[tuple[str, list[int]]]:
    types = {name: i for i, name in enumerate(sorted({op.type for op in view.ops}))}
    yield "live", list(view.live_bytes)
    yield "own", list(view.own_order_bytes)
    yield "type", [types[op.type] for op in view.ops]
    for kind, column in view.kinds.items():
        yield f"kind {kind}", list(column)
    r = view.rectangles
    yield "start", [x.start for x in r]
    yield "length", [x.end - x.start for x in r]
    yield "size", [x.size for x in r]
    yield "kind", [KINDS.index(x.kind) for x in r]
    yield "memory", [x.memory for x in r]
    yield "offset", [-1 if x.offset is None else x.offset for x in r]
    yield "over", [-1 if x.over is None else x.over for x in r]
    yield "spill", [m.step for m in view.moves if m.kind == "spill"]
    yield "fill", [m.step for m in view.moves if m.kind == "fill"]


def encoded(column: Sequence[int]) -> bytes:
    """A column: differences, zigzag, varint.

    >>> encoded([5, 4, 4]).hex()
    '0a0100'
    """
    out = bytearray()
    before = 0
    for number in column:
        step = number - before
        before = number
        value = step << 1 if step >= 0 else (-step << 1) - 1
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out)
