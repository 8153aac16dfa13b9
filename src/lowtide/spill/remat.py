"""Computing again instead of reading back: an op is run a second time where its output would be filled.

A clone of the op makes a tensor of its own, which the later readers take; the first one then dies early, and need not
leave at all. Clones are tried for one fill after the other, largest first; one is kept if the least traffic of the
graph with it is smaller. This is a local search: no bound is known for it, but 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lowtide.graph import Graph, Kind
from lowtide.plan import TrafficProof
from lowtide.spill.answer import NoRoomError, SpillAnswer
from lowtide.spill.problem import SpillProblem

MOST_TRIES = 200


@dataclass(frozen=True)
class Clone:
    """Op `op` is op `of` once more; what `of` makes as `replaced`, `readers` read from `op`.

    All are ids; `outputs` are in the order of those of `of`.
    """

    op: int
    of: int
    replaced: int
    outputs: tuple[int, ...]
    readers: tuple[int, ...]


def with_clone(graph: Graph, of: int, replaced: int, readers: tuple[int, ...]) -> tuple[Graph, Clone]:
    """The graph with op `of` run again for some readers of a tensor that it makes; the clone stands behind it."""
    op_id = max((op.id for op in (*graph.ops, *graph.folded)), default=0) + 1
    next_tensor = max(t.id for t in graph.tensors) + 1
    original = graph.op_by_id[of]
    new_of = {t: next_tensor + k for k, t in enumerate(original.outputs)}
    by_id = graph.tensor_by_id
    made = tuple(
        replace(by_id[t], id=new, kind=Kind.ACTIVATION, name=f"{by_id[t].label} (again)") for t, new in new_of.items()
    )
    clone = replace(
        original,
        id=op_id,
        name=f"{original.label} (again)",
        outputs=tuple(new_of[t] for t in original.outputs),
    )
    ops = []
    for op in graph.ops:
        if op.id in readers:
            op = replace(
                op,
                inputs=tuple(new_of[t] if t == replaced else t for t in op.inputs),
                operands=tuple(new_of[replaced] if t == replaced else t for t in op.operands),
            )
        ops.append(op)
        if op.id == of:
            ops.append(clone)
    found = replace(graph, tensors=(*graph.tensors, *made), ops=tuple(ops))
    return found, Clone(op_id, of, replaced, clone.outputs, readers)


def rematerialise(
    problem: SpillProblem,
    answer: SpillAnswer,
    again: Callable[[Graph], SpillProblem],
    spill: Callable[[SpillProblem], SpillAnswer],
    in_time: Callable[[], bool],
) -> tuple[SpillProblem, SpillAnswer, tuple[Clone, ...]]:
    """Clone ops as long as that lowers the traffic.

    Parameters
    ----------
    again
        The problem of another graph, all else equal.
    spill
        The best answer of a problem.
    in_time
        Whether to go on.
    """
    clones: tuple[Clone, ...] = ()
    tries = 0
    better = True
    while better and answer.traffic_bytes:
        better = False
        for of, tensor, readers in _candidates(problem, answer):
            tries += 1
            if tries > MOST_TRIES or not in_time():
                return problem, _unproved(answer, clones), clones
            graph, clone = with_clone(problem.model.graph, of, tensor, readers)
            other = again(graph)
            if max(other.largest_op[0], other.end_bytes) > other.capacity:
                continue
            try:
                found = spill(other)
            except NoRoomError:
                continue
            if found.traffic_bytes < answer.traffic_bytes:
                problem, answer, clones, better = other, found, (*clones, clone), True
                break
    return problem, _unproved(answer, clones), clones


def _unproved(answer: SpillAnswer, clones: tuple[Clone, ...]) -> SpillAnswer:
    """The bound is of orders that run each op once."""
    counters = answer.counters | {"recomputed_ops": len(clones)}
    stopped = answer.stopped if answer.stopped != "proof" or not answer.traffic_bytes else "complete"
    return replace(
        answer, traffic_lower_bound_bytes=0, proof=TrafficProof(kind="none"), counters=counters, stopped=stopped
    )


def _candidates(problem: SpillProblem, answer: SpillAnswer) -> list[tuple[int, int, tuple[int, ...]]]:
    """Op, tensor and late readers for each fill whose storage is one tensor that one op makes; largest first."""
    model, order = problem.model, answer.order
    graph = model.graph
    found = []
    for move in sorted(answer.moves, key=lambda m: (-m.bytes, m.step)):
        storage = model.storages[move.storage]
        if move.kind != "fill" or len(storage.tensors) != 1 or len(problem.writers[move.storage]) != 1:
            continue
        tensor = storage.tensors[0]
        late = {order[t] for t in range(move.step, len(order))}
        readers = tuple(graph.ops[i].id for i in storage.touchers if i in late and tensor in graph.ops[i].inputs)
        maker = graph.ops[problem.writers[move.storage][0]]
        alone = all(graph.tensor_by_id[t].alias_of is None for t in maker.outputs)
        if maker.attributes.get("random"):
            continue  # run again, it would make something else
        if readers and alone and not maker.workspace and maker.id not in readers:
            found.append((maker.id, tensor, readers))
    return list(dict.fromkeys(found))
