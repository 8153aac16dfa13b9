"""Plans that cut: from the best order of the uncut graph to regions, a part graph and an order of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from lowtide.analyse.liveness import largest_single_op
from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.models import load
from lowtide.api.problem import Problem, Rules
from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES, Graph, Kind
from lowtide.plan import Plan
from lowtide.rewrites import CutOp, CutRegion, Exactness
from lowtide.sizes import NO_DIMS, Dims
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.optimize.regions import Way
    from lowtide.outputs import Outputs
    from lowtide.transform.cut import Cutter, Region
    from lowtide.transform.parts import PartGraph

ALLOWED = ("fission",)
"""What a plan may be allowed to change."""

_UNCUT, _SEARCH = 0.2, 0.6
"""Shares of the time after which the uncut graph's order, and the search for regions, are over."""
_TRIED = 6
"""Ways to cut that are planned to the end where more than the peak counts."""


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
    check_format(problem)
    assert isinstance(job.goal, OneArena), job.goal
    uncut = job.goal.solve(problem, job.search, replace(limits, seconds=limits.seconds * _UNCUT))
    within = job.goal.budget is not None and uncut.keys["required_bytes"] <= job.goal.budget
    enough = within or uncut.keys["stopped"] == "interrupt"
    cut, interrupted = (None, False) if enough else _cut(job, job.goal, problem, uncut, limits)
    best = uncut if cut is None or cut.keys["required_bytes"] >= uncut.keys["required_bytes"] else cut
    keys: PlanKeys = {**best.keys, "allow": list(job.allow)}
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
        raise InputError(f"only ONNX and TFLite models are cut; {mend}", problem.place)


def _cut(job: Job, goal: OneArena, problem: Problem, uncut: Answer, limits: Limits) -> tuple[Answer | None, bool]:
    """The best plan for regions along the best order, None if there is nothing to cut; and whether Ctrl-C ended the
    search for them."""
    from lowtide.transform.cut import Cutter

    cutter = Cutter(problem.graph, exact_bits=job.exact_bits)
    search = replace(limits, seconds=limits.seconds * _SEARCH)
    ways, complete = _ways(job, goal, problem, uncut, cutter, search)
    if not complete and not search.over():
        return None, True
    best: Answer | None = None
    for k, one in enumerate(ways):
        if best is not None and (limits.over() or (best.keys["status"] == "ok" and goal.budget is not None)):
            break
        if best is not None and _hopeless(job, problem, one, best):
            continue
        share = limits.seconds - limits.left_seconds * (1 - 1 / (len(ways) - k))
        answer = _parted(job, problem, uncut, cutter, one.way, one.parts, replace(limits, seconds=share))
        if best is None or _better(job, goal, answer, best, uncut):
            best = answer
    return best, False


def _hopeless(job: Job, problem: Problem, one: _Tried, best: Answer) -> bool:
    """Whether no order of some parts gives a better answer than there is: one of them alone needs as much."""
    least = largest_single_op(Problem.of(one.parts.graph, problem.target).memory)
    if job.max_ops:
        return least >= best.keys.get("arena_bytes", 0)
    return least + one.beside >= best.keys["required_bytes"]


def _better(job: Job, goal: OneArena, answer: Answer, best: Answer, uncut: Answer) -> bool:
    """Whether an answer is better than another: it takes fewer bytes in all; within so many ops it has the lower peak,
    as long as all of it is below what is needed without cuts."""
    if not job.max_ops or goal.budget is not None:
        return answer.keys["required_bytes"] < best.keys["required_bytes"]
    most = uncut.keys["required_bytes"]
    keys = [(a.keys["required_bytes"] >= most, a.keys.get("arena_bytes", 0)) for a in (answer, best)]
    return keys[0] < keys[1]


def _ways(
    job: Job, goal: OneArena, problem: Problem, uncut: Answer, cutter: Cutter, limits: Limits
) -> tuple[list[_Tried], bool]:
    """What is worth a plan, the most promising first, with its parts; and whether the search was not stopped.

    Where the runtime keeps bytes for each op, they count beside the peak: then several are tried, those that need the
    fewest bytes first; within a number of ops that was asked for, those of the lowest peak that need fewer at all.
    """
    from lowtide.optimize.regions import best_regions, front_ways

    if not _beside(problem, problem.graph):
        way = best_regions(
            cutter, problem.memory, uncut.order, limits, least=goal.room(problem) or 0, most_ops=job.max_ops
        )
        parts = _apply(problem, uncut.order, cutter, way) if way.regions else None
        return [] if parts is None else [_Tried(way, parts, way.peak, 0)], way.complete
    tried = []
    ways = front_ways(cutter, problem.memory, uncut.order, limits)
    if problem.target.overlap != "never":  # the core takes what may lie over what it reads for one op with that
        apart = Problem.of(problem.graph, replace(problem.target, overlap="never"))
        ways += front_ways(cutter, apart.memory, uncut.order, limits)
    for way in {way.regions: way for way in ways}.values():
        if way.regions and (not job.max_ops or way.ops <= job.max_ops):
            parts = _apply(problem, uncut.order, cutter, way)
            tried.append(_Tried(way, parts, _in_turn(problem, parts.graph), _beside(problem, parts.graph)))
    room = None if goal.budget is None else goal.budget - goal.reserve
    less = [one for one in tried if one.required < uncut.keys["required_bytes"]] or tried

    def promise(one: _Tried) -> tuple[int, int]:
        if room is not None and one.required <= room:
            return (0, one.way.ops)
        return (one.peak if job.max_ops and room is None else one.required, one.way.ops)

    return sorted(less, key=promise)[:_TRIED], all(way.complete for way in ways)


@dataclass(frozen=True)
class _Tried:
    """A way to cut, its parts, their peak in turn, and what the runtime keeps for them."""

    way: Way
    parts: PartGraph
    peak: int
    beside: int

    @property
    def required(self) -> int:
        """Bytes of the whole arena."""
        return self.peak + self.beside


def _in_turn(problem: Problem, graph: Graph) -> int:
    """Peak of a part graph, its stripes one after the other: an order that is there without a search."""
    return Problem.of(graph, problem.target).own_order_peak_bytes


def _beside(problem: Problem, graph: Graph) -> int:
    """Bytes that the runtime keeps for a graph's ops beside what is planned."""
    from lowtide.runtimes.registry import runtime_of

    return MAX_BYTES - runtime_of(problem.target).room(graph, MAX_BYTES)


def arena_bytes(problem: Problem, order: Sequence[int], cutter: Cutter, way: Way) -> int | None:
    """Bytes of the arena for a way to cut an order, with what the runtime keeps for each op, before the parts are
    ordered again; None where it keeps nothing."""
    if not _beside(problem, problem.graph):
        return None
    return way.peak + _beside(problem, _apply(problem, order, cutter, way).graph if way.regions else problem.graph)


def _apply(problem: Problem, order: Sequence[int], cutter: Cutter, way: Way) -> PartGraph:
    from lowtide.transform.parts import apply
    from lowtide.transform.tflite_file import with_file

    return with_file(apply(cutter, way.regions, [problem.graph.ops[i].id for i in order]))


def _parted(
    job: Job, problem: Problem, uncut: Answer, cutter: Cutter, way: Way, parts: PartGraph, limits: Limits
) -> Answer:
    """The best plan of a part graph."""
    answer = job.goal.solve(Problem.of(parts.graph, problem.target), job.search, limits)
    search_keys = {"uncut_peak_bytes": uncut.keys["peak_bytes"], "regions": way.evaluated}
    keys: PlanKeys = {
        **answer.keys,
        "rewrites": [*as_rewrites(parts)],
        "exactness": _exactness(cutter, way.regions),
        "proved_over": "orders",
        "search": {**answer.keys.get("search", {}), **search_keys},
    }
    before, own = uncut.keys.get("runtime_parts"), keys.get("runtime_parts")
    if before is not None and own is not None:
        keys["runtime_parts"] = msgspec.structs.replace(own, own_planned=before.own_planned)
    return replace(answer, keys=keys, parts=parts, own_order_peak_bytes=problem.own_order_peak_bytes)


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
    """Write the model of a plan with cuts.

    Raises
    ------
    InputError
        As `part_graph`, and `lowtide.write.onnx_parts.write_onnx_parts` or
        `lowtide.write.tflite_parts.write_tflite_parts`.
    """
    parts = part_graph(plan, source, dims)
    if parts.graph.dialect == "tflite":
        from lowtide.runtimes.tflm.offline import offline_offsets
        from lowtide.write.tflite_parts import write_tflite_parts

        return write_tflite_parts(source, parts, plan.order, out, outputs, offline_offsets(plan), plan.kernels)
    from lowtide.write.onnx_parts import write_onnx_parts

    return write_onnx_parts(source, parts, plan.order, out, copy_external, outputs)


def part_graph(plan: Plan, model: Graph | str | Path, dims: Dims = NO_DIMS) -> PartGraph:
    """The part graph of a plan with cuts, made again from its decision.

    Raises
    ------
    InputError
        The decision does not give what the plan lists: it was changed by hand.
    """
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import apply
    from lowtide.transform.tflite_file import with_file

    target = Rules.of_plan(plan).resolve()
    graph = target.as_seen(load(model, dims if isinstance(model, Graph) else plan.sizes(dims)))
    cutter, regions, place = Cutter(graph), regions_of(plan.rewrites or ()), graph.source or graph.name
    if not all(_can_be(cutter, region) for region in regions):
        raise InputError("its rewrites cut what cannot be cut so; plan the model again", place)
    try:
        parts = with_file(apply(cutter, regions))
    except ValueError as error:
        raise InputError(f"its rewrites cannot be: {error}; plan the model again", place) from None
    listed = {op.id: (op.part.inputs, op.part.outputs) for op in plan.ops if op.part is not None}
    made = {op: ([*own.operands], [*own.outputs]) for op in parts.parts for own in (parts.graph.op_by_id[op],)}
    if listed != made:
        raise InputError("its parts are not what its rewrites give; plan the model again", place)
    return parts


def _can_be(cutter: Cutter, region: Region) -> bool:
    """Whether a region that was read from a file has ops of the graph, axes that they are cut along, and as many
    stripes of each, which never fall and end with the axis, or where nobody reads on."""
    if not region.cuts or not region.stripes:
        return False
    for cut in region.cuts:
        if cut.op not in cutter.graph.index_of or cut.axis not in cutter.axes(cut.op):
            return False
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        ends = (0, *cut.ends, known.access.sizes[cut.axis])
        if len(cut.ends) != region.stripes or list(ends) != sorted(ends):
            return False
        if ends[-1] != ends[-2] and (not ends[-2] or _leaves(cutter.graph, region, cut.op)):
            return False
    return True


def _leaves(graph: Graph, region: Region, op: int) -> bool:
    """Whether somebody beside the region reads what an op makes, all of it."""
    made = graph.op_by_id[op].outputs
    readers = {r for t in made for r in graph.consumers.get(t, ())}
    return (
        not readers or any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in made) or not readers <= region.of.keys()
    )
