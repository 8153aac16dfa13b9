"""Tiles where ordered tiles are highest: along whatever dimension pays there; all else stays as it is.

A search for regions along the tiles' order (`CutSearch`) has to bring every step below a limit, and one that no tiles
lower ends it. But such a step may be one of the order, which gives way once what was around it is lower::

    join of cached rows 1,060,864    tiles along channels     951,552
    slices of the input 1,059,072    no tiles lower it      1,059,072    then: slices later, 964,992

So each step above a limit is tiled if a short region is below it there, the rest stays, and the tiles are reordered.
The limit falls by bisection over what orders of the new tiles come to. Nothing rests on what is hoped for: the peak is
that of the tiles in the order that was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import largest_single_op, profile
from lowtide.api.moves.cut_orders import Proposal
from lowtide.api.problem import Problem
from lowtide.optimize.regions import PeakCuts
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply

_LONGEST = 12  # ops of a region at the most
_MOST_PARTS = 2**14  # tiles at the most, where no number is requested
_FIRST, _NEARLY = 32, 128
"""The first limit is such a part below the peak, the next ones twice as far; and the bisection ends when the limit is
known to such a part."""
_TRIAL, _BEST = 0.1, 0.4
"""Shares of the time that is left for the order of tiles under one limit, and for that of the best of them."""


@dataclass
class PeakTiles:
    """Searches for tiles of a graph where an order of it is highest."""

    cutter: Cutter
    problem: Problem
    order: Sequence[int]  # positions in the graph
    enough: int  # bytes; no lower peak is of use
    most_ops: int = 0  # of the tiled graph; 0: any number
    interrupted: bool = False  # whether Ctrl-C ended a search

    def lowest(self, limits: Limits) -> Proposal | None:
        """The tiles of the lowest peak, in an own order of it; None: none is lower than the order's."""
        limits = replace(limits, trace=None)
        peak = profile(self.problem.memory, self.order).peak
        cuts = PeakCuts(self.cutter, self.problem.memory, self.order, _LONGEST)
        best: Proposal | None = None
        for found in self._falling(cuts, peak, limits):
            best = found
        if best is None or best.own_peak <= self.enough:
            return best
        return self._ordered(best, self.enough, limits.share(_BEST))

    def _falling(self, cuts: PeakCuts, peak: int, limits: Limits) -> Iterator[Proposal]:
        """What is found under limits that fall as long as less is found, and rise where nothing is: ever lower."""
        low, high, step = self.enough, peak, max(1, peak // _FIRST)
        while high - low > peak // _NEARLY and not (self.interrupted or limits.over()):
            limit = max(low + (high - low) // 2, high - step)
            found = self._below(cuts, peak, limit, limits)
            if found is None or found.own_peak >= high:
                low = limit
            else:
                high, step = found.own_peak, 2 * step
                yield found

    def _below(self, cuts: PeakCuts, peak: int, limit: int, limits: Limits) -> Proposal | None:
        way = cuts.below(limit, limits)
        if way is None or not way.regions or way.ops > (self.most_ops or _MOST_PARTS):
            return None
        graph, target = self.problem.graph, self.problem.target
        parts = apply(self.cutter, way.regions, [graph.ops[i].id for i in way.order])
        problem = Problem.of(parts.graph, target)
        if largest_single_op(problem.memory) >= peak:
            return None
        return self._ordered(Proposal(parts, problem, peak, 0, {}), limit, limits.share(_TRIAL))

    def _ordered(self, proposal: Proposal, enough: int, limits: Limits) -> Proposal:
        from lowtide.schedule.windows import improved

        own = range(len(proposal.parts.graph.ops))
        order, seen = improved(proposal.problem.memory, own, limits, enough)
        self.interrupted = self.interrupted or seen
        return proposal.in_order(order)
