"""Plans that run ops again: the best order first, and where it does not fit, the cheapest sequence that does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.rewrites import Recomputation, Recompute
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide._core import SequenceResult
    from lowtide.analyse.model import MemoryModel
    from lowtide.optimize.recompute.bound import PriceBound
    from lowtide.optimize.recompute.sequence import Sequenced
    from lowtide.schedule.method import Schedule

_ONCE, _BOUND = 0.2, 0.3
"""Shares of the time after which the order without repetitions and the bound are over."""

_SEARCHED = (0.7, 0.78, 0.84, 0.88, 0.92)
"""Shares after which a sequence is placed, each one for a smaller budget, until the arena fits."""

_MOST_ASKED = 64
"""Ops at which a bound is asked for: those with the most live in the best order."""


@dataclass(frozen=True)
class _Given:
    """The order that the search for a sequence found, as the goal takes it: a method."""

    order: tuple[int, ...]
    name: ClassVar[str] = "sequence"

    def supports(self, model: MemoryModel) -> str | None:
        """It is of this graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """As it is."""
        from lowtide.schedule.method import Schedule

        return Schedule(self.order)


def solve_recomputing(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The plan of least time within the budget. Without repetitions where the best order fits it.

    Raises
    ------
    InputError
        There is no budget, or the target's runtime has an arena of its own.
    """
    from lowtide.optimize.recompute.sequence import least_possible, sequenced

    goal = job.goal
    assert isinstance(goal, OneArena), goal
    _check(job, goal, problem)
    assert goal.budget is not None, goal
    once = goal.solve(problem, job.search, replace(limits, seconds=limits.seconds * _ONCE))
    sequence = sequenced(problem.memory, once.order)
    least, _ = least_possible(sequence)
    room = goal.budget - goal.reserve
    if once.keys["required_bytes"] <= goal.budget or least > room or once.keys["stopped"] == "interrupt":
        return _without(job, once, sequence)
    bound = _bound(problem, sequence, once.order, room, limits)
    best = _place(job, problem, sequence, once, bound, limits)
    return replace(best, keys=_recomputation_keys(job, sequence, best, bound))


def _check(job: Job, goal: OneArena, problem: Problem) -> None:
    if goal.budget is None:
        raise InputError("--allow recompute trades time for memory within a budget; name one, as with --budget 70%")
    if job.target.rule:
        raise InputError(
            f"target {job.target.name} runs each op of the file once; recompute under another one, as with "
            "--target generic"
        )
    if not job.search.best:
        raise InputError("--allow recompute starts from the best order; leave out --method")
    if job.max_ops or goal.spread or job.costs is not None:
        raise InputError(
            "--max-ops, --spread, --cost and --max-overhead are not for --allow recompute, which counts what the graph "
            "says its ops cost; leave them out"
        )


def _without(job: Job, once: Answer, sequence: Sequenced) -> Answer:
    """The plan without repetitions: it fits, or no plan does."""
    scale, total = sequence.costs.scale, sequence.costs.total
    recomputation = Recomputation(
        counted=sequence.costs.counted, once=total / scale, planned=total / scale, lower_bound=total / scale
    )
    keys: PlanKeys = {**once.keys, "allow": list(job.allow), "recomputation": recomputation}
    return replace(once, keys=keys)


def _bound(problem: Problem, sequence: Sequenced, order: tuple[int, ...], room: int, limits: Limits) -> PriceBound:
    """The best price cut at the ops with the most live."""
    from lowtide.analyse.liveness import profile
    from lowtide.optimize.recompute.bound import price_bound

    share = replace(limits, seconds=limits.seconds * _BOUND)
    footprint = profile(problem.memory, order).footprint
    steps = sorted(range(len(order)), key=lambda step: -footprint[step])[:_MOST_ASKED]
    return price_bound(sequence, room, [order[s] for s in steps if footprint[s] > room], lambda: not share.over())


def _place(job: Job, problem: Problem, sequence: Sequenced, once: Answer, bound: PriceBound, limits: Limits) -> Answer:
    """The cheapest sequence whose arena fits, sought for a smaller peak where addresses lose bytes."""
    from lowtide.optimize.recompute.sequence import search
    from lowtide.transform.runs import apply

    goal = job.goal
    assert isinstance(goal, OneArena), goal
    assert goal.budget is not None, goal
    room, enough = goal.budget - goal.reserve, sequence.costs.total + bound.units
    begin, best = once.order, once
    for part in _SEARCHED:
        share = replace(limits, seconds=limits.seconds * part)
        found = search(sequence, begin, room, share, enough=enough)
        runs = apply(problem.graph, sequence.with_views(found.order))
        at = runs.graph.index_of
        method = _Given(tuple(at[v] for v in runs.order))
        fixed = replace(job.search, method=method, require_optimal=False)
        answer = goal.solve(Problem.of(runs.graph, problem.target), fixed, limits)
        keys: PlanKeys = {
            **answer.keys,
            "rewrites": list(runs.rewrites) or None,
            "stopped": found.stopped if found.stopped in ("time", "interrupt") else "complete",
            "search": {**answer.keys.get("search", {}), **_figures(found, once)},
        }
        seconds = limits.seconds - limits.left_seconds
        answer = replace(answer, keys=keys, own_order_peak_bytes=problem.own_order_peak_bytes, schedule_seconds=seconds)
        if best is once or answer.keys["required_bytes"] < best.keys["required_bytes"]:
            best = answer
        excess = answer.keys["required_bytes"] - goal.budget
        if excess <= 0 or not found.found or found.stopped == "interrupt":
            break
        room -= max(excess, problem.target.alignment)
        begin = tuple(found.order)
    return best


def _figures(result: SequenceResult, once: Answer) -> dict[str, int]:
    return {"chains": result.chains, "repairs": result.steps, "once_peak_bytes": once.keys["peak_bytes"]}


def _recomputation_keys(job: Job, sequence: Sequenced, best: Answer, bound: PriceBound) -> PlanKeys:
    """What the plan says of running ops again; no bound on its peak but the largest op."""
    from lowtide.optimize.recompute.bound import certificate

    scale, total = sequence.costs.scale, sequence.costs.total
    clones = {r.op: r.of for r in best.keys.get("rewrites") or () if isinstance(r, Recompute)}
    ids = {op.id: cost for op, cost in zip(sequence.model.graph.ops, sequence.costs.units, strict=True)}
    planned = sum(ids[clones.get(best.graph.ops[i].id, best.graph.ops[i].id)] for i in best.order)
    recomputation = Recomputation(
        counted=sequence.costs.counted,
        once=total / scale,
        planned=planned / scale,
        lower_bound=(total + bound.units) / scale,
        certificate=certificate(sequence, bound),
    )
    keys: PlanKeys = {**best.keys, "allow": list(job.allow), "recomputation": recomputation}
    if job.search.require_optimal and keys["status"] == "ok" and planned > total + bound.units:
        keys["status"] = "unproved"
    return keys
