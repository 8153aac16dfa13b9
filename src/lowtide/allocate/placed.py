"""A plan's arena as buffers, and back with other offsets: for arenas that are shared or spread out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.plan import Plan

if TYPE_CHECKING:
    from lowtide.allocate.buffers import ArenaBuffers
    from lowtide.analyse.liveness import Profile
    from lowtide.analyse.storage import MemoryModel, Overwrite
    from lowtide.stop import Limits
    from lowtide.target import Target


def taken(made: Plan, model: MemoryModel, order: Sequence[int], lifetimes: Profile) -> list[Overwrite]:
    """The overwrites that the arena of a plan is made with; `order` is that of the plan, in positions."""
    exact = set(made.in_place)
    step_of = {i: step for step, i in enumerate(order)}
    return [
        o
        for row in model.overwrites
        for o in row
        if lifetimes.last[o.storage] == step_of[o.op] and (o.distance is not None or (o.output, o.input) in exact)
    ]


@dataclass(frozen=True)
class PlacedPlan:
    """A plan, its model, and the buffers of its arena."""

    made: Plan
    model: MemoryModel
    buffers: ArenaBuffers

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where the plan puts each buffer."""
        found = [0] * len(self.buffers.problem.buffers)
        for s, (b, above) in self.buffers.place_of.items():
            for t in self.model.storages[s].tensors:
                at = self.made.offset_of(t)
                if at is not None:
                    found[b] = at - self.model.displacement[t] - above
        for op, b in self.buffers.workspace_of.items():
            found[b] = (self.made.workspace_offsets or {})[str(op)]
        return tuple(found)

    def moved(self, offsets: Sequence[int], height: int) -> Plan:
        """The plan with other offsets of its buffers, in an arena of this height."""
        import msgspec

        at = {s: offsets[b] + above for s, (b, above) in self.buffers.place_of.items()}
        sizes = self.model.graph.tensor_by_id
        placed = {
            str(t): at[s] + self.model.displacement[t]
            for t, s in sorted(self.model.storage_of.items())
            if s in at and sizes[t].size
        }
        bound = self.made.arena_lower_bound_bytes
        return msgspec.structs.replace(
            self.made,
            offsets=placed,
            workspace_offsets={str(op): offsets[b] for op, b in sorted(self.buffers.workspace_of.items())} or None,
            arena_bytes=height,
            required_bytes=height + (self.made.reserve_bytes or 0),
            arena_optimal=None if bound is None else bound == height,
        )


def placed_plan(made: Plan, model: MemoryModel) -> PlacedPlan:
    """A plan with its buffers."""
    from lowtide.allocate.buffers import arena_buffers
    from lowtide.analyse.liveness import profile

    order = [model.graph.index_of[op] for op in made.order]
    steps = profile(model, order)
    return PlacedPlan(
        made, model, arena_buffers(model, order, taken(made, model, order, steps), model.alignment, steps)
    )


def spread_plan(made: Plan, model: MemoryModel, limits: Limits) -> Plan:
    """The plan with bytes reused only where its budget demands it; as it is if it is over the budget.

    Tensors that lie over one another in place stay so.
    """
    import msgspec

    from lowtide.allocate.greedy import Packing
    from lowtide.allocate.spread import spread_out

    room = (made.budget_bytes or 0) - (made.reserve_bytes or 0)
    placed = placed_plan(made, model)
    height, bound = made.arena_bytes or 0, made.arena_lower_bound_bytes or 0
    known = Packing(placed.offsets, height, bound, "plan", {})
    packing, alone = spread_out(placed.buffers.problem, room, known, replace(limits, enough_bytes=None))
    if not alone:
        return made
    spread = placed.moved(packing.offsets, packing.height_bytes)
    return msgspec.structs.replace(spread, search={**(made.search or {}), "buffers_alone": alone})


def check_spread(spread: bool, budget: int | None, target: Target) -> None:
    """Raise `InputError` if a plan is to be spread out with nothing to spread into, or in a runtime's own arena."""
    if spread and budget is None:
        raise InputError("--spread needs --budget: without a limit nothing would be reused")
    if spread and target.rule:
        raise InputError(f"target {target.name} places tensors by rules of its own; leave out --spread")
