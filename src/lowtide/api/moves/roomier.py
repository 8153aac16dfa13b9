"""Orders of a sequence of runs that leave its arena more room, where addresses lose bytes that matter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.rewrites import Recompute, Swap
from lowtide.stop import Limits, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.api.problem import Problem
    from lowtide.graph import Graph, Op
    from lowtide.rewrites import Rewrite

_WALKS = 3  # orders that are walked to for each sequence
_RUN = 800_000  # nanoseconds of a walk for each run


def roomier(
    problem: Problem, order: Sequence[int], rewrites: Sequence[Rewrite], room: int | None, limits: Limits
) -> tuple[int, ...] | None:
    """The order of no higher peak whose arena is smallest, of a few that are walked to by exchanging neighbours; None
    if none is smaller.

    `order`: positions, each once. `rewrites`: what runs again, and what leaves memory: nothing goes past a store or a
    load, so that each begins and ends where it did, and what reads a value stays before the next run that makes it.
    `room`: bytes with which the arena is small enough; None: as small as its load.
    """
    from lowtide.allocate.order_and_arena import QUICK, place
    from lowtide.analyse.storage import memory_model
    from lowtide.schedule.anneal_load import anneal_load

    model = problem.memory
    best = place(model, tuple(order), limits, QUICK)
    arena, walls = best.allocation.arena_bytes, _with_walls(problem.graph, order, rewrites)
    walked_on, peak = memory_model(walls, problem.target), best.profile.peak
    for seed in range(_WALKS):
        if limits.over() or best.allocation.arena_bytes <= (
            best.allocation.lower_bound_bytes if room is None else room
        ):
            break
        walk = anneal_load(walked_on, range(len(order)), peak, seed, over=limits.over)
        count(_RUN * len(order))
        other = place(model, tuple(order[k] for k in walk), limits, QUICK)
        if other.allocation.arena_bytes < best.allocation.arena_bytes:
            best = other
    return best.order if best.allocation.arena_bytes < arena else None


def _with_walls(graph: Graph, order: Sequence[int], rewrites: Sequence[Rewrite]) -> Graph:
    """The graph in this order, each transfer after all that runs before it and before all that runs after it, and
    each run after what reads the same value of the one before."""
    again = {r.op: r.of for r in rewrites if isinstance(r, Recompute)}
    swaps = [r for r in rewrites if isinstance(r, Swap)]
    again |= {load.op: graph.producer[r.tensor] for r in swaps for load in r.loads}
    transfers = {v for r in swaps for v in (r.store, *(load.op for load in r.loads))}
    made: dict[int, list[int]] = {}  # of each op that there was at first, what it and its copies made
    ran, since, wall = set[int](), list[int](), list[int]()
    ops: list[Op] = []
    for i in order:
        op = graph.ops[i]
        of = op.id
        while of in again:
            of = again[of]
        readers = [r for t in made.get(of, ()) for r in graph.consumers.get(t, ())]
        after = (*op.after, *(since if op.id in transfers else wall), *(r for r in readers if r in ran))
        ops.append(replace(op, after=tuple(dict.fromkeys(after))))
        ran.add(op.id)
        since.append(op.id)
        made.setdefault(of, []).extend(op.outputs)
        if op.id in transfers:
            wall, since = [op.id], [op.id]
    return replace(graph, ops=tuple(ops))
