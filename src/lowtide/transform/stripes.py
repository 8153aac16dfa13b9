"""The ops of a region, stripe by stripe.

Of a tensor T between them, stripe i has::

    rows i   the rows that its op made in this stripe
    kept i   cached halo: earlier rows that this or a later stripe reads
    have i   kept i and rows i, concatenated if there are both

A consumer of fewer rows than `have i` reads a slice of them. With a recomputed halo nothing is kept: `rows i` are all
rows of T that stripe i reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lowtide.graph import Kind, Op
from lowtide.ops.access import Box
from lowtide.ops.forms import Concat
from lowtide.ops.index import Range
from lowtide.ops.piece import Part
from lowtide.transform.cut import Cut, Region, needed
from lowtide.transform.part_builder import Builder


def region_ops(builder: Builder, region: Region) -> list[Op]:
    """Ops of a region, stripe by stripe."""
    builder.ops = []
    _Stripes(builder, region).run()
    return builder.ops


@dataclass
class _Held:
    """The live rows of a tensor between ops of a region.

    `lows`: for each stripe, the first row that it or a later one reads; `have` is (tensor, first row, end).
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
        """The rows that later stripes read, and the last consumer in each stripe."""
        graph, stripes = self.graph, self.region.stripes
        size = (graph.tensor_by_id[tensor].shape or ())[dim]
        readers = [self.region.of[r] for r in graph.consumers.get(tensor, ()) if r in self.region.of]
        lows, low = [size] * stripes, size
        recomputed = self.region.of[graph.producer[tensor]].begins
        for i in reversed(range(stripes if not recomputed else 0)):
            for cut in readers:
                low = min(low, *(rows[0] for rows in self._reads(cut, tensor, i)), size)
            lows[i] = low
        order = {cut.op: k for k, cut in enumerate(self.region.cuts)}
        lasts = [max((order[c.op] for c in readers if c.rows(i)[0] < c.rows(i)[1]), default=-1) for i in range(stripes)]
        outside = len(readers) < len(graph.consumers.get(tensor, ()))
        leaves = outside or graph.tensor_by_id[tensor].kind is Kind.OUTPUT
        return _Held(dim, lows, lasts, leaves, [])

    def _reads(self, cut: Cut, tensor: int, stripe: int) -> list[Range]:
        """Rows of a tensor that a stripe of an op reads, for each of its positions."""
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
        """Every stripe, then the materialised tensors for other ops."""
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
        most, rows = self.b.spell.MOST_OPERANDS, held.rows
        shape = self.graph.tensor_by_id[t].shape or ()
        while most and len(rows) > most:
            groups = [rows[k : k + most] for k in range(0, len(rows), most)]
            rows = []
            for group in groups:
                at, both = group[0][0], (group[0][1][0], group[-1][1][1])
                if len(group) > 1:
                    box = tuple(both if d == held.dim else (0, size) for d, size in enumerate(shape))
                    at = self.b.slice_of(t, box, "joined_")
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
        shapes = tuple(self.b.shape(t) for t in made)
        lowered = how.spell(rows, shapes)

        def given(i: int, t: int, box: Box) -> int | None:
            if any(a >= b for a, b in box) and (isinstance(known.form, Concat) or not self._is_full(t, box)):
                return None  # an empty tensor is given unsliced: the op may require it
            at = self._given(t, box, stripe)
            return self._pad(t, at, box, lowered.padding) if i == 0 and any(map(any, lowered.padding)) else at

        operands = self.b.operands(op, cut.axis, rows, lowered.literals, given)
        if isinstance(known.form, Concat):
            operands = [t for t in operands if t is not None]
        self.b.part(op, Part("part", op.id, cut.axis, rows), operands, made, lowered.attributes)
        for t, at, rough in zip(op.outputs, outputs, made, strict=True):
            if rough != at:
                self._trim(rough, at)
            if reduced:
                self._add(t, at, rows, access.sizes[cut.axis], access.merge)
            else:
                self._take(t, at, rows)

    def _output(self, cut: Cut, j: int, t: int, rows: Range, reduced: bool) -> int:
        known = self.cutter.meaning(cut.op)
        assert known is not None
        shape = self.graph.tensor_by_id[t].shape or ()
        if rows == (0, known.access.sizes[cut.axis]) and not cut.begins:
            return t
        if reduced:
            return self.b.slice_of(t, tuple((0, s) for s in shape), "terms_", (rows,))
        box = known.access.written(j, shape, {cut.axis: rows})
        return self.b.slice_of(t, box, "rows_")

    def _rough(self, cut: Cut, j: int, t: int, at: int, rows: Range) -> int:
        """The result of a tile that contains the rows of `at`: more rows, where it cannot make these alone."""
        known = self.cutter.meaning(cut.op)
        assert known is not None
        origin = self.b.slices.get(at)
        box = known.access.written(j, self.graph.tensor_by_id[t].shape or (), {cut.axis: rows})
        if origin is None or origin.terms is not None or origin.box == box:
            return at
        return self.b.slice_of(t, box, "around_", sure=origin.box)

    def _trim(self, rough: int, at: int) -> None:
        """Slice off the rows without a consumer."""
        boxes = zip(self.b.slices[rough].box, self.b.slices[at].box, strict=True)
        rows = {d: (a - x[0], b - x[0]) for d, (x, (a, b)) in enumerate(boxes) if x != (a, b)}
        self.b.glue(self.b.spell.slicing(self.graph, rows, self.b.shape(rough)), "slice", [rough], at)

    def _given(self, t: int, box: Box, stripe: int) -> int:
        """What an op reads of a tensor in a stripe."""
        tensor = self.graph.tensor_by_id[t]
        if tensor.kind is Kind.CONSTANT:
            return self.b.constant(t, box)
        held = self.held.get(t)
        if held is None:
            return t if self._is_full(t, box) else self._slice(t, t, box, {})
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

    def _is_full(self, t: int, box: Box) -> bool:
        shape = self.graph.tensor_by_id[t].shape or ()
        return all((a, b) == (0, size) for (a, b), size in zip(box, shape, strict=True))

    def _slice(self, t: int, at: int, box: Box, firsts: Mapping[int, int]) -> int:
        """Rows `box` of tensor `t` of the graph before tiling, from `at`, which begins at row `firsts` of a
        dimension."""
        key = (at, box)
        if key not in self.slices:
            from_box = self.b.slices[at].box if at in self.b.slices else None
            shape = self.graph.tensor_by_id[t].shape or ()
            rows = {}
            for d, (a, b) in enumerate(box):
                begin, stop = from_box[d] if from_box is not None else (0, shape[d])
                if (a, b) != (begin, stop):
                    rows[d] = (a - begin, b - begin)
            output = self.b.slice_of(t, box, "slice_")
            full = tuple(b - a for a, b in from_box) if from_box is not None else shape
            self.b.glue(self.b.spell.slicing(self.graph, rows, full), "slice", [at], output)
            self.slices[key] = output
        return self.slices[key]

    def _pad(self, t: int, at: int, box: Box, padding: tuple[tuple[int, int], ...]) -> int:
        """Tensor `at`, the rows `box` of `t`, with padding around it."""
        around = tuple((a - x, b + y) for (a, b), (x, y) in zip(box, padding, strict=True))
        if (at, around) not in self.slices:
            output = self.b.slice_of(t, around, "padded_")
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
        output = self.b.slice_of(t, box, "have_")
        self.b.glue(self.b.spell.joining(held.dim), "join", [held.kept[0], held.fresh[0]], output)
        held.have = (output, first, end)

    def _keep(self, t: int, held: _Held, stripe: int) -> None:
        """Cache the halo: the rows that later stripes read."""
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
        output = t if done == (0, size) else self.b.slice_of(t, tuple((0, s) for s in shape), "sum_", (done,))
        self.b.glue(self.b.spell.merging(merge), "merge", [self.sums[t], at], output)
        self.sums[t], self.summed[t] = output, done
