"""Plans that recompute operators or offload values: the best order first, and where it does not fit, the
cheapest sequence that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.moves.objective import objective_of
from lowtide.api.moves.roomier import roomier
from lowtide.api.moves.swapping import Host, host_of, moved_tensors
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.ops.meaning import rounds_by_neighbours
from lowtide.rewrites import Recomputation, Recompute, Rewrite
from lowtide.schedule.order import Fixed
from lowtide.search.driver import Move
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.optimize.recompute.bound import PeakBound, PriceBound
    from lowtide.optimize.recompute.method import RecomputeMethod
    from lowtide.optimize.recompute.sequence import Sequenced

_ONCE, _BOUND = 0.2, 0.3  # shares of the time after which the order without repetitions and the bound are over

_SEARCHED = (0.7, 0.78, 0.84, 0.88, 0.92)
"""Shares after which a sequence is placed, each one for a smaller budget, until the arena fits."""

_WITHIN = 0.5
"""Part of these where the time is bounded too: the rest is for the lowest peak, if the budget takes too much time."""

_MOST_PLACED = 3  # of the lowest sequences within a bound on time so many are placed at most

_MOST_ASKED = 64  # ops at which a bound is asked for: those with the most live in the best order


class _Sequence(Fixed):
    """The order that the search for a sequence found."""

    name: ClassVar[str] = "sequence"


def recompute_moves(job: Job, goal: OneArena, problem: Problem, limits: Limits) -> tuple[Answer, list[Move[Answer]]]:
    """The best order, and the move to recomputation and offload, where the budget is not met without. Raises
    `InputError`: there is neither a budget nor a bound on time, or the target's runtime has an arena of its own."""
    from lowtide.optimize.recompute.sequence import sequenced

    _check(job, goal)
    _check_method(job, problem)
    if job.exact_bits and any(rounds_by_neighbours(problem.graph, op) for op in problem.graph.ops):
        raise InputError(
            "its tensors have half precision, and onnxruntime's rounding of it depends on neighbouring nodes: a "
            "recomputed operator may change a bit; leave out --exact-bits, or recompute",
            problem.place,
        )
    host = host_of(job, problem.graph)
    once = goal.solve(problem, job.search, limits.until(_ONCE))
    sequence = sequenced(problem.memory, once.order)
    sequence = sequence if host is None else host.problem(sequence)
    opening, move = opening_and_move(RecomputeCall(job, goal, problem, sequence, once, limits, host))
    return opening, [] if move is None else [move]


def opening_and_move(call: RecomputeCall) -> tuple[Answer, RecomputeOrOffload | None]:
    """The plan without repetitions, and the move to plans with some; None: it fits, or no plan does. A published
    method's plan is what it makes."""
    from lowtide.optimize.recompute.bound import PriceBound
    from lowtide.optimize.recompute.sequence import least_possible

    goal, once, most = call.goal, call.once, call.most_units
    room = None if goal.budget is None else goal.budget - goal.reserve
    if room is not None:
        never = least_possible(call.sequence)[0] > room
        if once.keys["required_bytes"] <= (goal.budget or 0) or never or once.keys["stopped"] == "interrupt":
            return _without(call), None
    bound = PriceBound(0) if room is None else _bound(call, room)
    move = RecomputeOrOffload(
        call, bound, None if most is None else _peak_bound(call, most - call.sequence.costs.total)
    )
    if room is not None and call.job.repeats is not None:
        return move.with_bounds(_by_method(call, room, call.job.repeats)), None
    return move.with_bounds(placed(call, once.order, once.keys["stopped"], {}, keep_order=True)), move


@dataclass
class RecomputeOrOffload(Move[Answer]):
    """Recomputes operators, or offloads values: the sequence of least time within the budget, or of least peak within a
    bound on the time."""

    call: RecomputeCall
    bound: PriceBound  # on the time within the budget
    least_peak: PeakBound | None = None  # on the peak within the bound on time, where it is known
    is_terminal: bool = True

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The best plan with repetitions."""
        call = replace(self.call, limits=limits)
        budget, most = call.goal.budget, call.most_units
        found = None if budget is None else _cheapest(call, budget - call.goal.reserve, self.bound)
        if found is None or (most is not None and (call.units(found) > most or found.keys["status"] != "ok")):
            assert most is not None, call.job
            assert self.least_peak is not None, call.job
            found = _lowest(call, most, self.least_peak)
        self.unfinished = limits.over()
        return None if found is None else self.with_bounds(found)

    def with_bounds(self, answer: Answer) -> Answer:
        """An answer with what a plan says of repetitions."""
        return replace(answer, keys=recomputation_keys(self.call, answer, self.bound, self.least_peak))


def repeated(call: RecomputeCall) -> Answer:
    """The plan of a call whose best order is known."""
    opening, move = opening_and_move(call)
    if move is None or call.once.keys["stopped"] == "interrupt":
        return opening
    found = move.propose(opening, call.limits)
    return opening if found is None else min(opening, found, key=objective_of(call.job).key)


@dataclass(frozen=True)
class RecomputeCall:
    """A job whose best order is known, and its operators as they may be recomputed."""

    job: Job
    goal: OneArena
    problem: Problem
    sequence: Sequenced
    once: Answer
    limits: Limits
    host: Host | None = None

    @property
    def max_overhead(self) -> float | None:
        """Part of the time that recomputation may add."""
        return None if self.job.costs is None else self.job.costs.max_overhead

    @property
    def most_units(self) -> int | None:
        """What all runs may cost together, in units; None: anything."""
        if self.max_overhead is None:
            return None
        total = self.sequence.costs.total
        return total + int(Fraction(str(self.max_overhead)) * total)

    def units(self, answer: Answer) -> int:
        """What all runs of an answer cost, and the time in which they wait for transfers."""
        rewrites = answer.keys.get("rewrites") or ()
        if self.host is not None:
            return self.host.planned(self.sequence, rewrites, [answer.graph.ops[i].id for i in answer.order])
        clones = {r.op: r.of for r in rewrites if isinstance(r, Recompute)}
        ids = {op.id: cost for op, cost in zip(self.problem.graph.ops, self.sequence.costs.units, strict=True)}
        return sum(ids[clones.get(answer.graph.ops[i].id, answer.graph.ops[i].id)] for i in answer.order)

    def swapping(self, answer: Answer) -> PlanKeys:
        """The key of a plan with transfers."""
        if self.host is None:
            return answer.keys
        rewrites, order = answer.keys.get("rewrites") or (), [answer.graph.ops[i].id for i in answer.order]
        return {**answer.keys, "swapping": self.host.swapping(self.sequence, rewrites, order)}


def _check(job: Job, goal: OneArena) -> None:
    bounded = job.costs is not None and job.costs.max_overhead is not None
    if goal.budget is None and not bounded:
        raise InputError(
            f"--allow {','.join(job.allow)} trades time for memory within a budget, or memory for time within a "
            "bound; name one, as with --budget 70% or --max-overhead 10%"
        )
    if job.target.rule:
        raise InputError(
            f"target {job.target.name} runs each op of the file once; recompute under another one, as with "
            "--target generic"
        )
    swap = "offload" in job.allow
    if job.repeats is not None and swap and not job.repeats.moves:
        raise InputError(f"--method {job.repeats.name} knows no transfers; leave offload out of --allow, or the method")
    if job.repeats is not None and job.repeats.moves and job.allow != ("recompute", "offload"):
        raise InputError(f"--method {job.repeats.name} stores tensors, too: write --allow recompute,offload")
    if job.repeats is not None and (bounded or goal.budget is None):
        raise InputError(f"--method {job.repeats.name} is for a budget; leave out --max-overhead, or the method")
    if job.max_ops or goal.spread or (job.costs is not None and job.costs.given and not swap):
        raise InputError(
            "--max-ops, --spread and --cost are not for --allow recompute, which counts what the graph says its ops "
            "cost; leave them out"
        )


def _check_method(job: Job, problem: Problem) -> None:
    """Raise `InputError` if a published method cannot do the graph, before anything is searched."""
    from lowtide.optimize.recompute.sequence import sequenced

    if job.repeats is None:
        return
    reason = job.repeats.supports(sequenced(problem.memory, range(len(problem.graph.ops))))
    if reason is not None:
        raise InputError(f"method {job.repeats.name} cannot do this: {reason}; leave out --method", problem.place)


def _without(call: RecomputeCall) -> Answer:
    """The plan without repetitions: it fits, or no plan does."""
    scale, total = call.sequence.costs.scale, call.sequence.costs.total
    recomputation = Recomputation(
        counted=call.sequence.costs.counted,
        once=total / scale,
        planned=total / scale,
        lower_bound=total / scale,
        max_overhead=call.max_overhead,
    )
    keys: PlanKeys = {**call.swapping(call.once), "allow": list(call.job.allow), "recomputation": recomputation}
    return replace(call.once, keys=_with_status(call, keys))


def _crowded_ops(call: RecomputeCall) -> list[int]:
    """Positions of the ops with the most live in the best order, at which bounds are asked for."""
    from lowtide.analyse.liveness import profile

    footprint = profile(call.problem.memory, call.once.order).footprint
    steps = sorted(range(len(footprint)), key=lambda step: -footprint[step])[:_MOST_ASKED]
    return [call.once.order[step] for step in steps]


def _bound(call: RecomputeCall, room: int) -> PriceBound:
    """The best price cut: what recomputation or transfers cost at least within so many bytes."""
    from lowtide.optimize.recompute.bound import price_bound
    from lowtide.optimize.recompute.swap_bound import swap_time_bound

    share, ops = call.limits.until(_BOUND), _crowded_ops(call)
    if call.host is not None:
        return swap_time_bound(call.sequence, room, ops, call.host.bandwidth, lambda: not share.over())
    return price_bound(call.sequence, room, ops, lambda: not share.over())


def _peak_bound(call: RecomputeCall, extra: int) -> PeakBound:
    """The same for bytes within so much time."""
    from lowtide.optimize.recompute.bound import peak_bound
    from lowtide.optimize.recompute.sequence import least_possible
    from lowtide.optimize.recompute.swap_bound import swap_peak_bound

    least, ops = least_possible(call.sequence)[0], _crowded_ops(call)
    limits = call.limits.share(_BOUND)
    if call.host is not None:
        return swap_peak_bound(call.sequence, extra, least, ops, call.host.bandwidth, lambda: not limits.over())
    return peak_bound(call.sequence, extra, least, ops, lambda: not limits.over())


def _cheapest(call: RecomputeCall, room: int, bound: PriceBound) -> Answer:
    """The cheapest sequence whose arena fits, sought for a smaller peak where addresses lose bytes."""
    from lowtide.optimize.recompute.sequence import search

    key, total = objective_of(call.job).key, call.sequence.costs.total
    begin, best = call.once.order, None
    for part in _SEARCHED if call.most_units is None else [part * _WITHIN for part in _SEARCHED]:
        limits = call.limits.until(part)
        result = search(call.sequence, begin, room, limits, enough=total + bound.units)
        answer = placed(call, result.order, limits.why(result.stopped), call.limits.tally.counts)
        best = answer if best is None else min(best, answer, key=key)
        excess = answer.keys["required_bytes"] - (call.goal.budget or 0)
        if excess <= 0 or not result.found or result.stopped == "interrupt":
            break
        room -= max(excess, call.problem.target.alignment)
        begin = tuple(result.order)
    assert best is not None, call.job
    return best


def _by_method(call: RecomputeCall, room: int, method: RecomputeMethod) -> Answer:
    """What a published method makes of it, asked a second time for a smaller peak where addresses lose bytes."""
    budget, scale, best = call.goal.budget or 0, call.sequence.costs.scale, None
    for part in _SEARCHED:
        result = method.repeat(call.sequence, call.once.order, room, call.limits.until(part))
        ended = "complete" if best is not None and result.ended in ("optimal", "infeasible") else result.ended
        figures = {**result.counters, "ended": ended, "among": result.among}
        if result.bound_units and best is None:
            figures["among_bound"] = result.bound_units / scale
        if not result.order and best is not None:
            break
        stopped = "time" if result.ended == "time" else "complete"
        answer = placed(call, result.order or call.once.order, stopped, figures)
        if best is None or answer.keys["required_bytes"] < best.keys["required_bytes"]:
            best = replace(answer, method=method.name)
        excess = answer.keys["required_bytes"] - budget
        if excess <= 0 or not result.order or call.limits.until(part).over():
            break
        room -= max(excess, call.problem.target.alignment)
    assert best is not None, method
    return best


def _lowest(call: RecomputeCall, most: int, least_peak: PeakBound) -> Answer | None:
    """The sequence of least peak within the bound on time: of the last few found the one of the smallest arena."""
    from lowtide.optimize.recompute.least_bytes import least_bytes

    key, best = objective_of(call.job).key, None
    lowest = least_bytes(call.sequence, call.once.order, most, least_peak.bytes, call.limits.until(_SEARCHED[0]))
    for spent in lowest.found[: -_MOST_PLACED - 1 : -1]:
        if best is not None and spent.peak >= best.keys["required_bytes"] - call.goal.reserve:
            break
        answer = placed(call, spent.order, lowest.stopped, {"budgets": lowest.tried})
        best = answer if best is None else min(best, answer, key=key)
    return best


def placed(
    call: RecomputeCall, order: Sequence[int], stopped: str, figures: Mapping[str, object], *, keep_order: bool = False
) -> Answer:
    """A sequence as a graph, with its arena: in another order of no higher peak and no more time, where that takes less
    room, and there is none too much. `keep_order`: whether no other order is tried."""
    from lowtide.transform.runs import apply

    runs = apply(call.problem.graph, call.sequence.with_views(order), moved_tensors(call.sequence))
    at, problem = runs.graph.index_of, Problem.of(runs.graph, call.problem.target)
    given = tuple(at[v] for v in runs.order)
    given = given if keep_order else _roomier(call, problem, given, runs.rewrites)
    fixed = replace(call.job.search, method=_Sequence(given), require_optimal=False, gap=0.0)
    answer = call.goal.solve(problem, fixed, call.limits)
    keys: PlanKeys = {
        **answer.keys,
        "rewrites": list(runs.rewrites) or None,
        "stopped": "time" if stopped == "time" else "interrupt" if stopped == "interrupt" else "complete",
        "search": {
            **answer.keys.get("search", {}),
            **figures,
            "once_peak_bytes": call.once.keys["peak_bytes"],
        },
    }
    seconds = call.limits.passed_seconds
    return replace(answer, keys=keys, own_order_peak_bytes=call.problem.own_order_peak_bytes, schedule_seconds=seconds)


def _roomier(
    call: RecomputeCall, problem: Problem, order: tuple[int, ...], rewrites: Sequence[Rewrite]
) -> tuple[int, ...]:
    """The same runs in an order that leaves the arena more room, if one is found that takes no more time; else as they
    are."""
    other = roomier(problem, order, rewrites, call.goal.arena_budget(problem), call.limits)
    if other is None or call.host is None:
        return other or order
    first, second = (
        call.host.planned(call.sequence, rewrites, [problem.graph.ops[i].id for i in runs]) for runs in (order, other)
    )
    return other if second <= first else order


def recomputation_keys(
    call: RecomputeCall, best: Answer, bound: PriceBound, least_peak: PeakBound | None = None
) -> PlanKeys:
    """What the plan says of recomputation; no bound on its peak but the largest op, and `least_peak`."""
    from lowtide.optimize.recompute.bound import certificate

    sequence = call.sequence
    scale, total, planned = sequence.costs.scale, sequence.costs.total, call.units(best)
    recomputation = Recomputation(
        counted=sequence.costs.counted,
        once=total / scale,
        planned=planned / scale,
        lower_bound=(total + bound.units) / scale,
        certificate=certificate(sequence, bound),
        max_overhead=call.max_overhead,
        least_peak_bytes=None if least_peak is None else least_peak.bytes,
        peak_certificate=None if least_peak is None else certificate(sequence, least_peak.priced()),
    )
    keys: PlanKeys = {**call.swapping(best), "allow": list(call.job.allow), "recomputation": recomputation}
    least = best.keys["peak_bytes"] == least_peak.bytes if least_peak is not None else planned == total + bound.units
    if call.job.search.require_optimal and keys["status"] == "ok" and not least:
        keys["status"] = "unproved"
    return _with_status(call, keys)


def _with_status(call: RecomputeCall, keys: PlanKeys) -> PlanKeys:
    """What is impossible for an order of one graph is over budget, but where some op alone needs more, however often
    others run, and the search has come to an end."""
    from lowtide.optimize.recompute.sequence import least_possible

    budget, reserve = call.goal.budget, call.goal.reserve
    if keys["status"] == "impossible" and budget is not None:
        never = least_possible(call.sequence)[0] + reserve > budget
        keys["status"] = "impossible" if never and keys["stopped"] != "interrupt" else "over_budget"
    return keys
