"""What a plan with cuts decided: as its rewrites say it, and made again from them to be written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from msgspec.structs import replace

from lowtide.api.models import load
from lowtide.api.problem import Rules
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import CutOp, CutRegion, CutSeams, Exactness, Recompute, SeamOp, Sections, Sums
from lowtide.sizes import NO_DIMS, Dims

if TYPE_CHECKING:
    from lowtide.outputs import Outputs
    from lowtide.transform.cut import Cut, Cutter, Region
    from lowtide.transform.parts import PartGraph
    from lowtide.transform.runs import Runs
    from lowtide.transform.seams import SeamCut, Seams
    from lowtide.transform.sections import Sectioned
    from lowtide.transform.statistics import Expanded


def exactness(cutter: Cutter, parts: PartGraph) -> Exactness:
    """The loosest class of the cuts."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    worst = max((2 for cut in parts.seams.cuts if cut.into), default=0)
    worst = 2 if any(isinstance(r, Sums) for r in parts.before) else worst
    worst = max(worst, any(isinstance(r, Sections) for r in parts.before))
    for cut in (*parts.seams.cuts, *(cut for region in parts.regions for cut in region.cuts)):
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        exact = known.access.exactness(cut.axis)
        worst = max(worst, classes.index(exact) if exact != "never" else 0)
    return classes[worst]


def looser(one: Exactness, other: Exactness | None) -> Exactness:
    """What two changes together do."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    return other if other is not None and classes.index(other) > classes.index(one) else one


def as_rewrites(parts: PartGraph) -> list[Sections | Sums | Recompute | CutRegion | CutSeams]:
    """What a plan says was decided."""
    regions = [
        CutRegion(
            ops=[
                CutOp(op=cut.op, axis=cut.axis, ends=list(cut.ends), begins=list(cut.begins) or None)
                for cut in region.cuts
            ]
        )
        for region in parts.regions
    ]
    seams = [
        SeamOp(op=c.op, axis=c.axis, ends=list(c.ends), turns=_unless_rising(c.turns), into=c.into)
        for c in parts.seams.cuts
    ]
    return [*parts.before, *regions, *([CutSeams(ops=seams)] if seams else [])]


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
        Region(tuple(Cut(c.op, c.axis, tuple(c.ends), tuple(c.begins or ())) for c in r.ops))
        for r in rewrites
        if isinstance(r, CutRegion)
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
    from lowtide.transform.rounds import of_file

    parts = of_file(part_graph(plan, source, dims))
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
    from lowtide.transform.rounds import cut_again

    target = Rules.of_plan(plan).resolve()
    graph = target.as_seen(load(model, dims if isinstance(model, Graph) else plan.sizes(dims)))
    first = None
    for one, own in _rounds(plan, graph):
        parts = _parts_of(one, own)
        first = parts if first is None else cut_again(first, parts)
    assert first is not None, plan.graph
    return first


def _rounds(plan: Plan, graph: Graph) -> Iterator[tuple[Plan, Graph]]:
    """What each round decided, as a plan of its own, and the graph that it cuts."""
    rounds = [*(replace(plan, ops=r.ops, rewrites=r.rewrites) for r in plan.rounds or ()), plan]
    for k, one in enumerate(rounds):
        yield one, graph
        if k + 1 < len(rounds):
            graph = _parts_of(one, graph).graph


def all_cuts(plan: Plan, graph: Graph) -> Iterator[tuple[Cutter, Cut]]:
    """Every cut of every round, of regions and of seams, and of which graph.

    Raises
    ------
    InputError
        As `part_graph`.
    """
    from lowtide.transform.cut import Cut

    for one, own in _rounds(plan, graph):
        cutter, rewrites = cutter_of(one, own), one.rewrites or ()
        for region in regions_of(rewrites):
            yield from ((cutter, cut) for cut in region.cuts)
        for seam in seams_of(rewrites, cutter).cuts:
            yield cutter, Cut(seam.op, seam.axis, seam.ends)


def cutter_of(plan: Plan, graph: Graph) -> Cutter:
    """What ops of the graph mean that a plan of one round cuts: the user's own, one by sections, or one with sums.

    Raises
    ------
    InputError
        As `part_graph`.
    """
    from lowtide.transform.cut import Cutter

    place = graph.source or graph.name
    passed, sectioned = _passed(graph, plan, place), _sectioned(graph, plan, place)
    return Cutter(passed[1].graph if passed is not None else graph if sectioned is None else sectioned.graph)


def _parts_of(plan: Plan, graph: Graph) -> PartGraph:
    """The part graph of one round."""
    from lowtide.transform.hand_on import hand_on
    from lowtide.transform.passed import in_parts
    from lowtide.transform.seam_parts import apply_with_seams
    from lowtide.transform.sections import of_user
    from lowtide.transform.tflite_file import with_file

    regions, place = regions_of(plan.rewrites or ()), graph.source or graph.name
    passed, sectioned = _passed(graph, plan, place), _sectioned(graph, plan, place)
    cutter = cutter_of(plan, graph)
    seams = seams_of(plan.rewrites or (), cutter)
    if not all(_can_be(cutter, region) for region in regions) or not all(_can_be_seam(cutter, c) for c in seams.cuts):
        raise InputError("its rewrites cut what cannot be cut so; plan the model again", place)
    try:
        if passed is None:
            joined = with_file(apply_with_seams(cutter, regions, seams))
            ways = (way(joined) for way in (lambda parts: parts, lambda parts: hand_on(cutter.graph, parts)))
            ways = ways if sectioned is None else (of_user(parts, sectioned) for parts in ways)
        else:
            ways = iter([in_parts(*passed, regions).parts])
    except ValueError as error:
        raise InputError(f"its rewrites cannot be: {error}; plan the model again", place) from None
    listed = {op.id: (op.part.inputs, op.part.outputs) for op in plan.ops if op.part is not None}
    parts = next((parts for parts in ways if _new_ops(parts) == listed), None)
    if parts is None:
        raise InputError("its parts are not what its rewrites give; plan the model again", place)
    return parts


def _new_ops(parts: PartGraph) -> dict[int, tuple[list[int | None], list[int]]]:
    """What each new op of a part graph reads and makes."""
    new = (op for op, part in parts.parts.items() if part.role != "whole")
    return {op: ([*own.operands], [*own.outputs]) for op in new for own in (parts.graph.op_by_id[op],)}


def _sectioned(graph: Graph, plan: Plan, place: str) -> Sectioned | None:
    """The graph that a plan cuts whose products run by sections; None: there are none.

    Raises
    ------
    InputError
        The rewrites are not what such a graph has.
    """
    from lowtide.transform.sections import by_sections, products

    listed = [r for r in plan.rewrites or () if isinstance(r, Sections)]
    if not listed:
        return None
    known = {p.op: p for p in products(graph)}
    if all(r.op in known for r in listed):
        sectioned = by_sections(graph, [known[r.op] for r in listed])
        if list(sectioned.rewrites) == listed:
            return sectioned
    raise InputError("its products have no such sections; plan the model again", place)


def _passed(graph: Graph, plan: Plan, place: str) -> tuple[Expanded, Runs] | None:
    """The graph that a plan cuts whose statistics are sums, or whose ops run again; None: it is the user's own.

    Raises
    ------
    InputError
        The rewrites are not what such graphs have.
    """
    from lowtide.transform.runs import of_rewrites
    from lowtide.transform.statistics import expand, statistics

    sums = [r for r in plan.rewrites or () if isinstance(r, Sums)]
    again = [r for r in plan.rewrites or () if isinstance(r, Recompute)]
    if not sums and not again:
        return None
    known = {s.op: s for s in statistics(graph)}
    try:
        expanded = expand(graph, [known[r.op] for r in sums])
        if [(list(e.ops), list(e.tensors)) for e in expanded.expansions] != [(r.ops, r.tensors) for r in sums]:
            raise ValueError("sums have other ops")
        return expanded, of_rewrites(expanded.graph, again)
    except (KeyError, ValueError) as error:
        raise InputError(f"its rewrites cannot be: {error}; plan the model again", place) from None


def _can_be(cutter: Cutter, region: Region) -> bool:
    """Whether a region that was read from a file has ops of the graph, axes that they are cut along, and as many
    stripes of each, which never fall and end with the axis, or where nobody reads on; rows that run again are those
    that are read."""
    if not region.cuts or not region.stripes or any(len(c.begins) not in (0, region.stripes) for c in region.cuts):
        return False
    for cut in region.cuts:
        if cut.op not in cutter.graph.index_of or cut.axis not in cutter.axes(cut.op):
            return False
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        ends = (0, *cut.ends, known.access.sizes[cut.axis])
        if len(cut.ends) != region.stripes or list(ends) != sorted(ends):
            return False
        stays = cutter.stays(cut.op, region.of)
        if ends[-1] != ends[-2] and not (ends[-2] and stays):
            return False
        if cut.begins and (not stays or cut.begins != _again(cutter, region, cut)):
            return False
    return True


def _again(cutter: Cutter, region: Region, cut: Cut) -> tuple[int, ...]:
    """The first row that each stripe of an op has to run if nothing of it is kept."""
    return cutter.begins(cut.op, {one.op: one.axis for one in region.cuts}, cut.ends, region.of)


def _can_be_seam(cutter: Cutter, cut: SeamCut) -> bool:
    """Whether a seam that was read from a file has an op of the graph, an axis of it, and ends that rise to its end."""
    known = cutter.meaning(cut.op) if cut.op in cutter.graph.index_of else None
    if known is None or not 0 <= cut.axis < len(known.access.sizes):
        return False
    rising = all(a < b for a, b in pairwise((0, *cut.ends)))
    return rising and cut.ends[-1:] == (known.access.sizes[cut.axis],)
