"""The exact optimum of a small graph, by looking at every set of ops that can run first. Slow and obvious.

Liveness is the checker's (`lowtide.verify.check.memory`), not the planners'.
"""

from __future__ import annotations

from lowtide.graph import Graph
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory, work_out


def must_run_before(graph: Graph) -> dict[int, set[int]]:
    """Op id to the ids of the ops that make its inputs or that it is `after`; folded ops left out."""
    maker = {t: op.id for op in graph.ops for t in op.outputs}
    ids = {op.id for op in graph.ops}
    return {op.id: {maker[t] for t in op.inputs if t in maker} | {o for o in op.after if o in ids} for op in graph.ops}


def every_downset(graph: Graph) -> list[frozenset[int]]:
    """Every set of ops that can have run, smallest first."""
    needs = must_run_before(graph)
    level: set[frozenset[int]] = {frozenset()}
    found: list[frozenset[int]] = []
    while level:
        found += sorted(level, key=sorted)
        level = {done | {v} for done in level for v in needs if v not in done and needs[v] <= done}
    return found


def peak_of(graph: Graph, target: Target, order: tuple[int, ...], memory: CheckedMemory | None = None) -> int:
    """Peak of an order of op ids, every op in place where it saves."""
    memory = memory or work_out(graph, target)
    before: set[int] = set()
    peak = 0
    for v in order:
        peak = max(peak, memory.footprint(v, before))
        before.add(v)
    return peak


def optimum(graph: Graph, target: Target) -> int:
    """Least peak over all orders and all in-place choices, in bytes. For about 12 ops at most."""
    return optimal_order(graph, target)[0]


def optimal_order(graph: Graph, target: Target) -> tuple[int, tuple[int, ...]]:
    """Least peak in bytes, and an order of op ids that has it.

    best(D + v) = min over v of max(best(D), footprint(D, v)), over all downsets D by size. As in
    `Memory.footprint`, but with sets of ops as bits.
    """
    memory = work_out(graph, target)
    bit = {op.id: 1 << i for i, op in enumerate(graph.ops)}
    needs = {v: sum(bit[u] for u in us) for v, us in must_run_before(graph).items()}
    storages = [(b.size, sum(bit[o] for o in b.users), b.at_start, b.at_end) for b in memory.storages]
    over = {
        v: [sum(bit[o] for o in memory.storages[memory.storage_of[t]].users) for t in memory.overwritable[v]]
        for v in bit
    }
    best: dict[int, tuple[int, int, int]] = {0: (0, 0, 0)}
    level = [0]
    while level:
        following: dict[int, None] = {}
        for done in level:
            so_far = best[done][0]
            for v, b in bit.items():
                if done & b or needs[v] & ~done:
                    continue
                after = done | b
                hill = memory.workspace[v]
                for size, users, at_start, at_end in storages:
                    if (at_start or users & after) and (at_end or users & ~done):
                        hill += size
                if any(not users & ~after for users in over[v]):
                    hill -= graph.tensor_by_id[graph.op_by_id[v].outputs[0]].size
                peak = max(so_far, hill)
                if after not in best or peak < best[after][0]:
                    best[after] = (peak, done, v)
                following[after] = None
        level = list(following)
    at = (1 << len(bit)) - 1
    peak = best[at][0]
    order: list[int] = []
    while at:
        _, at, v = best[at]
        order.append(v)
    return peak, tuple(reversed(order))
