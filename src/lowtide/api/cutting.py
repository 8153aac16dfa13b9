"""Plans that cut: from the best order of the uncut graph to regions, a part graph and an order of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
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
from lowtide.rewrites import CutOp, CutRegion, CutSeams, Exactness, SeamOp
from lowtide.sizes import NO_DIMS, Dims
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.outputs import Outputs
    from lowtide.transform.cut import Cutter, Region
    from lowtide.transform.parts import PartGraph
    from lowtide.transform.seams import SeamCut, Seams

ALLOWED = ("fission", "seams", "accumulate")
"""What a plan may be allowed to change."""

_UNCUT, _SEARCH = 0.2, 0.6
"""Shares of the time after which the uncut graph's order, and the search for regions, are over."""
_SEAMS = 0.5
"""Share of the time that is left after which the search for seams is over."""
_FIRST = 0.7
"""Share of the time that is left for the first of several part graphs."""


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
    if "accumulate" in listed and "seams" not in listed:
        raise InputError("accumulate is how sums at seams are added up; write --allow seams,accumulate")
    return tuple(dict.fromkeys(word for word in listed if word))


def solve_cut(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best plan with ops cut, or without if that needs no more.

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
    cutting = _Cutting(job, job.goal, problem, uncut, limits)
    answers = [uncut] if enough else [uncut, *cutting.answers()]
    best = min(answers, key=lambda answer: answer.keys["required_bytes"])
    keys: PlanKeys = {**best.keys, "allow": list(job.allow)}
    if keys["status"] == "impossible":
        keys["status"] = "over_budget"
    if cutting.interrupted:
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


@dataclass(frozen=True)
class _Way:
    """Cuts, the peak that their search saw, and its figures."""

    parts: PartGraph
    peak: int
    figures: dict[str, int]


@dataclass
class _Cutting:
    """Searches for cuts that a plan may make."""

    job: Job
    goal: OneArena
    problem: Problem
    uncut: Answer
    limits: Limits
    interrupted: bool = False

    @cached_property
    def cutter(self) -> Cutter:
        """What the graph's ops mean."""
        from lowtide.transform.cut import Cutter

        return Cutter(self.problem.graph, exact_bits=self.job.exact_bits)

    def answers(self) -> Iterator[Answer]:
        """Plans with cuts, for the lowest peak first; none once Ctrl-C has ended a search."""
        ways: list[_Way] = []
        seamed = self._seams() if "seams" in self.job.allow else None
        if seamed is not None:
            ways.append(seamed)
        if "fission" in self.job.allow and not self.interrupted:
            ways += [way for way in (self._regions(None), seamed and self._regions(seamed)) if way is not None]
        if self.interrupted:
            return
        ways.sort(key=lambda way: way.peak)
        for k, way in enumerate(ways):
            if k and self.limits.over():
                return
            share = 1.0 if k + 1 == len(ways) else _FIRST
            over = self.limits.seconds - self.limits.left_seconds * (1.0 - share)
            yield self._answer(way, replace(self.limits, seconds=over))

    def _seams(self) -> _Way | None:
        """The best seams; None if there are none, or none lower the peak."""
        from lowtide.optimize.seams import best_seams

        accumulate = "accumulate" in self.job.allow or self.problem.target.rule == "onnxruntime"
        best = best_seams(
            self.cutter,
            self.problem.memory,
            self.uncut.order,
            replace(self.limits, seconds=self.limits.seconds - self.limits.left_seconds * (1.0 - _SEAMS)),
            accumulate=accumulate,
            enough=self.goal.room(self.problem) or 0,
            most_ops=self.job.max_ops,
        )
        self.interrupted = self.interrupted or best.interrupted
        if best.parts is None:
            return None
        return _Way(best.parts, best.peak, {"seams_tried": best.tried})

    def _regions(self, seamed: _Way | None) -> _Way | None:
        """The best regions along the best order, of what seams left whole if there are some."""
        from lowtide.optimize.regions import best_regions
        from lowtide.transform.cut import Cutter
        from lowtide.transform.seam_parts import apply_with_seams
        from lowtide.transform.seams import NO_SEAMS

        job, problem, cutter = self.job, self.problem, self.cutter
        order, seams, origins = self.uncut.order, NO_SEAMS, [op.id for op in problem.graph.ops]
        if seamed is not None:
            seams, problem = seamed.parts.seams, Problem.of(seamed.parts.graph, problem.target)
            whole = {op.id for op in problem.graph.ops} - seamed.parts.parts.keys()
            cutter = Cutter(problem.graph, exact_bits=job.exact_bits, only=whole)
            order = self.goal.find_order(problem, job.search, self._search()).order
            of = seamed.parts.parts
            origins = [op.id if op.id not in of else of[op.id].of for op in problem.graph.ops]
        search, least = self._search(), self.goal.room(self.problem) or 0
        way = best_regions(cutter, problem.memory, order, search, least=least, most_ops=job.max_ops)
        self.interrupted = not way.complete and not search.over()
        if not way.regions or self.interrupted:
            return None
        ids = dict.fromkeys(origins[i] for i in reversed(order))
        parts = apply_with_seams(self.cutter, way.regions, seams, [o for o in reversed(ids) if o is not None])
        return _Way(parts, way.peak, {**({} if seamed is None else seamed.figures), "regions": way.evaluated})

    def _search(self) -> Limits:
        """Limits of a search for regions."""
        if "seams" not in self.job.allow:
            return replace(self.limits, seconds=self.limits.seconds * _SEARCH)
        return replace(self.limits, seconds=self.limits.seconds - self.limits.left_seconds * _SEARCH)

    def _answer(self, way: _Way, limits: Limits) -> Answer:
        """The best plan of a part graph."""
        answer = self.goal.solve(Problem.of(way.parts.graph, self.problem.target), self.job.search, limits)
        search_keys = {"uncut_peak_bytes": self.uncut.keys["peak_bytes"], **way.figures}
        keys: PlanKeys = {
            **answer.keys,
            "rewrites": [*as_rewrites(way.parts)],
            "exactness": _exactness(self.cutter, way.parts),
            "proved_over": "orders",
            "search": {**answer.keys.get("search", {}), **search_keys},
        }
        own = self.problem.own_order_peak_bytes
        return replace(answer, keys=keys, parts=way.parts, own_order_peak_bytes=own)


def _exactness(cutter: Cutter, parts: PartGraph) -> Exactness:
    """The loosest class of the cuts."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    worst = max((2 for cut in parts.seams.cuts if cut.into), default=0)
    for cut in (*parts.seams.cuts, *(cut for region in parts.regions for cut in region.cuts)):
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        exact = known.access.exactness(cut.axis)
        worst = max(worst, classes.index(exact) if exact != "never" else 0)
    return classes[worst]


def as_rewrites(parts: PartGraph) -> list[CutRegion | CutSeams]:
    """What a plan says was decided."""
    regions = [
        CutRegion(ops=[CutOp(op=cut.op, axis=cut.axis, ends=list(cut.ends)) for cut in region.cuts])
        for region in parts.regions
    ]
    seams = [
        SeamOp(op=c.op, axis=c.axis, ends=list(c.ends), turns=_unless_rising(c.turns), into=c.into)
        for c in parts.seams.cuts
    ]
    return [*regions, *([CutSeams(ops=seams)] if seams else [])]


def _unless_rising(turns: Sequence[int]) -> list[int] | None:
    return None if list(turns) == sorted(turns) else list(turns)


def seams_of(rewrites: Iterable[object], cutter: Cutter) -> Seams:
    """The seams that a plan tells."""
    from lowtide.transform.seams import SeamCut, Seams

    cuts = []
    for c in (c for r in rewrites if isinstance(r, CutSeams) for c in r.ops):
        known = cutter.meaning(c.op) if c.op in cutter.graph.index_of else None
        summed = known is not None and c.axis in known.access.reduce
        turns = c.turns if c.turns is not None else range(len(c.ends)) if summed else ()
        cuts.append(SeamCut(c.op, c.axis, tuple(c.ends), tuple(turns), c.into))
    return Seams(tuple(cuts))


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
    from lowtide.transform.seam_parts import apply_with_seams

    target = Rules.of_plan(plan).resolve()
    graph = target.as_seen(load(model, dims if isinstance(model, Graph) else plan.sizes(dims)))
    cutter, regions, place = Cutter(graph), regions_of(plan.rewrites or ()), graph.source or graph.name
    seams = seams_of(plan.rewrites or (), cutter)
    if not all(_can_be(cutter, region) for region in regions) or not all(_can_be_seam(cutter, c) for c in seams.cuts):
        raise InputError("its rewrites cut what cannot be cut so; plan the model again", place)
    try:
        parts = apply_with_seams(cutter, regions, seams)
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


def _can_be_seam(cutter: Cutter, cut: SeamCut) -> bool:
    """Whether a seam that was read from a file has an op of the graph, an axis of it, and ends that rise to its end."""
    known = cutter.meaning(cut.op) if cut.op in cutter.graph.index_of else None
    if known is None or not 0 <= cut.axis < len(known.access.sizes):
        return False
    rising = all(a < b for a, b in pairwise((0, *cut.ends)))
    return rising and cut.ends[-1:] == (known.access.sizes[cut.axis],)
