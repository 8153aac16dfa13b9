"""Is what a plan says of why it is over budget true? Its tensors are live together, and are too much."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan, PlanConflict
from lowtide.sizes import round_up
from lowtide.verify.check.banks import divisible
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import Simulation, descendants


def alone_too_large(graph: Graph, plan: Plan, memory: CheckedMemory) -> bool:
    """Whether the op at the conflict's step needs more than there is by itself, in every order, or the outputs do.
    Sizes are rounded up to the alignment, and so is the capacity: whatever has aligned offsets in the capacity has
    them in the rounded one, with rounded sizes. The op's output is in place where some order allows it."""
    conflict = plan.conflict
    if conflict is None or conflict.step is None or not 0 <= conflict.step < len(plan.order):
        return False
    unit, op = plan.alignment, plan.order[conflict.step]
    room = round_up(conflict.available_bytes, unit)
    if sum(round_up(b.size, unit) for b in memory.storages if b.at_end) > room:
        return True
    later = descendants(graph, op)
    need = sum(round_up(memory.storages[b].size, unit) for b in memory.touches[op])
    need += round_up(memory.workspace[op], unit)
    saved = [
        round_up(size, unit)
        for t, size in memory.saved[op].items()
        if later.isdisjoint(memory.storages[memory.storage_of[t]].users)
    ]
    return need - max(saved, default=0) > room


def _fail(why: str) -> VerificationError:
    return VerificationError("conflict", why)


def check_conflict(graph: Graph, plan: Plan, memory: CheckedMemory, steps: Simulation) -> str:
    """Check `conflict`: in words, what was seen. Sizes are rounded up to the alignment. Where an output may share
    some bytes of an input, the sum may be above what is needed, never below. Without a step, the proof is the
    planner's, and is not repeated here. Raises `VerificationError`: ``conflict``: a plan that fits has one, a member
    is not live at the step or shares its bytes with another, or they fit."""
    conflict = plan.conflict
    if conflict is None:
        return ""
    _check_capacity(plan, conflict)
    storages = [memory.storage_of.get(t) for t in conflict.tensors]
    workspaces = [memory.workspace.get(op, 0) for op in conflict.workspaces]
    if None in storages or len(set(storages)) != len(storages) or not all(workspaces):
        raise _fail("a member is listed twice, or takes no memory")
    members = [b for b in storages if b is not None]
    at = conflict.step
    if at is None:
        return f"{len(members) + len(workspaces):,} members that do not fit together: proved by search, not re-proved"
    _check_live(graph, plan, memory, steps, members)
    sizes = [round_up(size, plan.alignment) for size in (*(memory.storages[b].size for b in members), *workspaces)]
    apart = not plan.order or not memory.overwritable[plan.order[at]]  # nothing may be written in place there
    if sum(sizes) < conflict.needed_bytes or (apart and sum(sizes) != conflict.needed_bytes):
        raise _fail(f"the members have {sum(sizes)} bytes at step {at}, not {conflict.needed_bytes}")
    if conflict.needed_bytes <= conflict.available_bytes:
        _check_divisions(plan, conflict, sizes)
        return f"{len(sizes):,} members of {sum(sizes):,} B at step {at:,} go into no division among the memories"
    if conflict.minimal and sum(sizes) - min(sizes) > conflict.available_bytes:
        raise _fail("one member can be left out, and the others still do not fit")
    return f"{len(sizes):,} members have {sum(sizes):,} B at step {at:,}, of {conflict.available_bytes:,} B"


def _check_capacity(plan: Plan, conflict: PlanConflict) -> None:
    """The plan is over budget, by what is available, unless no division among several memories holds the members."""
    if plan.status not in ("over_budget", "impossible"):
        raise _fail("the plan is not over budget, and says what is in conflict")
    if plan.memories is not None:
        room = sum(m.capacity_bytes for m in plan.memories)
    else:
        room = (plan.budget_bytes or 0) - (plan.required_bytes - (plan.arena_bytes or 0))
    if conflict.available_bytes != max(room, 0):
        raise _fail(f"there are {max(room, 0)} bytes for the arena, not {conflict.available_bytes}")
    fits = conflict.needed_bytes <= conflict.available_bytes
    if fits and (plan.memories is None or conflict.step is None):
        raise _fail(f"{conflict.needed_bytes} bytes fit {conflict.available_bytes}")


def _check_live(graph: Graph, plan: Plan, memory: CheckedMemory, steps: Simulation, members: Sequence[int]) -> None:
    """The members are live at the conflict's step, each in bytes of its own."""
    assert plan.conflict is not None, plan.graph
    at = plan.conflict.step or 0
    if not 0 <= at < max(len(plan.order), 1) or any(plan.order[at] != op for op in plan.conflict.workspaces):
        raise _fail(f"step {at} is no step of the plan, or not that of the workspace")
    for t, b in zip(plan.conflict.tensors, members, strict=True):
        if not steps.first[b] <= at <= steps.last[b]:
            raise _fail(f"{graph.tensor_by_id[t].label} is not live at step {at}")
    op = plan.order[at] if plan.order else -1
    if op in steps.in_place:
        both = {memory.storage_of[steps.in_place[op]], memory.storage_of[graph.op_by_id[op].outputs[0]]}
        if both <= set(members):
            raise _fail(f"{graph.op_by_id[op].label} writes one member over another")


def _check_divisions(plan: Plan, conflict: PlanConflict, sizes: list[int]) -> None:
    """No division among the memories holds the members, and if `minimal`, one does without any of them."""
    capacities = [m.capacity_bytes for m in plan.memories or []]
    if sum(sizes) != conflict.needed_bytes or divisible(sorted(sizes, reverse=True), list(capacities)):
        raise _fail("the members can be divided among the memories, as far as is seen")
    for k in range(len(sizes)):
        if conflict.minimal and not divisible(sorted(sizes[:k] + sizes[k + 1 :], reverse=True), list(capacities)):
            raise _fail("one member can be left out, and the others still cannot be divided")
