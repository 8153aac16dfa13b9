"""Passes: ops that run in stripes once for each statistic that hangs on them, and once more for what they make.

    x (there)   conv a -> norm 1 -> conv b -> norm 2 -> add x -> y

    pass 0      a | rows of norm 1          conv a is run for its statistic, and forgotten
    pass 1      a | 1 applied | b | rows of norm 2
    pass 2      a | 1 applied | b | 2 applied | add x -> y

What is kept between passes is what the segment begins with, and numbers: one mean and one variance a group. So a
segment with k statistics, each after the one before, runs its first ops k + 1 times. Where tensors are small enough to
stay, a segment ends and another one begins (`lowtide.optimize.checkpoints` chooses).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lowtide.graph import Graph, Kind
from lowtide.ops.meaning import meaning
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.statistics import ROWS_DIM


@dataclass(frozen=True)
class Passes:
    """How the ops between two tensors run."""

    passes: tuple[tuple[int, ...], ...]  # op ids of each pass, in order; the last one makes the result of the segment
    between: tuple[tuple[int, ...], ...]  # untiled ops that run before each pass: between[0] before the first one

    def sequence(self) -> list[int]:
        """All runs, in turn."""
        return [op for k, own in enumerate(self.passes) for op in (*self.between[k], *own)]

    def recomputed(self) -> dict[int, int]:
        """How often each op is recomputed."""
        times: dict[int, int] = {}
        for op in (op for own in self.passes for op in own):
            times[op] = times.get(op, -1) + 1
        return {op: n for op, n in times.items() if n}


def find_passes(
    graph: Graph, ops: Sequence[int], result: int | None, small: int, most: int | None = None
) -> Passes | None:
    """The passes of a segment; None if not all of it runs in passes, or in more than `most`. `ops`: ids, in an order.
    `result`: the tensor that the segment makes; None: the graph's outputs. `small`: bytes up to which a tensor counts
    as a few numbers: an op that touches only such tensors runs untiled."""
    within = set(ops)
    sizes = {t.id: t.size for t in graph.tensors if t.kind is not Kind.CONSTANT}
    untiled = {o for o in ops if all(sizes.get(t, 0) <= small for t in _touched(graph, o))}
    level: dict[int, int] = {}
    for o in ops:
        makers = [graph.producer[t] for t in graph.op_by_id[o].inputs if graph.producer.get(t) in within]
        level[o] = max((level[m] + (o in untiled and m not in untiled) for m in makers), default=0)
    ends = {o for o in ops if o not in untiled and _ends(graph, o, result)}
    last = max((level[o] for o in ends), default=-1)
    if last < 0 or (most is not None and last >= most) or any(level[o] > last for o in ops):
        return None
    sinks = [
        {o for o in ops if o not in untiled and level[o] == k and any(r in untiled for r in _readers(graph, o))}
        for k in range(last + 1)
    ]
    sinks[last] |= ends
    passes = tuple(_closure(graph, ops, own, within - untiled) for own in sinks)
    if set().union(*passes) | untiled != within:
        return None
    between = tuple(tuple(o for o in ops if o in untiled and level[o] == k) for k in range(last + 1))
    return Passes(passes, between)


def _touched(graph: Graph, op: int) -> tuple[int, ...]:
    own = graph.op_by_id[op]
    return (*own.inputs, *own.outputs)


def _readers(graph: Graph, op: int) -> list[int]:
    return [r for t in graph.op_by_id[op].outputs for r in graph.consumers.get(t, ())]


def _ends(graph: Graph, op: int, result: int | None) -> bool:
    made = graph.op_by_id[op].outputs
    return result in made if result is not None else any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in made)


def _closure(graph: Graph, ops: Sequence[int], sinks: Collection[int], streamed: Collection[int]) -> tuple[int, ...]:
    """What has to run for some ops, in order."""
    needed = set(sinks)
    for o in reversed(ops):
        if o in needed:
            needed.update(graph.producer[t] for t in graph.op_by_id[o].inputs if graph.producer.get(t) in streamed)
    return tuple(o for o in ops if o in needed)


def region_of(cutter: Cutter, ops: Sequence[int], rows: int) -> Region | None:
    """The ops of a pass as a region, in stripes of about a given number of rows of what its last op looks at or makes;
    None if they cannot all be cut together."""
    graph = cutter.graph
    for seed in reversed(ops):
        axis = rows_axis(graph, seed)
        if axis is None:
            return None
        axes = cutter.grow(ops, seed, axis)
        if axes is None or set(axes) != set(ops):
            return None
        known = cutter.meaning(seed)
        assert known is not None, seed
        return cutter.region(ops, axes, max(1, -(-known.access.sizes[axis] // rows)), "push")
    return None


def rows_axis(graph: Graph, op: int) -> int | None:
    """The axis of an op along which it makes rows of an image, or sums over them."""
    known, own = meaning(graph, graph.op_by_id[op]), graph.op_by_id[op]
    if known is None:
        return None
    if len(graph.tensor_by_id[own.outputs[0]].shape or ()) > ROWS_DIM:
        axis = known.access.outputs[0][ROWS_DIM]
        if axis is not None:
            return axis
    read = known.access.inputs[0] if known.access.inputs else None
    index = read[ROWS_DIM] if read is not None and len(read) > ROWS_DIM else None
    return index.axis if index is not None and index.axis >= 0 else None
