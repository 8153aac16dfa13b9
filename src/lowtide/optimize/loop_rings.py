"""Line buffers of a loop, by simulation of the loop position by position (`core/cut/loop.h`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from lowtide import _core
from lowtide.graph import Kind
from lowtide.optimize.loop_over import best_over, leads, outside_reads
from lowtide.optimize.loop_sharing import shared_places
from lowtide.transform.loop_growth import Growth
from lowtide.transform.loops import ACCUMULATORS, Axes, LineBuffer, Loop, LoopRules

_ONE = (1, 1, 0, 0, 1)  # index of the columns where there is one axis: of one column, the only one
_Problem = tuple[tuple[tuple, ...], tuple[tuple[int, bool, int], ...], tuple[int, ...], int]
"""A loop as the core takes it, by numbers of its own."""


def leaves(rules: LoopRules, tensor: int, inside: Collection[int]) -> bool:
    """Whether a tensor that ops `inside` make is materialised: other ops read it, or it has no consumer."""
    graph = rules.graph
    readers = graph.consumers.get(tensor, ())
    return graph.tensor_by_id[tensor].kind is Kind.OUTPUT or not readers or any(r not in inside for r in readers)


def made_loop(growth: Growth, order: Sequence[int], dying: Sequence[int] = ()) -> Loop:
    """The loop of an interval, with its line buffers. `growth`: of the interval; nothing is pending. `order`: ids of
    its ops, in order. `dying`: tensors from outside that have no later consumer, and that share no memory."""
    rules, graph = growth.rules, growth.rules.graph
    inside = growth.inside
    given = [t for t in growth.dims if t in growth.streamed]
    made = [t for o in order for t in graph.op_by_id[o].outputs]
    materialised = {t for t in made if leaves(rules, t, inside)}
    listed = [*given, *made]
    number = {t: k for k, t in enumerate(listed)}
    over = _overs(rules, growth, order, [t for t in listed if t not in materialised])
    inputs = outside_reads(rules, growth.axes, order, dying)
    ops: list[tuple] = [_streamed_input(rules, growth, t, number[t]) for t in given]
    for o in order:
        outside = tuple(read for reads, _ in inputs.values() for read in reads.get(o, ()))
        ops.append((*_played(rules, growth, o, number), outside))
    tensors = tuple(
        (number[over[t]] if t in over else -1, t in materialised, _position_bytes(rules, growth, t)) for t in listed
    )
    play = _play(rules, (tuple(ops), tensors, tuple(unit for _, unit in inputs.values()), len(given)))
    line_buffers = []
    for t in listed:
        if t not in materialised:
            size, under = rules.slot_bytes(t, growth.dims[t]), _shared_tensor(t, over, materialised)
            assert size is not None, t
            home = t
            while home not in materialised and (below := _shared_tensor(home, over, materialised)) is not None:
                home = below
            slots = (
                prod(rules.tensor_counts(home, growth.dims[home])) if home in materialised else play.slots[number[home]]
            )
            line_buffers.append(LineBuffer(t, slots, size, under))
    loop = Loop(
        tuple(order),
        tuple(growth.axes[o] for o in order),
        tuple((t, growth.dims[t]) for t in listed if t in growth.dims),
        tuple(given),
        tuple(line_buffers),
        tuple(_accumulators(rules, growth, order)),
        rules.positions(order[-1], growth.axes[order[-1]]),
    )
    if rules.share:
        own = {number[r.tensor]: r.tensor for r in line_buffers if r.over is None}
        apart = {t: {own[k] for k in play.beside[n] if k in own} for n, t in own.items()}
        loop = replace(loop, shared=shared_places(loop.buffers(), apart, rules.target.alignment))
    if not inputs:
        return loop
    first = {t: next((u for u in listed if u not in over and _last_over(u, over) == t), t) for t in materialised}
    results = {t: number[first[t]] for t in materialised if t in growth.dims and leads(rules, t, growth.dims[t])}
    return best_over(rules, loop, play, list(inputs), number, results)


def _play(rules: LoopRules, problem: _Problem) -> _core.LoopPlay:
    """A loop played; those of repeated blocks are one problem, which is played once."""
    if problem not in rules.plays:
        rules.plays[problem] = _core.play_loop(*problem)
    return rules.plays[problem]


def _position_bytes(rules: LoopRules, growth: Growth, tensor: int) -> int:
    """Bytes of a position of a tensor; all of them if it has none."""
    dims = growth.dims.get(tensor)
    size = rules.graph.tensor_by_id[tensor].size
    return size if dims is None else rules.slot_bytes(tensor, dims) or size


def _last_over(tensor: int, over: dict[int, int]) -> int:
    """The last tensor of those that are written one over the other, from one on."""
    on = {below: above for above, below in over.items()}
    while tensor in on:
        tensor = on[tensor]
    return tensor


def _shared_tensor(tensor: int, over: dict[int, int], materialised: set[int]) -> int | None:
    """The tensor whose memory another one reuses: the one that it overwrites, or that later overwrites it."""
    if tensor in over:
        return over[tensor]
    last = _last_over(tensor, over)
    return last if last in materialised else None


def _overs(rules: LoopRules, growth: Growth, order: Sequence[int], line_buffers: Collection[int]) -> dict[int, int]:
    """Tensors that overwrite another one position by position, and which: it has one consumer, in place."""
    graph, kept, over, taken = rules.graph, set(line_buffers), dict[int, int](), set[int]()
    for o in order:
        for t in rules.written_over(o):
            out = graph.op_by_id[o].outputs[0]
            readers = graph.consumers.get(t, ())
            if t not in kept or t in taken or readers != (o,) or out not in growth.dims:
                continue
            same = rules.slot_bytes(t, growth.dims[t]) == rules.slot_bytes(out, growth.dims[out])
            if same and _in_step(rules, o, t, growth.axes[o], growth.dims[t]):
                over[out] = t
                taken.add(t)
                break
    return over


def _in_step(rules: LoopRules, op: int, tensor: int, axes: Axes, dims: Axes) -> bool:
    """Whether an op reads of a tensor the position that it makes, and no other."""
    if rules.counts(op, axes) != rules.tensor_counts(tensor, dims):
        return False
    for t, read in rules.reads(op):
        if t == tensor:
            for d in dims:
                row = read[d]
                if row is None:
                    return False
                index = rules.index(op, row, t, d)
                if index.num != index.den or not 0 <= index.lo <= index.hi < index.den:
                    return False
    return True


def _streamed_input(rules: LoopRules, growth: Growth, tensor: int, number: int) -> tuple:
    """The pseudo-op that writes a streamed input."""
    rows = rules.tensor_counts(tensor, growth.dims[tensor])
    return (rows[0], rows[1] if len(rows) > 1 else 1, (), (number,), ())


def _played(rules: LoopRules, growth: Growth, op: int, number: dict[int, int]) -> tuple:
    """An op as the core plays it."""
    sizes = rules.counts(op, growth.axes[op])
    reads = []
    for t, dims in rules.reads(op):
        if t in number:
            rows = []
            for d, count in zip(growth.dims[t], rules.tensor_counts(t, growth.dims[t]), strict=True):
                index = dims[d]
                assert index is not None, (op, t)
                read = rules.index(op, index, t, d)
                rows.append((read.num, read.den, read.lo, read.hi, count))
            reads.append((number[t], rows[0], rows[1] if len(rows) > 1 else _ONE))
    makes = tuple(number[t] for t in rules.graph.op_by_id[op].outputs)
    return (sizes[0], sizes[1] if len(sizes) > 1 else 1, tuple(reads), makes)


def _accumulators(rules: LoopRules, growth: Growth, order: Sequence[int]) -> list[tuple[int, int]]:
    """Results that are added up in longer numbers than they have, and the bytes of these."""
    result = []
    for o in order:
        known = rules.meaning(o)
        assert known is not None, o
        if growth.axes[o][0] in known.access.reduce and known.access.merge == "sum":
            for t in rules.graph.op_by_id[o].outputs:
                tensor = rules.graph.tensor_by_id[t]
                longer = ACCUMULATORS.get(tensor.dtype or "")
                if longer is not None:
                    result.append((t, longer * prod(tensor.shape or ())))
    return result
