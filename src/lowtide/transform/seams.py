"""Concat elimination: consumers of a concat run on each of its operands, so that the concat is never run.

    concat(x, y, z) -> relu -> conv -> t          relu x -> conv, the weights' first rows  --+
                                                  relu y -> conv, the next ones    ---------(+)--+
                                                  relu z -> conv, the last ones    -------------(+)-> t

The result of a concat consists of its operands, so a consumer that is tiled along that dimension reads the operands,
one tile for each, and no op copies them. Its results along the same dimension are slices for the next consumer. Its
sums over that dimension are accumulated, in any order. Source: SERENITY (MLSys 2020, section 3.3): a convolution is its
channel-wise partitioning (equations 3 to 6), a depthwise one its kernel-wise partitioning (equations 7 and 8). Here it
is any op whose access has such an axis, chains of them, and all concats at once, since eliminations often save jointly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lowtide.graph import Kind, Op
from lowtide.ops.forms import Concat
from lowtide.ops.index import FIXED, Index
from lowtide.ops.meaning import Meaning
from lowtide.transform.cut import Cutter

_SLICED = 16
"""An untiled operand that tiles slice is smaller than the result by at least this factor: slices are copies."""

_MOST_SLICES = 64
"""Maximum number of slices of a concat's result where its operands are sliced."""


@dataclass(frozen=True)
class OperandTiles:
    """An op tiled by the operands of a concat."""

    op: int  # id
    axis: int  # of the op's access
    # Row of the axis at which each tile ends; rising. The first begins at row 0, the last ends with the axis.
    ends: tuple[int, ...]
    # Of an op that sums over the axis, the order in which its tiles are added: positions in `ends`. Else empty.
    turns: tuple[int, ...] = ()
    into: bool = False  # whether the op of each tile adds to the sum of those before

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Rows of each part."""
        return tuple(pairwise((0, *self.ends)))


@dataclass(frozen=True)
class Elimination:
    """Ops tiled by the operands of concats."""

    # In an order in which they can run. A concat is included if no consumer reads it untiled: then it is not run.
    cuts: tuple[OperandTiles, ...]

    def turned(self, turns: Mapping[int, Sequence[int]]) -> Elimination:
        """The same with the parts of some sums added in other orders."""
        return Elimination(tuple(
            replace(c, turns=tuple(turns[c.op])) if c.op in turns else c for c in self.cuts
        ))  # fmt: skip


NO_ELIMINATION = Elimination(())


def operand_rows(cutter: Cutter, op: int) -> tuple[int, tuple[int, ...]] | None:
    """The dimension along which a concat puts its operands, and the row at which each ends; None: it is no concat."""
    known = cutter.meaning(op)
    if known is None or not isinstance(known.form, Concat):
        return None
    dim, ends, at = known.form.dim, [], 0
    for t in cutter.graph.op_by_id[op].inputs:
        at += (cutter.graph.tensor_by_id[t].shape or ())[dim]
        ends.append(at)
    return dim, tuple(ends)


def find_elimination(
    cutter: Cutter, without: Collection[int] = (), *, accumulate: bool = False, fine: Collection[int] = ()
) -> Elimination:
    """Every op that can be tiled by the operands of a concat. `without`: ids of ops that stay untiled. `accumulate`:
    whether the op of a tile adds to the sum so far, where the format has such an op. `fine`: ids of concats with no
    tile larger than the smallest operand: others are sliced."""
    return _Finder(cutter, frozenset(without), accumulate, frozenset(fine)).run()


class _Finder:
    """Visits the ops in order, with the sliced tensors so far."""

    def __init__(self, cutter: Cutter, without: frozenset[int], accumulate: bool, fine: frozenset[int]) -> None:
        self.cutter, self.graph, self.without = cutter, cutter.graph, without
        self.accumulate, self.fine = accumulate, fine
        self.slices: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.cuts: dict[int, OperandTiles] = {}
        self.concats: dict[int, OperandTiles] = {}

    def run(self) -> Elimination:
        """What is cut, without what would be cut for nothing."""
        for op in self.graph.ops:
            if op.id not in self.without and not self._concat(op):
                self._reader(op)
        self._without_what_is_for_nothing()
        gone = [c for o, c in self.concats.items() if not self._is_materialised(self.graph.op_by_id[o].outputs[0])]
        position = self.graph.index_of
        cuts = sorted((*gone, *self.cuts.values()), key=lambda cut: position[cut.op])
        return Elimination(tuple(cuts)) if self.cuts else Elimination(())

    def _concat(self, op: Op) -> bool:
        """Whether an op is a concat, whose result is then sliced."""
        along = operand_rows(self.cutter, op.id)
        if along is None or not self._may_be_cut(op):
            return along is not None
        dim, _ = along
        ends, at = [], 0
        most = self._most_rows(op, dim)
        for t in op.inputs:
            rows, size = self.slices.get(t), self._size(t, dim)
            inner = rows[1] if rows is not None and rows[0] == dim else (*range(most, size, most), size)
            ends += [at + end for end in inner]
            at += inner[-1]
        known = self.cutter.meaning(op.id)
        assert known is not None, op.label
        axis = known.access.outputs[0][dim]
        if axis is not None and len(ends) > 1:
            self.slices[op.outputs[0]] = (dim, tuple(ends))
            self.concats[op.id] = OperandTiles(op.id, axis, tuple(ends))
        return True

    def _most_rows(self, op: Op, dim: int) -> int:
        """Maximum rows of a slice."""
        sizes = [self._size(t, dim) for t in op.inputs]
        return min(sizes) if op.id in self.fine and sum(sizes) <= _MOST_SLICES * min(sizes) else max(sizes)

    def _may_be_cut(self, op: Op) -> bool:
        """Whether each operand is a tensor of its own, with rows."""
        tensors = [self.graph.tensor_by_id[t] for t in (*op.inputs, *op.outputs)]
        return not op.after and all(
            t.kind is not Kind.CONSTANT and t.alias_of is None and t.shape is not None and 0 not in t.shape
            for t in tensors
        )

    def _reader(self, op: Op) -> None:
        """Tile an op that reads slices, if it can be."""
        reads = list(self.cutter.reads(op.id))
        if not any(t in self.slices for _, t, _ in reads) or any(
            self.graph.tensor_by_id[t].alias_of is not None for t in op.outputs
        ):
            return
        cut = self._cut(op, reads)
        if cut is None:
            return
        self.cuts[op.id] = cut
        for t in op.outputs:
            dim = self.cutter.dim(op.id, t, cut.axis)
            if dim is not None:
                self.slices[t] = (dim, cut.ends)

    def _cut(self, op: Op, reads: list[tuple[int, int, tuple[Index | None, ...]]]) -> OperandTiles | None:
        """The tiles that read every sliced operand slice by slice; None if there are none."""
        known = self.cutter.meaning(op.id)
        axis, ends = -1, ()
        for _, t, dims in reads:
            if t not in self.slices or known is None:
                continue
            dim, at = self.slices[t]
            index = dims[dim] if dim < len(dims) else None
            if index is None or index.axis == FIXED or sum(d is not None and d.axis == index.axis for d in dims) > 1:
                return None
            rows = _rows(known, index, at)
            if rows is None or (axis >= 0 and (axis, ends) != (index.axis, rows)):
                return None
            axis, ends = index.axis, rows
        how, into = self.cutter.spelling(op.id, axis), self.accumulate and self.cutter.accumulating(op.id, axis)
        if known is None or (how is None and not into):
            return None
        if how is not None and (how.stretch is not None or any(end % how.grain for end in ends[:-1])):
            return None
        if not all(self._sliced_cheaply(op, t, dims, axis) for _, t, dims in reads):
            return None
        reduced = axis in known.access.reduce
        return OperandTiles(op.id, axis, ends, tuple(range(len(ends))) if reduced else (), bool(into))

    def _sliced_cheaply(self, op: Op, t: int, dims: tuple[Index | None, ...], axis: int) -> bool:
        """Whether the operand along the axis is sliced, or small."""
        if t in self.slices or all(index is None or index.axis != axis for index in dims):
            return True
        made = self.graph.tensor_by_id[op.outputs[0]].size
        return self.graph.tensor_by_id[t].size * _SLICED <= made

    def _size(self, t: int, dim: int) -> int:
        return (self.graph.tensor_by_id[t].shape or ())[dim]

    def _is_materialised(self, t: int) -> bool:
        """Whether some consumer reads a sliced tensor untiled, or it is an output."""
        if self.graph.tensor_by_id[t].kind is Kind.OUTPUT:
            return True
        readers = self.graph.consumers.get(t, ())
        return any(r not in self.cuts and not self._in_concat(r, t) for r in readers)

    def _in_concat(self, op: int, t: int) -> bool:
        """Whether an op is an eliminated concat that forwards the slices of a tensor."""
        if op not in self.concats:
            return False
        result = self.graph.op_by_id[op].outputs[0]
        return self.slices[result][0] == self.slices[t][0] and not self._is_materialised(result)

    def _without_what_is_for_nothing(self) -> None:
        """Remove tilings of ops that make no less than their sliced operands, and whose results are only
        materialised."""
        for o, cut in reversed(list(self.cuts.items())):
            op = self.graph.op_by_id[o]
            if cut.turns or not all(self._has_untiled_readers_only(t) for t in op.outputs):
                continue
            read = sum(self.graph.tensor_by_id[t].size for _, t, _ in self.cutter.reads(o) if t in self.slices)
            if sum(self.graph.tensor_by_id[t].size for t in op.outputs) >= read:
                del self.cuts[o]
                for t in op.outputs:
                    self.slices.pop(t, None)

    def _has_untiled_readers_only(self, t: int) -> bool:
        readers = self.graph.consumers.get(t, ())
        return all(r not in self.cuts and r not in self.concats for r in readers)


def _rows(op_meaning: Meaning, index: Index, ends: Sequence[int]) -> tuple[int, ...] | None:
    """Rows of an index's axis at which parts end that read just the rows up to each of `ends`; None: there are none."""
    result, size = [], op_meaning.access.sizes[index.axis]
    first = (0, 0)
    for end in ends:
        row = end * index.den // index.num if index.num > 0 else 0
        if not first[1] < row <= size or index.need(first[1], row, ends[-1]) != (first[0], end):
            return None
        result.append(row)
        first = (end, row)
    return tuple(result) if first[1] == size else None
