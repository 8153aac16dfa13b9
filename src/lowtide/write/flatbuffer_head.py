"""New tables in front of a flatbuffer that stays as it was: offsets only lead forward, so what is new can name what is
old, and not the reverse.

    | offset of the root, identifier | new root | new vectors, tables, texts ... | the old file, byte for byte |
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ALIGNMENT = 16  # the old file begins at a multiple of this, and so do bytes of new vectors of bytes


@dataclass(frozen=True, slots=True)
class Old:
    """A position in the old file."""

    at: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number of `struct`'s form in its table."""

    form: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Numbers:
    """A vector of numbers."""

    form: str
    values: Sequence[int | float]


@dataclass(frozen=True, slots=True)
class Bytes:
    """A vector of bytes that begins at a multiple of `ALIGNMENT`."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    content: str


@dataclass(frozen=True, slots=True)
class Tables:
    """A vector of tables."""

    entries: Sequence[Old | Table]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its fields by slot. Nothing that is new may stand in two places."""

    fields: Mapping[int, Entry]


Entry = Old | Number | Numbers | Bytes | Text | Tables | Table


@dataclass
class _Front:
    out: bytearray = field(default_factory=lambda: bytearray(8))
    vtables: dict[bytes, int] = field(default_factory=dict)
    waiting: deque[tuple[int, Entry]] = field(default_factory=deque)
    olds: list[tuple[int, int]] = field(default_factory=list)

    def align(self, unit: int, before: int = 0) -> None:
        """Padding, so that the position `before` bytes further is a multiple of a unit."""
        self.out.extend(bytes(-(len(self.out) + before) % unit))

    def refer(self, at: int, to: Entry) -> None:
        if isinstance(to, Old):
            self.olds.append((at, to.at))
        else:
            self.waiting.append((at, to))

    def emit(self, entry: Entry) -> int:
        """Put something here; where it begins."""
        match entry:
            case Table():
                return self._table(entry)
            case Tables():
                self.align(4)
                at = len(self.out)
                self.out += struct.pack("<I", len(entry.entries)) + bytes(4 * len(entry.entries))
                for k, one in enumerate(entry.entries):
                    self.refer(at + 4 + 4 * k, one)
                return at
            case Text():
                content = entry.content.encode()
                return self._counted(len(content), content + b"\0", 4)
            case Bytes():
                return self._counted(len(entry.content), entry.content, ALIGNMENT)
            case Numbers():
                width = struct.calcsize(f"<{entry.form}")
                values = struct.pack(f"<{len(entry.values)}{entry.form}", *entry.values)
                return self._counted(len(entry.values), values, max(4, width))
            case _:
                raise AssertionError(entry)

    def _counted(self, count: int, content: bytes, unit: int) -> int:
        self.align(4)
        self.align(unit, 4)
        at = len(self.out)
        self.out += struct.pack("<I", count) + content
        return at

    def _table(self, table: Table) -> int:
        places, size = {}, 4
        for slot, entry in sorted(table.fields.items(), key=lambda item: -_width(item[1])):
            size += -size % _width(entry)
            places[slot] = size
            size += _width(entry)
        slots = [places.get(slot, 0) for slot in range(max(places, default=-1) + 1)]
        vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), size, *slots)
        if vtable not in self.vtables:
            self.align(4)
            self.vtables[vtable] = len(self.out)
            self.out += vtable
        self.align(8)
        at = len(self.out)
        self.out += struct.pack("<i", at - self.vtables[vtable]) + bytes(size - 4)
        for slot, entry in table.fields.items():
            place = at + places[slot]
            if isinstance(entry, Number):
                struct.pack_into(f"<{entry.form}", self.out, place, entry.value)
            else:
                self.refer(place, entry)
        return at


def _width(entry: Entry) -> int:
    return struct.calcsize(f"<{entry.form}") if isinstance(entry, Number) else 4


def with_head(root: Table, old: bytes, identifier: bytes) -> bytes:
    """A file whose root is a new table, and after it the old file."""
    front = _Front()
    struct.pack_into("<I4s", front.out, 0, front.emit(root), identifier)
    while front.waiting:
        at, entry = front.waiting.popleft()
        struct.pack_into("<I", front.out, at, front.emit(entry) - at)
    front.align(ALIGNMENT)
    for at, to in front.olds:
        struct.pack_into("<I", front.out, at, len(front.out) + to - at)
    return bytes(front.out) + old
