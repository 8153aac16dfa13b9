"""Forwarding: slices that one region makes go to consumers of a tensor that is never materialised.

    join(a, b, c) -> x;  slice(x, 3:7)     =>     join(slice(b, ...), slice(c, ...))  or a slice itself, if it fits

A join copies: its operands and its result are live together. If all consumers of the result are slices along one
dimension, they read the operands instead. Each operand is freed after its last reader, while the results of the readers
grow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Box
from lowtide.ops.index import Range
from lowtide.ops.part import adapter
from lowtide.transform.cut import Cutter
from lowtide.transform.part_builder import Builder
from lowtide.transform.parts import PartGraph


class _Changed(Builder):
    """A part graph under change: its new ops and tensors, with unused names and ids."""

    def __init__(self, cut: Graph, parts: PartGraph) -> None:
        super().__init__(Cutter(cut), parts.graph)
        self.known = parts.slices
        for t in sorted(parts.numbers):
            tensor = parts.graph.tensor_by_id[t]
            if len(tensor.shape or ()) == 1:
                self.constants.setdefault((-1, *tensor.integers), t)


def may_split(cut: Graph, parts: PartGraph) -> frozenset[int]:
    """Tensors whose joins can be removed, since all consumers can read slices; of formats with ``int64`` literals."""
    spell = adapter(cut)
    if spell is None or spell.NUMBERS != "int64":
        return frozenset()
    return frozenset(op.outputs[0] for op in parts.graph.ops if _join_dim(cut, parts, op) is not None)


def hand_on(cut: Graph, parts: PartGraph, split: Collection[int] | None = None) -> PartGraph:
    """The parts without the joins of some tensors. `cut`: the graph before tiling. `split`: the tensors; default all
    that may be. Raises `ValueError`: one of them has to be materialised."""
    able = may_split(cut, parts)
    split = able if split is None else split
    if not able.issuperset(split):
        raise ValueError(f"tensor {min(set(split) - able)} has to be materialised")
    candidates = ((op, _join_dim(cut, parts, op)) for op in parts.graph.ops if not able.isdisjoint(op.outputs))
    lost = {op.outputs[0]: (op, dim) for op, dim in candidates if dim is not None and op.outputs[0] in split}
    if not lost:
        return parts
    at = _Changed(cut, parts)
    joins = {op.id for op, _ in lost.values()}
    slices = sorted(op.id for op in parts.graph.ops if op.inputs and op.inputs[0] in lost and op.id not in joins)
    instead: dict[int, int] = {}
    taken = {}
    for o in slices:  # ids hang on this order alone, not on that of the ops
        op = parts.graph.op_by_id[o]
        taken[o] = _taken(at, *lost[op.inputs[0]], op, instead)
    ops = [own for op in parts.graph.ops if op.id not in joins for own in taken.get(op.id, [_reading(op, instead)])]
    return replace(_result(at, parts, ops), split=frozenset(lost))


def _join_dim(cut: Graph, parts: PartGraph, op: Op) -> int | None:
    """The dimension along which an op joins a tensor that only slices read; None: it does not."""
    part = parts.parts.get(op.id)
    if part is None or part.role != "join" or op.outputs[0] not in cut.tensor_by_id:
        return None
    full = cut.tensor_by_id[op.outputs[0]]
    readers = [parts.graph.op_by_id[o] for o in parts.graph.consumers.get(full.id, ())]
    shape = full.shape or ()
    if full.kind is Kind.OUTPUT or not readers:
        return None
    dims = _cut_dims(parts.slices[op.inputs[0]].box, shape)
    for reader in readers:
        own = parts.parts.get(reader.id)
        if own is None or own.role != "slice" or _cut_dims(parts.slices[reader.outputs[0]].box, shape) != dims:
            return None
    return dims[0] if len(dims) == 1 else None


def _cut_dims(box: Box, shape: Sequence[int]) -> list[int]:
    return [d for d, (rows, size) in enumerate(zip(box, shape, strict=True)) if rows != (0, size)]


def _taken(at: _Changed, join: Op, dim: int, op: Op, instead: dict[int, int]) -> list[Op]:
    """The ops that replace a slice of an unmaterialised tensor; `instead`: tensors to read in the place of others."""
    known, made = at.known, op.outputs[0]
    first, end = known[made].box[dim]
    held = [(t, known[t].box[dim]) for t in join.inputs]
    held = [(t, rows) for t, rows in held if rows[0] < end and first < rows[1]]
    if [rows for _, rows in held] == [(first, end)]:
        instead[made] = held[0][0]
        return []
    ops, operands = [], []
    for t, rows in held:
        wanted = (max(first, rows[0]), min(end, rows[1]))
        if wanted == rows:
            operands.append(t)
            continue
        box = known[made].box
        box = (*box[:dim], wanted, *box[dim + 1 :])
        out = made if len(held) == 1 else at.slice_of(join.outputs[0], box, "rows")
        ops.append(_slice(at, t, known[t].box, dim, wanted, out, op.name))
        operands.append(out)
    if len(held) > 1:
        ops.append(at.glue(at.spell.joining(dim), "join", operands, made, op.name))
    return ops


def _slice(at: _Changed, read: int, box: Box, dim: int, rows: Range, out: int, name: str) -> Op:
    begin = box[dim][0]
    shape = tuple(b - a for a, b in box)
    glue = at.spell.slicing(at.old, {dim: (rows[0] - begin, rows[1] - begin)}, shape)
    return at.glue(glue, "slice", [read], out, name)


def _reading(op: Op, instead: Mapping[int, int]) -> Op:
    if not any(t in instead for t in op.inputs):
        return op
    operands = tuple(None if t is None else instead.get(t, t) for t in op.operands)
    return replace(op, inputs=tuple(instead.get(t, t) for t in op.inputs), operands=operands)


def _result(at: _Changed, parts: PartGraph, ops: list[Op]) -> PartGraph:
    graph = parts.graph
    used = {t for op in (*ops, *graph.folded) for t in (*op.inputs, *op.outputs)}
    new = parts.numbers | parts.slices.keys()
    kept = [t for t in graph.tensors if t.id in used or (t.kind is not Kind.ACTIVATION and t.id not in new)]
    tensors = [t for t in at.tensors if t.id in used]
    left = {op.id for op in ops}
    roles = {o: part for o, part in {**parts.parts, **at.parts}.items() if o in left}
    slices = {t: origin for t, origin in {**parts.slices, **at.slices}.items() if t in used}
    numbers = frozenset((parts.numbers | set(at.constants.values())) & used)
    changed = replace(graph, tensors=(*kept, *tensors), ops=tuple(ops))
    return replace(parts, graph=changed, slices=slices, parts=roles, numbers=numbers)
