"""New tensors and ops of a part graph: slices, constants, joins and sums, with names and ids."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from lowtide.graph import Graph, Kind, Op, Quant, Tensor
from lowtide.names import FreeNames
from lowtide.ops.access import Box, box_elements
from lowtide.ops.index import Range
from lowtide.ops.part import Glue, adapter, given_box
from lowtide.ops.piece import Part, Piece, Role
from lowtide.transform.cut import Cutter


class Builder:
    """Makes ops and tensors, and keeps their origins. `cutter`: of the graph before tiling. `other`: another graph
    whose names and ids are taken."""

    def __init__(self, cutter: Cutter, other: Graph | None = None) -> None:
        self.cutter = cutter
        self.old = cutter.graph
        spell = adapter(self.old)
        assert spell is not None, self.old.dialect
        self.spell = spell
        self.slices: dict[int, Piece] = {}
        self.parts: dict[int, Part] = {}
        self.tensors: list[Tensor] = []
        there = [self.old] if other is None else [self.old, other]
        self.next_op = max((op.id for g in there for op in (*g.ops, *g.folded)), default=-1) + 1
        self.next_tensor = max((t.id for g in there for t in g.tensors), default=-1) + 1
        self.names = FreeNames(name for g in there for name in all_names(g))
        self.constants: dict[tuple[int, Box] | tuple[int, ...], int] = {}
        self.ops: list[Op] = []

    def graph(self, ops: tuple[Op, ...]) -> Graph:
        """The graph of these ops, without unused tensors."""
        used = {t for op in (*ops, *self.old.folded) for t in (*op.inputs, *op.outputs)}
        ends = (Kind.INPUT, Kind.OUTPUT, Kind.CONSTANT)
        kept = (t for t in (*self.old.tensors, *self.tensors) if t.id in used or t.kind in ends)
        return replace(self.old, tensors=tuple(kept), ops=ops, file_order=())

    def slice_of(
        self, of: int, box: Box, word: str, terms: tuple[Range, ...] | None = None, sure: Box | None = None
    ) -> int:
        """A new tensor: rows of another one."""
        full = self.old.tensor_by_id[of]
        shape = tuple(b - a for a, b in box)
        cut = [f"{a}-{b}" for (a, b), size in zip(box, full.shape or (), strict=True) if (a, b) != (0, size)]
        name = self.names.take(f"{full.label}/{word}{'_'.join(cut) if word.endswith('_') else ''}")
        size = -(-full.size * box_elements(box) // max(1, prod(full.shape or ())))
        quant = quant_of_rows(full.quant, box)
        at = self._tensor(Tensor(self.next_tensor, size, Kind.ACTIVATION, name, shape, full.dtype, quant=quant))
        self.slices[at] = Piece(of, box, terms, sure)
        return at

    def constant(self, of: int, box: Box) -> int:
        """Rows of a constant, as a constant."""
        full = self.old.tensor_by_id[of]
        if all((a, b) == (0, size) for (a, b), size in zip(box, full.shape or (), strict=True)):
            return of
        if (of, box) not in self.constants:
            at = self.slice_of(of, box, "rows_")
            self.tensors[-1] = replace(self.tensors[-1], kind=Kind.CONSTANT, value=bytes_of_rows(full, box))
            self.constants[(of, box)] = at
        return self.constants[(of, box)]

    def numbers(self, values: tuple[int, ...], columns: int = 0) -> int:
        """Integers as a constant, in rows of `columns` if that is not 0."""
        key = (-1 - columns, *values)
        if key not in self.constants:
            dtype = self.spell.NUMBERS
            value = struct.pack(f"<{len(values)}{'q' if dtype == 'int64' else 'i'}", *values)
            name = self.names.take(f"lowtide/{'_'.join(map(str, values))}")
            shape = (len(values) // columns, columns) if columns else (len(values),)
            tensor = Tensor(self.next_tensor, len(value), Kind.CONSTANT, name, shape, dtype, value=value)
            self.constants[key] = self._tensor(tensor)
        return self.constants[key]

    def glue(self, glue: Glue, role: Role, operands: Sequence[int], output: int, name: str = "") -> Op:
        """An op between parts; its name is that of what it makes if none is given."""
        given = (*operands, *(self.numbers(values, glue.columns) for values in glue.literals))
        name = self.names.take(name or f"{self._label(output)}/{role}")
        self.parts[self.next_op] = Part(role)
        return self._op(Op(self.next_op, given, (output,), name, glue.type, attributes=glue.attributes, operands=given))

    def operands(
        self, op: Op, axis: int, rows: Range, literals: Mapping[int, tuple[int, ...]],
        given: Callable[[int, int, Box], int | None],
    ) -> list[int | None]:  # fmt: skip
        """The operands of a tile of an op. `literals`: integer operands that differ for the tile. `given`: the
        tensor for a position, from the position, its untiled tensor and the rows that the tile needs."""
        known = self.cutter.meaning(op.id)
        assert known is not None, op.label
        access, operands = known.access, list[int | None]()
        for i, t in enumerate(op.operands or op.inputs):
            if t is None or (axis in access.reduce and i in access.once and rows[0] > 0):
                operands.append(None)
            elif i in literals:
                operands.append(self.numbers(literals[i]))
            else:
                box = given_box(access, i, self.old.tensor_by_id[t].shape or (), axis, rows)
                operands.append(given(i, t, box))
        return operands

    def part(
        self, op: Op, part: Part, operands: Sequence[int | None], outputs: Sequence[int], attributes: Mapping[str, Any]
    ) -> None:
        """A part of an op; of another type, that of `op`. Operands that it does not have at the end are left out."""
        count = max((i for i, t in enumerate(operands) if t is not None), default=-1) + 1
        given = tuple(operands[:count])
        inputs = tuple(t for t in given if t is not None)
        a, b = part.rows or (0, 0)
        name = self.names.take(f"{op.name or op.type}/{a}-{b}")
        self.parts[self.next_op] = part
        self._op(
            replace(
                op, id=self.next_op, inputs=inputs, operands=given, outputs=tuple(outputs), name=name,
                flops=None, attributes=attributes,
            )
        )  # fmt: skip

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Of a tensor of the graph before tiling, or of a slice."""
        known = self.old.tensor_by_id.get(tensor)
        return tuple(b - a for a, b in self.slices[tensor].box) if known is None else known.shape or ()

    def _label(self, tensor: int) -> str:
        known = self.old.tensor_by_id.get(tensor)
        return known.label if known is not None else self.tensors[tensor - self.next_tensor + len(self.tensors)].name

    def _tensor(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        self.next_tensor += 1
        return tensor.id

    def _op(self, op: Op) -> Op:
        self.ops.append(op)
        self.next_op += 1
        return op


def quant_of_rows(quant: Quant | None, box: Box) -> Quant | None:
    """How rows of a tensor are quantised: each along the axis has a scale of its own."""
    if quant is None or quant.axis is None:
        return quant
    a, b = box[min(quant.axis, len(box) - 1)]  # a bias may name the weights' dimension
    return Quant(quant.scales[a:b], quant.zero_points[a:b], quant.axis if b - a > 1 else None)


def all_names(graph: Graph) -> Iterator[str]:
    """Names of all ops and tensors, those in bodies too."""
    for tensor in graph.tensors:
        yield tensor.name
    for op in (*graph.folded, *graph.ops):
        yield op.name
        for body in op.bodies:
            yield from all_names(body)


def bytes_of_rows(tensor: Tensor, box: Box) -> bytes | None:
    """The bytes of some rows of a small constant."""
    shape = tensor.shape or ()
    count = prod(shape)
    if tensor.value is None or not count or len(tensor.value) % count:
        return None
    width = len(tensor.value) // count
    value, offsets = tensor.value, [0]
    for (a, b), size in zip(box, shape, strict=True):
        offsets = [at * size + row for at in offsets for row in range(a, b)]
    return b"".join(value[at * width : (at + 1) * width] for at in offsets)
