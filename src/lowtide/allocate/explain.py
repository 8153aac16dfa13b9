"""Why a layout is over budget: the tensors that cannot share what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowtide.allocate.buffers import ArenaBuffers
from lowtide.allocate.conflict import Conflict, find_conflict, find_indivisible
from lowtide.allocate.order_and_arena import Layout
from lowtide.allocate.placed import buffers_of
from lowtide.analyse.storage import MemoryModel
from lowtide.plan import PlanConflict
from lowtide.stop import Limits

SECONDS = 5.0
"""Most time for a conflict where every step's load fits: such a set takes a proof for each buffer left out."""


def arena_conflict(model: MemoryModel, layout: Layout, room: int, limits: Limits) -> PlanConflict | None:
    """Tensors of a layout that cannot share `room` bytes; None if no such set is found."""
    if layout.allocation.lower_bound_bytes <= room:
        return None  # nothing is proved of this order, so that no set is either
    buffers = buffers_of(layout, model)
    limits = replace(limits, seconds=min(SECONDS, limits.left_seconds), started=limits.now())
    return _as_in_plans(find_conflict(buffers.problem, max(room, 0), limits), buffers, model, layout, room)


def banks_conflict(model: MemoryModel, layout: Layout, capacities: Sequence[int]) -> PlanConflict | None:
    """Tensors of a layout that cannot be divided among memories of these sizes; None if no such set is found."""
    buffers, room = buffers_of(layout, model), sum(capacities)
    conflict = find_conflict(buffers.problem, room, engines=()) or find_indivisible(buffers.problem, capacities)
    return _as_in_plans(conflict, buffers, model, layout, room)


def _as_in_plans(
    conflict: Conflict | None, buffers: ArenaBuffers, model: MemoryModel, layout: Layout, room: int
) -> PlanConflict | None:
    """The set as a plan names it: a tensor for each storage, and ops for workspaces."""
    if conflict is None:
        return None
    members = set(conflict.members)
    first, last = layout.profile.first, layout.profile.last
    held: dict[int, list[int]] = {b: [] for b in members}
    for s, (b, _) in buffers.place_of.items():
        if b in members and (conflict.step is None or first[s] <= conflict.step <= last[s]):
            held[b].append(s)
    largest = [max(row, key=lambda s: (model.storages[s].size, -s)) for row in held.values() if row]
    workspaces = sorted(op for op, b in buffers.workspace_of.items() if b in members)
    sizes = [model.storages[s].size for s in largest] + [model.workspace[model.graph.index_of[op]] for op in workspaces]
    aligned = sum(-(-size // model.alignment) * model.alignment for size in sizes)
    if conflict.needed_bytes <= room and aligned != conflict.needed_bytes:
        return None  # a part of a storage is less than all of it, which the checker divides
    return PlanConflict(
        tensors=sorted(model.storages[s].tensors[0] for s in largest),
        workspaces=workspaces,
        step=conflict.step,
        available_bytes=max(room, 0),
        needed_bytes=conflict.needed_bytes,
        minimal=conflict.minimal,
    )
