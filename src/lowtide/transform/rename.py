"""An op that reads other tensors, and the graph that is left of some ops: what every change of a graph needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lowtide.graph import Graph, Kind, Op


def reading(op: Op, instead: Mapping[int, int]) -> Op:
    """The op with tensors in place of others among what it reads, at every position. `instead`: id of a tensor to
    the id of what is read in its place; others stay."""
    if instead.keys().isdisjoint(op.inputs):
        return op
    operands = tuple(None if t is None else instead.get(t, t) for t in op.operands)
    overwrites = None if op.overwrites is None else tuple(instead.get(t, t) for t in op.overwrites)
    inputs = tuple(instead.get(t, t) for t in op.inputs)
    return replace(op, inputs=inputs, operands=operands, overwrites=overwrites)


def of_ops(graph: Graph, ops: Sequence[Op]) -> Graph:
    """The graph of some ops, with the tensors that they, the inputs, outputs and constants need. It is a graph of
    its own, to measure on: it is tied to no file, and its ops are of no dialect. A tensor that lay in one that is
    gone has storage of its own."""
    used = {t for op in (*ops, *graph.folded) for t in (*op.inputs, *op.outputs)}
    ends = (Kind.INPUT, Kind.OUTPUT, Kind.CONSTANT)
    kept = {t.id for t in graph.tensors if t.id in used or t.kind in ends}
    tensors = tuple(
        t if t.alias_of is None or t.alias_of in kept else replace(t, alias_of=None, alias_offset=0)
        for t in graph.tensors
        if t.id in kept
    )
    return Graph(graph.name, tensors, tuple(ops), graph.folded)
