"""A flatbuffer as bytes: tables, vectors and strings, each offset checked before it is followed.

Everything in a flatbuffer is found by offsets: an unsigned one leads forward to a table, a vector or a string; a
table begins with a signed one to its vtable, which says where in the table each field (slot) is::

    vtable  | its bytes | bytes of the table | where slot 0 is | where slot 1 is | ...     0: not there
    table   | table - vtable | ... fields ...
    vector  | count | element 0 | element 1 | ...                                       of offsets: each from itself

Offsets only lead forward, so nothing here can go round in circles; but tables may be shared, and a small file could
name the same long vector a million times. What is taken out of a file is therefore counted, and has a limit.
"""

from __future__ import annotations

import struct
from typing import Any

from lowtide.files import Buffer

READ_LIMIT = 1 << 20  # as many elements may be read from any file, and as many more for each of its bytes

_NUMBERS = {form: struct.Struct(f"<{form}") for form in "bBhHiIqQfd"}


class WireError(ValueError):
    """The bytes are no flatbuffer, or an offset leads out of the file."""


class Flatbuffer:
    """The bytes of a file, and how many elements may still be taken out of it."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.size = len(data)
        self._left = READ_LIMIT + 2 * self.size

    def spend(self, elements: int) -> None:
        """Count what is read. Raises `WireError` when it is more than any honest file holds."""
        self._left -= elements
        if self._left < 0:
            raise WireError("its tables refer to the same vectors over and over")

    def root(self) -> Table:
        """The table that the file begins with."""
        return Table(self, self.offset(0))

    def number(self, form: str, at: int) -> Any:
        """A little-endian number of `struct` form ``form``. Raises `WireError` if it is outside of the file."""
        layout = _NUMBERS[form]
        if not 0 <= at <= self.size - layout.size:
            raise WireError(f"byte {at} is read, and the file ends at {self.size}")
        return layout.unpack_from(self.data, at)[0]

    def bytes_at(self, at: int, size: int) -> bytes:
        """So many bytes. Raises `WireError` when they are not all in the file."""
        self.spend(size)
        if not 0 <= at <= self.size - size:
            raise WireError(f"byte {at} is read, and the file ends at {self.size}")
        return bytes(self.data[at : at + size])

    def integers(self, form: str, at: int, count: int) -> tuple[Any, ...]:
        """So many little-endian numbers of `struct` form ``form``, in a row. Raises `WireError` as `number`."""
        self.spend(count)
        layout = f"<{count}{form}"
        if not 0 <= at <= self.size - struct.calcsize(layout):
            raise WireError(f"byte {at} is read, and the file ends at {self.size}")
        return struct.unpack_from(layout, self.data, at)

    def offset(self, at: int) -> int:
        """Where the offset at `at` leads. Raises `WireError`: it leads nowhere, or out of the file."""
        to = at + self.number("I", at)
        if to == at or to > self.size - 4:
            raise WireError(f"the offset at byte {at} leads to {to}, and the file ends at {self.size}")
        return to

    def count(self, at: int, element_bytes: int) -> int:
        """Length of the vector at `at`, which must all be in the file. Raises `WireError`: it has more elements than
        the file holds."""
        n = self.number("I", at)
        if n * element_bytes > self.size - at - 4:
            raise WireError(f"the vector at byte {at} has {n} elements, more than the file holds")
        return n


class Table:
    """A table: fields by slot number."""

    __slots__ = ("_at", "_slots", "_vtable", "file")

    def __init__(self, file: Flatbuffer, at: int) -> None:
        file.spend(1)
        self.file, self._at = file, at
        self._vtable = at - file.number("i", at)
        length = file.number("H", self._vtable)
        if length < 4 or self._vtable + length > file.size:
            raise WireError(f"the table at byte {at} has a vtable of {length} bytes at {self._vtable}")
        self._slots = (length - 4) // 2

    def place(self, slot: int) -> int | None:
        """Byte at which a field begins, or None if the table has none."""
        if slot >= self._slots:
            return None
        inside = self.file.number("H", self._vtable + 4 + 2 * slot)
        return self._at + inside if inside else None

    def number(self, slot: int, form: str, default: int = 0) -> Any:
        """A scalar field."""
        at = self.place(slot)
        return default if at is None else self.file.number(form, at)

    def vector(self, slot: int, element_bytes: int) -> tuple[int, int] | None:
        """Where the elements of a vector field begin, and how many there are; None if there is no vector."""
        at = self.place(slot)
        if at is None:
            return None
        at = self.file.offset(at)
        return at + 4, self.file.count(at, element_bytes)

    def vector_at(self, slot: int) -> int | None:
        """Where the elements of a vector field begin; None if there is none, or it is empty."""
        vector = self.vector(slot, 1)
        return vector[0] if vector is not None and vector[1] else None

    def integers(self, slot: int) -> tuple[int, ...] | None:
        """A vector of 32-bit integers."""
        vector = self.vector(slot, 4)
        if vector is None:
            return None
        at, n = vector
        self.file.spend(n)
        return struct.unpack_from(f"<{n}i", self.file.data, at)

    def table(self, slot: int) -> Table | None:
        """A table field."""
        at = self.place(slot)
        return None if at is None else Table(self.file, self.file.offset(at))

    def tables(self, slot: int) -> list[Table]:
        """A vector of tables; empty if there is none."""
        vector = self.vector(slot, 4)
        if vector is None:
            return []
        at, n = vector
        self.file.spend(n)
        return [Table(self.file, self.file.offset(at + 4 * i)) for i in range(n)]

    def text(self, slot: int) -> str:
        """A string; bytes that are no UTF-8 are replaced."""
        vector = self.vector(slot, 1)
        if vector is None:
            return ""
        at, n = vector
        self.file.spend(n // 4)
        return bytes(self.file.data[at : at + n]).decode("utf-8", "replace")
