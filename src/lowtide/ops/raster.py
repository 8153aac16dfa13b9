"""Kernels that make their result row by row: how far it may lie over what they read.

A row is all that a tensor has at one index of its *leading* dimension, the first one in memory with more than one row.
A kernel of this kind makes the result's rows from the first to the last, and reads nothing of row r of an input once a
later row of the result needs only rows above r. While it makes row r, it may write any byte of it::

    result    | 0 | 1 | 2 | r |                 ends at (r + 1) R
    input               | 0 | 1 | first(r) |    still needed from first(r) S on

so that the result has to begin ``max over r of (r + 1) R - first(r) S`` bytes or more below the input, R and S being
the bytes of a row. Which rows are needed says the op's access, whatever its type is. Source: Diagonal Memory
Optimisation (Blacker et al., 2020), for full rows and any access.

Where images lie with their channels last although the graph has them second (`channels_last`), their leading dimension
is another. An image is what a convolution or a pool slides over, or makes, and all that is tied to it by ops that keep
dimensions where they are. With `aliases_keep_file_layout`, tensors that lie in others, and those that these lie in, are
as the graph has them all the same: channels of a concat are one stretch of bytes there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Generic, TypeVar

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.forms import Channelwise, Concat, Convolution, Indexed, Pointwise, Pool, Split
from lowtide.ops.index import Index
from lowtide.ops.meaning import Meaning, meaning

T = TypeVar("T")


class _Memo(Generic[T]):
    """What was worked out of a graph, as long as that graph is there."""

    def __init__(self, make: Callable[[Graph], T]) -> None:
        self.make = make
        self.kept: dict[int, tuple[weakref.ref[Graph], T]] = {}

    def __call__(self, graph: Graph) -> T:
        entry = self.kept.get(id(graph))
        if entry is not None and entry[0]() is graph:
            return entry[1]
        number, made = id(graph), self.make(graph)
        self.kept[number] = (weakref.ref(graph, lambda _: self.kept.pop(number, None)), made)
        return made


_Shapes = tuple[tuple[int, ...] | None, ...]
_KNOWN: dict[int, tuple[Op, _Shapes, Meaning | None]] = {}
_MOST_KNOWN = 50_000


def _meaning(graph: Graph, op: Op) -> Meaning | None:
    """What an op means: worked out once, since graphs that differ in little share their ops."""
    shapes = tuple(graph.tensor_by_id[t].shape for t in (*op.inputs, *op.outputs))
    entry = _KNOWN.get(id(op))
    if entry is not None and entry[0] is op and entry[1] == shapes:
        return entry[2]
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    known = meaning(graph, op)
    _KNOWN[id(op)] = (op, shapes, known)
    return known


def _images(graph: Graph) -> frozenset[int]:
    """Tensors whose dimensions from the third on are places of an image, or all that is tied to them."""
    ties: dict[int, set[int]] = {}
    found: set[int] = set()
    rank = {t.id: len(t.shape or ()) for t in graph.tensors}
    for op in graph.ops:
        known = _meaning(graph, op)
        form = None if known is None else known.form
        operands = [t for t in (op.operands or op.inputs) if t is not None]
        if isinstance(form, Convolution | Pool) and operands:
            data = op.operands[form.data] if isinstance(form, Convolution) and op.operands else operands[0]
            channel = form.channel if isinstance(form, Convolution) else 1
            if data is not None and channel == 1 and min((d for d, _ in form.windows), default=0) == 2:
                found |= {data, *op.outputs}
            tied = {t for t in (data, *op.outputs) if t is not None}
        elif isinstance(form, Pointwise | Concat | Split | Indexed | Channelwise) and op.outputs:
            most = rank[op.outputs[0]]
            tied = {t for t in (*operands, *op.outputs) if rank[t] == most}
            tied -= {t for t in operands if isinstance(form, Channelwise) and t != operands[0]}
        else:
            continue
        for t in tied:
            ties.setdefault(t, set()).update(tied)
    todo = [t for t in found if rank[t] > 2]
    reached = set(todo)
    while todo:
        for t in ties.get(todo.pop(), set()) - reached:
            reached.add(t)
            todo.append(t)
    return frozenset(t for t in reached if graph.tensor_by_id[t].kind is not Kind.CONSTANT)


_images_of = _Memo(_images)


def _wholes(graph: Graph) -> frozenset[int]:
    """Tensors that lie in others, and those that they lie in."""
    return frozenset(t for own in graph.tensors if own.alias_of is not None for t in (own.id, own.alias_of))


_wholes_of = _Memo(_wholes)


def memory_dims(
    graph: Graph, tensor: int, *, channels_last: bool, aliases_keep_file_layout: bool = False
) -> tuple[int, ...]:
    """The dimensions of a tensor as they lie in memory, the slowest first."""
    rank = len(graph.tensor_by_id[tensor].shape or ())
    if not channels_last or graph.dialect != "onnx" or tensor not in _images_of(graph):
        return tuple(range(rank))
    if aliases_keep_file_layout and tensor in _wholes_of(graph):
        return tuple(range(rank))
    return (0, *range(2, rank), 1)


def same_layout(graph: Graph, a: int, b: int) -> bool:
    """Whether two tensors of equal shape lie in the same order where images lie with their channels last, but for what
    is in other storages."""
    wholes = _wholes_of(graph)
    return (a in wholes) == (b in wholes) or (_unmoved(graph, a) and _unmoved(graph, b))


def same_bytes(graph: Graph, read: int, result: int, *, channels_last: bool) -> bool:
    """Whether a reshape leaves every byte where it is, in the layouts of both tensors, in others or not."""
    if not channels_last:
        return True
    return _unmoved(graph, read) and _unmoved(graph, result)


def _unmoved(graph: Graph, tensor: int) -> bool:
    """Whether a tensor's elements lie in the order of its dimensions."""
    shape = graph.tensor_by_id[tensor].shape or ()
    dims = [d for d in memory_dims(graph, tensor, channels_last=True) if shape[d] != 1]
    return dims == sorted(dims)


def distances(
    graph: Graph, op: Op, *, channels_last: bool, aliases_keep_file_layout: bool = False
) -> tuple[tuple[int, int], ...]:
    """Inputs over which the op's only result may lie, each with the bytes that it begins below it at least."""
    known = _meaning(graph, op)
    if known is None or known.opaque or known.random or known.mutates or len(op.outputs) != 1 or op.bodies:
        return ()
    made = graph.tensor_by_id[op.outputs[0]]
    layout = {"channels_last": channels_last, "aliases_keep_file_layout": aliases_keep_file_layout}
    lead = _leading(made.shape or (), memory_dims(graph, made.id, **layout))
    axis = None if lead is None else known.access.outputs[0][lead]
    if lead is None or axis is None or not made.size:
        return ()
    rows = (made.shape or ())[lead]
    operands = op.operands or op.inputs
    pairs: dict[int, int | None] = {}
    for position, t in enumerate(operands):
        if t is None or graph.tensor_by_id[t].kind is Kind.CONSTANT:
            continue
        read = graph.tensor_by_id[t]
        order = memory_dims(graph, t, **layout)
        found = _leading_index(known, position, read.shape or (), order, axis)
        own: int | None = None
        if found is not None:
            index, count = found
            own = _distance(index, known.access.grain_of(axis), (rows, made.size // rows), (count, read.size // count))
        before = pairs.get(t, 0)
        pairs[t] = None if own is None or before is None else max(own, before)
    return tuple((t, d) for t, d in pairs.items() if d is not None)


def _leading(shape: Sequence[int], order: Sequence[int]) -> int | None:
    return next((d for d in order if shape[d] > 1), None)


def _leading_index(
    op_meaning: Meaning, position: int, shape: Sequence[int], order: Sequence[int], axis: int
) -> tuple[Index, int] | None:
    """Which rows of an operand's leading dimension are read, and how many it has; None if not by rows of `axis`."""
    lead = _leading(shape, order)
    access = op_meaning.access
    dims = access.inputs[position] if position < len(access.inputs) else None
    if lead is None or dims is None or not prod(shape):
        return None
    index = dims[lead]
    return None if index is None or index.axis != axis else (index, shape[lead])


@lru_cache(maxsize=4096)
def _distance(index: Index, grain: int, result: tuple[int, int], read: tuple[int, int]) -> int:
    """Bytes that a result begins below an operand at least; of both the rows, and the bytes of one. What an aligned
    part around a row needs is needed for the row."""
    (rows, row), (count, own) = result, read
    least, most = count, 0
    for r in range(rows - 1, -1, -1):
        low = r // grain * grain
        first, end = index.need(low, min(rows, low + grain), count)
        least = min(least, first) if first < end else least
        most = max(most, (r + 1) * row - least * own)
    return most
