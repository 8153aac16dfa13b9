"""What the goals without moves have in common: an order of least peak, and how good that is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from lowtide.api.answer import PlanKeys
from lowtide.api.job import Options, Search
from lowtide.api.problem import Problem
from lowtide.certificates import Certificate, CutCertificate, NoCertificate
from lowtide.errors import InputError, sound
from lowtide.plan import Status
from lowtide.stop import Limits, Progress

if TYPE_CHECKING:
    from lowtide.allocate.order_and_arena import Layout
    from lowtide.schedule.method import Method, Schedule
    from lowtide.spill.answer import SpillMethod
    from lowtide.target import Target

SCHEDULE_SHARE = 0.9
"""Part of the time that the order may take; what it leaves is the arena's, which loses bytes without any."""


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
        """Run the method; one that is interrupted without a result leaves the own order. Raises `InputError`: the
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
    return replace(limits, seconds=SCHEDULE_SHARE * limits.seconds)


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
    """Begin the log with the own order and end it with the plan, if the method has not."""
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
