"""The part graph of a graph with concat elimination, and tiled regions elsewhere.

A sliced tensor has its slices, and is materialised too if some consumer reads it untiled. The slices of a concat's
result are its operands, or their slices. The tiles of a sum are added one after another, in the order of its turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from lowtide.graph import Kind, Op
from lowtide.ops.access import Access, Box, Merge
from lowtide.ops.index import Range
from lowtide.ops.part import Written, given_box
from lowtide.ops.piece import Part
from lowtide.topological import topological
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.part_builder import Builder
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.seams import Elimination, OperandTiles, operand_rows
from lowtide.transform.stripes import region_ops


def apply_with_elimination(
    cutter: Cutter, regions: Sequence[Region], elimination: Elimination, order: Sequence[int] | None = None
) -> PartGraph:
    """Tile a graph by concat elimination, and other ops of it in regions. `order`: as
    `lowtide.transform.parts.apply`. Raises `ValueError`: an op is tiled twice, a region cannot run before and after
    another op, or a tile reads slices that do not exist."""
    if not elimination.cuts:
        return apply(cutter, regions, order)
    graph = cutter.graph
    cut = [c.op for c in elimination.cuts] + [c.op for region in regions for c in region.cuts]
    if len(set(cut)) < len(cut):
        raise ValueError("an operator is tiled twice")
    builder = Builder(cutter)
    position = {o: k for k, o in enumerate(graph.own_order if order is None else order)}
    groups: list[tuple[int, list[Op]]] = []
    for region in regions:
        groups.append((max(position[c.op] for c in region.cuts), region_ops(builder, region)))
    groups += [(position[o], [op]) for o, op in _Eliminated(builder, elimination).run()]
    gone = set(cut)
    groups += [(position[op.id], [op]) for op in graph.ops if op.id not in gone]
    graph_of_tiles = builder.graph(_sequence(groups))
    numbers = frozenset(t.id for t in builder.tensors if t.id not in builder.slices)
    return PartGraph(tuple(regions), graph_of_tiles, builder.slices, builder.parts, numbers, elimination)


def _sequence(groups: Sequence[tuple[int, list[Op]]]) -> tuple[Op, ...]:
    """Ops of a group together, as soon as they can run, groups of lower position first."""
    home = {op.id: k for k, (_, ops) in enumerate(groups) for op in ops}
    maker = {t: k for k, (_, ops) in enumerate(groups) for op in ops for t in op.outputs}
    before: dict[int, set[int]] = {}
    for k, (_, ops) in enumerate(groups):
        earlier = [maker[t] for op in ops for t in op.inputs if t in maker]
        earlier += [home[o] for op in ops for o in op.after if o in home]
        before[k] = {g for g in earlier if g != k}
    result = topological(before, lambda k: groups[k][0])
    if len(result) < len(groups):
        raise ValueError("a region would have to run before and after another op")
    return tuple(op for k in result for op in groups[k][1])


class _Eliminated:
    """The tiles of concat elimination."""

    def __init__(self, builder: Builder, elimination: Elimination) -> None:
        self.b, self.elimination = builder, elimination
        self.graph, self.cutter = builder.old, builder.cutter
        self.at: dict[int, tuple[int, dict[Range, int]]] = {}
        self.cuts = {c.op: c for c in elimination.cuts}

    def run(self) -> list[tuple[int, Op]]:
        """Each new op, with the op that it replaces."""
        result: list[tuple[int, Op]] = []
        for op in self.graph.ops:
            self.b.ops = []
            cut = self.cuts.get(op.id)
            along = operand_rows(self.cutter, op.id)
            if along is not None:
                self._join(op, along[0])
            elif cut is not None:
                self._parts(op, cut)
            result += [(op.id, made) for made in self.b.ops]
        return result

    def _join(self, op: Op, dim: int) -> None:
        """The slices of a concat's result: its operands, or their slices."""
        slices: dict[Range, int] = {}
        at = 0
        for t in op.inputs:
            size = (self.graph.tensor_by_id[t].shape or ())[dim]
            inner = self.at.get(t)
            if inner is not None and inner[0] == dim:
                slices.update({(at + a, at + b): slice_id for (a, b), slice_id in inner[1].items()})
            if inner is None or inner[0] != dim or self.graph.producer.get(t) not in self.cuts:
                slices[at, at + size] = t
            at += size
        self.at[op.outputs[0]] = (dim, slices)

    def _parts(self, op: Op, cut: OperandTiles) -> None:
        known = self.cutter.meaning(op.id)
        if known is None or not self._can_be(cut, known.access):
            raise ValueError(f"{op.label} has no such parts")
        reduced, parts = cut.axis in known.access.reduce, cut.parts
        if cut.into:
            self._accumulated(op, cut)
            return
        outputs = [[self._output(cut, j, rows) for j in range(len(op.outputs))] for rows in parts]
        made = [self._part(op, cut, rows, own) for rows, own in zip(parts, outputs, strict=True)]
        for j, t in enumerate(op.outputs):
            if reduced:
                self._sum(t, [made[k][j] for k in cut.turns], [parts[k] for k in cut.turns], known.access.merge)
            else:
                self._put(op, t, cut, {rows: outputs[j] for rows, outputs in zip(parts, made, strict=True)})

    def _can_be(self, cut: OperandTiles, access: Access) -> bool:
        """Whether tiles of an op can be lowered to the format, and each is added once."""
        how, turns = self.cutter.spelling(cut.op, cut.axis), list(range(len(cut.ends)))
        if sorted(cut.turns) != (turns if cut.axis in access.reduce else []):
            return False
        if cut.into:
            return self.cutter.accumulating(cut.op, cut.axis) is not None
        return how is not None and not any(end % how.grain for end in cut.ends[:-1])

    def _accumulated(self, op: Op, cut: OperandTiles) -> None:
        """Each part added to the sum of those before by itself; what follows the sum is the last one's."""
        adds = self.cutter.accumulating(op.id, cut.axis)
        assert adds is not None, op.label
        (t,), total, done = op.outputs, None, []
        for k in cut.turns:
            done = together([*done, cut.parts[k]])
            last = len(done) == 1 and done[0] == (0, cut.ends[-1])
            output = t if last else self._terms(t, "sum_", done)
            left = {} if last else {name: op.attributes[name] for name in op.attributes if name in adds.at_the_end}
            type_ = op.type if total is None else adds.type
            over = None if total is None else (total,)
            kind = replace(op, type=type_, overwrites=over)
            self._part(kind, cut, cut.parts[k], [output], left, () if total is None else (adds.operand, total))
            total = output

    def _part(
        self, op: Op, cut: OperandTiles, rows: Range, outputs: list[int], without: Collection[str] = (),
        total: tuple[int, int] | tuple[()] = (),
    ) -> list[int]:  # fmt: skip
        """The op of a tile, without some attributes, that reads a partial sum at a position of its own."""
        how = self.cutter.spelling(op.id, cut.axis)
        shapes = tuple(self.b.shape(t) for t in outputs)
        lowered = Written(op.attributes) if cut.into or how is None else how.spell(rows, shapes)
        operands = self.b.operands(op, cut.axis, rows, lowered.literals, lambda _, t, box: self._given(op, t, box))
        if total:
            operands += [None] * (total[0] - len(operands)) + [total[1]]
        attributes = {name: value for name, value in lowered.attributes.items() if name not in without}
        self.b.part(op, Part("part", op.id, cut.axis, rows), operands, outputs, attributes)
        return outputs

    def _output(self, cut: OperandTiles, j: int, rows: Range) -> int:
        """What a part makes of an op's output."""
        known = self.cutter.meaning(cut.op)
        assert known is not None
        t = self.graph.op_by_id[cut.op].outputs[j]
        if len(cut.ends) == 1:
            return t
        if cut.axis in known.access.reduce:
            return self._terms(t, "terms_", [rows])
        return self.b.slice_of(t, known.access.written(j, self.b.shape(t), {cut.axis: rows}), "rows_")

    def _terms(self, t: int, word: str, terms: Sequence[Range]) -> int:
        """A tensor as large as another, over some terms of a sum."""
        return self.b.slice_of(t, tuple((0, size) for size in self.b.shape(t)), word, tuple(terms))

    def _given(self, op: Op, t: int, box: Box) -> int:
        """The operand of a tile for rows of a tensor."""
        tensor = self.graph.tensor_by_id[t]
        shape = tensor.shape or ()
        cut = [d for d, (rows, size) in enumerate(zip(box, shape, strict=True)) if rows != (0, size)]
        if tensor.kind is Kind.CONSTANT:
            return self.b.constant(t, box)
        if not cut:
            return t
        dim, slices = self.at.get(t, (-1, {}))
        if cut == [dim] and box[dim] in slices:
            return slices[box[dim]]
        around = next(((a, b) for a, b in slices if cut == [dim] and a <= box[dim][0] and box[dim][1] <= b), None)
        if around is not None:
            within = (box[dim][0] - around[0], box[dim][1] - around[0])
            t, box = slices[around], tuple(within if d == dim else rows for d, rows in enumerate(box))
        elif self.graph.producer.get(t) in self.cuts:
            raise ValueError(f"{op.label} reads other pieces of {tensor.label} than there are")
        output, origin = self._sliced(t, box), self.b.slices.get(t)
        full = shape if origin is None else tuple(b - a for a, b in origin.box)
        self.b.glue(self.b.spell.slicing(self.graph, {d: box[d] for d in cut}, full), "slice", [t], output)
        return output

    def _sliced(self, t: int, box: Box) -> int:
        """A tensor for some rows of another one, which may be a slice."""
        origin = self.b.slices.get(t)
        if origin is None:
            return self.b.slice_of(t, box, "slice_")
        rows = zip(origin.box, box, strict=True)
        return self.b.slice_of(origin.of, tuple((begin + a, begin + b) for (begin, _), (a, b) in rows), "slice_")

    def _put(self, op: Op, t: int, cut: OperandTiles, slices: dict[Range, int]) -> None:
        """Slices for consumers in tiles, and the materialised tensor for others."""
        dim = self.cutter.dim(op.id, t, cut.axis)
        assert dim is not None, op.label
        self.at[t] = (dim, slices)
        readers = self.graph.consumers.get(t, ())
        materialised = self.graph.tensor_by_id[t].kind is Kind.OUTPUT or not readers
        if materialised or any(self._reads_untiled(r, t, slices) for r in readers):
            self.b.glue(self.b.spell.joining(dim), "join", list(slices.values()), t)

    def _reads_untiled(self, reader: int, t: int, slices: Iterable[Range]) -> bool:
        """Whether an op reads more than slices of a tensor: it is untiled, or tiled along another dimension."""
        cut = self.cuts.get(reader)
        if cut is None:
            return True
        along = operand_rows(self.cutter, reader)
        dim = self.at[t][0]
        if along is not None:
            return along[0] != dim
        known = self.cutter.meaning(reader)
        assert known is not None, reader
        size = (self.graph.tensor_by_id[t].shape or ())[dim]
        ranges = set(slices)
        for i, other in enumerate(self.graph.op_by_id[reader].operands or self.graph.op_by_id[reader].inputs):
            for rows in cut.parts if other == t else ():
                shape = self.graph.tensor_by_id[t].shape or ()
                box = given_box(known.access, i, shape, cut.axis, rows)
                if box[dim] not in ranges or box[dim] == (0, size):
                    return True
        return False

    def _sum(self, t: int, parts: Sequence[int], terms: Sequence[Range], merge: Merge) -> None:
        """Parts of a sum added up, the first two first."""
        at, done = parts[0], [terms[0]]
        for k, part in enumerate(parts[1:], 1):
            done = together([*done, terms[k]])
            output = t if k + 1 == len(parts) else self._terms(t, "sum_", done)
            self.b.glue(self.b.spell.merging(merge), "merge", [at, part], output)
            at = output


def together(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in rising order, those that touch as one.

    >>> together([(4, 6), (0, 2), (2, 3)])
    [(0, 3), (4, 6)]
    """
    result: list[Range] = []
    for a, b in sorted(ranges):
        if result and result[-1][1] == a:
            result[-1] = (result[-1][0], b)
        else:
            result.append((a, b))
    return result
