"""Plans whose gain is predicted: for TFLM, LiteRT, torch and compilers, and where onnxruntime cannot be asked.

    the order alone  ->  changes that add no work  ->  changes within 5 %, 10 %, ... more, as far as the call allows

No search knows the budget, and more time adds searches to those that less time has: so that neither a larger budget
nor more time gives a worse plan. The first plan that fits the budget is taken, else the one of the fewest bytes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import msgspec

from lowtide.allocate.order_and_arena import QUICK, place
from lowtide.analyse.liveness import largest_single_op
from lowtide.api.default.request import RUNTIME_FORMATS, Request, Tell
from lowtide.api.job import Job
from lowtide.api.models import load
from lowtide.api.problem import Problem
from lowtide.comparison import Comparison
from lowtide.errors import install_command
from lowtide.graph import Graph
from lowtide.plan import Plan, RuntimeFigure, Status
from lowtide.stop import Interrupt, Limits, noting

STEPS = {0.0: 0.5, 0.05: 1.0, 0.1: 0.25, 0.2: 0.25, 0.5: 0.25, 1.0: 0.25, 9.0: 0.25}
"""Parts of a model's time that a search may add, one search for each that the call allows, and its part of the seconds
of a search."""
_FIGURES = ("kTensorArenaSize", "arena", "in use", "head")
"""What a person declares or sees of a runtime's figures, the first that there is."""
_PLACED = 1.0
"""Seconds for the bound on the arena of the file order."""
_NAMES = {"in use": "allocator peak"}


def plan_predicted(request: Request, tell: Tell) -> Plan:
    """The plan of least memory, and what the runtime is predicted to take today and with it."""
    graph, budget = load(request.model, request.dims), request.budget_bytes
    jobs, best = _jobs(request, graph), None
    problem = jobs[0].problem()
    interrupt = Interrupt()
    with noting(interrupt), interrupt:
        for job in jobs:
            if best is not None and job.allow and _rank(best) <= (0, _least(job, best)):
                break
            found = request.solve(job, tell)
            if best is None or _rank(found) < _rank(best):
                best = found
                tell(msgspec.structs.replace(best, comparison=_comparison(request, best, problem), budget_bytes=budget))
            interrupt.seen = interrupt.seen or found.stopped == "interrupt"
            if interrupt.seen or (budget is not None and _rank(best) <= (0, budget)):
                break
    if best is None:
        raise KeyboardInterrupt
    if interrupt.seen:
        best = msgspec.structs.replace(best, stopped="interrupt")
    if budget is not None:
        best = _with_status(best, budget, jobs[-1])
    return msgspec.structs.replace(best, comparison=_comparison(request, best, problem))


def _rank(plan: Plan) -> tuple[int, int]:
    """Less is better: bytes of a tensor above its limit, then all bytes."""
    return (plan.above_limit, plan.required_bytes)


def _jobs(request: Request, graph: Graph) -> list[Job]:
    """The searches, those of the fastest plans first."""
    of = partial(request.job, graph, {}, target=request.target_name)
    jobs = [of(changes=False)]
    for part, share in STEPS.items():
        if request.slower is None or part <= request.slower:
            job = of(changes=True, max_overhead=part, time=share * request.seconds)
            works = tuple(word for word in job.allow if word in ("recompute-halos", "recompute"))
            if not part and graph.dialect != "labels":  # nothing is recomputed, so that no time has to be bounded
                job = replace(job, allow=tuple(word for word in job.allow if word not in works), costs=None)
            jobs += [job] if job.allow and (works or not part) else []
    return jobs


def _least(job: Job, plan: Plan) -> int:
    """Bytes that no plan needs less than with what a job allows, as far as a plan shows that; 0: nothing is known."""
    if plan.fission is not None:
        return plan.fission.floor_bytes
    if job.allow == ("recompute",):  # each op still has to run
        return largest_single_op(job.problem().memory)
    return 0 if job.allow else plan.least_required_bytes


def _with_status(plan: Plan, budget: int, job: Job) -> Plan:
    """A plan under a budget, impossible where that is proved of all that the last search allows."""
    status: Status = "over_budget" if plan.above_limit else "ok"
    if plan.required_bytes > budget:
        never = plan.stopped != "interrupt" and _least(job, plan) > budget
        status = "impossible" if never else "over_budget"
        plan = msgspec.structs.replace(plan, allow=plan.allow or list(job.allow) or None)
    return msgspec.structs.replace(plan, budget_bytes=budget, status=status)


def _comparison(request: Request, plan: Plan, problem: Problem) -> Comparison:
    """Both sides of the figure that a person can act on; `problem` is the unchanged graph."""
    found = {figure.what: figure for figure in plan.runtime_figures or ()}
    figure = next((found[what] for what in _FIGURES if what in found), None)
    target = plan.target.partition(",")[0]
    compiler = figure is None or figure.planned_bytes is None or target not in RUNTIME_FORMATS
    if figure is None or compiler:
        figure = RuntimeFigure(
            runtime=f"target {target}", what="arena", default_bytes=_own_arena(problem, plan),
            planned_bytes=plan.required_bytes,
        )  # fmt: skip
    timed = plan.cost or plan.recomputation or plan.fission
    overhead = None if timed is None else timed.overhead
    planned = figure.planned_bytes or plan.required_bytes
    makes_possible = bool(problem.target.above_limit(problem.graph)) and not plan.above_limit
    return Comparison(
        model=request.name,
        runtime=_runtime(target, figure.runtime),
        figure=_NAMES.get(figure.what, figure.what),
        today_bytes=figure.default_bytes,
        planned_bytes=planned,
        slowdown=1.0 if plan.rewrites is None and overhead is None else None if overhead is None else 1 + overhead,
        outputs={"bits": "equal", None: "equal"}.get(plan.exactness, "rounding"),
        sizes=request.shapes(problem.graph),
        assumed=request.assumed,
        today_tensor_bytes=problem.target.largest_tensor(problem.graph),
        # a compiler, which has no offsets yet, gains by those of an equal plan
        better=makes_possible
        or (plan.peak_bytes <= plan.own_order_peak_bytes if compiler else planned < figure.default_bytes),
    )


def _runtime(target: str, name: str) -> str:
    """Where the model runs; of onnxruntime, which was to be asked, why it was not."""
    if target != "onnxruntime":
        return name
    why = "no weights in the file" if find_spec("onnxruntime") else f"it is not installed: {install_command('run')}"
    return f"onnxruntime with its optimiser off, NOT MEASURED ({why})"


def _own_arena(problem: Problem, plan: Plan) -> int:
    """Bytes that an arena for the file order needs at the least, sizes rounded up as in the plan's."""
    if plan.rewrites is None and plan.fission is None and plan.order == [op.id for op in problem.graph.ops]:
        return plan.required_bytes
    if problem.target.allocates_one_by_one:
        return problem.own_order_peak_bytes
    own = tuple(range(len(problem.graph.ops)))
    return place(problem.memory, own, Limits(_PLACED), QUICK).allocation.lower_bound_bytes
