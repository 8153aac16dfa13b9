"""Orders of a sequence of runs that leave its arena more room, where addresses lose bytes that matter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.stop import Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lowtide.api.problem import Problem
    from lowtide.graph import Graph

_WALKS = 3
"""Orders that are walked to for each sequence: half a second each for some thousands of runs."""


def roomier(
    problem: Problem, order: Sequence[int], transfers: Collection[int], room: int | None, limits: Limits
) -> tuple[int, ...] | None:
    """The order of no higher peak whose arena is smallest, of a few that are walked to by exchanging neighbours; None
    if none is smaller.

    Parameters
    ----------
    order
        Positions, each once.
    transfers
        Those of stores and loads, past which nothing goes, so that each begins and ends where it did.
    room
        Bytes with which the arena is small enough; None: as small as its load.
    """
    from lowtide.allocate.order_and_arena import QUICK, place
    from lowtide.analyse.storage import memory_model
    from lowtide.schedule.anneal_load import anneal_load

    model = problem.memory
    best = place(model, tuple(order), limits, QUICK)
    arena, walls = best.allocation.arena_bytes, _with_walls(problem.graph, order, transfers)
    walked_on, peak = memory_model(walls, problem.target), best.profile.peak
    for seed in range(_WALKS):
        if limits.over() or best.allocation.arena_bytes <= (
            best.allocation.lower_bound_bytes if room is None else room
        ):
            break
        walk = anneal_load(walked_on, range(len(order)), peak, seed, over=limits.over)
        other = place(model, tuple(order[k] for k in walk), limits, QUICK)
        if other.allocation.arena_bytes < best.allocation.arena_bytes:
            best = other
    return best.order if best.allocation.arena_bytes < arena else None


def _with_walls(graph: Graph, order: Sequence[int], transfers: Collection[int]) -> Graph:
    """The graph in this order, each transfer behind all that runs before it, and before all that runs behind it."""
    ops, wall, since = [], None, list[int]()
    for i in order:
        op = graph.ops[i]
        after = since if i in transfers else [] if wall is None else [wall]
        ops.append(replace(op, after=tuple(dict.fromkeys((*op.after, *after)))))
        if i in transfers:
            wall, since = op.id, [op.id]
        else:
            since.append(op.id)
    return replace(graph, ops=tuple(ops))
