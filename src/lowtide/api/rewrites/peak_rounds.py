"""Rounds of cuts where the ordered parts are highest: along whatever dimension pays there, all else stays as it is.

A search for regions along the parts' order (`CutSearch`) has to bring every step below a limit, and one that no cut
lowers ends it. But such a step may be one of the order, which gives way once what stood around it is lower::

    join of kept rows 1,060,864    cut by channels     951,552
    slices of the input 1,059,072  no cut lowers it  1,059,072    then: slices later, 964,992

So each step above a limit is cut if a short region is below it there, the rest stays, and the parts are reordered.
The limit falls by bisection over what orders of the new parts come to. Nothing rests on what is hoped for: the peak is
that of the parts in the order that was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import largest_single_op
from lowtide.api.problem import Problem
from lowtide.api.rewrites.cut_orders import PartOrders, Proposal
from lowtide.optimize.regions import PeakCuts
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply

_LONGEST = 12
"""Ops of a region at the most."""
_MOST = 3
"""Rounds, and parts at the most."""
_MOST_PARTS = 2**14
_FIRST, _NEARLY = 32, 128
"""The first limit is such a part below the peak, the next ones twice as far; and the bisection ends when the limit is
known to such a part."""
_LEAST_GAIN = 512
"""A round is made for such a part of the peak at the least."""
_ROUNDS = 0.75
"""Share of the time that is left then for these rounds."""
_NEAR = 16
"""Parts stripe by stripe are a start, too, if they are higher by such a part at the most."""
_TRIAL, _BEST = 0.1, 0.4
"""Shares of the time that is left for the order of parts under one limit, and for that of the best of them."""

Round = tuple[Cutter, Proposal]
"""What is cut, with what its ops mean, and the parts."""


@dataclass
class PeakRounds:
    """Tiles parts where they are highest.

    Attributes
    ----------
    orders
        The search for orders of the parts.
    wanted
        Whether parts may be tiled.
    """

    orders: PartOrders
    wanted: bool = True

    def lowest(self, proposal: Proposal, limits: Limits) -> tuple[Proposal, list[Round]]:
        """Parts in an order of low peak, and rounds in which they are tiled where they are highest, in that order
        or stripe by stripe."""
        best = self.orders.improved(proposal, limits)
        turn, peak = self.orders.turn, best.own_peak
        near = turn is not None and peak < turn.own_peak <= peak + peak // _NEAR
        starts = [turn, best] if near and turn is not None else [best]
        return best, self.rounds(starts, _part(limits, _ROUNDS))

    def rounds(self, starts: Sequence[Proposal], limits: Limits) -> list[Round]:
        """The parts of each round, of the one before, each lower than that by `_LEAST_GAIN` at the least.

        Parameters
        ----------
        starts
            The same parts in several own orders, the lowest last.
        """
        found: list[Round] = []
        exact = self.orders.job.search.method.name == "exact"
        while self.wanted and exact and len(found) < _MOST:
            peak = starts[-1].own_peak
            if self._over(limits) or peak <= self.orders.enough(starts[-1]):
                break
            best = self._round(starts, limits)
            if best is None or best[1].own_peak > peak - peak // _LEAST_GAIN:
                break
            found.append(best)
            starts = [best[1]]
        return found

    def _over(self, limits: Limits) -> bool:
        return self.orders.interrupted or limits.over()

    def _round(self, starts: Sequence[Proposal], limits: Limits) -> Round | None:
        best: Round | None = None
        peak = starts[-1].own_peak
        for start in starts:
            cutter = self._cutter(start)
            order = range(len(start.parts.graph.ops))
            cuts = PeakCuts(cutter, start.problem.memory, order, _LONGEST)
            for recut in self._falling(start, cuts, limits):
                if recut.own_peak < peak:
                    best, peak = (cutter, recut), recut.own_peak
        if best is None:
            return None
        enough = self.orders.enough(best[1])
        return best[0], self._ordered(best[1], enough, _part(limits, _BEST)) if peak > enough else best[1]

    def _cutter(self, proposal: Proposal) -> Cutter:
        ops = proposal.parts.graph.ops
        overlap = any(op.overwrites is not None for op in ops)
        only = {op.id for op in ops if op.overwrites is None} if overlap else None
        return Cutter(proposal.parts.graph, exact_bits=self.orders.job.exact_bits, only=only)

    def _falling(self, start: Proposal, cuts: PeakCuts, limits: Limits) -> Iterator[Proposal]:
        """What is found under limits that fall as long as less is found, and rise where nothing is."""
        low, high, step = self.orders.enough(start), start.own_peak, max(1, start.own_peak // _FIRST)
        while high - low > start.own_peak // _NEARLY and not self._over(limits):
            limit = max(low + (high - low) // 2, high - step)
            recut = self._below(start, cuts, limit, limits)
            if recut is None or recut.own_peak >= high:
                low = limit
            else:
                high, step = recut.own_peak, 2 * step
                yield recut

    def _below(self, start: Proposal, cuts: PeakCuts, limit: int, limits: Limits) -> Proposal | None:
        way = cuts.below(limit, limits)
        if way is None or not way.regions or way.ops > (self.orders.job.max_ops or _MOST_PARTS):
            return None
        graph = start.parts.graph
        parts = apply(cuts.cutter, way.regions, [graph.ops[i].id for i in way.order])
        recut = replace(start, parts=parts, problem=Problem.of(parts.graph, start.problem.target))
        if largest_single_op(recut.problem.memory) >= start.own_peak:
            return None
        return self._ordered(recut, limit, _part(limits, _TRIAL))

    def _ordered(self, proposal: Proposal, enough: int, limits: Limits) -> Proposal:
        from lowtide.schedule.windows import improved

        own = range(len(proposal.parts.graph.ops))
        order, seen = improved(proposal.problem.memory, own, limits, enough)
        self.orders.interrupted = self.orders.interrupted or seen
        return proposal.in_order(order)


def _part(limits: Limits, share: float) -> Limits:
    """Limits of a search that is over after a share of what time is left."""
    started = limits.seconds - limits.left_seconds
    return replace(limits, seconds=started + share * limits.left_seconds, trace=None)
