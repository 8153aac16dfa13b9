"""Why a plan is over budget: the tensors that cannot share what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.allocate.placed import taken
from lowtide.plan import Plan, PlanConflict

if TYPE_CHECKING:
    from lowtide.allocate.together import Layout
    from lowtide.analyse.storage import MemoryModel
    from lowtide.stop import Limits

SECONDS = 5.0
"""Most time for a conflict where every step's load fits: such a set takes a proof for each buffer left out."""


def room_for_arena(made: Plan) -> int | None:
    """Bytes that the arena may take: the budget less what is required beside it, or all memories; None if unlimited."""
    if made.memories is not None:
        return sum(m.capacity_bytes for m in made.memories)
    if made.budget_bytes is None:
        return None
    return made.budget_bytes - (made.required_bytes - (made.arena_bytes or 0))


def with_conflict(made: Plan, model: MemoryModel, layout: Layout, limits: Limits) -> Plan:
    """The plan with `conflict`, if it is over budget and a set of tensors is found that cannot share what there is."""
    import msgspec

    from lowtide.allocate.buffers import arena_buffers
    from lowtide.allocate.conflict import find_conflict, find_indivisible

    room = room_for_arena(made)
    if room is None or made.status not in ("over_budget", "impossible"):
        return made
    buffers = arena_buffers(
        model, layout.order, taken(made, model, layout.order, layout.profile), model.alignment, layout.profile
    )
    seconds = min(SECONDS, limits.left_seconds)
    if made.memories is None:
        if (made.arena_lower_bound_bytes or 0) <= room:
            return made  # nothing is proved of this order, so that no set is either
        found = find_conflict(buffers.problem, max(room, 0), replace(limits, seconds=seconds, started=limits.now()))
    else:
        capacities = [m.capacity_bytes for m in made.memories]
        found = find_conflict(buffers.problem, room, engines=()) or find_indivisible(buffers.problem, capacities)
    if found is None:
        return made
    members = set(found.members)
    held: dict[int, list[int]] = {b: [] for b in members}
    for s, (b, _) in buffers.place_of.items():
        if b in members and (found.step is None or _live_at(layout, s, found.step)):
            held[b].append(s)
    largest = [max(row, key=lambda s: (model.storages[s].size, -s)) for row in held.values() if row]
    workspaces = sorted(op for op, b in buffers.workspace_of.items() if b in members)
    sizes = [model.storages[s].size for s in largest] + [model.workspace[model.graph.index_of[op]] for op in workspaces]
    whole = sum(-(-size // model.alignment) * model.alignment for size in sizes)
    if found.needed_bytes <= room and whole != found.needed_bytes:
        return made  # a part of a storage is less than the whole, which the checker divides
    return msgspec.structs.replace(
        made,
        conflict=PlanConflict(
            tensors=sorted(model.storages[s].tensors[0] for s in largest),
            workspaces=workspaces,
            step=found.step,
            available_bytes=max(room, 0),
            needed_bytes=found.needed_bytes,
            minimal=found.minimal,
        ),
    )


def _live_at(layout: Layout, storage: int, step: int) -> bool:
    return layout.profile.first[storage] <= step <= layout.profile.last[storage]
