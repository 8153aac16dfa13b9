"""Why buffers do not fit: a set of them that cannot share the memory, and of which none can be left out.

Two cases. If more is live at a step than there are bytes, the largest live there make the set: their sizes add up to
more than there is, and without any one of them they fit (the smallest was the last one needed). If every load fits and
it is proved that no placement does, buffers are taken out one by one for as long as what is left is still proved not to
fit (a deletion filter): then every member is needed, each because the others do fit without it, by a placement that was
found. Where an engine gives neither a placement nor a proof nothing is said of that member.

    capacity 8   step 3:  a 4   b 3   c 2   d 1      a + b + c = 9 > 8;  a + b, a + c, b + c fit

With several memories it may be that all together have room at every step, and that what is live at one cannot be
divided among them (three buffers of 5 bytes do not go into two memories of 8): such a set is found by the same filter.

Source: deletion filter, Chinneck and Dravnieks, "Locating minimal infeasible constraint sets in linear programs", ORSA
Journal on Computing 3 (1991); minimalloc has an irreducible infeasible subset too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lowtide.allocate.arena import ENGINES, Engine, allocate_best
from lowtide.allocate.banks.memories import part_of
from lowtide.allocate.buffers import ArenaBuffers, Problem, block
from lowtide.allocate.order_and_arena import Layout
from lowtide.allocate.placed import buffers_of
from lowtide.analyse.storage import MemoryModel
from lowtide.plan import PlanConflict
from lowtide.stop import Limits

MOST_STEPS = 64  # steps, those of the highest load, at which it is tried to divide what is live among memories
MOST_DIVISIONS = 5_000  # ways of dividing a set among memories that anyone can be asked to try
MOST_FILTERED = 400  # buffers. Above that no deletion filter is tried where the loads fit.


@dataclass(frozen=True)
class Conflict:
    """Buffers, by index, that cannot share a memory of `capacity_bytes`."""

    members: tuple[int, ...]  # ascending
    step: int | None  # one at which all of them are live; None if they do not fit although the loads do
    capacity_bytes: int
    needed_bytes: int  # bytes that they have together at that step; without a step, what they need at least
    minimal: bool  # whether it is proved that without any one of them the others fit


def find_conflict(
    problem: Problem, capacity: int, limits: Limits | None = None, engines: Sequence[Engine] = ENGINES
) -> Conflict | None:
    """A smallest set that is too much at one step, or an irreducible one that is proved not to fit; None if neither.
    None too where several rectangles of a buffer are there at one step. `problem`: buffers; those of a pair count
    for what they cannot share. `capacity`: bytes there are. `limits`, `engines`: for the placements and proofs of
    the second case, which is left out without engines."""
    if any(b.at_once for b in problem.buffers):
        return None
    at_one_step = _at_one_step(problem, capacity)
    if at_one_step is not None or not engines or len(problem.buffers) > MOST_FILTERED:
        return at_one_step
    bounds = limits or Limits()

    def fits(members: Sequence[int]) -> tuple[bool | None, int]:
        packing = allocate_best(part_of(problem, members), replace(bounds, enough_bytes=capacity), engines)
        if packing.height_bytes <= capacity:
            return True, packing.lower_bound_bytes
        return (False if packing.lower_bound_bytes > capacity else None), packing.lower_bound_bytes

    return _filtered(len(problem.buffers), capacity, fits, bounds)


def find_indivisible(problem: Problem, capacities: Sequence[int]) -> Conflict | None:
    """Buffers live at one step that cannot be divided among memories of these capacities, and none can be left out.
    Any buffer may lie in any memory here: a set that cannot be divided so cannot be divided in fewer ways either.
    `capacity_bytes` of the answer is what all memories have together. None if there is no such set, it is too large
    to be sure of (`MOST_DIVISIONS`), or buffers of a pair may share bytes."""
    from lowtide.allocate.banks.assignment import least_cost
    from lowtide.allocate.banks.bank import Demand, Loads

    if problem.pairs:
        return None
    everywhere = Demand(tuple(range(len(capacities))), 0)

    def divisible(sizes: Sequence[int]) -> bool:
        alone = Problem(tuple(block(str(k), 0, 1, size) for k, size in enumerate(sizes)))
        assignment = least_cost(Loads(alone), [everywhere] * len(sizes), capacities)
        return assignment.bank_of is not None or not assignment.complete

    steps = sorted({p.start for b in problem.buffers for p in b.rectangles})
    live = {step: [] for step in steps}
    for i, b in enumerate(problem.buffers):
        for p in b.rectangles:
            for step in steps[bisect_left(steps, p.start) : bisect_left(steps, p.end)]:
                live[step].append((p.size, i))
    fullest = sorted(steps, key=lambda step: (-sum(size for size, _ in live[step]), step))[:MOST_STEPS]
    for step in fullest:
        members = sorted(live[step])
        if divisible([size for size, _ in members]):
            continue
        for row in list(members):
            rest = [other for other in members if other != row]
            if not divisible([size for size, _ in rest]):
                members = rest
        if len(capacities) ** len(members) > MOST_DIVISIONS:
            return None
        sizes = [size for size, _ in members]
        return Conflict(tuple(sorted(i for _, i in members)), step, sum(capacities), sum(sizes), True)
    return None


def _at_one_step(problem: Problem, capacity: int) -> Conflict | None:
    """Of all steps at which too much is live, one that needs the fewest buffers; the largest of those live there."""
    shared: dict[int, list[tuple[int, int]]] = {}
    for p in problem.pairs:
        size = min(problem.buffers[p.lower].size - max(p.distance, 0), problem.buffers[p.upper].size)
        shared.setdefault(p.lower, []).append((p.upper, max(size, 0)))
        shared.setdefault(p.upper, []).append((p.lower, max(size, 0)))
    begins: dict[int, list[tuple[int, int]]] = {}
    ends: dict[int, list[int]] = {}
    for i, b in enumerate(problem.buffers):
        for rectangle in b.rectangles:
            begins.setdefault(rectangle.start, []).append((i, rectangle.size))
            ends.setdefault(rectangle.end, []).append(i)
    live: dict[int, int] = {}
    best: Conflict | None = None
    for step in sorted({*begins, *ends}):
        for i in ends.get(step, ()):
            live.pop(i, None)
        live.update(begins.get(step, ()))
        if step not in begins or sum(live.values()) <= capacity:
            continue
        chosen: dict[int, int] = {}
        need = 0
        for i, size in sorted(live.items(), key=lambda row: (-row[1], row[0])):
            common = sum(c for j, c in shared.get(i, ()) if j in chosen)
            if size - common <= 0:
                continue
            chosen[i] = size - common
            need += size - common
            if need > capacity:
                break
        if need <= capacity or (best is not None and len(chosen) >= len(best.members)):
            continue
        minimal = all(not shared.get(i) for i in chosen)
        best = Conflict(tuple(sorted(chosen)), step, capacity, need, minimal)
    return best


def _filtered(
    count: int, capacity: int, fits: Callable[[Sequence[int]], tuple[bool | None, int]], limits: Limits
) -> Conflict | None:
    members = list(range(count))
    answer, need = fits(members)
    if answer is not False:
        return None
    minimal = True
    for i in range(count):
        if limits.left_seconds <= 0:
            return Conflict(tuple(members), None, capacity, need, False)
        rest = [j for j in members if j != i]
        answer, bound = fits(rest)
        if answer is False:
            members, need = rest, bound
        elif answer is None:
            minimal = False
    return Conflict(tuple(members), None, capacity, need, minimal)


SECONDS = 5.0
"""Most time for a conflict where every step's load fits: such a set takes a proof for each buffer left out."""


def arena_conflict(model: MemoryModel, layout: Layout, room: int, limits: Limits) -> PlanConflict | None:
    """Tensors of a layout that cannot share `room` bytes; None if no such set is found."""
    if layout.allocation.lower_bound_bytes <= room:
        return None  # nothing is proved of this order, so that no set is either
    buffers = buffers_of(layout, model)
    limits = limits.at_most(SECONDS)
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
