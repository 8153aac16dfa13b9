"""The graph with one op per loop. Line buffers are its workspace, or its first output if they overlap an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lowtide.graph import Graph, Op, Tensor
from lowtide.target import LOOP_TYPE
from lowtide.transform.loops import Loop


@dataclass(frozen=True)
class LoopGraph:
    """A graph with one op per loop."""

    graph: Graph  # with the loops' ops, without inner tensors and streamed inputs
    loops: dict[int, Loop]  # of each new op's id
    # For an op whose line buffers and accumulators overlap an input, their tensor: its first output. For other ops they
    # are workspace.
    blocks: dict[int, int] = field(default_factory=dict)


def apply(graph: Graph, loops: Sequence[Loop], alignment: int) -> LoopGraph:
    """The graph with an op for each loop, in the place of its last op.

    Parameters
    ----------
    loops
        Disjoint; no outside op reads a tensor in line buffers.
    alignment
        Bytes at multiples of which line buffers and accumulators begin.
    """
    first = 1 + max((op.id for op in (*graph.folded, *graph.ops)), default=-1)
    ids = {first + k: loop for k, loop in enumerate(loops)}
    at = {loop.ops[-1]: new for new, loop in ids.items()}
    inside = {o for loop in loops for o in loop.ops}
    gone = {r.tensor for loop in loops for r in loop.line_buffers} | {t for loop in loops for t in loop.streamed}
    above = 1 + max((t.id for t in graph.tensors), default=-1)
    over = [new for new, loop in ids.items() if loop.over is not None and loop.over.tensor is None]
    blocks = {new: above + k for k, new in enumerate(over)}
    ops = []
    for op in graph.ops:
        if op.id in at:
            new = at[op.id]
            ops.append(_as_op(graph, new, ids[new], gone, alignment, blocks.get(new)))
        elif op.id not in inside:
            ops.append(op)
    tensors = [t for t in graph.tensors if t.id not in gone]
    names = {op.id: op.name for op in ops}
    tensors += [Tensor(t, ids[new].workspace(alignment), name=f"rings of {names[new]}") for new, t in blocks.items()]
    return LoopGraph(replace(graph, tensors=tuple(tensors), ops=_sorted(graph, ops), file_order=()), ids, blocks)


def _as_op(graph: Graph, new: int, loop: Loop, gone: set[int], alignment: int, block: int | None) -> Op:
    """The op of a loop; memory that overlaps an input is its first output."""
    members = [graph.op_by_id[o] for o in loop.ops]
    made = {t for op in members for t in op.outputs}
    read = dict.fromkeys(t for op in members for t in op.inputs if t not in made and t not in gone)
    leaving = [t for op in members for t in op.outputs if t not in gone]
    flops = None if any(op.flops is None for op in members) else sum(op.flops or 0 for op in members)
    name = f"loop of {members[0].label} to {members[-1].label}"
    kept = loop.workspace(alignment)
    over = loop.over
    if over is None:
        return Op(new, tuple(read), tuple(leaving), name, LOOP_TYPE, workspace=kept, flops=flops)
    first = block if over.tensor is None else over.tensor
    assert first is not None, loop
    outputs = (first, *(t for t in leaving if t != first))
    behind = {"behind": ((over.input, over.distance),)}
    kept = kept if over.tensor is not None else 0
    return Op(new, tuple(read), outputs, name, LOOP_TYPE, workspace=kept, flops=flops, attributes=behind)


def _sorted(graph: Graph, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Ops in an order in which each comes after what it needs, as near to the given one as that allows."""
    makers = {t: op.id for op in ops for t in op.outputs}
    by_id, result, seen = {op.id: op for op in ops}, [], set[int]()
    for begin in ops:
        trail = [begin.id]
        while trail:
            op = by_id[trail[-1]]
            needed = (*(makers[t] for t in op.inputs if t in makers), *(o for o in op.after if o in by_id))
            missing = [o for o in needed if o not in seen]
            if op.id in seen or not missing:
                if op.id not in seen:
                    seen.add(op.id)
                    result.append(op)
                trail.pop()
            else:
                trail += missing[::-1]
    return tuple(result)
