"""Recomputation instead of reading back: an op is run a second time where its output would be filled.

A clone of the op makes a tensor of its own, which the later readers take; the first one then dies early, and need not
leave at all. Clones are tried for one fill after the other, largest first; one is kept if the least traffic of the
graph with it is smaller. This is a local search: no bound is known for it, but 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowtide.graph import Graph
from lowtide.spill.answer import NoRoomError, SpillAnswer
from lowtide.spill.problem import SpillProblem
from lowtide.spill_plan import TrafficProof
from lowtide.transform.change import Change
from lowtide.transform.clone import Clone, apply, why_not

MOST_TRIES = 200


def rematerialise(
    problem: SpillProblem,
    answer: SpillAnswer,
    recomputed: Callable[[Graph], SpillProblem],
    spill: Callable[[SpillProblem], SpillAnswer],
    in_time: Callable[[], bool],
) -> tuple[SpillProblem, SpillAnswer, tuple[Change[Clone], ...]]:
    """Clone ops as long as that lowers the traffic. `recomputed`: the problem of another graph, all else equal.
    `spill`: the best answer of a problem. `in_time`: whether to go on. Returns: the problem of the graph with its
    clones, the best answer, and the changes, each of the graph before it."""
    clones: tuple[Change[Clone], ...] = ()
    tries = 0
    better = True
    while better and answer.traffic_bytes:
        better = False
        for clone in _candidates(problem, answer):
            tries += 1
            if tries > MOST_TRIES or not in_time():
                return problem, _unproved(answer, clones), clones
            change = apply(problem.model.graph, clone)
            other = recomputed(change.graph)
            if max(other.largest_op[0], other.end_bytes) > other.capacity:
                continue
            try:
                cheaper = spill(other)
            except NoRoomError:
                continue
            if cheaper.traffic_bytes < answer.traffic_bytes:
                problem, answer, clones, better = other, cheaper, (*clones, change), True
                break
    return problem, _unproved(answer, clones), clones


def _unproved(answer: SpillAnswer, clones: tuple[Change[Clone], ...]) -> SpillAnswer:
    """The bound is of orders that run each op once."""
    counters = answer.counters | {"recomputed_ops": len(clones)}
    stopped = answer.stopped if answer.stopped != "proof" or not answer.traffic_bytes else "complete"
    return replace(
        answer, traffic_lower_bound_bytes=0, proof=TrafficProof(kind="none"), counters=counters, stopped=stopped
    )


def _candidates(problem: SpillProblem, answer: SpillAnswer) -> list[Clone]:
    """A clone for the late readers of each fill whose storage is one tensor that one op makes; largest fill first.
    Ops with a workspace are left out: recomputing them needs room where there is little."""
    model, order = problem.model, answer.order
    graph = model.graph
    clones = []
    for move in sorted(answer.moves, key=lambda m: (-m.bytes, m.step)):
        storage = model.storages[move.storage]
        if move.kind != "fill" or len(storage.tensors) != 1 or len(problem.writers[move.storage]) != 1:
            continue
        tensor = storage.tensors[0]
        late = set(order[move.step :])
        readers = tuple(graph.ops[i].id for i in storage.users if i in late and tensor in graph.ops[i].inputs)
        maker = graph.ops[problem.writers[move.storage][0]]
        clone = Clone(maker.id, tensor, readers)
        if not maker.workspace and why_not(graph, clone) is None:
            clones.append(clone)
    return list(dict.fromkeys(clones))
