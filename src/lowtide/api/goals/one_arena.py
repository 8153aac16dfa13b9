"""The goal of most plans: an order of least peak, and the smallest arena for it."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from lowtide.api.answer import Answer, PlanKeys, by_id, op_ids
from lowtide.api.job import Job, Options, Search
from lowtide.api.problem import Problem
from lowtide.certificates import Certificate, CutCertificate, NoCertificate
from lowtide.errors import InputError, sound
from lowtide.graph import MAX_BYTES
from lowtide.plan import PlanConflict, Status, least_required
from lowtide.sizes import Size, parse_share, parse_size
from lowtide.stop import Limits, Progress

if TYPE_CHECKING:
    from lowtide.allocate.order_and_arena import Layout
    from lowtide.runtimes.base import Required, Runtime
    from lowtide.schedule.method import Method, Schedule
    from lowtide.spill.answer import SpillMethod
    from lowtide.target import Target


@dataclass(frozen=True)
class Ordering:
    """What a goal without moves does with methods that only find an order."""

    def methods(self) -> list[str]:
        """Every scheduling method."""
        from lowtide.schedule.registry import methods

        return list(methods())

    def method(self, name: str | Method, options: Options) -> Method:
        """A scheduling method, by its name or made already. Raises `InputError` as `lowtide.schedule.registry.make`."""
        from lowtide.schedule.registry import make

        return make(name, options)

    def under(self, target: Target) -> Target:
        """The unmodified target."""
        return target

    def why_not(self, problem: Problem, method: Method | SpillMethod) -> str | None:
        """What the method says of the graph under its target."""
        return cast("Method", method).supports(problem.memory)

    def find_order(self, problem: Problem, search: Search, limits: Limits) -> Schedule:
        """Run the method; one that is interrupted without a result leaves the file order. Raises `InputError`: the
        method cannot do this."""
        from lowtide.schedule.method import Schedule

        method = cast("Method", search.method)
        reason = self.why_not(problem, method)
        if reason is not None:
            raise InputError(f"method {method.name} cannot do this: {reason}; use another one", problem.place)
        try:
            return method.schedule(problem.memory, limits)
        except KeyboardInterrupt:
            return Schedule(tuple(range(len(problem.graph.ops))), stopped="interrupt")


def for_order(limits: Limits) -> Limits:
    """Of these limits those of the search for an order."""
    return limits.until(SCHEDULE_SHARE)


def order_keys(problem: Problem, search: Search, schedule: Schedule, layout: Layout) -> PlanKeys:
    """What a plan says of its order; the peak is that of the in-place choices that the layout really makes."""
    import msgspec

    from lowtide.allocate.fragmentation import lost
    from lowtide.analyse.liveness import largest_single_op, profile, restricted
    from lowtide.schedule.restore_own_order import ops_moved

    memory, allocation = problem.memory, layout.allocation
    peak = layout.profile.peak
    if allocation.dropped:
        peak = profile(restricted(memory, set(allocation.in_place)), layout.order).peak
    bound, certificate = _bound(schedule, largest_single_op(memory), peak)
    figures = {**schedule.counters, "orders_placed": layout.tried, "ops_moved": ops_moved(layout.order)}
    where = lost(memory, layout.order, layout.profile, allocation)
    if where is not None:
        figures["arena_lost"] = msgspec.to_builtins(where)
    interrupted = layout.interrupted and schedule.stopped != "proof"
    status: Status = "unproved" if search.require_optimal and bound != peak else "ok"
    return {
        "status": status,
        "stopped": "interrupt" if interrupted else schedule.stopped,
        "peak_bytes": peak,
        "lower_bound_bytes": bound,
        "optimal": bound == peak,
        "certificate": certificate,
        "in_place": list(allocation.in_place),
        "overlap": list(allocation.overlap) or None,
        "required_bytes": allocation.arena_bytes,
        "search": figures,
    }


def close_trace(limits: Limits, problem: Problem, keys: PlanKeys, seconds: float) -> None:
    """Begin the log with the file order and end it with the plan, if the method has not."""
    trace = limits.trace
    if trace is None:
        return
    if not trace:
        trace.append(Progress(problem.own_order_peak_bytes, 0, 0.0))
    if (trace[-1].best_bytes, trace[-1].bound_bytes) != (keys["peak_bytes"], keys["lower_bound_bytes"]):
        trace.append(Progress(keys["peak_bytes"], keys["lower_bound_bytes"], seconds))


def _bound(schedule: Schedule, single_op: int, peak: int) -> tuple[int, Certificate]:
    """The better of the method's own bound and the largest single op; a proof only of the one that is taken."""
    if schedule.lower_bound > single_op:
        return sound(schedule.lower_bound, peak), schedule.certificate
    if isinstance(schedule.certificate, CutCertificate) and schedule.lower_bound == single_op:
        return single_op, schedule.certificate
    return single_op, NoCertificate()


@dataclass(frozen=True)
class OneArena(Ordering):
    """Everything in one arena, as small as can be."""

    budget: int | None = None  # bytes that the arena and the reserve may take together; decides the status
    reserve: int = 0  # bytes kept free of the budget
    spread: bool = False  # whether tensors reuse bytes only where the budget demands it
    share: float = 0.0  # the budget as a part of the file order's peak; 0: it is said in bytes, or not at all

    @classmethod
    def of(cls, budget: Size | None, reserve: Size | None, *, spread: bool) -> OneArena:
        """From sizes as a user says them. Raises `InputError` if one is none."""
        share = parse_share(budget, "budget") if isinstance(budget, str) and "%" in budget else 0.0
        budget_bytes = None if budget is None or share else parse_size(budget, "budget")
        return cls(budget_bytes, 0 if reserve is None else parse_size(reserve, "reserve", least=0), spread, share)

    def for_problem(self, problem: Problem) -> OneArena:
        """The goal with its budget in bytes."""
        if not self.share:
            return self
        return replace(self, budget=int(Fraction(str(self.share)) * problem.own_order_peak_bytes), share=0.0)

    def check(self, job: Job) -> None:
        """Bytes can be spread out only within a budget, and not in a runtime's own arena; what is placed is not cut."""
        if self.spread and self.budget is None and not self.share:
            raise InputError("--spread needs --budget: without a limit nothing would be reused")
        if self.spread and job.target.rule:
            raise InputError(f"target {job.target.name} places tensors by rules of its own; leave out --spread")
        if job.named and job.rules.named:
            raise InputError(
                "--allow changes tensors, and some are to keep a place of their own; leave one of them out"
            )

    def arena_budget(self, problem: Problem) -> int | None:
        """Bytes that a budget leaves for the arena, without the reserve and the runtime's own; None: there is none."""
        from lowtide.runtimes.registry import runtime_of

        if self.budget is None:
            return None
        return runtime_of(problem.target).arena_budget(problem.graph, self.budget - self.reserve)

    def solve(self, problem: Problem, search: Search, limits: Limits) -> Answer:
        """Find an order, then an arena for it or for one of equal peak, as the runtime takes it."""
        from lowtide.runtimes.registry import runtime_of

        runtime = runtime_of(problem.target)
        began = clock.perf_counter()
        room = self.arena_budget(problem)
        limits = replace(limits, budget_bytes=room, until_impossible=search.quick)
        schedule = self.find_order(problem, search, for_order(limits))
        seconds = clock.perf_counter() - began
        if search.quick and room is not None:
            limits = replace(limits, enough_bytes=MAX_BYTES if schedule.lower_bound > room else room)
        layout, block = _lay_out(problem, search, schedule, runtime, limits)
        keys = order_keys(problem, search, schedule, layout)
        close_trace(limits, problem, keys, seconds)
        arena = layout.allocation
        required = runtime.required(problem.graph, op_ids(problem.graph, layout.order), arena.offsets)
        keys = _with_runtime(_with_arena(keys, layout), layout, required, block)
        keys = self._with_status(problem, keys, runtime)
        if block is not None:
            keys["runtime_unknown"] = runtime.unknown(problem.graph) or None
        keys["conflict"] = self._conflict(problem, keys, layout, limits)
        if self.spread:
            keys = self._minimise_reuse(problem, keys, layout, runtime, limits)
        answer = Answer(problem, layout.order, keys, search.method.name, seconds)
        return self._within_budget(answer, search, limits) or answer

    def _within_budget(self, answer: Answer, search: Search, limits: Limits) -> Answer | None:
        """An answer of higher peak that fits where this one does not: sizes rounded up may make that of its arena."""
        keys = answer.keys
        over = self.budget is not None and keys["required_bytes"] > self.budget and keys["status"] == "over_budget"
        if search.quick or not search.best or not over or keys["stopped"] != "proof":
            return None
        other = self.solve(answer.problem, replace(search, quick=True), replace(limits, trace=None))
        return other if other.keys["required_bytes"] <= (self.budget or 0) else None

    def _with_status(self, problem: Problem, keys: PlanKeys, runtime: Runtime) -> PlanKeys:
        """Compare with the budget, and tensors with the target's limit. Where several things are wrong, the most final
        one is said."""
        graph, target = problem.graph, problem.target
        arena = keys.get("runtime_arena_bytes") or runtime.budgeted_bytes(
            keys["peak_bytes"], keys.get("arena_bytes", 0)
        )
        status: Status = keys["status"]
        if (self.budget is not None and arena + self.reserve > self.budget) or target.above_limit(graph):
            status = "over_budget"
        least = least_required(keys["lower_bound_bytes"], keys.get("runtime_parts"))
        if self.budget is not None and least + self.reserve > self.budget and keys["stopped"] != "interrupt":
            status = "impossible"
        return {
            **keys,
            "status": status,
            "required_bytes": arena + self.reserve,
            "budget_bytes": self.budget,
            "reserve_bytes": self.reserve or None,
            "largest_tensor_bytes": target.largest_tensor(graph),
        }

    def _conflict(self, problem: Problem, keys: PlanKeys, layout: Layout, limits: Limits) -> PlanConflict | None:
        """Which tensors cannot share the arena: the budget less what else is required."""
        from lowtide.allocate.conflict import arena_conflict

        if self.budget is None or keys["required_bytes"] <= self.budget:
            return None
        extra = keys["required_bytes"] - keys.get("arena_bytes", 0)
        return arena_conflict(problem.memory, layout, self.budget - extra, limits)

    def _minimise_reuse(
        self, problem: Problem, keys: PlanKeys, layout: Layout, runtime: Runtime, limits: Limits
    ) -> PlanKeys:
        """Bytes reused only where the budget demands it; nothing changes over the budget."""
        from lowtide.allocate.placed import least_reuse_layout

        room = (self.budget or 0) - self.reserve
        spread, alone = least_reuse_layout(layout, problem.memory, room, limits)
        if not alone:
            return keys
        keys = _with_arena(keys, spread)
        required = runtime.budgeted_bytes(keys["peak_bytes"], spread.allocation.arena_bytes) + self.reserve
        figures = {**keys.get("search", {}), "buffers_alone": alone}
        return {**keys, "required_bytes": required, "search": figures}


def _lay_out(
    problem: Problem, search: Search, schedule: Schedule, runtime: Runtime, limits: Limits
) -> tuple[Layout, int | None]:
    """The layout in the order that the runtime makes of this one, and what its own arena takes, if it has one."""
    from lowtide.allocate.order_and_arena import best_layout, place

    explore = search.best and schedule.stopped != "interrupt"
    layout = (best_layout if explore else place)(problem.memory, schedule.order, limits)
    own = runtime.own_arena(problem.memory, layout.order, limits, others=search.best)
    if own.order == layout.order:
        return layout, own.bytes
    return replace(place(problem.memory, own.order, limits), tried=layout.tried), own.bytes


def _with_arena(keys: PlanKeys, layout: Layout) -> PlanKeys:
    arena = layout.allocation
    return {
        **keys,
        "arena_bytes": arena.arena_bytes,
        "arena_lower_bound_bytes": arena.lower_bound_bytes,
        "arena_optimal": arena.optimal,
        "offsets": by_id(arena.offsets),
        "workspace_offsets": by_id(arena.workspace_offsets) or None,
    }


def _with_runtime(keys: PlanKeys, layout: Layout, required: Required | None, block: int | None) -> PlanKeys:
    """What the runtime makes of the arena: the head that it measures, and all that it needs."""
    if required is None:
        return {**keys, "runtime_arena_bytes": block}
    head = max(required.planned_bytes, layout.allocation.arena_bytes)
    return {
        **keys,
        "arena_bytes": head,
        "arena_optimal": head == layout.allocation.lower_bound_bytes,
        "runtime_arena_bytes": required.required_bytes,
        "runtime_parts": required.parts,
    }


SCHEDULE_SHARE = 0.9
"""Part of the time that the order may take; what it leaves is the arena's, which loses bytes without any."""
