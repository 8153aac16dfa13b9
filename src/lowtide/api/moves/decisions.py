"""What a plan with cuts decided: as its rewrites say it, and rebuilt from them to be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from lowtide.api.models import load
from lowtide.api.problem import Rules
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import Exactness, Recompute, Sections, Sums, Swap, TensorAlias, in_parts
from lowtide.sizes import NO_DIMS, Dims
from lowtide.target import Target
from lowtide.transform.decision import Decision, Level, LevelRewrite, level_of, tilings_as_rewrites
from lowtide.transform.lower import Base, base_of, tiled, why_not, with_turns
from lowtide.transform.rounds import nested

if TYPE_CHECKING:
    from lowtide.outputs import Outputs
    from lowtide.transform.cut import Cut, Cutter
    from lowtide.transform.parts import PartGraph


def exactness(cutter: Cutter, parts: PartGraph) -> Exactness:
    """The loosest class of the cuts."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    worst = max((2 for cut in parts.elimination.cuts if cut.into), default=0)
    worst = 2 if any(isinstance(r, Sums) for r in parts.before) else worst
    worst = max(worst, any(isinstance(r, Sections) for r in parts.before))
    for cut in (*parts.elimination.cuts, *(cut for region in parts.regions for cut in region.cuts)):
        known = cutter.meaning(cut.op)
        assert known is not None, cut
        exact = known.access.exactness(cut.axis)
        worst = max(worst, classes.index(exact) if exact != "never" else 0)
    return classes[worst]


def looser(one: Exactness, other: Exactness | None) -> Exactness:
    """What two changes together do."""
    classes: tuple[Exactness, ...] = get_args(Exactness)
    return other if other is not None and classes.index(other) > classes.index(one) else one


def as_rewrites(parts: PartGraph) -> list[LevelRewrite]:
    """What a plan says was decided."""
    return [
        *parts.before,
        *tilings_as_rewrites(Level(regions=parts.regions, elimination=parts.elimination, split=parts.split)),
    ]


def write_parts(
    plan: Plan,
    source: str | Path,
    out: str | Path,
    *,
    dims: Dims = NO_DIMS,
    copy_external: bool | None = False,
    outputs: Outputs | None = None,
) -> None:
    """Write the model of a plan with cuts. Raises `InputError`: as `part_graph`, and
    `lowtide.write.onnx_parts.write_onnx_parts` or `lowtide.write.tflite_parts.write_tflite_parts`."""
    from lowtide.transform.rounds import of_file

    parts = of_file(part_graph(plan, source, dims))
    if parts.graph.dialect == "tflite":
        from lowtide.runtimes.tflm.offline import offline_offsets
        from lowtide.write.tflite_parts import write_tflite_parts

        return write_tflite_parts(source, parts, plan.order, out, outputs, offline_offsets(plan), plan.kernels)
    from lowtide.write.onnx_parts import write_onnx_parts

    return write_onnx_parts(source, parts, plan.order, out, copy_external, outputs)


def part_graph(plan: Plan, model: Graph | str | Path, dims: Dims = NO_DIMS) -> PartGraph:
    """The lowered graph of a plan that tiles, rebuilt from its decision, without aliases. Raises `InputError`: the
    decision does not give what the plan lists: it was changed by hand."""
    target = Rules.of_plan(plan).resolve()
    graph = target.as_seen(load(model, dims if isinstance(model, Graph) else plan.sizes(dims)))
    place = graph.source or graph.name
    result = None
    for _, _, parts in levels(plan, graph):
        result = parts if result is None else nested(result, parts)
    assert result is not None, plan.graph
    listed = {op.id: (op.part.inputs, op.part.outputs) for op in plan.ops if op.part is not None}
    if _new_ops(result) != listed:
        raise InputError("its tiles do not follow from its rewrites; plan the model again", place)
    return result


def levels(plan: Plan, graph: Graph) -> Iterator[tuple[Level, Base, PartGraph]]:
    """Each level of a plan: what it decides, what it tiles, and what that gives. Raises `InputError`: the rewrites are
    not what such graphs have, or cut what cannot be cut."""
    place = graph.source or graph.name
    for rewrites in (*(r.rewrites for r in plan.rounds or ()), plan.rewrites or ()):
        own = [r for r in rewrites if not isinstance(r, TensorAlias | Swap)]
        try:
            level = level_of(own)
            base = base_of(graph, level)
            if [r for r in own if isinstance(r, Sections | Sums | Recompute)] != list(base.before):
                raise ValueError("what it changes first has other ops")
            level = with_turns(base, level)
            reason = why_not(base, level)
            if reason is not None:
                raise ValueError(reason)
            parts = tiled(base, level)
        except ValueError as error:
            raise InputError(
                f"the plan's rewrites do not fit the model: {error}; plan the model again", place
            ) from None
        yield level, base, parts
        graph = parts.graph


def decision_of(plan: Plan, graph: Graph, target: Target) -> Decision:
    """What a plan of one arena decided of a graph, as the target sees it. Raises `InputError`: as `levels`; or tensors
    lie in others where none may."""
    from lowtide.transform.alias_candidates import Candidates

    found: list[Level] = []
    user = graph
    for level, _, parts in levels(plan, user) if in_parts(plan.rewrites) or plan.rounds else ():
        found.append(level)
        graph = parts.graph
    listed = [r for r in plan.rewrites or () if isinstance(r, TensorAlias)]
    known = {(a.tensor, a.of, a.op, a.first): a for a in (Candidates(graph, target).all if listed else ())}
    try:
        aliases = tuple(known[r.tensor, r.of, r.op, r.offset] for r in listed)
    except KeyError:
        raise InputError(
            "its tensors cannot be allocated in others as it says; plan the model again", user.source
        ) from None
    return Decision(tuple(found), aliases, tuple(plan.order))


def all_cuts(plan: Plan, graph: Graph) -> Iterator[tuple[Cutter, Cut]]:
    """Every tiled operator of every level, and of which graph. Raises `InputError`: as `levels`."""
    from lowtide.transform.cut import Cut, Cutter

    for _, base, parts in levels(plan, graph):
        cutter = Cutter(base.graph)
        for region in parts.regions:
            yield from ((cutter, cut) for cut in region.cuts)
        for seam in parts.elimination.cuts:
            yield cutter, Cut(seam.op, seam.axis, seam.ends)


def _new_ops(parts: PartGraph) -> dict[int, tuple[list[int | None], list[int]]]:
    """What each new op of a part graph reads and makes."""
    new = (op for op, part in parts.parts.items() if part.role != "whole")
    return {op: ([*own.operands], [*own.outputs]) for op in new for own in (parts.graph.op_by_id[op],)}
