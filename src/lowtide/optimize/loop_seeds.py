"""Where the search for loops begins: regions in stripes, which the core finds in a second, each as a loop over rows.

A region and a loop are the same ops along the same axes; a stripe is many rows, and a loop keeps single ones. So the
best way through an order in regions, and the order in which their ops are neighbours, is a path of loops that every
other one has to be better than.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analyse.model import MemoryModel
from lowtide.ops.part import speller
from lowtide.optimize.loops import LoopSearch
from lowtide.optimize.regions import Bounds, best_regions
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter
from lowtide.transform.loops import LoopRules


@dataclass(frozen=True)
class Seeds:
    """Regions along an order.

    Attributes
    ----------
    order
        Positions in the graph's own order.
    regions
        Of each its positions [begin, end) of the order, and the axis of its last op.
    complete
        Whether the search for them was not stopped.
    """

    order: tuple[int, ...]
    regions: tuple[tuple[int, int, int], ...]
    complete: bool

    def into(self, search: LoopSearch) -> int:
        """Offer them to a search along the same order; how many are loops."""
        assert tuple(search.order) == self.order, "another order"
        return sum(search.offer(begin, end, (axis,)) for begin, end, axis in self.regions)


def region_seeds(
    rules: LoopRules, memory: MemoryModel, order: Sequence[int], limits: Limits, enough: int = 0
) -> Seeds | None:
    """The best regions along an order, or along one that makes their ops neighbours; None where nothing spells parts.

    Parameters
    ----------
    enough
        Bytes; no lower peak is of use.
    """
    graph = memory.graph
    if speller(graph) is None:
        return None
    way = best_regions(Cutter(graph, exact_bits=rules.exact_bits), memory, order, limits, Bounds(enough))
    place = {graph.ops[i].id: p for p, i in enumerate(way.order)}
    regions = []
    for region in way.regions:
        at = [place[cut.op] for cut in region.cuts]
        last = max(region.cuts, key=lambda cut: place[cut.op])
        regions.append((min(at), max(at) + 1, last.axis))
    return Seeds(way.order, tuple(regions), way.complete)
