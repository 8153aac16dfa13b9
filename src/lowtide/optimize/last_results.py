"""What is there when the last results of a graph are whole: more than the results.

The op that ends last reads something, or joins pieces, beside all results. Which result is the last is the plan's
choice; but then another one is the last but one, and what the last is still to be made of is there as well::

    results p, q, r; r is the last, q before it        at q:  p  q  what q is made of  and what r will be made of
                                                       at r:  p  q  r  what r is made of

What a result will be made of is counted by threads: disjoint ways of elements back from it through the ops before it,
to a tensor that is made by then, because other results are made of it as well. Of each way some element is there.
Theorem and proof: docs/proofs.md, section 15. `lowtide.verify.check.last_results` lists the ways one by one.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING

from lowtide.graph import Kind
from lowtide.ops.index import FIXED, Index

if TYPE_CHECKING:
    from lowtide.optimize.region_bound import RegionBounds

_MOST_RESULTS = 64

Box = tuple[int, ...]
"""How many rows of each dimension, from the first on."""


def last_results(bounds: RegionBounds) -> int:
    """Bytes that are there when the last result, or the last but one, is whole; at the least all results."""
    graph = bounds.graph
    results = [t.id for t in graph.tensors if t.kind is Kind.OUTPUT]
    together = bounds.bytes_of(results)
    makers = {graph.producer.get(t) for t in results}
    groups = {bounds.group_of(t) for t in results}
    if None in makers or not len(makers) == len(groups) == len(results) <= _MOST_RESULTS:
        return together
    beside = {t: _beside(bounds, t, results) for t in results}
    return min((_if_last(bounds, r, results, beside, together) for r in results), default=together)


def _if_last(
    bounds: RegionBounds, last: int, results: Collection[int], beside: dict[int, tuple[int, list[int]]], together: int
) -> int:
    """What is there at the end of a result that is the last, or at that of whichever is before it."""
    others = [t for t in results if t != last]
    before = set[int]().union(*(bounds.before(t) for t in others)) - set(results)
    rest = together - bounds.bytes_of([last])
    counts = []
    for q in others:
        extra, reads = beside[q]
        taken = {bounds.group_of(t) for t in (*others, *reads)}
        counts.append(rest + extra + _Threads(bounds, before, taken).bytes_to(last))
    return max(together + beside[last][0], min(counts, default=0))


def _beside(bounds: RegionBounds, result: int, results: Collection[int]) -> tuple[int, list[int]]:
    """Bytes beside the results when one is whole: what its op is given all of, or the pieces that are joined; and what
    it is given."""
    op = bounds.graph.op_by_id[bounds.graph.producer[result]]
    groups = {bounds.group_of(t) for t in results}
    reads = [t for t in op.inputs if bounds.reads_all(op.id, t) and bounds.group_of(t) not in groups]
    extra = 0 if bounds.in_place(op) else bounds.bytes_of(reads)
    return (min(extra, bounds.bytes_of([result])) if bounds.axes(op.id) else extra), reads


class _Threads:
    """Disjoint ways back from elements of a result to those of a tensor that is made before.

    Parameters
    ----------
    made
        Tensors that are made.
    taken
        Groups whose bytes are counted already.
    """

    def __init__(self, bounds: RegionBounds, made: Collection[int], taken: Collection[int]) -> None:
        self.bounds, self.graph, self.made, self.taken = bounds, bounds.graph, made, taken
        self.known: dict[tuple[int, Box], int] = {}

    def bytes_to(self, tensor: int) -> int:
        """Bytes of as many ways as lead to a tensor; 0: none were found."""
        return self._width(tensor, self.graph.tensor_by_id[tensor].shape or ())

    def _width(self, tensor: int, box: Box) -> int:
        key = (tensor, box)
        if key not in self.known:
            self.known[key] = 0
            self.known[key] = self._of(tensor, box)
        return self.known[key]

    def _of(self, tensor: int, box: Box) -> int:
        bounds, own = self.bounds, self.graph.tensor_by_id[tensor]
        if bounds.group_of(tensor) in self.taken or not bounds.bytes_of([tensor]) or not own.shape or 0 in own.shape:
            return 0
        there = own.size // prod(own.shape) * prod(box)
        if tensor in self.made:
            return there
        op = self.graph.producer.get(tensor)
        known = None if op is None else bounds.cutter.meaning(op)
        if op is None or known is None or len(self.graph.op_by_id[op].outputs) != 1:
            return 0
        most = 0
        for _, read, dims in bounds.cutter.reads(op):
            before = self._before(known.access.outputs[0], dims, box, self.graph.tensor_by_id[read].shape or ())
            if before is not None and (bounds.group_of(read) != bounds.group_of(tensor) or before == box):
                most = max(most, min(there, self._width(read, before)))
        return most

    @staticmethod
    def _before(made: tuple[int | None, ...], dims: tuple[Index | None, ...], box: Box, shape: Box) -> Box | None:
        """Rows of an operand, from the first on, so that each element of the result that goes on is given one of its
        own; None: no such rows are known."""
        if len(dims) != len(shape):
            return None
        rows, paired, free = [1] * len(shape), set[int](), list[int]()
        for d, (index, size) in enumerate(zip(dims, shape, strict=True)):
            if index is not None and index.axis in made:
                at = made.index(index.axis)
                if at in paired or not _own_place(index, box[at], size):
                    return None
                paired.add(at)
                rows[d] = box[at]
            elif index is not None and index.axis == FIXED:
                return None
            elif size > 1:
                free.append(d)
        needed = prod(count for d, count in enumerate(box) if d not in paired)
        if needed > 1 and len(free) == 1:
            rows[free[0]] = min(needed, shape[free[0]])
        return tuple(rows)


def _own_place(index: Index, rows: int, size: int) -> bool:
    """Whether each of some rows is given the row at its own place."""
    return rows <= size and all(a <= row < b for row in range(rows) for a, b in (index.need(row, row + 1, size),))
