"""The part graph: a graph with tiles in the place of tiled ops, and slices, joins and sums between them.

It is an ordinary `Graph` for every scheduler, target and writer, with the origin of each of its ops and tensors. A
tensor may be a **slice**: some rows of every dimension of a tensor of the graph before tiling, and, of a sum, the rows
of the reduction axis in it. Ids of the graph before tiling keep their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowtide.graph import Graph, Op
from lowtide.ops.piece import Part, Piece
from lowtide.rewrites import Recompute, Sections, Sums
from lowtide.stop import count
from lowtide.topological import topological
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.part_builder import Builder
from lowtide.transform.seams import NO_ELIMINATION, Elimination
from lowtide.transform.stripes import region_ops


@dataclass(frozen=True)
class PartGraph:
    """A tiled graph."""

    regions: tuple[Region, ...]  # the decision, in ids of the graph before tiling
    graph: Graph  # the tiles, in an order in which each region's stripes follow one another
    # slices, parts: origin of each new tensor, and of each new op; other ids are those of the graph before tiling.
    slices: Mapping[int, Piece]
    parts: Mapping[int, Part]
    numbers: frozenset[int]  # new constants that are literal operands of tiles
    elimination: Elimination = NO_ELIMINATION  # Concat elimination
    split: frozenset[int] = frozenset()  # tensors of the graph before tiling which are never materialised
    # For ops before tiling that the file does not have, their original; None: they are new.
    sources: Mapping[int, int | None] = field(default_factory=dict[int, int | None])
    gone: frozenset[int] = frozenset()  # ops of the file that are not run
    before: tuple[Sections | Sums | Recompute, ...] = ()  # changes of the user's graph before tiling
    # The tilings before, each in ids of its own (`lowtide.transform.rounds`): this one tiles the graph of the last.
    earlier: tuple[PartGraph, ...] = ()


_OP = 150_000  # nanoseconds for an op of a part graph


def apply(cutter: Cutter, regions: Sequence[Region], order: Sequence[int] | None = None) -> PartGraph:
    """Cut a graph.

    Parameters
    ----------
    order
        Op ids of the graph, whose order the part graph's own order follows; default its own. Ids do not hang on it.

    Raises
    ------
    ValueError
        The regions share ops, or one cannot run before and after another.
    """
    builder = Builder(cutter)
    emitted = [region_ops(builder, region) for region in regions]
    sequence = _sequence(cutter.graph, regions, emitted, cutter.graph.own_order if order is None else order)
    graph = builder.graph(sequence)
    count(_OP * len(graph.ops))
    numbers = frozenset(t.id for t in builder.tensors if t.id not in builder.slices)
    return PartGraph(tuple(regions), graph, builder.slices, builder.parts, numbers)


def _sequence(
    graph: Graph, regions: Sequence[Region], emitted: Sequence[list[Op]], order: Sequence[int]
) -> tuple[Op, ...]:
    """Each region's ops together, as late as its last op stood."""
    node = {cut.op: (1, k) for k, region in enumerate(regions) for cut in region.cuts}
    if len(node) != sum(len(region.cuts) for region in regions):
        raise ValueError("an op is in two regions")
    key: dict[tuple[int, int], int] = {}
    for position, op in enumerate(order):
        key[node.get(op, (0, op))] = position
    before: dict[tuple[int, int], set[tuple[int, int]]] = {at: set() for at in key}
    for op in graph.ops:
        at = node.get(op.id, (0, op.id))
        makers = [graph.producer[t] for t in op.inputs if t in graph.producer]
        for earlier in (*makers, *(o for o in op.after if o in graph.index_of)):
            other = node.get(earlier, (0, earlier))
            if other != at:
                before[at].add(other)
    result = topological(before, key.__getitem__)
    if len(result) < len(key):
        raise ValueError("a region would have to run before and after another op")
    return tuple(op for is_region, k in result for op in (emitted[k] if is_region else [graph.op_by_id[k]]))
