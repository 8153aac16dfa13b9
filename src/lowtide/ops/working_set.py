"""The least working set of any cut: what each op needs for its smallest part, whatever is done around it (bound B0).

A part of an op needs its operands' rows and its own rows in memory at once. However a model is cut along one axis an
op, without running anything twice, all rows of an op run that others need, so the largest of these working sets over
the ops, each along its best axis, is a lower bound; ops some rows of which may have no consumer are left out. When
the first part of an op runs, all rows of a graph input that its parts need are still live, in full or in slices; later
parts may be given slices that are left. The graph's inputs together, which are there when it begins, and its results
together, which are there when it ends, are bounds, too, unless they are streamed. Of tensors that are views of one
another the largest alone counts. Weights are not counted. It holds where results and operands are live together; with
`overlap` also where they may take its place. Weak, and cheap: it says what cuts cannot give, and which op is in the
way. Cuts along two axes at once can go below it, and so can products by sections that are cut along their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Access, Box, Part, box_elements
from lowtide.ops.kinds import kind_of
from lowtide.ops.meaning import Meaning, meaning


@dataclass(frozen=True, slots=True)
class OpWorkingSet:
    """Least working set of one part of an op."""

    op: int  # id
    size: int  # bytes of the smallest part along the best axis
    untiled: int  # bytes of the op uncut, counted the same way
    axis: int | None = None  # the best axis, one of `Access.sizes`; None: not cut
    opaque: str | None = None  # why nothing is known of the op; None if something is


@dataclass(frozen=True, slots=True)
class WorkingSetBound:
    """Least working set of a model under any cut."""

    size: int  # bytes
    op: int | None  # id of the op that needs them; None: the inputs or the results do
    ops: tuple[OpWorkingSet, ...]  # every op that is no view


def working_set_bound(graph: Graph, *, streamed: bool = False, overlap: bool = False) -> WorkingSetBound:
    """Lower bound on the peak of a graph over all cuts along one axis an op (B0). `streamed`: whether inputs come, and
    results go, part by part; else each is live in full from its start. `overlap`: whether a result may lie where an
    operand lay that is read for the last time."""
    meanings = {op.id: meaning(graph, op) for op in graph.ops}
    share, all_run = _roots(graph), _all_run(graph, meanings)
    ops = tuple(
        _op_working_set(graph, op, meanings[op.id], share, streamed=streamed or op.id not in all_run, overlap=overlap)
        for op in graph.ops
        if not _is_view(op)
    )
    worst = max((part for part in ops if part.op in all_run), key=lambda part: part.size, default=None)
    ends = 0
    if not streamed:
        read = {t for op in graph.ops for t in op.inputs}
        inputs = {t.id: t.size for t in graph.tensors if t.kind is Kind.INPUT and t.id in read}
        results = {t.id: t.size for t in graph.tensors if t.kind is Kind.OUTPUT}
        ends = max(_together(inputs, share), _together(results, share))
    if worst is None or ends >= worst.size:
        return WorkingSetBound(ends, None, ops)
    return WorkingSetBound(worst.size, worst.op, ops)


def _op_working_set(
    graph: Graph, op: Op, op_meaning: Meaning | None, share: Mapping[int, int], *, streamed: bool, overlap: bool
) -> OpWorkingSet:
    """Least working set of one part of an op, over the axes that it can be cut along."""

    def need(reads: Mapping[int, int], writes: int) -> int:
        read = _together(reads, share)
        return max(read, writes) if overlap else read + writes

    untiled = need(_reads(graph, op, None, {}), _writes(graph, op, None, {}))
    if op_meaning is None:
        return OpWorkingSet(op.id, untiled, untiled, opaque="ops of no known format")
    if op_meaning.opaque is not None:
        return OpWorkingSet(op.id, untiled, untiled, opaque=op_meaning.opaque)
    best, access = OpWorkingSet(op.id, untiled, untiled), op_meaning.access
    for axis in access.cuttable():
        grains = list(_grains(access, axis))
        size = max(need(_reads(graph, op, access, part), _writes(graph, op, access, part)) for part in grains)
        if not streamed:  # the first part: of what its parts need of inputs nothing is gone
            inputs = _inputs(graph, op, access, axis)
            size = max(size, need(inputs, min(_writes(graph, op, access, part) for part in grains)))
        if size < best.size:
            best = OpWorkingSet(op.id, size, untiled, axis)
    return best


def _together(sizes: Mapping[int, int], share: Mapping[int, int]) -> int:
    """Bytes of some tensors, of views of one tensor those of the largest."""
    groups: dict[int, int] = {}
    for t, size in sizes.items():
        groups[share[t]] = max(size, groups.get(share[t], 0))
    return sum(groups.values())


def _roots(graph: Graph) -> dict[int, int]:
    """Of each tensor the one that it is a view of, at the end of all views."""
    root = {t.id: t.id if t.alias_of is None else t.alias_of for t in graph.tensors}
    for op in graph.ops:
        if _is_view(op) and op.inputs:
            root |= dict.fromkeys(op.outputs, op.inputs[0])

    def end(t: int) -> int:
        while root[t] != t:
            t = root[t]
        return t

    return {t: end(t) for t in root}


def _all_run(graph: Graph, meanings: Mapping[int, Meaning | None]) -> set[int]:
    """Ops all rows of which run, however they and others are cut: what has no consumer is never made."""
    found: set[int] = set()
    for op in reversed(graph.ops):
        own = meanings[op.id]
        readers = {(r, t) for t in op.outputs for r in graph.consumers.get(t, ())}
        result = any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in op.outputs)
        opaque = own is None or own.opaque is not None or not own.access.cuttable()
        given = (r in found and _is_given_all(graph, graph.op_by_id[r], meanings[r], t) for r, t in readers)
        if opaque or result or not readers or any(given):
            found.add(op.id)
    return found


def _is_given_all(graph: Graph, op: Op, op_meaning: Meaning | None, tensor: int) -> bool:
    """Whether the parts of an op along any axis are given all of a tensor together."""
    if op_meaning is None or op_meaning.opaque is not None or not op_meaning.access.cuttable():
        return True
    access = op_meaning.access
    own = graph.tensor_by_id[tensor]
    reads = [i for i, t in enumerate(op.operands or op.inputs) if t == tensor]
    return any(
        all(_bytes(own, _covered(graph, access, i, tensor, axis)) == own.size for axis in access.cuttable())
        for i in reads
    )


def _covered(graph: Graph, access: Access, operand: int, tensor: int, axis: int) -> Box:
    """Rows of an operand that all parts along an axis are given together; none where there are gaps between them."""
    shape = graph.tensor_by_id[tensor].shape or ()
    box = list(access.need(operand, shape, {axis: (0, access.sizes[axis])}))
    for d, index in enumerate(access.inputs[operand] or ()):
        if index is None or index.axis != axis:
            box[d] = (0, shape[d])
        elif not 0 < index.num <= index.hi - index.lo + index.den:
            box[d] = (0, 0)
    return tuple(box)


def _inputs(graph: Graph, op: Op, access: Access, axis: int) -> dict[int, int]:
    """Bytes of graph inputs that all parts of an op along an axis are given together."""
    sizes: dict[int, int] = {}
    for i, t in enumerate(op.operands or op.inputs):
        if t is not None and graph.tensor_by_id[t].kind is Kind.INPUT:
            sizes[t] = max(sizes.get(t, 0), _bytes(graph.tensor_by_id[t], _covered(graph, access, i, t, axis)))
    return sizes


def _is_view(op: Op) -> bool:
    kind = kind_of(op.type)
    return kind is not None and kind.view


def _grains(access: Access, axis: int) -> Iterator[Part]:
    """The first grain of an axis, the last, and one between, which run if all rows do: the largest counts."""
    size, grain = access.sizes[axis], access.grain_of(axis)
    for at in dict.fromkeys((0, size // grain // 2 * grain, (size - 1) // grain * grain)):
        yield {axis: (at, min(size, at + grain))}


def _reads(graph: Graph, op: Op, access: Access | None, part: Part) -> dict[int, int]:
    """Bytes of each operand that a part is given; None: the op uncut."""
    tensors = graph.tensor_by_id
    reads: dict[int, int] = {}
    for i, t in enumerate(op.operands or op.inputs):
        if t is None or tensors[t].kind is Kind.CONSTANT:
            continue
        if access is not None and i in access.once and not part.keys().isdisjoint(access.reduce):
            reads.setdefault(t, 0)  # for one part alone
            continue
        box = None if access is None else access.need(i, tensors[t].shape or (), part)
        reads[t] = max(reads.get(t, 0), _bytes(tensors[t], box))
    for t in op.inputs:  # what bodies capture is no operand
        if t not in reads and tensors[t].kind is not Kind.CONSTANT:
            reads[t] = tensors[t].size
    return reads


def _writes(graph: Graph, op: Op, access: Access | None, part: Part) -> int:
    """Bytes that a part makes; None: the op uncut."""
    made = [graph.tensor_by_id[t] for t in op.outputs]
    if access is None:
        return sum(tensor.size for tensor in made)
    return sum(_bytes(tensor, access.written(j, tensor.shape or (), part)) for j, tensor in enumerate(made))


def _bytes(tensor: Tensor, box: Box | None) -> int:
    """Bytes of a box of a tensor, rounded up; of all of it without one."""
    if box is None or not tensor.size:
        return tensor.size
    elements = 1
    for size in tensor.shape or ():
        elements *= size
    return -(-tensor.size * box_elements(box) // max(1, elements))
