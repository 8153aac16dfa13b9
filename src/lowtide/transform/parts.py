"""The part graph: a graph whose cut ops are there in parts, with slices, joins and sums between them.

It is an ordinary `Graph`, for every scheduler, target and writer, together with what each of its ops and tensors is of
the graph that was cut. A tensor is a **piece**: some rows of every dimension of a tensor of the cut graph, and, of a
sum, the rows of the summed axis that are in it. Ids of the cut graph stay what they stood for.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Box, box_elements
from lowtide.ops.index import Range
from lowtide.ops.part import Glue, speller
from lowtide.ops.piece import Part, Piece, Role
from lowtide.rewrites import Recompute, Sums
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.part_values import all_names, bytes_of_rows, quant_of_rows
from lowtide.transform.seams import NO_SEAMS, Seams
from lowtide.transform.stripes import Stripes


@dataclass(frozen=True)
class PartGraph:
    """A graph in parts.

    Attributes
    ----------
    regions
        The decision, in ids of the graph that was cut.
    graph
        The parts, in an order in which each region's stripes follow one another.
    pieces, parts
        What each new tensor, and each new op, is; those that are not here are what their ids say in the cut graph.
    numbers
        New constants that are literal operands of parts, and pieces of nothing.
    seams
        What was cut at seams.
    sources
        Of ops of the graph that was cut which its file does not hold, the one that they are once more; None: they are
        new.
    gone
        Ops of the file that are not run.
    before
        What was changed of the user's graph before it was cut.
    """

    regions: tuple[Region, ...]
    graph: Graph
    pieces: Mapping[int, Piece]
    parts: Mapping[int, Part]
    numbers: frozenset[int]
    seams: Seams = NO_SEAMS
    sources: Mapping[int, int | None] = field(default_factory=dict[int, int | None])
    gone: frozenset[int] = frozenset()
    before: tuple[Sums | Recompute, ...] = ()


def apply(cutter: Cutter, regions: Sequence[Region], order: Sequence[int] | None = None) -> PartGraph:
    """Cut a graph.

    Parameters
    ----------
    order
        Op ids of the graph, whose order the part graph's own order follows; default its own. Ids do not hang on it.

    Raises
    ------
    ValueError
        The regions share ops, or one cannot run before and behind another.
    """
    builder = Builder(cutter)
    emitted = [builder.region(region) for region in regions]
    sequence = _sequence(cutter.graph, regions, emitted, cutter.graph.own_order if order is None else order)
    graph = builder.graph(sequence)
    numbers = frozenset(t.id for t in builder.tensors if t.id not in builder.pieces)
    return PartGraph(tuple(regions), graph, builder.pieces, builder.parts, numbers)


def _sequence(
    graph: Graph, regions: Sequence[Region], emitted: Sequence[list[Op]], order: Sequence[int]
) -> tuple[Op, ...]:
    """Each region's ops together, as late as its last op stood."""
    node = {cut.op: (1, k) for k, region in enumerate(regions) for cut in region.cuts}
    if len(node) != sum(len(region.cuts) for region in regions):
        raise ValueError("an op is in two regions")
    key: dict[tuple[int, int], int] = {}
    for position, op in enumerate(order):
        key[node.get(op, (0, op))] = position
    before: dict[tuple[int, int], set[tuple[int, int]]] = {at: set() for at in key}
    after: dict[tuple[int, int], set[tuple[int, int]]] = {at: set() for at in key}
    for op in graph.ops:
        at = node.get(op.id, (0, op.id))
        makers = [graph.producer[t] for t in op.inputs if t in graph.producer]
        for earlier in (*makers, *(o for o in op.after if o in graph.index_of)):
            other = node.get(earlier, (0, earlier))
            if other != at:
                before[at].add(other)
                after[other].add(at)
    ready = [(position, at) for at, position in key.items() if not before[at]]
    heapq.heapify(ready)
    result: list[Op] = []
    while ready:
        _, at = heapq.heappop(ready)
        del key[at]
        result.extend(emitted[at[1]] if at[0] else [graph.op_by_id[at[1]]])
        for later in after[at]:
            before[later].discard(at)
            if not before[later]:
                heapq.heappush(ready, (key[later], later))
    if key:
        raise ValueError("a region would have to run before and behind another op")
    return tuple(result)


class Builder:
    """Makes ops and tensors, and knows what they are."""

    def __init__(self, cutter: Cutter) -> None:
        self.cutter = cutter
        self.old = cutter.graph
        spell = speller(self.old)
        assert spell is not None, self.old.dialect
        self.spell = spell
        self.pieces: dict[int, Piece] = {}
        self.parts: dict[int, Part] = {}
        self.tensors: list[Tensor] = []
        self.next_op = max((op.id for op in (*self.old.ops, *self.old.folded)), default=-1) + 1
        self.next_tensor = max((t.id for t in self.old.tensors), default=-1) + 1
        self.names: dict[str, int] = dict.fromkeys(all_names(self.old), 0)
        self.constants: dict[tuple[int, Box] | tuple[int, ...], int] = {}
        self.ops: list[Op] = []

    def graph(self, ops: tuple[Op, ...]) -> Graph:
        """The graph of these ops; tensors that nobody names any more are gone."""
        used = {t for op in (*ops, *self.old.folded) for t in (*op.inputs, *op.outputs)}
        ends = (Kind.INPUT, Kind.OUTPUT, Kind.CONSTANT)
        kept = (t for t in (*self.old.tensors, *self.tensors) if t.id in used or t.kind in ends)
        return replace(self.old, tensors=tuple(kept), ops=ops, file_order=())

    def region(self, region: Region) -> list[Op]:
        """Ops of a region, stripe by stripe."""
        self.ops = []
        Stripes(self, region).run()
        return self.ops

    def piece(
        self, of: int, box: Box, word: str, terms: tuple[Range, ...] | None = None, sure: Box | None = None
    ) -> int:
        """A new tensor: rows of another one."""
        whole = self.old.tensor_by_id[of]
        shape = tuple(b - a for a, b in box)
        cut = [f"{a}:{b}" for (a, b), size in zip(box, whole.shape or (), strict=True) if (a, b) != (0, size)]
        name = self._name(f"{whole.label}/{word}{'_'.join(cut).replace(':', '-')}")
        size = -(-whole.size * box_elements(box) // max(1, prod(whole.shape or ())))
        quant = quant_of_rows(whole.quant, box)
        at = self._tensor(Tensor(self.next_tensor, size, Kind.ACTIVATION, name, shape, whole.dtype, quant=quant))
        self.pieces[at] = Piece(of, box, terms, sure)
        return at

    def constant(self, of: int, box: Box) -> int:
        """Rows of a constant, as a constant."""
        whole = self.old.tensor_by_id[of]
        if all((a, b) == (0, size) for (a, b), size in zip(box, whole.shape or (), strict=True)):
            return of
        if (of, box) not in self.constants:
            at = self.piece(of, box, "rows_")
            self.tensors[-1] = replace(self.tensors[-1], kind=Kind.CONSTANT, value=bytes_of_rows(whole, box))
            self.constants[(of, box)] = at
        return self.constants[(of, box)]

    def numbers(self, values: tuple[int, ...], columns: int = 0) -> int:
        """Whole numbers as a constant, in rows of `columns` if that is not 0."""
        key = (-1 - columns, *values)
        if key not in self.constants:
            dtype = self.spell.NUMBERS
            value = struct.pack(f"<{len(values)}{'q' if dtype == 'int64' else 'i'}", *values)
            name = self._name(f"lowtide/{'_'.join(map(str, values))}")
            shape = (len(values) // columns, columns) if columns else (len(values),)
            tensor = Tensor(self.next_tensor, len(value), Kind.CONSTANT, name, shape, dtype, value=value)
            self.constants[key] = self._tensor(tensor)
        return self.constants[key]

    def glue(self, glue: Glue, role: Role, operands: Sequence[int], output: int) -> None:
        """An op between parts."""
        given = (*operands, *(self.numbers(values, glue.columns) for values in glue.literals))
        name = self._name(f"{self._label(output)}/{role}")
        self.parts[self.next_op] = Part(role)
        self._op(Op(self.next_op, given, (output,), name, glue.type, attributes=glue.attributes, operands=given))

    def part(
        self, op: Op, part: Part, operands: Sequence[int | None], outputs: Sequence[int], attributes: Mapping[str, Any]
    ) -> None:
        """A part of an op; of another type, that of `op`."""
        inputs = tuple(t for t in operands if t is not None)
        a, b = part.rows or (0, 0)
        name = self._name(f"{op.name or op.type}/{a}-{b}")
        self.parts[self.next_op] = part
        self._op(
            replace(
                op, id=self.next_op, inputs=inputs, operands=tuple(operands), outputs=tuple(outputs), name=name,
                flops=None, attributes=attributes,
            )
        )  # fmt: skip

    def _label(self, tensor: int) -> str:
        known = self.old.tensor_by_id.get(tensor)
        return known.label if known is not None else self.tensors[tensor - self._first].name

    @property
    def _first(self) -> int:
        return self.next_tensor - len(self.tensors)

    def _name(self, name: str) -> str:
        count = self.names.get(name)
        self.names[name] = 0 if count is None else count + 1
        return name if count is None else self._name(f"{name}_{count + 1}")

    def _tensor(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        self.next_tensor += 1
        return tensor.id

    def _op(self, op: Op) -> None:
        self.ops.append(op)
        self.next_op += 1
