"""Checks plans, and proves their bounds a second time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.api.exported import as_file
from lowtide.api.job import check_time
from lowtide.api.models import load, load_for
from lowtide.api.objects import Model
from lowtide.api.optimized import planned_model
from lowtide.api.problem import Rules
from lowtide.api.running import check_run, runtime_format
from lowtide.api.running import run as run_both
from lowtide.arguments import typed
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan, read_plan
from lowtide.rewrites import in_parts
from lowtide.sizes import NO_DIMS, Dims
from lowtide.target import BUILT_IN, Target

if TYPE_CHECKING:
    from lowtide.verify.report import Proof, Report


@typed
def verify(
    model: Model,
    plan: Plan | str | Path | None = None,
    *,
    target: str | Target = "auto",
    dims: Dims = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    run: bool = False,
    random_weights: bool = False,
    timed: bool = False,
    prove: bool = False,
    time: float = 60.0,
) -> Report:
    """Check a plan with code that shares no algorithm with the planners.

    Parameters
    ----------
    plan
        The plan; None for a .tflite file: check the offline plan that it holds.
    target, overwrite_inputs, pin_inputs
        As the plan was made with; ``"auto"`` takes the built-in target that the plan names, or the rules of another one
        that it carries.
    dims
        Sizes of free dimensions, as for `load`; without any, those that the plan says.
    run
        Also run the model in its own and in the plan's order, as `lowtide.run` does, and compare the outputs; and of
        one node of every tiled kind by itself, untiled and tiled.
    random_weights
        For `run`: put random weights where the model's own are missing.
    timed
        For `run`: also run both in turn, for how long they take and how much memory their processes have.
    prove
        Also prove the bounds of order and arena, as `lowtide.research.prove` does, each in at most `time` seconds.

    Returns
    -------
    Report
        What held; `Report.proof`, `Report.arena_proof` and `Report.run` if requested.

    Raises
    ------
    InputError
        The plan is for another model or cannot be read; or as `lowtide.run`.
    VerificationError
        What does not hold, by name; ``"cut_nodes"`` if a node gives something else tiled than untiled, ``"outputs"``
        if the outputs differ, ``"measured"`` if a figure that the plan calls
        exact was missed. Its `report` is what held before.
    """
    from lowtide.verify.check.fission import around_parts
    from lowtide.verify.check.plan import verify_plan
    from lowtide.verify.prove.arena import prove_arena
    from lowtide.verify.prove.search import prove as search_again

    check_time(time)
    for option, wanted in (("--random-weights is", random_weights), ("timed is", timed)):
        if wanted and not run:
            raise InputError(f"{option} for --run; leave it out, or run the model")
    if plan is None:
        if run or prove:
            raise InputError("--run and --prove are about a plan; name its file", str(model))
        if isinstance(model, str | Path) and not str(model).lower().endswith(".tflite"):
            raise InputError(f"give the plan: lowtide verify {model} PLAN.plan.json")
        graph = load(model, dims)
        return verify_file(graph, Rules(target, overwrite_inputs, pin_inputs).resolve(graph.source))
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    if run:
        check_run(model, plan, random_weights=random_weights)
    with planned_model(plan, model) as source:
        rules = Rules(target, overwrite_inputs, pin_inputs)
        checked = _Checked.of(source, NO_DIMS if source != model else dims, plan, rules)
        report = verify_plan(checked.graph, checked.plan, checked.target)
        if target == "auto" and checked.plan.target.partition(",")[0] not in BUILT_IN:
            note = f"target {checked.plan.target} is not built in: it was judged by the rules that the plan carries"
            report = replace(report, notes=(*report.notes, note))
        if prove:
            what = (*around_parts(checked.graph, checked.plan, checked.target), checked.target)
            arena = prove_arena(*what, seconds=time)
            report = replace(report, proof=search_again(*what, seconds=time), arena_proof=arena)
        if run:
            how = {"dims": dims, "random_weights": random_weights, "timed": timed}
            assert not isinstance(model, Graph)
            with as_file(model) as file:
                return _run_checked(file, checked, report, how)
        return report


def verify_file(graph: Graph, target: Target) -> Report:
    """Check the offline plan that a .tflite file holds, with code of the checker alone. A file that lowtide wrote
    says for whose kernels its plan holds, and is judged by that unless `target` names some. Raises `InputError`: no
    .tflite file, or one without an offline plan. Raises `VerificationError`: ``offline_plan``, ``alignment`` or
    ``overlap``: what TFLM would not notice, and compute wrong results with."""
    from lowtide.read.tflite.model import TfliteFile
    from lowtide.runtimes.registry import runtime_of
    from lowtide.verify.check.offline import check_offline_plan

    place = graph.source or graph.name
    if not isinstance(graph.file, TfliteFile):
        raise InputError("give the plan to check as well; only a .tflite file can hold one itself", place)
    listed = graph.file.offline_plan()
    if listed is None:
        raise InputError("it holds no offline plan; give the plan to check as well", place)
    target = runtime_of(target).target_of_file(graph)
    return check_offline_plan(graph, target, listed, graph.file.model.tensor_count)


@dataclass(frozen=True)
class _Checked:
    """A plan, with the graph and the target that it is to be checked against."""

    graph: Graph
    plan: Plan
    target: Target

    @classmethod
    def of(cls, model: Model, dims: Dims, plan: Plan | str | Path, rules: Rules) -> _Checked:
        """Rules that the plan itself says hold too."""
        plan = plan if isinstance(plan, Plan) else read_plan(plan)
        own = Rules.of_plan(plan, rules.target)
        target = replace(
            own,
            overwrite_inputs=own.overwrite_inputs or rules.overwrite_inputs,
            pin_inputs=own.pin_inputs or rules.pin_inputs,
        ).resolve()
        sizes = dims if isinstance(model, Graph) else plan.sizes(dims)
        return cls(target.as_seen(load_for(model, sizes, tiles=in_parts(plan.rewrites))), plan, target)


def _run_checked(model: str | Path, checked: _Checked, report: Report, how: dict[str, Any]) -> Report:
    """Run what is cut by itself, and the model in both orders. Raises `VerificationError`: a node gives something else
    in parts, outputs differ, or an exact figure was missed."""
    from lowtide.api.probing import probe_cuts
    from lowtide.run.measured import check_measured
    from lowtide.verify.check.rewrites import rewritten
    from lowtide.verify.check.runtime_arena import tensor_bytes
    from lowtide.verify.report import HeldRule

    how = how | {"dims": checked.plan.sizes(how["dims"])}
    if runtime_format(model) == "onnx" and not checked.plan.loops:
        changed = rewritten(checked.graph, checked.plan, checked.target)
        how = how | {"footprint_bytes": tensor_bytes(changed, checked.plan, checked.target)}
    try:
        nodes = probe_cuts(checked.graph, checked.plan)
        if nodes:
            report = replace(report, checks=(*report.checks, HeldRule("cut_nodes", nodes)))
        ran = run_both(model, None, checked.plan, **how)
        report = replace(report, run=ran)
        differ = [o for o in ran.outputs if not o.as_promised]
        if differ and ran.deterministic:
            names = ", ".join(f"{o.name} (by up to {o.max_abs_difference})" for o in differ[:5])
            more = f" and {len(differ) - 5} more" if len(differ) > 5 else ""
            raise VerificationError("outputs", f"{len(differ)} of {len(ran.outputs)} outputs differ: {names}{more}")
        check_measured(checked.plan, ran, report.footprint_bytes)
    except VerificationError as error:
        error.report = report
        raise
    return report


@typed
def prove(
    model: Model,
    plan: Plan | str | Path,
    *,
    target: str | Target = "auto",
    dims: Dims = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    time: float = 60.0,
) -> Proof:
    """Prove a plan's bound with a second, plain search where it was proved by one. Raises as `verify`."""
    from lowtide.verify.check.fission import around_parts
    from lowtide.verify.prove.search import prove as search_again

    check_time(time)
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    with planned_model(plan, model) as source:
        rules = Rules(target, overwrite_inputs, pin_inputs)
        checked = _Checked.of(source, NO_DIMS if source != model else dims, plan, rules)
    graph, outside = around_parts(checked.graph, checked.plan, checked.target)
    return search_again(graph, outside, checked.target, seconds=time)
