"""An arena as buffers: from the offsets of tensors to those of buffers, and back.

Reuse only where the capacity demands it: as many buffers as can be get bytes of their own.

Bytes that one buffer leaves to the next make the second wait for the first; runtimes that overlap transfers or run ops
in parallel lose by it. A buffer that is there at every step shares no byte with anything, so buffers are given the
full time as their lifetime, the smallest first, for as long as all of it is still placed within the capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lowtide.allocate.arena import Allocation, Engine, allocate_best
from lowtide.allocate.buffers import ArenaBuffers, Problem, Rectangle, arena_buffers
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.allocate.order_and_arena import Layout
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel, Overwrite
from lowtide.plan import Plan
from lowtide.stop import Limits


def overwrites_applied(
    model: MemoryModel, order: Sequence[int], steps: Profile, in_place: Iterable[tuple[int, int]]
) -> list[Overwrite]:
    """The overwrites that an arena is made with, where `in_place` are its pairs of output and input, by id."""
    exact = set(in_place)
    step_of = {i: step for step, i in enumerate(order)}
    return [
        o
        for row in model.overwrites
        for o in row
        if steps.last[o.storage] == step_of[o.op] and (o.distance is not None or (o.output, o.input) in exact)
    ]


def buffers_of(layout: Layout, model: MemoryModel) -> ArenaBuffers:
    """The buffers of a layout, as its in-place choices make them."""
    overwrites = overwrites_applied(model, layout.order, layout.profile, layout.allocation.in_place)
    return arena_buffers(model, layout.order, overwrites, model.alignment, layout.profile)


@dataclass(frozen=True)
class Placed:
    """The buffers of an arena, and the offset of each."""

    model: MemoryModel
    buffers: ArenaBuffers
    offsets: tuple[int, ...]

    @classmethod
    def of(
        cls, model: MemoryModel, buffers: ArenaBuffers, tensors: Mapping[int, int], workspaces: Mapping[int, int]
    ) -> Placed:
        """From the offsets of tensors and of workspaces, by tensor id and by op id."""
        offsets = [0] * len(buffers.problem.buffers)
        for s, (b, above) in buffers.place_of.items():
            for t in model.storages[s].tensors:
                if t in tensors and model.storage_of[t] == s:
                    offsets[b] = tensors[t] - model.displacement[t] - above
        for op, b in buffers.workspace_of.items():
            offsets[b] = workspaces[op]
        return cls(model, buffers, tuple(offsets))

    @classmethod
    def of_plan(cls, plan: Plan, model: MemoryModel) -> Placed:
        """The arena of a plan."""
        order = [model.graph.index_of[op] for op in plan.order]
        steps = profile(model, order)
        buffers = arena_buffers(
            model, order, overwrites_applied(model, order, steps, plan.in_place), model.alignment, steps
        )
        tensors, workspaces = (
            {int(key): at for key, at in (offsets or {}).items()} for offsets in (plan.offsets, plan.workspace_offsets)
        )
        return cls.of(model, buffers, tensors, workspaces)

    def tensor_offsets(self) -> dict[int, int]:
        """Offset of each tensor that takes room, by id."""
        sizes = self.model.graph.tensor_by_id
        at = {s: self.offsets[b] + above for s, (b, above) in self.buffers.place_of.items()}
        return {
            t: at[s] + self.model.displacement[t]
            for t, s in sorted(self.model.storage_of.items())
            if s in at and sizes[t].size
        }

    def workspace_offsets(self) -> dict[int, int]:
        """Offset of each workspace, by op id."""
        return {op: self.offsets[b] for op, b in sorted(self.buffers.workspace_of.items())}


def least_reuse_layout(layout: Layout, model: MemoryModel, capacity: int, limits: Limits) -> tuple[Layout, int]:
    """The layout with bytes reused only where the capacity requires it, and how many buffers share none with others.
    In-place results stay in place. The layout is unchanged, and no buffer counted, if the capacity is what it needs."""
    arena = layout.allocation
    placed = Placed.of(model, buffers_of(layout, model), arena.offsets, arena.workspace_offsets)
    packing_before = Packing(placed.offsets, arena.arena_bytes, arena.lower_bound_bytes, "plan", {})
    packing, alone = minimise_reuse(
        placed.buffers.problem, capacity, packing_before, replace(limits, enough_bytes=None)
    )
    if not alone:
        return layout, 0
    spread = replace(placed, offsets=packing.offsets)
    allocation: Allocation = replace(
        arena,
        offsets=spread.tensor_offsets(),
        workspace_offsets=spread.workspace_offsets(),
        arena_bytes=packing.height_bytes,
    )
    return replace(layout, allocation=allocation), alone


REUSE_ENGINES: tuple[Engine, ...] = (Portfolio(work=20_000_000),)  # they run up to `ROUNDS` times, so only quick ones
ROUNDS = 40  # placements that are tried at the most


def minimise_reuse(problem: Problem, capacity: int, placed: Packing, limits: Limits) -> tuple[Packing, int]:
    """A placement within the capacity with as many buffers to themselves as is found, and how many those are. `placed`:
    a placement of the problem; it stays if it is above the capacity."""
    if placed.height_bytes > capacity:
        return placed, 0
    tied = {i for p in problem.pairs for i in (p.lower, p.upper)}
    free = [i for i, b in enumerate(problem.buffers) if b.rectangles and i not in tied]
    order = sorted(free, key=lambda i: (problem.buffers[i].size, i))
    best, low, high = placed, 0, len(order) + 1
    for _ in range(ROUNDS):
        if high - low <= 1:
            break
        middle = len(order) if high == len(order) + 1 and low == 0 else (low + high) // 2
        trial = _alone(problem, order[:middle])
        packing = allocate_best(trial, replace(limits, enough_bytes=capacity), REUSE_ENGINES)
        if packing.height_bytes <= capacity:
            low, best = middle, packing
        else:
            high = middle
    return replace(best, lower_bound_bytes=placed.lower_bound_bytes), low


def _alone(problem: Problem, members: Sequence[int]) -> Problem:
    """The problem with these buffers there at every step."""
    start = min((b.start for b in problem.buffers if b.rectangles), default=0)
    end = max((b.end for b in problem.buffers), default=1)
    alone = set(members)
    return replace(
        problem,
        buffers=tuple(
            replace(b, rectangles=(Rectangle(start, end, 0, b.size),)) if i in alone else b
            for i, b in enumerate(problem.buffers)
        ),
    )
