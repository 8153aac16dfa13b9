"""Lowering: from a decision to the ordinary graph that it describes.

    graph -> products by sections -> statistics as sums -> recomputed operators -> tiles, concat elimination
          -> tensors that are never materialised
          -> the same for each further level, from the graph that results
          -> aliases, the order

Plan readers and model writers (`api/moves/decisions.py`), warm starts (`solving.py`) and passes (`passed.py`) lower
here. The proposers of the search (`api/moves/cut_search.py`, `optimize/`) call the functions of a level themselves.
A lowered graph names the origin of each of its operators and tensors in the graph that was lowered (`PartGraph`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lowtide.graph import Graph
from lowtide.ops.piece import Part
from lowtide.rewrites import Recompute, Sections, Sums
from lowtide.target import Target
from lowtide.transform import alias, runs
from lowtide.transform.cut import Cut, Cutter, Region
from lowtide.transform.decision import Decision, Level
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import PartGraph
from lowtide.transform.rounds import nested
from lowtide.transform.runs import Runs
from lowtide.transform.seam_parts import apply_with_elimination
from lowtide.transform.seams import Elimination, OperandTiles
from lowtide.transform.sections import Sectioned, by_sections, of_user, products
from lowtide.transform.statistics import Expanded, expand, statistics
from lowtide.transform.tflite_file import with_file


@dataclass(frozen=True)
class Base:
    """The graph that a level tiles: its input graph, with rewrites and clones.

    Attributes
    ----------
    before
        The same changes in the form of a plan.
    """

    sectioned: Sectioned | None
    expanded: Expanded
    runs: Runs

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.runs.graph

    @property
    def before(self) -> tuple[Sections | Sums | Recompute, ...]:
        """What a plan says of these changes."""
        sections = () if self.sectioned is None else self.sectioned.rewrites
        clones = tuple(r for r in self.runs.rewrites if isinstance(r, Recompute))
        return (*sections, *sums_of(self.expanded), *clones)


def sums_of(expanded: Expanded) -> tuple[Sums, ...]:
    """What a plan says of statistics that are computed as sums."""
    return tuple(
        Sums(op=e.statistic.op, gone=list(e.statistic.gone), ops=list(e.ops), tensors=list(e.tensors))
        for e in expanded.expansions
    )


def base_of(graph: Graph, level: Level) -> Base:
    """The graph that a level tiles. Raises `ValueError`: an op has no sections or no statistic, or cannot be
    recomputed."""
    sectioned = None
    if level.products:
        known = {p.op: p for p in products(graph)}
        if not known.keys() >= set(level.products):
            raise ValueError("a product has no sections")
        sectioned = by_sections(graph, [known[op] for op in level.products])
    own = graph if sectioned is None else sectioned.graph
    of_rows = {s.op: s for s in statistics(own)} if level.statistics else {}
    if not of_rows.keys() >= set(level.statistics):
        raise ValueError("a statistic is no sum over rows")
    expanded = expand(own, [of_rows[op] for op in level.statistics]) if level.statistics else Expanded(own, ())
    all_runs = (
        runs.of_rewrites(expanded.graph, level.clones)
        if level.clones
        else Runs(expanded.graph, expanded.graph.own_order, ())
    )
    return Base(sectioned, expanded, all_runs)


def lower_level(graph: Graph, level: Level, order: Sequence[int] | None = None) -> PartGraph:
    """One level of a graph. `order`: op ids of the graph that is tiled; the lowered graph's own order follows it.
    Default that graph's own. Raises `ValueError`: as `base_of`, or the tiles cannot be."""
    return tiled(base_of(graph, level), level, order)


def tiled(base: Base, level: Level, order: Sequence[int] | None = None, *, split_all: bool = False) -> PartGraph:
    """The tiles of a level, of the graph with its rewrites and clones. Raises as `lower_level`. `split_all`: whether
    every tensor that can be forwarded is left unmaterialised, whatever the level says."""
    cut = base.graph
    own = order if order is not None else base.runs.order
    parts = with_file(apply_with_elimination(Cutter(cut), level.regions, level.elimination, own))
    if level.split or split_all:
        parts = hand_on(cut, parts, None if split_all else level.split)
    parts = _with_sources(base, parts)
    return parts if base.sectioned is None else of_user(parts, base.sectioned)


def _with_sources(base: Base, parts: PartGraph) -> PartGraph:
    """The parts with the origins of their ops before sums and clones."""
    if not base.expanded.expansions and not base.runs.rewrites:
        return parts
    expanded = base.expanded
    new = {op for e in expanded.expansions for op in e.ops}
    sources: dict[int, int | None] = dict.fromkeys(new, None)
    for rewrite in (r for r in base.runs.rewrites if isinstance(r, Recompute)):
        sources[rewrite.op] = None if rewrite.of in new else rewrite.of
    unmodified = {
        op.id: Part("whole", op.id)
        for op in parts.graph.ops
        if op.id not in parts.parts and (op.id in sources or op.operands != expanded.graph.op_by_id[op.id].operands)
    }
    gone = frozenset(op for e in expanded.expansions for op in e.statistic.gone)
    before = tuple(r for r in base.before if not isinstance(r, Sections))
    return replace(parts, parts={**parts.parts, **unmodified}, sources=sources, gone=gone, before=before)


def levels_of(graph: Graph, decision: Decision) -> Iterator[tuple[Base, PartGraph]]:
    """Each level's graph before and after it is tiled. Raises as `lower_level`."""
    for level in decision.levels:
        base = base_of(graph, level)
        parts = tiled(base, level)
        yield base, parts
        graph = parts.graph


def lower(graph: Graph, decision: Decision, target: Target | None = None) -> PartGraph:
    """The lowered graph of a decision, its ops in the decided order. `target`: the rules under which tensors lie in
    others; needed where some do. Raises `ValueError`: as `lower_level`; or tensors cannot lie in others, or the
    order is not of the lowered graph's ops."""
    result = PartGraph((), graph, {}, {}, frozenset())
    for k, (_, parts) in enumerate(levels_of(graph, decision)):
        result = nested(result, parts) if k else parts
    if decision.aliases:
        assert target is not None, "aliases are under a target"
        reason = alias.why_not(result.graph, target, decision.aliases)
        if reason is not None:
            raise ValueError(reason)
        result = replace(result, graph=alias.apply(result.graph, target, decision.aliases).graph)
    return in_order(result, decision.order) if decision.order else result


def in_order(parts: PartGraph, order: Sequence[int]) -> PartGraph:
    """A lowered graph with its ops in another order, of ids. Raises `ValueError` if these are not its ops."""
    known = parts.graph.op_by_id
    if len(order) != len(known) or known.keys() != set(order):
        raise ValueError("the order is not of the lowered graph's ops")
    return replace(parts, graph=replace(parts.graph, ops=tuple(known[o] for o in order)))


def with_turns(base: Base, level: Level) -> Level:
    """A level from a file, with file order for the sums of its concat elimination that have no `turns`."""
    cutter = Cutter(base.graph)

    def complete(cut: OperandTiles) -> OperandTiles:
        known = cutter.meaning(cut.op) if cut.op in base.graph.index_of else None
        summed = known is not None and cut.axis in known.access.reduce
        return replace(cut, turns=tuple(range(len(cut.ends)))) if summed and not cut.turns else cut

    return replace(level, elimination=Elimination(tuple(complete(cut) for cut in level.elimination.cuts)))


def why_not(base: Base, level: Level) -> str | None:
    """Why the tilings of a level from a file are illegal; None: they are legal."""
    cutter = Cutter(base.graph)
    if all(_can_be(cutter, region) for region in level.regions) and all(
        _can_eliminate(cutter, tiles) for tiles in level.elimination.cuts
    ):
        return None
    return "its rewrites cut what cannot be cut so"


def _can_be(cutter: Cutter, region: Region) -> bool:
    """Whether a region from a file is legal: its ops and axes exist and can be tiled, all ops have as many stripes, and
    ends never fall and reach the size, except for rows without a consumer; recomputed rows are those that are read."""
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
        if cut.begins and (not stays or cut.begins != _first_rows(cutter, region, cut)):
            return False
    return True


def _first_rows(cutter: Cutter, region: Region, cut: Cut) -> tuple[int, ...]:
    """The first row of each stripe of an op with a recomputed halo."""
    return cutter.begins(cut.op, {one.op: one.axis for one in region.cuts}, cut.ends, region.of)


def _can_eliminate(cutter: Cutter, cut: OperandTiles) -> bool:
    """Whether operand tiles from a file have an op of the graph, an axis of it, and rising ends up to its size."""
    known = cutter.meaning(cut.op) if cut.op in cutter.graph.index_of else None
    if known is None or not 0 <= cut.axis < len(known.access.sizes):
        return False
    rising = all(a < b for a, b in pairwise((0, *cut.ends)))
    return rising and cut.ends[-1:] == (known.access.sizes[cut.axis],)
