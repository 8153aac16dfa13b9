"""Plans that cut and run ops again: statistics over the rows that are cut are added up in passes of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.rewrites import Recomputation, Recompute
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.analyse.model import MemoryModel
    from lowtide.optimize.checkpoints import Checkpoints, Run
    from lowtide.schedule.method import Schedule
    from lowtide.transform.passed import Passed

_UNCUT, _CUTS, _PASSES = 0.1, 0.3, 0.8
"""Shares of the time after which the searches for an order, for cuts without passes, and for passes are over."""
_LARGE = 5000
"""Parts above which their own order stands, which runs one stripe after another."""
_ROOM = (1.0, 0.99, 0.97, 0.94)
"""Parts of a budget that the bytes live at once may take, until the arena is within it, too."""


@dataclass(frozen=True)
class Given:
    """The order of the stripes, as the goal takes it: a method."""

    name: ClassVar[str] = "exact"

    def supports(self, model: MemoryModel) -> str | None:
        """It is of this graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """As it is."""
        from lowtide.schedule.method import Schedule

        return Schedule(tuple(range(len(model.graph.ops))), stopped="complete")


def solve_passing(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The plan of least work within the budget, or of least peak within a bound on the work; without ops that run again
    where cuts alone are enough.

    Raises
    ------
    InputError
        There is neither a budget nor a bound on the work; or the model is no ONNX model.
    """
    from lowtide.api.rewrites.cut_search import CutSearch
    from lowtide.optimize.checkpoints import Checkpoints

    goal = job.goal
    assert isinstance(goal, OneArena), goal
    _check(job, goal, problem)
    limits = limits.over_choices()
    most_overhead = None if job.costs is None else job.costs.max_overhead
    alone = replace(job, allow=("fission",), costs=None)
    uncut = goal.solve(problem, job.search, replace(limits, seconds=limits.seconds * _UNCUT))
    search = CutSearch(alone, goal, problem, uncut, replace(limits, seconds=limits.seconds * _CUTS))
    fits = goal.budget is not None and uncut.keys["required_bytes"] <= goal.budget
    best = uncut if fits or uncut.keys["stopped"] == "interrupt" else search.best()
    fits = goal.budget is not None and best.keys["required_bytes"] <= goal.budget
    if fits or search.interrupted or uncut.keys["stopped"] == "interrupt":
        return _with_work(job, problem, best).under(job.allow, interrupted=search.interrupted)
    order = tuple(problem.graph.ops[i].id for i in uncut.order)
    until = replace(limits, seconds=limits.seconds * _PASSES)
    checkpoints = Checkpoints(problem.memory, order, until)
    most = None if most_overhead is None else int(Fraction(str(most_overhead)) * checkpoints.flops)
    interrupted = False
    try:
        best = _passed(job, goal, checkpoints, best, most, limits)
    except KeyboardInterrupt:
        interrupted = True
    figures = {
        **best.keys.get("search", {}),
        "segments_tried": checkpoints.tried,
        "uncut_peak_bytes": uncut.keys["peak_bytes"],
    }
    late = until.over() and best.parts is None and best.keys["stopped"] in ("proof", "complete")
    stopped = "time" if late else best.keys["stopped"]
    best = replace(best, keys={**best.keys, "search": figures, "stopped": stopped})
    return _with_work(job, problem, best).under(job.allow, interrupted=interrupted)


def _passed(
    job: Job, goal: OneArena, checkpoints: Checkpoints, best: Answer, most: int | None, limits: Limits
) -> Answer:
    """The best plan with passes, or the one that there is."""
    from lowtide.optimize.checkpoints import least

    room = goal.room(best.problem) if goal.budget is not None else None
    if room is None:
        runs = least(checkpoints, best.keys["peak_bytes"], most)
        tried = [] if runs is None else [_answer(job, goal, checkpoints, runs, limits)]
        return min([best, *tried], key=lambda a: a.keys["required_bytes"])
    for share in _ROOM:
        runs = checkpoints.way(int(room * share), most)
        if runs is None:
            break
        answer = _answer(job, goal, checkpoints, runs, limits)
        best = min(best, answer, key=lambda a: a.keys["required_bytes"])
        if best.keys["status"] == "ok":
            return best
    if best.keys["status"] != "ok":  # as low as it gets
        runs = least(checkpoints, best.keys["peak_bytes"], most)
        if runs is not None:
            best = min(best, _answer(job, goal, checkpoints, runs, limits), key=lambda a: a.keys["required_bytes"])
    return best


def _answer(job: Job, goal: OneArena, checkpoints: Checkpoints, runs: list[Run], limits: Limits) -> Answer:
    """The plan of some segments."""
    from lowtide.api.rewrites.decisions import as_rewrites, exactness
    from lowtide.transform.cut import Cutter

    user = checkpoints.memory.graph
    passed: Passed = checkpoints.applied(runs)
    problem = Problem.of(passed.parts.graph, checkpoints.memory.target)
    search = job.search
    if len(passed.parts.graph.ops) > _LARGE:
        search = replace(search, method=Given())
    answer = goal.solve(problem, search, limits)
    cutter = Cutter(passed.runs.graph)
    keys: PlanKeys = {
        **answer.keys,
        "rewrites": [*as_rewrites(passed.parts)],
        "exactness": exactness(cutter, passed.parts),
        "proved_over": "orders",
    }
    own = Problem.of(user, checkpoints.memory.target).own_order_peak_bytes
    return replace(answer, keys=keys, parts=passed.parts, own_order_peak_bytes=own)


def _with_work(job: Job, problem: Problem, answer: Answer) -> Answer:
    """The answer with what its ops that run again cost."""
    graph = problem.graph
    of = {r.op: r.of for r in answer.keys.get("rewrites") or () if isinstance(r, Recompute)}
    once = sum(op.flops or 0 for op in graph.ops)
    more = 0
    for op in of:
        root = op
        while root in of:
            root = of[root]
        own = graph.op_by_id.get(root)
        more += 0 if own is None else own.flops or 0
    cost = Recomputation(
        counted="flops",
        once=once,
        planned=once + more,
        lower_bound=once,
        max_overhead=None if job.costs is None else job.costs.max_overhead,
    )
    if answer.parts is None:
        return answer
    return replace(answer, keys={**answer.keys, "recomputation": cost})


def _check(job: Job, goal: OneArena, problem: Problem) -> None:
    bounded = job.costs is not None and job.costs.max_overhead is not None
    if goal.budget is None and not bounded:
        raise InputError(
            "--allow fission,recompute trades work for memory within a budget, or memory for work within a bound; name "
            "one, as with --budget 20% or --max-overhead 200%"
        )
    if problem.graph.dialect != "onnx":
        mend = ", or write it with `lowtide zoo NAME -o NAME.onnx` first" if problem.place.startswith("zoo:") else ""
        what = "ONNX models, and training steps whose ops have labels (zoo:magis_*),"
        raise InputError(f"only {what} are cut and run again; name recompute or fission alone{mend}", problem.place)
    if job.exact_bits:
        raise InputError("--allow fission,recompute adds up in another order; leave out --exact-bits, or recompute")
    if job.max_ops or goal.spread or job.repeats is not None or (job.costs is not None and job.costs.given):
        raise InputError(
            "--max-ops, --spread, --cost and published methods are not for --allow fission,recompute; leave them out"
        )
