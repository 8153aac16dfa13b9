"""Where the search for loops begins: regions in stripes, which the core finds in a second, each as a loop over rows.

A region and a loop are the same ops along the same axes; a stripe is many rows, and a loop keeps single ones. So the
best way through an order in regions, and the order in which their ops are neighbours, is a path of loops that every
other one has to be better than.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analyse.model import MemoryModel
from lowtide.ops.part import adapter
from lowtide.optimize.loops import LoopSearch
from lowtide.optimize.regions import Bounds, best_regions
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter
from lowtide.transform.loop_growth import Growth
from lowtide.transform.loops import LoopRules


@dataclass(frozen=True)
class Seeds:
    """Regions along an order."""

    order: tuple[int, ...]  # positions in the graph's own order
    # Of each its positions [begin, end) of the order, and the axis of its last op.
    regions: tuple[tuple[int, int, int], ...]
    complete: bool  # whether the search for them was not stopped

    def into(self, search: LoopSearch) -> int:
        """Offer them to a search along the same order; how many are loops."""
        assert tuple(search.order) == self.order, "another order"
        return sum(search.offer(begin, end, (axis,)) for begin, end, axis in self.regions)


def region_seeds(
    rules: LoopRules, memory: MemoryModel, order: Sequence[int], limits: Limits, enough: int = 0
) -> Seeds | None:
    """The best regions along an order, or along one that makes their ops neighbours; None where nothing spells parts.
    `enough`: bytes; no lower peak is of use."""
    graph = memory.graph
    if adapter(graph) is None:
        return None
    way = best_regions(Cutter(graph, exact_bits=rules.exact_bits), memory, order, limits, Bounds(enough))
    order, regions = list(way.order), []
    for region in way.regions:
        place = {graph.ops[i].id: p for p, i in enumerate(order)}
        cuts = sorted(region.cuts, key=lambda cut: place[cut.op])
        begin, end = place[cuts[0].op], place[cuts[-1].op] + 1
        begin, end = _connected(rules, order, begin, end, cuts[-1].axis)
        regions.append((begin, end, cuts[-1].axis))
    return Seeds(tuple(order), tuple(regions), way.complete)


def _connected(rules: LoopRules, order: list[int], begin: int, end: int, axis: int) -> tuple[int, int]:
    """Where the ops of a region lie that hang together with its last one. `order` is changed within it: the others, for
    which nothing follows from that one, come before or after."""
    graph = rules.graph
    growth = Growth(rules, graph.ops[order[end - 1]].id, (axis,))
    for i in reversed(order[begin : end - 1]):
        growth.add(graph.ops[i].id)
    apart = [i for i in order[begin:end] if graph.ops[i].id in growth.pending]
    inside = [i for i in order[begin:end] if i not in apart]
    if growth.stuck or not apart:
        return begin, end
    late: set[int] = set()
    for i in apart:
        if not {*inside, *late}.isdisjoint(graph.predecessors[i]):
            late.add(i)
    early = [i for i in apart if i not in late]
    if any(not late.isdisjoint(graph.predecessors[i]) for i in inside):
        return begin, end
    order[begin:end] = [*early, *inside, *(i for i in apart if i in late)]
    return begin + len(early), begin + len(early) + len(inside)
