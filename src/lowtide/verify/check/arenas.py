"""A runtime's arenas in several memories: their sizes follow from its parts, and other memories are tried."""

from __future__ import annotations

from itertools import permutations

from lowtide.errors import VerificationError
from lowtide.plan import Plan, RuntimeArenas, RuntimeParts
from lowtide.sizes import round_up
from lowtide.spill_plan import PlanMemory


def check_arenas(plan: Plan, memories: list[PlanMemory], arenas: RuntimeArenas, parts: RuntimeParts | None) -> str:
    """Check `runtime_arenas`: each array is in a memory of the size that the parts give; the others are empty. Raises
    `VerificationError`: ``runtime_arenas``: a memory that is not there or holds other bytes, or tensors with a
    residency."""
    if parts is None:
        raise VerificationError("runtime_arenas", "the plan has no parts that lie in its memories")
    if plan.residency or plan.workspace_memories:
        raise VerificationError("runtime_arenas", "tensors lie in the head, and the plan has a residency for them")
    held = {m.name: m.size_bytes or 0 for m in memories}
    if len(held) != len(memories) or not {arenas.head_memory, arenas.tail_memory} <= set(held):
        raise VerificationError("runtime_arenas", "head and tail lie in memories that the plan has not, or has twice")
    expected = dict.fromkeys(held, 0)
    head = round_up(parts.planned, parts.alignment)
    if arenas.apart:
        expected[arenas.head_memory] = max(head, parts.planning)
        expected[arenas.tail_memory] = parts.persistent
    else:
        expected[arenas.head_memory] = max(head + parts.persistent, parts.planning)
    for name, size in expected.items():
        if held[name] != size:
            raise VerificationError("runtime_arenas", f"{name} holds {held[name]} bytes, and the parts say {size}")
    where = f"head in {arenas.head_memory}, tail in {arenas.tail_memory}"
    return where if arenas.apart else f"head and tail in {arenas.head_memory}"


def arenas_never_fit(plan: Plan) -> bool:
    """Whether no memory holds what both need at least, and no two what each does: as far as the plan's parts say."""
    arenas = plan.runtime_arenas
    assert arenas is not None
    room = [m.capacity_bytes for m in plan.memories or []]
    least_head, least_tail = arenas.least_head_bytes, arenas.least_tail_bytes
    together = max(room, default=0) >= plan.least_required_bytes
    return not together and not any(a >= least_head and b >= least_tail for a, b in permutations(room, 2))
