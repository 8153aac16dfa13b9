"""Plans whose gain is predicted: for TFLM, LiteRT, torch and compilers, and where onnxruntime cannot be asked."""

from __future__ import annotations

import msgspec

from lowtide.api.default.request import RUNTIME_FORMATS, Request, Tell
from lowtide.api.models import load
from lowtide.comparison import Comparison
from lowtide.plan import Plan, RuntimeFigure

_FIGURES = ("kTensorArenaSize", "arena", "in use", "head")
"""What a person declares or sees of a runtime's figures, the first that there is."""
_NAMES = {"in use": "allocator peak"}


def plan_predicted(request: Request, tell: Tell) -> Plan:
    """The plan of least memory, and what the runtime is predicted to take today and with it."""
    graph = load(request.model, request.dims)
    settings: dict[str, object] = {"target": request.target_name}
    if graph.dialect == "tflite" and request.target is None:
        settings["target"] = "tflm,pointer=32"  # of microcontrollers
    if request.budget_bytes is not None:
        settings["budget"] = request.budget_bytes
    plain = request.solve(request.job(graph, {}, changes=False, **settings), tell)
    best = plain
    if plain.stopped != "interrupt" and (request.budget_bytes is None or plain.status != "ok"):
        if request.slower is not None:
            settings["max_overhead"] = request.slower
        job = request.job(graph, {}, changes=True, **settings)
        changed = request.solve(job, tell) if job.allow else plain
        if (changed.status != "ok", changed.required_bytes) < (plain.status != "ok", plain.required_bytes):
            best = changed
        elif best.status == "impossible" != changed.status:  # with its graph unchanged alone
            best = msgspec.structs.replace(best, status="over_budget")
    return msgspec.structs.replace(best, comparison=_comparison(request, best, request.shapes(graph)))


def _comparison(request: Request, plan: Plan, sizes: dict[str, str]) -> Comparison:
    """Both sides of the figure that a person can act on."""
    found = {figure.what: figure for figure in plan.runtime_figures or ()}
    figure = next((found[what] for what in _FIGURES if what in found), None)
    target = plan.target.partition(",")[0]
    compiler = figure is None or figure.planned_bytes is None or target not in RUNTIME_FORMATS
    if figure is None or compiler:
        figure = RuntimeFigure(
            runtime=f"a compiler (target {target})", what="arena", default_bytes=plan.own_order_peak_bytes,
            planned_bytes=plan.required_bytes,
        )  # fmt: skip
    overhead = None if plan.cost is None else plan.cost.overhead
    return Comparison(
        model=request.name,
        runtime="onnxruntime, optimiser off" if target == "onnxruntime" else figure.runtime,
        figure=_NAMES.get(figure.what, figure.what),
        today_bytes=figure.default_bytes,
        planned_bytes=figure.planned_bytes or plan.required_bytes,
        slowdown=1.0 if plan.rewrites is None and overhead is None else None if overhead is None else 1 + overhead,
        outputs={"bits": "equal", None: "equal"}.get(plan.exactness, "rounding"),
        sizes=sizes,
        assumed=request.assumed,
        better=_is_better(plan, figure, compiler=compiler),
    )


def _is_better(plan: Plan, figure: RuntimeFigure, *, compiler: bool) -> bool:
    """Whether the plan takes less than today; a compiler, which has no offsets yet, gains by those of an equal one."""
    if compiler:
        return plan.peak_bytes <= plan.own_order_peak_bytes
    return (figure.planned_bytes or plan.required_bytes) < figure.default_bytes
