"""Plans that cut: from the best order of the uncut graph to regions, a part graph and an order of its parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.models import load
from lowtide.api.problem import Problem, Rules
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import CutOp, CutRegion, Exactness
from lowtide.sizes import NO_DIMS, Dims
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.outputs import Outputs
    from lowtide.transform.cut import Cutter, Region
    from lowtide.transform.parts import PartGraph

ALLOWED = ("fission",)
"""What a plan may be allowed to change."""

_UNCUT, _SEARCH = 0.2, 0.6
"""Shares of the time after which the uncut graph's order, and the search for regions, are over."""


def allowed(words: str | Iterable[str]) -> tuple[str, ...]:
    """What may be changed, as a user says it: ``"fission"``, several with commas between, or a list.

    Raises
    ------
    InputError
        A word is none of `ALLOWED`.
    """
    listed = words.split(",") if isinstance(words, str) else list(words)
    for word in listed:
        if word and word not in ALLOWED:
            raise InputError(f"--allow does not know {word[:40]!r}; it may be {', '.join(ALLOWED)}")
    return tuple(dict.fromkeys(word for word in listed if word))


def solve_cut(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best plan with regions cut, or without if that needs no more.

    What is proved is about orders of one graph, so that no budget is impossible here.

    Raises
    ------
    InputError
        The model is in a format whose ops cannot be cut.
    """
    from lowtide.transform.cut import Cutter

    check_format(problem)
    assert isinstance(job.goal, OneArena), job.goal
    uncut = job.goal.solve(problem, job.search, replace(limits, seconds=limits.seconds * _UNCUT))
    within = job.goal.budget is not None and uncut.keys["required_bytes"] <= job.goal.budget
    enough = within or uncut.keys["stopped"] == "interrupt"
    cut, interrupted = (None, False) if enough else _cut(job, job.goal, problem, uncut, limits)
    best = uncut if cut is None or cut.keys["required_bytes"] >= uncut.keys["required_bytes"] else cut
    keys: PlanKeys = {**best.keys, "allow": list(job.allow)}
    if job.costs is not None and best is uncut:
        whole = job.costs.model(Cutter(problem.graph)).whole()
        keys["cost"] = job.costs.of_plan(whole, whole)
    if keys["status"] == "impossible":
        keys["status"] = "over_budget"
    if interrupted:
        keys["stopped"] = "interrupt"
    return replace(best, keys=keys)


def check_format(problem: Problem) -> None:
    """Raise `InputError` if there is nothing that spells parts in the model's format."""
    from lowtide.ops.part import speller

    if speller(problem.graph) is None:
        mend = "plan it without --allow"
        if problem.place.startswith("zoo:"):
            mend += ", or write it with `lowtide zoo NAME -o NAME.onnx` first"
        raise InputError(f"only ONNX models are cut; {mend}", problem.place)


def _cut(job: Job, goal: OneArena, problem: Problem, uncut: Answer, limits: Limits) -> tuple[Answer | None, bool]:
    """The best plan for regions along the best order, None if there is nothing to cut; and whether Ctrl-C ended the
    search for them."""
    from lowtide.optimize.regions import Bounds, best_regions
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import apply

    cutter, costs = Cutter(problem.graph, exact_bits=job.exact_bits), job.costs
    cost = None if costs is None else costs.model(cutter)
    most = 0 if costs is None or cost is None else costs.most_nanoseconds(cost.whole())
    search = replace(limits, seconds=limits.seconds * _SEARCH)
    bounds = Bounds(goal.room(problem) or 0, job.max_ops, most)
    way = best_regions(cutter, problem.memory, uncut.order, search, bounds, cost)
    interrupted = not way.complete and not search.over()
    if not way.regions or interrupted:
        return None, interrupted
    parts = apply(cutter, way.regions, [problem.graph.ops[i].id for i in uncut.order])
    answer = goal.solve(Problem.of(parts.graph, problem.target), job.search, limits)
    search_keys = {"uncut_peak_bytes": uncut.keys["peak_bytes"], "regions": way.evaluated}
    keys: PlanKeys = {
        **answer.keys,
        "rewrites": [*as_rewrites(parts)],
        "exactness": _exactness(cutter, way.regions),
        "proved_over": "orders",
        "search": {**answer.keys.get("search", {}), **search_keys},
    }
    if costs is not None and cost is not None:
        keys["cost"] = costs.of_plan(cost.whole(), cost.parts(parts))
    return replace(answer, keys=keys, parts=parts, own_order_peak_bytes=problem.own_order_peak_bytes), False


def _exactness(cutter: Cutter, regions: Iterable[Region]) -> Exactness:
    """The loosest class of the cuts."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    worst = 0
    for cut in (cut for region in regions for cut in region.cuts):
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        worst = max(worst, classes.index(known.access.exactness(cut.axis)))
    return classes[worst]


def as_rewrites(parts: PartGraph) -> list[CutRegion]:
    """What a plan says was decided."""
    return [
        CutRegion(ops=[CutOp(op=cut.op, axis=cut.axis, ends=list(cut.ends)) for cut in region.cuts])
        for region in parts.regions
    ]


def regions_of(rewrites: Iterable[object]) -> list[Region]:
    """The decision that a plan tells."""
    from lowtide.transform.cut import Cut, Region

    return [
        Region(tuple(Cut(c.op, c.axis, tuple(c.ends)) for c in r.ops)) for r in rewrites if isinstance(r, CutRegion)
    ]


def write_parts(
    plan: Plan,
    source: str | Path,
    out: str | Path,
    *,
    dims: Dims = NO_DIMS,
    copy_external: bool = False,
    outputs: Outputs | None = None,
) -> None:
    """Write the model of a plan with cuts. Raises as `part_graph` and `lowtide.write.onnx_parts.write_onnx_parts`."""
    from lowtide.write.onnx_parts import write_onnx_parts

    write_onnx_parts(source, part_graph(plan, source, dims), plan.order, out, copy_external, outputs)


def part_graph(plan: Plan, model: Graph | str | Path, dims: Dims = NO_DIMS) -> PartGraph:
    """The part graph of a plan with cuts, made again from its decision.

    Raises
    ------
    InputError
        The decision does not give what the plan lists: it was changed by hand.
    """
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import apply

    target = Rules.of_plan(plan).resolve()
    graph = target.as_seen(load(model, dims if isinstance(model, Graph) else plan.sizes(dims)))
    cutter, regions, place = Cutter(graph), regions_of(plan.rewrites or ()), graph.source or graph.name
    if not all(_can_be(cutter, region) for region in regions):
        raise InputError("its rewrites cut what cannot be cut so; plan the model again", place)
    try:
        parts = apply(cutter, regions)
    except ValueError as error:
        raise InputError(f"its rewrites cannot be: {error}; plan the model again", place) from None
    listed = {op.id: (op.part.inputs, op.part.outputs) for op in plan.ops if op.part is not None}
    made = {op: ([*own.operands], [*own.outputs]) for op in parts.parts for own in (parts.graph.op_by_id[op],)}
    if listed != made:
        raise InputError("its parts are not what its rewrites give; plan the model again", place)
    return parts


def _can_be(cutter: Cutter, region: Region) -> bool:
    """Whether a region that was read from a file has ops of the graph, axes that they are cut along, and as many
    stripes of each, which never fall and end with the axis."""
    if not region.cuts or not region.stripes:
        return False
    for cut in region.cuts:
        if cut.op not in cutter.graph.index_of or cut.axis not in cutter.axes(cut.op):
            return False
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        ends = (0, *cut.ends, known.access.sizes[cut.axis])
        if len(cut.ends) != region.stripes or list(ends) != sorted(ends) or ends[-1] != ends[-2]:
            return False
    return True
