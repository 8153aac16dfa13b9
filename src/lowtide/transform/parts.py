"""The part graph: a graph whose cut ops are there in parts, with slices, joins and sums between them.

It is an ordinary `Graph`, for every scheduler, target and writer, together with what each of its ops and tensors is of
the graph that was cut. A tensor is a **piece**: some rows of every dimension of a tensor of the cut graph, and, of a
sum, the rows of the summed axis that are in it. Of a tensor T between ops of a region, stripe i has::

    rows i   what the op made in this stripe
    kept i   rows before those that this or a later stripe reads again, from the stripe before
    have i   kept i and rows i, put together if there are both

and who reads fewer rows than `have i` reads a slice of them. Ids of the cut graph stay what they stood for.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Box, box_elements
from lowtide.ops.forms import Concat
from lowtide.ops.index import Range
from lowtide.ops.part import Glue, given_box, speller
from lowtide.ops.piece import Part, Piece, Role
from lowtide.rewrites import Recompute, Sums
from lowtide.transform.cut import Cut, Cutter, Region, needed
from lowtide.transform.part_values import all_names, bytes_of_rows, quant_of_rows
from lowtide.transform.seams import NO_SEAMS, Seams


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
        _Stripes(self, region).run()
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


@dataclass
class _Held:
    """What there is of a tensor between ops of a region.

    `lows` says for each stripe the first row that it or a later one reads; `have` is (tensor, first row, end).
    """

    dim: int
    lows: list[int]
    lasts: list[int]
    leaves: bool
    rows: list[tuple[int, Range]]
    fresh: tuple[int, int, int] | None = None
    kept: tuple[int, int, int] | None = None
    have: tuple[int, int, int] | None = None


class _Stripes:
    """The ops of one region."""

    def __init__(self, builder: Builder, region: Region) -> None:
        self.b, self.region = builder, region
        self.graph, self.cutter = builder.old, builder.cutter
        self.held: dict[int, _Held] = {}
        self.sums: dict[int, int] = {}
        self.summed: dict[int, Range] = {}
        self.slices: dict[tuple[int, Box], int] = {}
        for cut in region.cuts:
            for t in self.graph.op_by_id[cut.op].outputs:
                d = self.cutter.dim(cut.op, t, cut.axis)
                if d is not None:
                    self.held[t] = self._held(t, d)

    def _held(self, tensor: int, dim: int) -> _Held:
        """What later stripes read again, and which stripe's which op reads last."""
        graph, stripes = self.graph, self.region.stripes
        size = (graph.tensor_by_id[tensor].shape or ())[dim]
        readers = [self.region.of[r] for r in graph.consumers.get(tensor, ()) if r in self.region.of]
        lows, low = [size] * stripes, size
        for i in reversed(range(stripes)):
            for cut in readers:
                low = min(low, *(rows[0] for rows in self._reads(cut, tensor, i)), size)
            lows[i] = low
        order = {cut.op: k for k, cut in enumerate(self.region.cuts)}
        lasts = [max((order[c.op] for c in readers if c.rows(i)[0] < c.rows(i)[1]), default=-1) for i in range(stripes)]
        outside = len(readers) < len(graph.consumers.get(tensor, ()))
        leaves = outside or graph.tensor_by_id[tensor].kind is Kind.OUTPUT
        return _Held(dim, lows, lasts, leaves, [])

    def _reads(self, cut: Cut, tensor: int, stripe: int) -> list[Range]:
        """Rows of a tensor that a stripe of an op reads, for each position that it stands at."""
        rows = cut.rows(stripe)
        if rows[0] >= rows[1]:
            return []
        known = self.cutter.meaning(cut.op)
        assert known is not None
        result = []
        for _, t, dims in self.cutter.reads(cut.op):
            for d, index in enumerate(dims):
                if t == tensor and index is not None and index.axis == cut.axis:
                    size = (self.graph.tensor_by_id[t].shape or ())[d]
                    result.append(needed(known, cut.axis, index, rows, size))
        return [(a, b) for a, b in result if a < b]

    def run(self) -> None:
        """Every stripe, then what others need whole."""
        for i in range(self.region.stripes):
            for k, cut in enumerate(self.region.cuts):
                if cut.rows(i)[0] < cut.rows(i)[1]:
                    self._part(cut, i)
                for t, held in self.held.items():
                    if held.lasts[i] == k:
                        self._keep(t, held, i)
            for t, held in self.held.items():
                if held.lasts[i] < 0:
                    self._keep(t, held, i)
            self.slices.clear()
        for t, held in self.held.items():
            if held.leaves and held.rows[0][0] != t:
                self._join(t, held)

    def _join(self, t: int, held: _Held) -> None:
        """All parts in one; where an op takes so many operands only, groups of them first."""
        most, rows = self.b.spell.MOST_JOINED, held.rows
        shape = self.graph.tensor_by_id[t].shape or ()
        while most and len(rows) > most:
            groups = [rows[k : k + most] for k in range(0, len(rows), most)]
            rows = []
            for group in groups:
                at, both = group[0][0], (group[0][1][0], group[-1][1][1])
                if len(group) > 1:
                    box = tuple(both if d == held.dim else (0, size) for d, size in enumerate(shape))
                    at = self.b.piece(t, box, "joined_")
                    self.b.glue(self.b.spell.joining(held.dim), "join", [one for one, _ in group], at)
                rows.append((at, both))
        self.b.glue(self.b.spell.joining(held.dim), "join", [at for at, _ in rows], t)

    def _part(self, cut: Cut, stripe: int) -> None:
        op, known = self.graph.op_by_id[cut.op], self.cutter.meaning(cut.op)
        how = self.cutter.spelling(cut.op, cut.axis)
        assert known is not None, op.label
        assert how is not None, op.label
        rows, access = cut.rows(stripe), known.access
        reduced = cut.axis in access.reduce
        outputs = [self._output(cut, j, t, rows, reduced) for j, t in enumerate(op.outputs)]
        made = [self._rough(cut, j, t, outputs[j], how.around(rows)) for j, t in enumerate(op.outputs)]
        shapes = tuple(self._shape(t) for t in made)
        spelled = how.spell(rows, shapes)
        operands: list[int | None] = []
        for i, t in enumerate(op.operands or op.inputs):
            if t is None or (reduced and i in access.once and rows[0] > 0):
                operands.append(None)
            elif i in spelled.literals:
                operands.append(self.b.numbers(spelled.literals[i]))
            else:
                box = given_box(access, i, self.graph.tensor_by_id[t].shape or (), cut.axis, rows)
                empty = any(a >= b for a, b in box)
                given = None if empty else self._given(t, box, stripe)
                if given is not None and i == 0 and any(map(any, spelled.padding)):
                    given = self._pad(t, given, box, spelled.padding)
                operands.append(given)
        if isinstance(known.form, Concat):
            operands = [t for t in operands if t is not None]
        while operands and operands[-1] is None:
            operands.pop()
        self.b.part(op, Part("part", op.id, cut.axis, rows), operands, made, spelled.attributes)
        for t, at, rough in zip(op.outputs, outputs, made, strict=True):
            if rough != at:
                self._trim(rough, at)
            if reduced:
                self._add(t, at, rows, access.sizes[cut.axis], access.merge)
            else:
                self._take(t, at, rows)

    def _shape(self, tensor: int) -> tuple[int, ...]:
        known = self.graph.tensor_by_id.get(tensor)
        if known is not None:
            return known.shape or ()
        return tuple(b - a for a, b in self.b.pieces[tensor].box)

    def _output(self, cut: Cut, j: int, t: int, rows: Range, reduced: bool) -> int:
        known = self.cutter.meaning(cut.op)
        assert known is not None
        shape = self.graph.tensor_by_id[t].shape or ()
        if rows == (0, known.access.sizes[cut.axis]):
            return t
        if reduced:
            return self.b.piece(t, tuple((0, s) for s in shape), "terms_", (rows,))
        box = known.access.written(j, shape, {cut.axis: rows})
        return self.b.piece(t, box, "rows_")

    def _rough(self, cut: Cut, j: int, t: int, at: int, rows: Range) -> int:
        """What a part makes of which `at` are its own rows: more, where it cannot make those alone."""
        known = self.cutter.meaning(cut.op)
        assert known is not None
        piece = self.b.pieces.get(at)
        box = known.access.written(j, self.graph.tensor_by_id[t].shape or (), {cut.axis: rows})
        if piece is None or piece.terms is not None or piece.box == box:
            return at
        return self.b.piece(t, box, "around_", sure=piece.box)

    def _trim(self, rough: int, at: int) -> None:
        """Cut away what of a tensor is nobody's."""
        boxes = zip(self.b.pieces[rough].box, self.b.pieces[at].box, strict=True)
        rows = {d: (a - x[0], b - x[0]) for d, (x, (a, b)) in enumerate(boxes) if x != (a, b)}
        self.b.glue(self.b.spell.slicing(self.graph, rows, self._shape(rough)), "slice", [rough], at)

    def _given(self, t: int, box: Box, stripe: int) -> int:
        """What an op reads of a tensor in a stripe."""
        tensor = self.graph.tensor_by_id[t]
        if tensor.kind is Kind.CONSTANT:
            return self.b.constant(t, box)
        held = self.held.get(t)
        if held is None:
            return t if self._is_whole(t, box) else self._slice(t, t, box, {})
        at, first, end = self._around(t, held, box[held.dim])
        return at if box[held.dim] == (first, end) else self._slice(t, at, box, {held.dim: first})

    def _around(self, t: int, held: _Held, rows: Range) -> tuple[int, int, int]:
        """What holds some rows, best those alone; kept rows and new ones are put together for who needs both."""
        there = [x for x in (held.have, held.fresh, held.kept) if x is not None and x[1] <= rows[0] and rows[1] <= x[2]]
        if not there:
            self._have(t, held)
            assert held.have is not None, t
            there = [held.have]
        return next((x for x in there if x[1:] == rows), there[0])

    def _is_whole(self, t: int, box: Box) -> bool:
        shape = self.graph.tensor_by_id[t].shape or ()
        return all((a, b) == (0, size) for (a, b), size in zip(box, shape, strict=True))

    def _slice(self, t: int, at: int, box: Box, firsts: Mapping[int, int]) -> int:
        """Rows `box` of tensor `t` of the cut graph, from `at`, which begins at row `firsts` of a dimension."""
        key = (at, box)
        if key not in self.slices:
            from_box = self.b.pieces[at].box if at in self.b.pieces else None
            shape = self.graph.tensor_by_id[t].shape or ()
            rows = {}
            for d, (a, b) in enumerate(box):
                begin, stop = from_box[d] if from_box is not None else (0, shape[d])
                if (a, b) != (begin, stop):
                    rows[d] = (a - begin, b - begin)
            output = self.b.piece(t, box, "slice_")
            whole = tuple(b - a for a, b in from_box) if from_box is not None else shape
            self.b.glue(self.b.spell.slicing(self.graph, rows, whole), "slice", [at], output)
            self.slices[key] = output
        return self.slices[key]

    def _pad(self, t: int, at: int, box: Box, padding: tuple[tuple[int, int], ...]) -> int:
        """Tensor `at`, the rows `box` of `t`, with padding around it."""
        around = tuple((a - x, b + y) for (a, b), (x, y) in zip(box, padding, strict=True))
        if (at, around) not in self.slices:
            output = self.b.piece(t, around, "padded_")
            self.b.glue(self.b.spell.padding(padding), "pad", [at], output)
            self.slices[at, around] = output
        return self.slices[at, around]

    def _take(self, t: int, at: int, rows: Range) -> None:
        held = self.held[t]
        held.rows.append((at, rows))
        held.fresh, held.have = (at, *rows), None

    def _have(self, t: int, held: _Held) -> None:
        """Kept rows and new ones in one tensor."""
        if held.have is not None:
            return
        if held.kept is None or held.fresh is None:
            held.have = held.kept if held.fresh is None else held.fresh
            return
        first, end = held.kept[1], held.fresh[2]
        shape = self.graph.tensor_by_id[t].shape or ()
        box = tuple((first, end) if d == held.dim else (0, size) for d, size in enumerate(shape))
        output = self.b.piece(t, box, "have_")
        self.b.glue(self.b.spell.joining(held.dim), "join", [held.kept[0], held.fresh[0]], output)
        held.have = (output, first, end)

    def _keep(self, t: int, held: _Held, stripe: int) -> None:
        """The rows that later stripes read again."""
        later = held.lows[stripe + 1] if stripe + 1 < self.region.stripes else None
        end = max((x[2] for x in (held.kept, held.fresh) if x is not None), default=0)
        if later is None or later >= end:
            held.kept = held.fresh = held.have = None
            return
        first = min(x[1] for x in (held.kept, held.fresh) if x is not None)
        rows = (max(later, first), end)
        at, *around = self._around(t, held, rows)
        if rows != tuple(around):
            shape = self.graph.tensor_by_id[t].shape or ()
            box = tuple(rows if d == held.dim else (0, size) for d, size in enumerate(shape))
            at = self._slice(t, at, box, {held.dim: around[0]})
        held.kept, held.fresh, held.have = (at, *rows), None, None

    def _add(self, t: int, at: int, rows: Range, size: int, merge: Literal["sum", "max", "min"]) -> None:
        """What a part of a summed axis adds to."""
        if rows == (0, size):
            return
        if t not in self.sums:
            self.sums[t], self.summed[t] = at, rows
            return
        done = (self.summed[t][0], rows[1])
        shape = self.graph.tensor_by_id[t].shape or ()
        output = t if done == (0, size) else self.b.piece(t, tuple((0, s) for s in shape), "sum_", (done,))
        self.b.glue(self.b.spell.merging(merge), "merge", [self.sums[t], at], output)
        self.sums[t], self.summed[t] = output, done
