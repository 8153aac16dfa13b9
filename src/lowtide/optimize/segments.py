"""Segments of an order: the ops between two tensors that alone are live, as graphs of their own.

A segment graph has its ops, one op for the producers of its first tensor, and one that reads its last tensor. If the
previous segment forwards slices, several such ops make one slice each. If the segment forwards slices itself, the last
op reads those. Then the first tensor is freed while the last one grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.piece import Part, Piece
from lowtide.target import Target
from lowtide.transform import hand_on, runs
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.statistics import ROWS_DIM

_BEFORE, _BEHIND = "lowtide::Before", "lowtide::Behind"


@dataclass(frozen=True)
class Mark:
    """A place in an order where one tensor is live, apart from small ones."""

    position: int  # ops that have run
    tensor: int | None  # its id; None at the two ends
    size: int  # bytes


def find_marks(graph: Graph, order: Sequence[int], small: int) -> list[Mark]:
    """Places in an order where one tensor above `small` bytes is live, the two ends included. `order`: op ids."""
    at = {op: k for k, op in enumerate(order)}
    last = {t.id: max((at[o] for o in graph.consumers.get(t.id, ())), default=-1) for t in graph.tensors}
    first = {t.id: at[graph.producer[t.id]] if t.id in graph.producer else -1 for t in graph.tensors}
    live: list[list[int]] = [[] for _ in range(len(order) + 1)]
    for t in graph.tensors:
        if t.kind is not Kind.CONSTANT and t.size > small:
            end = len(order) if t.kind is Kind.OUTPUT else last[t.id]
            for k in range(first[t.id] + 1, end + 1):
                live[k].append(t.id)
    size = {t.id: t.size for t in graph.tensors}
    inner = [Mark(k, live[k][0], size[live[k][0]]) for k in range(1, len(order)) if len(live[k]) == 1]
    return [Mark(0, None, 0), *inner, Mark(len(order), None, 0)]


def segment_graph(graph: Graph, ops: Sequence[int], result: int | None) -> Graph:
    """The graph of a segment. `ops`: ids, in order. `result`: what it makes for others; None: outputs of the graph."""
    within = {t for o in ops for t in graph.op_by_id[o].outputs}
    read = dict.fromkeys(t for o in ops for t in graph.op_by_id[o].inputs if t not in within)
    kinds = {t: graph.tensor_by_id[t].kind for t in read}
    before = tuple(t for t, kind in kinds.items() if kind in (Kind.ACTIVATION, Kind.OUTPUT))
    fresh_op = max((op.id for op in (*graph.ops, *graph.folded)), default=-1) + 1
    fresh = max((t.id for t in graph.tensors), default=-1) + 1
    own = [graph.op_by_id[o] for o in ops]
    tensors = [graph.tensor_by_id[t] for t in (*read, *within)]
    if before:
        own.insert(0, Op(fresh_op, (), before, type=_BEFORE, operands=()))
    if result is not None:
        tensors.append(Tensor(fresh, 4, Kind.OUTPUT, shape=(1,), dtype="float32"))
        own.append(Op(fresh_op + 1, (result,), (fresh,), type=_BEHIND, operands=(result,)))
    keep = [replace(t, kind=Kind.ACTIVATION) if t.id in before else t for t in tensors]
    return replace(graph, tensors=tuple(keep), ops=tuple(own), folded=(), file_order=())


def with_ends(
    graph: Graph, regions: Sequence[Region], order: Sequence[int], ends: tuple[int | None, int | None], chunks: int
) -> PartGraph:
    """A segment in tiles. `graph`: the segment's, with all runs. `order`: op ids. `ends`: its first and last tensor,
    where these are forwarded in slices. `chunks`: slices of the first."""
    parts = apply(Cutter(graph), regions, order)
    first, last = ends
    if first is not None:
        parts = _made_in_slices(graph, parts, first, chunks)
    if last is not None:
        parts = _read_in_slices(parts, last)
    return hand_on.hand_on(graph, parts)


def peak_of(graph: Graph, target: Target) -> int:
    """Most bytes live in a graph's own order."""
    return profile(memory_model(graph, target), range(len(graph.ops))).peak


def _made_in_slices(cut: Graph, parts: PartGraph, tensor: int, chunks: int) -> PartGraph:
    """The op for all producers becomes one op per slice of a tensor, and one for the others."""
    graph, full = parts.graph, cut.tensor_by_id[tensor]
    shape = full.shape or ()
    rows = tuple(shape)[ROWS_DIM : ROWS_DIM + 1][0]
    ends = [rows * (k + 1) // chunks for k in range(chunks)]
    fresh_op = max(op.id for op in graph.ops) + 1
    fresh = max(t.id for t in (*graph.tensors, *cut.tensors)) + 1
    slices, ops, tensors = dict(parts.slices), list[Op](), list[Tensor]()
    for k, (a, b) in enumerate(zip((0, *ends), ends, strict=False)):
        if a < b:
            own = (*shape[:ROWS_DIM], b - a, *shape[ROWS_DIM + 1 :])
            tensors.append(Tensor(fresh + k, full.size * (b - a) // rows, shape=own, dtype=full.dtype))
            box = tuple((a, b) if d == ROWS_DIM else (0, size) for d, size in enumerate(shape))
            slices[fresh + k] = Piece(tensor, box)
            ops.append(Op(fresh_op + k, (), (fresh + k,), type=_BEFORE, operands=()))
    others = tuple(t for t in graph.op_by_id[graph.producer[tensor]].outputs if t != tensor)
    if others:
        ops.append(Op(fresh_op + chunks, (), others, type=_BEFORE, operands=()))
    made = tuple(t.id for t in tensors)
    ops.append(Op(fresh_op + chunks + 1, made, (tensor,), type="Concat", operands=made))
    left = [op for op in graph.ops if op.id != graph.producer[tensor]]
    result = replace(graph, tensors=(*graph.tensors, *tensors), ops=(*ops, *left))
    roles = {**parts.parts, fresh_op + chunks + 1: Part("join")}
    return replace(parts, graph=result, slices=slices, parts=roles)


def _read_in_slices(parts: PartGraph, tensor: int) -> PartGraph:
    """The op for all consumers reads the slices of a tensor."""
    graph = parts.graph
    join = graph.op_by_id[graph.producer[tensor]]
    if parts.parts.get(join.id) != Part("join"):
        return parts
    readers = graph.consumers.get(tensor, ())
    if len(readers) != 1:
        return parts
    ops = [
        replace(op, inputs=join.inputs, operands=join.inputs) if op.id == readers[0] else op
        for op in graph.ops
        if op.id != join.id
    ]
    kept = tuple(t for t in graph.tensors if t.id != tensor)
    return replace(parts, graph=replace(graph, tensors=kept, ops=tuple(ops)))


def as_runs(graph: Graph, sequence: Sequence[int]) -> runs.Runs:
    """All runs of a segment's ops, between the ops for the rest of the graph."""
    ends = [op.id for op in graph.ops if op.type == _BEFORE], [op.id for op in graph.ops if op.type == _BEHIND]
    return runs.apply(graph, [graph.index_of[op] for op in (*ends[0], *sequence, *ends[1])])
