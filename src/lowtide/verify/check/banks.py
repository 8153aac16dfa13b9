"""Several memories without moves: is every tensor in one of them, and is that so for all its life?

The memories are put end to end, each from a multiple of the alignment on, so that the checks of one arena (overlaps,
pairs in place, the replay of the bytes) hold for all of them at once:

    memories   fast |-----|    slow |----------|
    as one     |-----|----------|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations

import msgspec

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan, RuntimeArenas, RuntimeParts
from lowtide.sizes import format_size, round_up
from lowtide.spill_plan import HOST, PlanMemory, Residency
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import Simulation

MOST_TRIES = 20_000  # ways of dividing an op's storages among the memories that are tried before it is left open


@dataclass(frozen=True)
class _Banks:
    """The memories end to end: how many bytes the plan takes of each, where each begins, and the end of the last."""

    sizes: dict[str, int]
    base: dict[str, int]
    end: int


def as_one_arena(graph: Graph, plan: Plan, memory: CheckedMemory, steps: Simulation) -> Plan:
    """Check `memories` and `residency`, and give the plan with offsets in memories put end to end. Raises
    `VerificationError`: ``memories``: two of one name, none, or less or more in them than is said; ``residency``: a
    tensor without one, with two, in no memory, beyond its memory's end, for less than its life, or unlike what
    shares its storage."""
    banks = _end_to_end(plan)
    home: dict[int, tuple[str, int]] = {}
    offsets: dict[str, int] = {}
    for r in plan.residency or []:
        storage = _check_residency(graph, plan, memory, steps, banks, r)
        label = graph.tensor_by_id[r.tensor].label
        if str(r.tensor) in offsets:
            raise VerificationError("residency", f"{label} has two residencies, and nothing is moved")
        place = (r.memory, r.offset - memory.place[r.tensor][1])
        if home.setdefault(storage, place) != place:
            raise VerificationError("residency", f"{label} is not where the other tensors of its storage are")
        offsets[str(r.tensor)] = banks.base[r.memory] + r.offset
    for t in memory.storage_of:
        tensor = graph.tensor_by_id[t]
        if tensor.size and str(t) not in offsets:
            raise VerificationError("residency", f"{tensor.label} has {tensor.size} bytes and no residency")
    _check_alignment(graph, plan, memory, steps, home)
    workspaces = _workspaces(plan, banks)
    _check_ends(memory, banks, home, workspaces)
    flat = {op: banks.base[name] + at for op, (name, at) in workspaces.items()}
    return msgspec.structs.replace(
        plan, offsets=offsets, workspace_offsets=flat or None, arena_bytes=banks.end, memories=None, residency=None
    )


def _end_to_end(plan: Plan) -> _Banks:
    """The plan's memories, which have names and sizes of their own, and hold the plan's arena together."""
    memories = plan.memories or []
    sizes = {m.name: m.size_bytes or 0 for m in memories}
    if len(sizes) != len(memories) or not memories or HOST in sizes:
        raise VerificationError("memories", f"a plan with residency has memories, named apart, none of them {HOST!r}")
    for m in memories:
        if m.capacity_bytes <= 0 or (m.size_bytes or 0) < 0:
            raise VerificationError("memories", f"{m.name} has {m.capacity_bytes} bytes, {m.size_bytes} of them in use")
    if plan.offsets:
        raise VerificationError("residency", "the plan has both offsets and residency")
    if plan.arena_bytes != sum(sizes.values()):
        raise VerificationError(
            "arena", f"the memories hold {sum(sizes.values())} bytes; the plan's arena says {plan.arena_bytes}"
        )
    ends = list(accumulate((round_up(size, plan.alignment) for size in sizes.values()), initial=0))
    return _Banks(sizes, dict(zip(sizes, ends, strict=False)), ends[-1])


def _check_residency(
    graph: Graph, plan: Plan, memory: CheckedMemory, steps: Simulation, banks: _Banks, r: Residency
) -> int:
    """One tensor is within a memory for all its life. Returns its storage."""
    tensor = graph.tensor_by_id.get(r.tensor)
    if tensor is None or r.tensor not in memory.storage_of:
        raise VerificationError("residency", f"tensor {r.tensor} has a residency, and takes no memory")
    if r.memory not in banks.sizes:
        raise VerificationError("residency", f"{tensor.label} is in {r.memory!r}, which is no memory of the plan")
    if r.offset < 0 or r.offset + tensor.size > banks.sizes[r.memory]:
        raise VerificationError(
            "residency",
            f"{tensor.label} is at {r.offset}..{r.offset + tensor.size} of {r.memory}, of which the plan takes "
            f"{banks.sizes[r.memory]} bytes",
        )
    storage, last_step = memory.storage_of[r.tensor], max(len(plan.order), 1)
    first, last = max(steps.first[storage], 0), min(steps.last[storage] + 1, last_step)
    if not 0 <= r.start <= first < last <= r.end <= last_step:
        raise VerificationError(
            "residency", f"{tensor.label} is resident in steps {r.start}..{r.end}, and is needed in {first}..{last}"
        )
    return storage


def _check_alignment(
    graph: Graph, plan: Plan, memory: CheckedMemory, steps: Simulation, home: Mapping[int, tuple[str, int]]
) -> None:
    """Storages begin at multiples of their memory's alignment, but for those of outputs in place."""
    unit = {m.name: m.alignment for m in plan.memories or []}
    over = {memory.storage_of[graph.op_by_id[v].outputs[0]] for v in steps.in_place}
    for storage, (name, start) in home.items():
        if unit[name] < 1 or (storage not in over and start % unit[name]):
            label = graph.tensor_by_id[memory.storages[storage].tensors[0]].label
            raise VerificationError("residency", f"{label} is at {start} of {name}, no multiple of {unit[name]}")


def _workspaces(plan: Plan, banks: _Banks) -> dict[str, tuple[str, int]]:
    """Memory and offset of each op's workspace."""
    names = plan.workspace_memories or {}
    for op in plan.workspace_offsets or {}:
        if names.get(op) not in banks.sizes:
            raise VerificationError("residency", f"the workspace of op {op} is in no memory of the plan")
    return {op: (names[op], at) for op, at in (plan.workspace_offsets or {}).items()}


def _check_ends(
    memory: CheckedMemory, banks: _Banks, home: Mapping[int, tuple[str, int]], workspaces: Mapping[str, tuple[str, int]]
) -> None:
    """Nothing ends beyond what the plan takes of its memory."""
    used = dict.fromkeys(banks.sizes, 0)
    for storage, (name, start) in home.items():
        used[name] = max(used[name], start + memory.storages[storage].size)
    for op, (name, start) in workspaces.items():
        size = memory.workspace.get(int(op), 0) if op.isdecimal() else 0
        used[name] = max(used[name], start + size)
    for name, taken in used.items():
        if taken > banks.sizes[name]:
            raise VerificationError("memories", f"{name} ends at {taken}, beyond the {banks.sizes[name]} bytes of it")


def check_capacities(plan: Plan) -> str:
    """What each memory holds and its capacity, in words; whether they fit decides `status`."""
    texts = []
    for m in plan.memories or []:
        size = m.size_bytes or 0
        over = f", {size - m.capacity_bytes:,} B too many" if size > m.capacity_bytes else ""
        texts.append(f"{m.name} {size:,} of {m.capacity_bytes:,} B{over}")
    return "; ".join(texts)


def allowed_statuses(graph: Graph, plan: Plan, memory: CheckedMemory) -> tuple[str, ...]:
    """What `status` may be, as the memories say; the first is what it should be."""
    regions = plan.memories or []
    if all((m.size_bytes or 0) <= m.capacity_bytes for m in regions):
        return ("ok",)
    if plan.stopped == "interrupt" or plan.allow or plan.rewrites or plan.loops:
        return ("over_budget",)
    if plan.runtime_arenas is not None:
        return ("impossible", "over_budget") if arenas_never_fit(plan) else ("over_budget",)
    if never_fits(graph, memory, [m.capacity_bytes for m in regions], plan.lower_bound_bytes):
        return ("impossible", "over_budget")
    return ("over_budget",)


def never_fits(graph: Graph, memory: CheckedMemory, capacities: Sequence[int], lower_bound: int) -> str | None:
    """Why no order and no placement fits memories of these capacities, if that is certain; else None. All of them
    together are smaller than the lower bound, or the storages that one op touches cannot be divided among them,
    whichever of the inputs that it may overwrite it does."""
    if lower_bound > sum(capacities):
        return f"the lower bound is {format_size(lower_bound)}, above all memories together"
    for op in graph.ops:
        needs = [memory.storages[i].size for i in memory.touches[op.id]]
        if memory.workspace[op.id]:
            needs.append(memory.workspace[op.id])
        if memory.saved[op.id]:
            needs.remove(graph.tensor_by_id[op.outputs[0]].size)
        if not divisible(sorted(needs, reverse=True), list(capacities)):
            return f"{op.label} needs {sum(needs)} bytes at once, in pieces that no division among the memories holds"
    return None


def divisible(sizes: Sequence[int], room: list[int]) -> bool:
    """Whether the sizes, descending, can be divided among memories with this much room; True if that stays open."""
    tries = 0

    def put(i: int) -> bool:
        nonlocal tries
        tries += 1
        if i == len(sizes) or tries > MOST_TRIES:
            return True
        for have in sorted({r for r in room if r >= sizes[i]}):
            k = room.index(have)
            room[k] -= sizes[i]
            if put(i + 1):
                return True
            room[k] += sizes[i]
        return False

    return sum(sizes) <= sum(room) and put(0)


def check_arenas(plan: Plan, memories: list[PlanMemory], arenas: RuntimeArenas, parts: RuntimeParts | None) -> str:
    """Check `runtime_arenas`: each array is in a memory of the size that the parts give; the others are empty. Raises
    `VerificationError`: ``runtime_arenas``: a memory that is not there or holds other bytes, or tensors with a
    residency."""
    if parts is None:
        raise VerificationError("runtime_arenas", "the plan has no parts that are in its memories")
    if plan.residency or plan.workspace_memories:
        raise VerificationError("runtime_arenas", "tensors are in the head, and the plan has a residency for them")
    held = {m.name: m.size_bytes or 0 for m in memories}
    if len(held) != len(memories) or not {arenas.head_memory, arenas.tail_memory} <= set(held):
        raise VerificationError("runtime_arenas", "head and tail lie in memories that the plan has not, or has twice")
    expected = dict.fromkeys(held, 0)
    head = round_up(parts.planned, parts.alignment)
    if arenas.has_two_arrays:
        expected[arenas.head_memory] = max(head, parts.planning)
        expected[arenas.tail_memory] = parts.persistent
    else:
        expected[arenas.head_memory] = max(head + parts.persistent, parts.planning)
    for name, size in expected.items():
        if held[name] != size:
            raise VerificationError("runtime_arenas", f"{name} holds {held[name]} bytes, and the parts say {size}")
    where = f"head in {arenas.head_memory}, tail in {arenas.tail_memory}"
    return where if arenas.has_two_arrays else f"head and tail in {arenas.head_memory}"


def arenas_never_fit(plan: Plan) -> bool:
    """Whether no memory holds what both need at least, and no two what each does: as far as the plan's parts say."""
    arenas = plan.runtime_arenas
    assert arenas is not None
    room = [m.capacity_bytes for m in plan.memories or []]
    least_head, least_tail = arenas.least_head_bytes, arenas.least_tail_bytes
    together = max(room, default=0) >= plan.least_required_bytes
    return not together and not any(a >= least_head and b >= least_tail for a, b in permutations(room, 2))
