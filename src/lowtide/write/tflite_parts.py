"""The .tflite file of a part graph: cut operators in parts, and every other byte as it was.

What is new comes first (`flatbuffer_head.py`): a root, a subgraph with its vectors of tensors and operators, and the
new tensors, operators, operator codes and buffers. The old file follows it unmodified. Operators that are not cut are
the old tables; a part has its operator's code and options, and other options only where `Op.attributes` says so; a
slice of a tensor has the tensor's own table of scales and zero points, so that the numbers mean the same to the bit.
Tensors that are still there keep their numbers (`lowtide.transform.tflite_file`), so inputs, outputs and signatures
are untouched.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.files import open_bytes
from lowtide.graph import Kind, Op, Quant, Tensor
from lowtide.ops.access import Box
from lowtide.outputs import Outputs
from lowtide.read.tflite.dependencies import CONTROL_DEPENDENCIES, dependency_bytes
from lowtide.read.tflite.model import KERNELS, OFFLINE_PLAN, TfliteFile, TfliteTensor, parse_file
from lowtide.read.tflite.options import OPTIONS
from lowtide.read.tflite.schema import IDENTIFIER, OPERATORS, PLACEHOLDER, TYPES
from lowtide.read.tflite.wire import Flatbuffer, WireError
from lowtide.read.tflite.wire import Table as OldTable
from lowtide.runtimes.tflm.offline import listed_offsets
from lowtide.transform.parts import PartGraph
from lowtide.transform.rounds import slice_of_file
from lowtide.transform.tflite_file import TfliteParts
from lowtide.write.flatbuffer_head import Bytes, Entry, Number, Numbers, Old, Table, Tables, Text, with_head
from lowtide.write.slots import check_order
from lowtide.write.tflite import KERNELS_BYTES, leads

_CODES, _SUBGRAPHS, _BUFFERS, _METADATA, _LAST_FIELD = 1, 2, 4, 6, 9
_GLUE_OPTIONS = {"CONCATENATION": 10, "SLICE": 0, "PAD": 0}
"""Kind of the options of each operator that holds parts together, in the union; 0: it has none."""
_VERSIONS = {"CONCATENATION": {"int8": 2, "int16": 3}, "SLICE": {"int8": 2, "int16": 4}, "PAD": {"int8": 2, "int16": 3}}
"""Version from which on LiteRT's operators take an element type; 1 for the others."""
_FIVE_DIMS = {"SLICE": 5, "PAD": 4}


def write_tflite_parts(
    source: str | Path,
    parts: PartGraph,
    order: Sequence[int],
    target: str | Path,
    outputs: Outputs | None = None,
    offsets: Mapping[int, int] | None = None,
    kernels: str = "",
) -> None:
    """Write the .tflite file of a part graph.

    `source`: the model that was cut; never changed. `parts`: what it was cut into, with the file that it will be
    (`lowtide.transform.tflite_file.with_file`). `order`: op ids of ``parts.graph``, each once, topological. `target`,
    `outputs`, `kernels`: as `lowtide.write.tflite.write_tflite`. `offsets`: as there, by tensor ids of ``parts.graph``;
    None: no offline plan, and one that the file holds is left out. Raises `InputError`: as
    `lowtide.write.tflite.write_tflite`; `source` is not the model that was cut.
    """
    with Outputs() if outputs is None else nullcontext(outputs) as outputs:
        outputs.protect(source)
        check_order(parts.graph.ops, order, str(source))
        with open_bytes(Path(source)) as data:
            outputs.write(target, parts_bytes(bytes(data), parts, order, str(source), offsets, kernels))


def parts_bytes(
    data: bytes,
    parts: PartGraph,
    order: Sequence[int],
    place: str,
    offsets: Mapping[int, int] | None = None,
    kernels: str = "",
) -> bytes:
    """The bytes that `write_tflite_parts` writes. Raises as it does."""
    parsed = parse_file(data, place)
    file = parts.graph.file
    if not isinstance(file, TfliteParts) or file.source.model != parsed.model:
        raise InputError("this is not the model that was tiled; give the file that the graph was read from", place)
    try:
        return _Writer(data, parsed, parts, file, place).file(order, offsets, kernels)
    except WireError as error:
        raise InputError(f"the file is damaged outside of the graph: {error}; export it again", place) from None


class _Writer:
    """The tables of the new file, new ones and those of the old file."""

    def __init__(self, data: bytes, parsed: TfliteFile, parts: PartGraph, file: TfliteParts, place: str) -> None:
        self.data, self.parsed, self.parts, self.file_of, self.place = data, parsed, parts, file, place
        self.graph = parts.graph
        self.old = Flatbuffer(data)
        self.root = self.old.root()
        self.main = OldTable(self.old, leads(self.old, self.root, _SUBGRAPHS)[0])
        self.tensor_tables = leads(self.old, self.main, 0)
        self.op_tables = leads(self.old, self.main, 3)
        self.codes: list[Old | Table] = [Old(at) for at in leads(self.old, self.root, _CODES)]
        self.added: dict[tuple[str, int], int] = {}
        self.buffers: list[Old | Table] = [Old(at) for at in leads(self.old, self.root, _BUFFERS)]
        if any(self.root.place(slot) is not None for slot in range(_LAST_FIELD + 1, 64)):
            raise InputError("its root has fields that this version does not know; nothing can be added", place)
        if any(e is not None and not self._inside(e.at, e.size) for e in parsed.model.buffers):
            raise InputError("its weights follow the flatbuffer, and would have to move; nothing can be added", place)

    def _inside(self, at: int, size: int) -> bool:
        """Whether a buffer is held by a vector: its length precedes it."""
        return at >= 4 and struct.unpack_from("<I", self.data, at - 4)[0] == size

    def file(self, order: Sequence[int], offsets: Mapping[int, int] | None, kernels: str) -> bytes:
        """All of it."""
        subgraphs = [self._subgraph(order), *(Old(at) for at in leads(self.old, self.root, _SUBGRAPHS)[1:])]
        metadata = self._metadata(order, offsets, kernels)
        fields: dict[int, Entry] = {}
        for slot in range(_LAST_FIELD + 1):
            if slot == 0:
                fields[slot] = Number("I", self.root.number(0, "I"))
            elif self.root.place(slot) is not None:
                fields[slot] = self._lead(self.root, slot)
        fields |= {_CODES: Tables(self.codes), _SUBGRAPHS: Tables(subgraphs), _BUFFERS: Tables(self.buffers)}
        if metadata:
            fields[_METADATA] = Tables(metadata)
        else:
            fields.pop(_METADATA, None)
        return with_head(Table(fields), self.data, IDENTIFIER)

    def _lead(self, table: OldTable, slot: int) -> Old:
        at = table.place(slot)
        assert at is not None, slot
        return Old(self.old.offset(at))

    def _subgraph(self, order: Sequence[int]) -> Table:
        fields: dict[int, Entry] = {s: self._lead(self.main, s) for s in (1, 2, 4) if self.main.place(s) is not None}
        if self.main.place(5) is not None:
            fields[5] = Number("i", self.main.number(5, "i"))
        fields[0] = Tables(self._tensors())
        fields[3] = Tables([self._operator(self.graph.op_by_id[op]) for op in order])
        return Table(fields)

    def _tensors(self) -> list[Old | Table]:
        model = self.file_of.model.subgraphs[0]
        listed: list[Old | Table | None] = [None] * len(model.tensors)
        for t, number in self.file_of.tensors.items():
            listed[number] = (
                self._tensor(self.graph.tensor_by_id[t]) if t in self.file_of.new else Old(self.tensor_tables[t])
            )
        return [
            Table({0: Numbers("i", (0,)), 1: Number("b", _type("int8"))}) if entry is None else entry
            for entry in listed
        ]

    def _tensor(self, tensor: Tensor) -> Table:
        rows = self.parts.slices.get(tensor.id)
        rows = None if rows is None else slice_of_file(self.parts.slices, rows)
        origin = None if rows is None else OldTable(self.old, self.tensor_tables[rows.of])
        fields: dict[int, Entry] = {
            0: Numbers("i", tensor.shape or ()),
            1: Number("b", _type(tensor.dtype or "")),
            2: Number("I", 0),
            3: Text(tensor.name),
            8: Number("B", 1 if origin is None else origin.number(8, "B")),
        }
        if origin is not None and rows is not None and origin.place(4) is not None:
            of = self.graph_quant(rows.of)
            same = tensor.quant is None or of == tensor.quant
            fields[4] = self._lead(origin, 4) if same else _quant(tensor.quant)
        if tensor.kind is Kind.CONSTANT:
            content = tensor.value
            if content is None:
                assert rows is not None, tensor.name
                content = self._rows(self.parsed.model.subgraphs[0].tensors[rows.of], rows.box)
            fields[2] = Number("I", self._buffer(content))
        return Table(fields)

    def graph_quant(self, tensor: int) -> Quant | None:
        """How a tensor of the user's file is quantised."""
        return self.parsed.model.subgraphs[0].tensors[tensor].quant

    def _buffer(self, content: bytes) -> int:
        self.buffers.append(Table({0: Bytes(content)}))
        return len(self.buffers) - 1

    def _rows(self, tensor: TfliteTensor, box: Box) -> bytes:
        """Rows of a weight."""
        extent = self.parsed.model.buffers[tensor.buffer]
        if extent is None or tensor.sparse or tensor.bits % 8 or extent.size * 8 != tensor.elements * tensor.bits:
            raise InputError(
                f"rows of {tensor.name!r} are needed, which is packed; plan it without --allow", self.place
            )
        last = max(d for d, (rows, size) in enumerate(zip(box, tensor.shape, strict=True)) if rows != (0, size))
        row = tensor.bits // 8 * prod(tensor.shape[last + 1 :])
        begins = [0]
        for (a, b), size in zip(box[:last], tensor.shape, strict=False):
            begins = [at * size + k for at in begins for k in range(a, b)]
        first, end = box[last]
        places = [extent.at + (at * tensor.shape[last] + first) * row for at in begins]
        return b"".join(self.data[at : at + (end - first) * row] for at in places)

    def _operator(self, op: Op) -> Old | Table:
        part = self.parts.parts.get(op.id)
        if part is None:
            return Old(self.op_tables[op.id])
        numbers = self.file_of.tensors
        inputs = [-1 if t is None else numbers[t] for t in op.operands]
        fields: dict[int, Entry] = {1: Numbers("i", inputs), 2: Numbers("i", [numbers[t] for t in op.outputs])}
        of = part.of if part.of is None else self.parts.sources.get(part.of, part.of)
        if of is None:
            fields[0] = Number("I", self._code(op))
            kind = _GLUE_OPTIONS[op.type]
            if kind:
                fields |= {3: Number("B", kind), 4: _options(kind, op.attributes)}
            return Table(fields)
        own = OldTable(self.old, self.op_tables[of])
        fields[0] = Number("I", own.number(0, "I"))
        kind = own.number(3, "B")
        same = dict(op.attributes) == self.parsed.model.subgraphs[0].ops[of].options
        if own.place(4) is not None:
            fields |= {3: Number("B", kind), 4: self._lead(own, 4) if same else _options(kind, op.attributes)}
        if own.place(12) is not None:
            fields |= {11: Number("B", own.number(11, "B")), 12: self._lead(own, 12)}
        return Table(fields)

    def _code(self, op: Op) -> int:
        """Index of the operator code of what holds parts together; a new one where the file has none that serves."""
        tensor = self.graph.tensor_by_id[op.outputs[0]]
        version = _VERSIONS[op.type].get(tensor.dtype or "", 1)
        if len(tensor.shape or ()) > 4:
            version = max(version, _FIVE_DIMS.get(op.type, 1))
        number = OPERATORS.index(op.type)
        for index, entry in enumerate(self.codes):
            if isinstance(entry, Old):
                table = OldTable(self.old, entry.at)
                code = max(table.number(0, "b"), table.number(3, "i"))
                if code == number and table.number(2, "i", 1) >= version:
                    return index
        if (op.type, version) not in self.added:
            self.added[op.type, version] = len(self.codes)
            short = Number("b", min(number, PLACEHOLDER))
            self.codes.append(Table({0: short, 2: Number("i", version), 3: Number("i", number)}))
        return self.added[op.type, version]

    def _metadata(self, order: Sequence[int], offsets: Mapping[int, int] | None, kernels: str) -> list[Old | Table]:
        """The old ones but for those of which the parts need others."""
        own = (OFFLINE_PLAN, KERNELS, CONTROL_DEPENDENCIES)
        tables = leads(self.old, self.root, _METADATA)
        listed = zip(tables, self.parsed.model.metadata, strict=True)
        kept: list[Old | Table] = [Old(at) for at, (name, _) in listed if name not in own]
        new: dict[str, bytes] = {}
        if any(self.parsed.dependencies):
            new[CONTROL_DEPENDENCIES] = dependency_bytes(self._dependencies(order))
        if offsets is not None:
            model = self.file_of.model
            placed = listed_offsets(model, {self.file_of.tensors[t]: at for t, at in offsets.items()})
            new[OFFLINE_PLAN] = struct.pack(f"<{3 + len(placed)}i", 0, len(model.subgraphs), len(placed), *placed)
            if kernels:
                new[KERNELS] = kernels.encode("ascii").ljust(KERNELS_BYTES, b"\0")
        return [*kept, *(Table({0: Text(name), 1: Number("I", self._buffer(held))}) for name, held in new.items())]

    def _dependencies(self, order: Sequence[int]) -> list[list[tuple[int, int]]]:
        """Pairs of operators by their new places; those of which one is named are not cut."""
        slot = {op: i for i, op in enumerate(order)}
        pairs = [[(slot[a], slot[b]) for a, b in self.parsed.dependencies[0]]]
        return [*pairs, *(list(listed) for listed in self.parsed.dependencies[1:])]


def _options(kind: int, attributes: Mapping[str, Any]) -> Table:
    """A table of options, all fields of it."""
    fields: dict[int, Entry] = {}
    for field in OPTIONS[kind]:
        value = attributes[field.name]
        fields[field.slot] = Numbers(field.form, value) if field.many else Number(field.form, value)
    return Table(fields)


def _quant(quant: Quant | None) -> Table:
    """Scales and zero points of rows that each have their own."""
    assert quant is not None
    axis = 0 if quant.axis is None else quant.axis
    return Table({2: Numbers("f", quant.scales), 3: Numbers("q", quant.zero_points), 6: Number("i", axis)})


def _type(name: str) -> int:
    return next(number for number, (known, _) in TYPES.items() if known == name)
