"""The goal of a plan for several memories: each tensor wholly in one of them, the fewest bytes in slow ones."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys, op_ids
from lowtide.api.goals.one_arena import OneArena, Ordering, close_trace, for_order, order_keys
from lowtide.api.job import Job, Search, check_unlimited
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.plan import Status
from lowtide.spill_plan import PlanMemory, Residency
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.allocate.banks.bank import Bank
    from lowtide.allocate.banks.orders import Banked
    from lowtide.allocate.banks.places import Banks, Places
    from lowtide.api.goals.two_arenas import ArenaMemories
    from lowtide.runtimes.base import Runtime
    from lowtide.target import Target


@dataclass(frozen=True)
class SeveralMemories(Ordering):
    """Everything in memories of given sizes, nothing moved."""

    banks: tuple[Bank, ...]  # the memories, fastest first
    # Names of tensors, each with the memories that it may lie in, the preferred one first.
    places: Places = field(default_factory=dict)
    reserve: int = 0  # bytes that are required in addition to what the memories hold
    pointer: int = 32  # bits of a pointer where they are
    asked: Banks | None = None  # the memories as a call says them, whose alignments the target's offsets have to honour

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", dict(self.places))

    @classmethod
    def of(cls, arena: OneArena, banks: Banks | None, board: str | Path | None, places: Places) -> SeveralMemories:
        """From what a user says of memories, in place of what is said of one arena. Raises `InputError`: no memory is
        named, a memory or board is wrong, or something is said that is for one arena."""
        from lowtide.allocate.banks.boards import find_board
        from lowtide.allocate.banks.places import find_banks

        there = find_banks(banks, board)
        if not there:
            raise InputError("tensors are placed, but in no memory; name memories with --bank or --board")
        if arena.budget is not None:
            raise InputError("--budget is for one arena; with --bank and --board every memory has its own size")
        if arena.spread:
            raise InputError("--spread is for one arena with a budget; leave it out with --bank and --board")
        return cls(there, places, arena.reserve, 32 if board is None else find_board(board).pointer, banks)

    @property
    def for_arenas(self) -> ArenaMemories:
        """The same memories for a runtime's own arenas."""
        from lowtide.api.goals.two_arenas import ArenaMemories

        return ArenaMemories(self.banks, self.places, self.reserve)

    def under(self, target: Target) -> Target:
        """Memories are those of a device, and so are the pointers."""
        return target.on_device(self.pointer)

    def check(self, job: Job) -> None:
        """Runtimes with one arena of their own have only that; those with two place these."""
        from lowtide.allocate.banks.places import check_alignments
        from lowtide.runtimes.registry import runtime_of

        check_unlimited(job.target)
        if job.named:
            raise InputError("--allow is for one arena; leave it out, or the memories")
        check_alignments(self.asked, job.target.alignment)
        arenas = runtime_of(job.target).arenas
        if arenas == 1:
            name = job.target.name
            raise InputError(f"target {name} has one arena; plan for memories under another, as --target generic")
        if arenas == 2:
            self.for_arenas.check_places()

    def solve(self, problem: Problem, search: Search, limits: Limits) -> Answer:
        """Find an order, then memories and offsets for it or for one of equal peak."""
        from lowtide.runtimes.registry import runtime_of

        runtime = runtime_of(problem.target)
        if runtime.arenas:
            return self._solve_arenas(problem, search, limits, runtime)
        return self._solve(problem, search, limits)

    def _solve_arenas(self, problem: Problem, search: Search, limits: Limits, runtime: Runtime) -> Answer:
        """The least head is the best in any memories: it is planned as for one arena, then the arrays are divided."""
        from lowtide.api.goals.two_arenas import unknown_arenas

        answer = OneArena().solve(problem, replace(search, quick=False), limits)
        graph, order = problem.graph, op_ids(problem.graph, answer.order)
        offsets = {int(t): at for t, at in answer.keys.get("offsets", {}).items()}
        required = runtime.required(graph, order, offsets)
        if required is None:
            raise unknown_arenas(graph)
        return replace(answer, keys=self.for_arenas.keys(runtime, graph, order, required, answer.keys))

    def _solve(self, problem: Problem, search: Search, limits: Limits) -> Answer:
        """Tensors, each in the memory that takes it."""
        from lowtide.allocate.banks.orders import best_in_banks
        from lowtide.allocate.conflict import banks_conflict

        began = clock.perf_counter()
        limits = replace(limits, until_impossible=search.quick)
        schedule = self.find_order(problem, search, for_order(limits))
        seconds = clock.perf_counter() - began
        explore = search.best and schedule.stopped != "interrupt"
        banked = best_in_banks(problem.memory, schedule.order, self.banks, self.places, limits, explore=explore)
        keys = order_keys(problem, search, schedule, banked.layout)
        close_trace(limits, problem, keys, seconds)
        keys = self._with_memories(keys, problem, banked)
        if keys["status"] in ("over_budget", "impossible"):
            keys["conflict"] = banks_conflict(problem.memory, banked.layout, [b.capacity for b in self.banks])
        return Answer(problem, banked.layout.order, keys, search.method.name, seconds)

    def _with_memories(self, keys: PlanKeys, problem: Problem, banked: Banked) -> PlanKeys:
        placement, workspaces = banked.placement, sorted(banked.buffers.workspace_of.items())
        names = [self.banks[k].name for k in placement.bank_of]
        used = sum(placement.used_bytes)
        unit = problem.target.alignment
        slow = {
            "slow_bytes": placement.slow_bytes,
            "slow_lower_bound_bytes": placement.slow_lower_bound_bytes,
            "slow_accesses_bytes": placement.accesses_bytes,
        }
        return {
            **keys,
            "status": self._status(keys, problem, banked),
            "arena_bytes": used,
            "required_bytes": used + self.reserve,
            "reserve_bytes": self.reserve or None,
            "workspace_offsets": {str(o): placement.offsets[b] for o, b in workspaces} or None,
            "workspace_memories": {str(o): names[b] for o, b in workspaces} or None,
            "memories": [
                PlanMemory(
                    name=b.name,
                    capacity_bytes=b.capacity,
                    size_bytes=size,
                    alignment=b.alignment if b.alignment > unit else 1,
                )
                for b, size in zip(self.banks, placement.used_bytes, strict=True)
            ],
            "residency": _residency(problem, banked, names),
            "search": {**keys.get("search", {}), **slow},
        }

    def _status(self, keys: PlanKeys, problem: Problem, banked: Banked) -> Status:
        from lowtide.allocate.banks.orders import never_fits

        if banked.placement.fits:
            return keys["status"]
        if keys["stopped"] == "interrupt":
            return "over_budget"
        never = never_fits(problem.memory, self.banks, keys["lower_bound_bytes"])
        return "impossible" if never else "over_budget"


def _residency(problem: Problem, banked: Banked, names: Sequence[str]) -> list[Residency]:
    """Where each tensor is allocated from its storage's first step to its last; `names` are the buffers' memories."""
    model, steps = problem.memory, banked.layout.profile
    sizes: Mapping[int, int] = {t.id: t.size for t in problem.graph.tensors}
    n = max(len(banked.layout.order), 1)
    residency = [
        Residency(
            tensor=t,
            memory=names[b],
            offset=banked.placement.offsets[b] + above + model.displacement[t],
            start=max(steps.first[s], 0),
            end=min(steps.last[s] + 1, n),
        )
        for s, (b, above) in banked.buffers.place_of.items()
        for t in model.storages[s].tensors
        if sizes[t]
    ]
    return sorted(residency, key=lambda r: r.tensor)
