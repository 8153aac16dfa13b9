"""Options of TFLite's operators: which fields each kind has, and their values as plain numbers and tuples."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from lowtide.graph import MAX_VALUE_BYTES, Array
from lowtide.read.tflite.schema import SCHEMA
from lowtide.read.tflite.wire import Table

SUBGRAPHS = (
    "subgraph", "then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index",
    "init_subgraph_index", "comparator_subgraph_index", "update_computation_subgraph_index",
    "decomposition_subgraph_index",
)  # fmt: skip
"""Options that name a subgraph, in the order in which an operator runs them."""

_DTYPES = {"b": "int8", "B": "uint8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64", "f": "float32"}
_TYPE, _OPTIONS, _CUSTOM, _TYPE_2, _OPTIONS_2 = 3, 4, 5, 11, 12
"""Slots of an operator's table."""


class Field(NamedTuple):
    """A field of an options table. `form` is `struct`'s, ``s`` for a text; `many`: a vector."""

    slot: int
    name: str
    form: str
    many: bool
    default: int


def _fields(row: str) -> tuple[Field, ...]:
    """Of a row of schema.toml."""
    fields = []
    for slot, entry in enumerate(row.split()):
        name, _, default = entry.partition("=")
        name, _, form = name.partition(":")
        if name != "-":
            fields.append(Field(slot, name, form.removeprefix("*") or "i", form[:1] == "*", int(default or 0)))
    return tuple(fields)


OPTIONS: Mapping[int, tuple[Field, ...]] = {int(number): _fields(row) for number, row in SCHEMA["options"].items()}
OPTIONS_2: Mapping[int, tuple[Field, ...]] = {int(number): _fields(row) for number, row in SCHEMA["options_2"].items()}
"""Fields of each kind of builtin options that has some, and of the newer union's."""


def options_of(operator: Table) -> dict[str, Any]:
    """What an operator's options say, by the schema's names, and ``custom_options``, the bytes of a custom operator.
    Defaults are filled in; an operator whose file holds no options has none. Raises `WireError`: a table or a vector
    leads out of the file."""
    values: dict[str, Any] = {}
    for kinds, kind, slot in ((OPTIONS, _TYPE, _OPTIONS), (OPTIONS_2, _TYPE_2, _OPTIONS_2)):
        fields = kinds.get(operator.number(kind, "B"), ())
        table = operator.table(slot) if fields else None
        if table is not None:
            values.update((f.name, _value(table, f)) for f in fields)
    custom = operator.vector(_CUSTOM, 1)
    if custom is not None:
        values["custom_options"] = _held(operator, custom, "B")
    return values


def _value(table: Table, field: Field) -> Any:
    if field.form == "s":
        return table.text(field.slot)
    if not field.many:
        return table.number(field.slot, field.form, field.default)
    vector = table.vector(field.slot, struct.calcsize(field.form))
    return () if vector is None else _held(table, vector, field.form)


def _held(table: Table, vector: tuple[int, int], form: str) -> Any:
    """Entries of a vector, bytes as bytes; of a long one its type and length."""
    at, count = vector
    if count * struct.calcsize(form) > MAX_VALUE_BYTES:
        return Array(_DTYPES[form], (count,))
    numbers = table.file.integers(form, at, count)
    return bytes(numbers) if form == "B" else numbers
