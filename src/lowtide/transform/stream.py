"""A part graph with some tensors in slow memory throughout: their slices and joins are transfers.

A region reads outside tensors by slices, and materialises its results by joins. If the fast memory has no room for the
tensor in addition to a slice, the tensor need never be resident: a slice is a load of just those rows, and each operand
of a join is stored when it is done. Such a tensor is **streamed**::

    T -> Slice -> q -> part          q is loaded: an input of its own for its consumers
    part -> p -> Join -> T           p is stored: an output of its own
    T -> op                          T is loaded in full, as an input is

The result is an ordinary `Graph` of the same ops, in which slices and joins of streamed tensors touch no memory and
only order other ops. Their transfers do not depend on order or residency: `Stream` has the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Box
from lowtide.transform.parts import PartGraph


@dataclass(frozen=True)
class Stream:
    """Additional transfers of a streamed tensor in bytes: stored in slices or in full, and loaded for the first time,
    likewise."""

    tensor: int
    stored_bytes: int
    loaded_bytes: int


@dataclass(frozen=True)
class StreamedGraph:
    """A graph whose slices and joins of some tensors are transfers."""

    graph: Graph  # the same ops, in the same order; transfers touch no memory
    streams: tuple[Stream, ...]  # cost of each streamed tensor

    @property
    def bytes(self) -> int:
        """What the streams move, whatever the order."""
        return sum(s.stored_bytes + s.loaded_bytes for s in self.streams)


def streamable(parts: PartGraph, shared: Iterable[int] = ()) -> list[int]:
    """Tensors of the graph before tiling that are sliced or concatenated, the largest first. `shared`: tensors that
    share their memory with others: these are never streamed."""
    graph, apart = parts.graph, set(shared)
    ids = {op.operands[0] for op in graph.ops if _role(parts, op) == "slice"}
    ids |= {op.outputs[0] for op in graph.ops if _role(parts, op) == "join"}
    listed = [t for t in ids if t is not None and t not in parts.slices and t not in apart]
    return sorted(listed, key=lambda t: (-graph.tensor_by_id[t].size, t))


def streamed(parts: PartGraph, tensors: Iterable[int]) -> StreamedGraph | None:
    """The graph with these tensors streamed; None where rows would go from one of them to another unread. `tensors`:
    some of `streamable`."""
    return _Streaming(parts, tensors).run()


def _role(parts: PartGraph, op: Op) -> str:
    part = parts.parts.get(op.id)
    return "whole" if part is None else part.role


class _Streaming:
    def __init__(self, parts: PartGraph, tensors: Iterable[int]) -> None:
        self.parts, self.graph = parts, parts.graph
        self.tensors = dict.fromkeys(tensors)
        self.slices = [o for o in self.graph.ops if _role(parts, o) == "slice" and o.operands[0] in self.tensors]
        self.joins = self._joins()
        self.transfers = {op.id for op in (*self.slices, *self.joins)}

    def _joins(self) -> list[Op]:
        """Joins into streamed tensors, and those of groups that only they read, the last first."""
        found: dict[int, Op] = {}
        for op in reversed(self.graph.ops):
            if _role(self.parts, op) != "join":
                continue
            t = op.outputs[0]
            readers = self.graph.consumers.get(t, ())
            group = t in self.parts.slices and readers and all(r in found for r in readers)
            if t in self.tensors or group:
                found[op.id] = op
        return list(found.values())

    def run(self) -> StreamedGraph | None:
        graph, producer = self.graph, self.graph.producer
        rows = {op.outputs[0] for op in self.slices}
        groups = {op.outputs[0] for op in self.joins}
        stored = [t for op in self.joins for t in op.inputs if t not in groups]
        if any(t not in producer or t in rows or t in self.tensors for t in stored):
            return None
        ops = tuple(self._op(op, rows) for op in graph.ops)
        read = {t for op in (*ops, *graph.folded) for t in op.inputs}
        kinds = dict.fromkeys(stored, Kind.OUTPUT) | dict.fromkeys(rows, Kind.INPUT)
        kinds |= {t: Kind.INPUT if t in groups or t not in producer else Kind.OUTPUT for t in self.tensors}
        gone = {t for t in groups if t not in read}
        kept = (replace(t, kind=kinds.get(t.id, t.kind)) for t in graph.tensors if t.id not in gone)
        return StreamedGraph(replace(graph, tensors=tuple(kept), ops=ops), tuple(self._streams(read)))

    def _op(self, op: Op, rows: set[int]) -> Op:
        producer = self.graph.producer
        cut = [t for t in op.inputs if t in rows or t in self.tensors]
        if op.id not in self.transfers and not cut:
            return op
        before = (producer[t] for t in (op.inputs if op.id in self.transfers else cut) if t in producer)
        after = tuple(dict.fromkeys((*op.after, *before)))
        if op.id not in self.transfers:
            return replace(op, after=after)
        return replace(op, inputs=(), outputs=(), operands=(), after=after, workspace=0)

    def _streams(self, read: set[int]) -> list[Stream]:
        sizes, producer = self.graph.tensor_by_id, self.graph.producer
        leaves = self._stored()
        loads: dict[int, list[int]] = {t: [] for t in self.tensors}
        for op in self.slices:
            loads[op.operands[0] or 0].append(op.outputs[0])
        result = []
        for t in self.tensors:
            full, maker = sizes[t], producer.get(t)
            stored = 0 if maker is None else leaves.get(t, full.size)
            loaded = sum(sizes[q].size for q in loads[t])
            loaded_full = t in read and (maker is None or maker in self.transfers)
            loaded += full.size * loaded_full
            if maker is None:
                shape = full.shape or ()
                boxes = [self.parts.slices[q].box for q in loads[t]]
                boxes += [tuple((0, size) for size in shape)] * loaded_full
                loaded -= -(-full.size * elements_of(boxes) // max(1, prod(shape)))
            if full.kind is Kind.OUTPUT:
                stored -= full.size
            result.append(Stream(t, max(0, stored), max(0, loaded)))
        return result

    def _stored(self) -> dict[int, int]:
        """Bytes of the stored slices, of each streamed tensor that is concatenated."""
        joins = {op.outputs[0]: op for op in self.joins}
        sizes = self.graph.tensor_by_id

        def leaves(op: Op) -> int:
            return sum(leaves(joins[t]) if t in joins else sizes[t].size for t in op.inputs)

        return {t: leaves(op) for t, op in joins.items() if t in self.tensors}


def elements_of(boxes: Sequence[Box]) -> int:
    """Elements that are in some of these boxes, each counted once."""
    if not boxes:
        return 0
    if not boxes[0]:
        return 1
    ends = sorted({end for box in boxes for end in box[0]})
    total = 0
    for a, b in pairwise(ends):
        inner = [box[1:] for box in boxes if box[0][0] <= a and b <= box[0][1]]
        total += (b - a) * elements_of(list(dict.fromkeys(inner)))
    return total
