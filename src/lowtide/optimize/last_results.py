"""Lower bound at the end of a graph: live bytes when the last outputs are complete.

The op that ends last is live with its operands and all outputs. The plan chooses the last output. Then the output
before it is complete earlier, while the sources of the last one are live::

    outputs p, q, r; r is the last, q before it        at q:  p  q  sources of q  sources of r
                                                       at r:  p  q  r  sources of r

The sources of an output are counted by threads: disjoint paths of elements back from it through earlier ops, to a
tensor that another output needs, too. Some element of each path is live. Theorem and proof: docs/proofs.md, section 15.
`lowtide.verify.check.last_results` lists the paths one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Protocol

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.forms import Concat, Reshape
from lowtide.ops.index import FIXED, Index
from lowtide.transform.cut import Cutter

_MOST_RESULTS = 64

Box = tuple[int, ...]  # how many rows of each dimension, from the first on

Ways = tuple[int, frozenset[int]]  # bytes, and the groups of all tensors on the ways

NONE: Ways = (0, frozenset())


class Facts(Protocol):
    """The inputs of bounds at single ops (`lowtide.optimize.region_bound`)."""

    cutter: Cutter
    graph: Graph

    def bytes_of(self, tensors: Iterable[int]) -> int:
        """Of some tensors, of those that may share a storage of the largest alone."""
        ...

    def group_of(self, tensor: int) -> int:
        """The same number for all tensors that may share a storage."""
        ...

    def before(self, tensor: int) -> set[int]:
        """Tensors all of which are made in every plan before all of one is, and that one."""
        ...

    def is_given_all(self, op: int, tensor: int) -> bool:
        """Whether all of a tensor is given to an op, however it runs."""
        ...

    def may_be_cut(self, op: int) -> bool:
        """Whether an op can run in parts."""
        ...

    def in_place(self, op: Op) -> bool:
        """Whether what an op makes may lie where what it reads lay."""
        ...


def last_results(bounds: Facts) -> int:
    """Bytes that are live when the last output, or the one before, is complete; at least all outputs."""
    graph = bounds.graph
    results = [t.id for t in graph.tensors if t.kind is Kind.OUTPUT]
    together = bounds.bytes_of(results)
    makers = {graph.producer.get(t) for t in results}
    groups = {bounds.group_of(t) for t in results}
    if None in makers or not len(makers) == len(groups) == len(results) <= _MOST_RESULTS:
        return together
    live_with = {t: _live_with(bounds, t, results) for t in results}
    return min((_if_last(bounds, r, results, live_with, together) for r in results), default=together)


def _if_last(
    bounds: Facts, last: int, results: Collection[int], live_with: dict[int, tuple[int, list[int]]], together: int
) -> int:
    """The bound if `last` is the last output, over the outputs that may come before it."""
    others = [t for t in results if t != last]
    before = set[int]().union(*(bounds.before(t) for t in others)) - set(results)
    rest = together - bounds.bytes_of([last])
    counts = []
    for q in others:
        extra, reads = live_with[q]
        taken = {bounds.group_of(t) for t in (*others, *reads)}
        counts.append(rest + extra + _Threads(bounds, before, taken).bytes_to(last))
    return max(together + live_with[last][0], min(counts, default=0))


def _live_with(bounds: Facts, result: int, results: Collection[int]) -> tuple[int, list[int]]:
    """Bytes that are live with the outputs when one is complete: untiled operands of its op, or slices to concatenate;
    and these operands."""
    op = bounds.graph.op_by_id[bounds.graph.producer[result]]
    groups = {bounds.group_of(t) for t in results}
    reads = [t for t in op.inputs if bounds.is_given_all(op.id, t) and bounds.group_of(t) not in groups]
    extra = 0 if bounds.in_place(op) else bounds.bytes_of(reads)
    return (min(extra, bounds.bytes_of([result])) if bounds.may_be_cut(op.id) else extra), reads


class _Threads:
    """Disjoint paths back from elements of an output to elements of earlier tensors. `earlier`: tensors that are
    complete. `taken`: groups whose bytes are counted already."""

    def __init__(self, bounds: Facts, earlier: Collection[int], taken: Collection[int]) -> None:
        self.bounds, self.graph, self.earlier, self.taken = bounds, bounds.graph, earlier, taken
        self.known: dict[tuple[int, Box], Ways] = {}

    def bytes_to(self, tensor: int) -> int:
        """Bytes of as many ways as lead to a tensor; 0: none were found."""
        return self._ways(tensor, self._shape(tensor))[0]

    def _shape(self, tensor: int) -> Box:
        return self.graph.tensor_by_id[tensor].shape or ()

    def _ways(self, tensor: int, box: Box) -> Ways:
        key = (tensor, box)
        if key not in self.known:
            self.known[key] = NONE
            self.known[key] = self._of(tensor, box)
        return self.known[key]

    def _of(self, tensor: int, box: Box) -> Ways:
        bounds, own, shape = self.bounds, self.graph.tensor_by_id[tensor], self._shape(tensor)
        group = bounds.group_of(tensor)
        if group in self.taken or not bounds.bytes_of([tensor]) or not shape or 0 in shape:
            return NONE
        there = own.size // prod(shape) * prod(box)
        if tensor in self.earlier:
            return there, frozenset({group})
        op = self.graph.producer.get(tensor)
        known = None if op is None else bounds.cutter.meaning(op)
        if op is None or known is None or len(self.graph.op_by_id[op].outputs) != 1:
            return NONE
        reads = [(t, dims) for _, t, dims in bounds.cutter.reads(op)]
        if isinstance(known.form, Concat):
            found = self._side_by_side([t for t, _ in reads]) if box == shape else NONE
        elif isinstance(known.form, Reshape) and box == shape:
            found = self._best((t, self._shape(t)) for t, _ in reads)
        else:
            backs = [(t, self._before(known.access.outputs[0], dims, box, self._shape(t))) for t, dims in reads]
            found = self._best((t, b) for t, b in backs if b is not None and (bounds.group_of(t) != group or b == box))
        return min(there, found[0]), found[1] | {group}

    def _best(self, backs: Iterable[tuple[int, Box]]) -> Ways:
        return max((self._ways(t, box) for t, box in backs), key=lambda ways: ways[0], default=NONE)

    def _side_by_side(self, operands: Sequence[int]) -> Ways:
        """All ways to operands of a join that have no group in common with those before."""
        total, groups = NONE
        for t in operands:
            size, through = self._ways(t, self._shape(t))
            if groups.isdisjoint(through):
                total, groups = total + size, groups | through
        return total, groups

    @staticmethod
    def _before(axes: tuple[int | None, ...], dims: tuple[Index | None, ...], box: Box, shape: Box) -> Box | None:
        """Rows of an operand, from the first on, so that each element of the result that goes on is given one of its
        own; None: no such rows are known."""
        if len(dims) != len(shape):
            return None
        rows, paired, free = [1] * len(shape), set[int](), list[int]()
        for d, (index, size) in enumerate(zip(dims, shape, strict=True)):
            if index is not None and index.axis in axes:
                at = axes.index(index.axis)
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
