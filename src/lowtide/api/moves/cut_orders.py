"""Orders of the parts that a search for cuts proposes, and regions cut anew where the peak of these orders is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.analyse.model import MemoryModel
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.stop import PATIENCE_SECONDS, Limits

if TYPE_CHECKING:
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import PartGraph

_LOOK, _WINDOWS = 0.15, 0.6
"""Shares of the time for a part graph after which the first look at it is over, and the search window by window."""
_FIRST = 0.85  # the same of regions cut anew before that
_LEAST_GAIN = 512  # regions are cut anew as long as that gains such a part of the peak
_MOST_PARTS = 2**14  # ops of parts that are cut anew, at the most


@dataclass(frozen=True)
class Proposal:
    """Cuts that are worth a plan."""

    # parts, problem: what they give, and that as a problem under the target.
    parts: PartGraph
    problem: Problem
    peak: int  # bytes that their search saw
    runtime_bytes: int  # bytes that the runtime keeps for the parts in addition to what is planned
    figures: dict[str, int]  # of the search
    order: tuple[int, ...] = ()  # op ids of the parts in the order of that peak, if there is one

    @property
    def required(self) -> int:
        """Bytes of the arena."""
        return self.peak + self.runtime_bytes

    @property
    def ops(self) -> int:
        """How many run."""
        return len(self.parts.graph.ops)

    @property
    def above_limit(self) -> int:
        """Bytes by which the largest tensor is above the target's limit."""
        return self.problem.target.above_limit(self.parts.graph)

    @property
    def own_peak(self) -> int:
        """Bytes of the parts in their own order."""
        return self.problem.own_order_peak_bytes

    def in_order(self, order: Sequence[int]) -> Proposal:
        """The same with another own order, of positions."""
        graph = replace(self.parts.graph, ops=tuple(self.parts.graph.ops[i] for i in order))
        problem = Problem.of(graph, self.problem.target)
        return replace(self, parts=replace(self.parts, graph=graph), problem=problem)


@dataclass
class PartOrders:
    """Searches for orders of part graphs of one graph."""

    job: Job
    goal: OneArena
    # cutter, memory: of the graph that is cut.
    cutter: Cutter
    memory: MemoryModel
    in_time: Callable[[PartGraph], bool]  # whether parts are predicted to keep within the time that they may take
    least: int = 0  # bytes that no cuts of it go below
    interrupted: bool = False  # whether Ctrl-C ended a search

    def improved(self, proposal: Proposal, limits: Limits) -> Proposal:
        """The parts in an own order of lower peak, where a quick look leaves open which order is the best; regions are
        cut anew where their peak is, as long as that gains. Where they hand on what they make, that comes before the
        search window by window: what one region needs in turn holds up all others, and windows do not help."""
        from lowtide.optimize.recut import chains

        limits = replace(limits, trace=None)
        first = bool(chains(self.cutter.graph, proposal.parts))
        best, proved = self._ordered(proposal, limits, windows=not first)
        result = proposal if proved else best
        if self.interrupted or not self._may_recut(best):
            return result
        search = limits.share(_FIRST if first else _WINDOWS)
        settled = self._settled(best, proposal, _same_span(search))
        recut = self._recut(settled, best.own_peak, _same_span(search))
        while recut is not None:
            settled = recut
            below = settled.own_peak - settled.own_peak // _LEAST_GAIN
            recut = self._recut(settled, below, _same_span(search))
        if settled.own_peak >= best.own_peak:
            if not first:
                return result
            settled = best
        best, _ = self._ordered(settled, limits)
        return best if best.own_peak < settled.own_peak else settled

    def _ordered(self, proposal: Proposal, limits: Limits, *, windows: bool = True) -> tuple[Proposal, bool]:
        """The parts in the best file order that was found, and whether that is proved or all that was requested."""
        from lowtide.schedule.windows import improved

        memory, method = proposal.problem.memory, self.job.search.method
        look = _same_span(limits.share(_LOOK))
        schedule = self.goal.find_order(proposal.problem, self.job.search, look)
        done = method.name != "exact" or schedule.stopped in ("proof", "interrupt")
        order = tuple(schedule.order)
        if not done and windows:
            enough = max(schedule.lower_bound, self.goal.arena_budget(proposal.problem) or 0)
            order, seen = improved(memory, schedule.order, limits.share(_WINDOWS), enough)
            self.interrupted = self.interrupted or seen
        return proposal.in_order(order), done

    def _may_recut(self, proposal: Proposal) -> bool:
        """Whether regions of a proposal may be cut anew: nothing is eliminated, and less is of use and possible."""
        exact = self.job.search.method.name == "exact"
        if proposal.parts.elimination.cuts or not proposal.parts.regions or not exact:
            return False
        return proposal.own_peak > self.enough(proposal)

    def enough(self, proposal: Proposal) -> int:
        """Bytes; no lower peak is of use."""
        return max(self.least, self.goal.arena_budget(proposal.problem) or 0)

    def _settled(self, best: Proposal, before: Proposal, limits: Limits) -> Proposal:
        """The parts with each region in a low order of its own: from the order in turn, where that is no higher."""
        settled = self._each_low(before, limits)
        return settled if settled.own_peak <= best.own_peak else self._each_low(best, limits)

    def _each_low(self, proposal: Proposal, limits: Limits) -> Proposal:
        from lowtide.optimize.recut import region_windows
        from lowtide.schedule.windows import lowest_within

        own = range(len(proposal.parts.graph.ops))
        windows = region_windows(proposal.parts)
        order, seen = lowest_within(proposal.problem.memory, own, windows, limits)
        self.interrupted = self.interrupted or seen
        return proposal.in_order(order)

    def _recut(self, settled: Proposal, below: int, limits: Limits) -> Proposal | None:
        """Parts with regions cut anew that need less than a given number of bytes, each region in a low order; None:
        there are none, or none were found."""
        for recut in self._recuts(settled, limits):
            low = self._each_low(recut, limits)
            if low.own_peak < below:
                return low
            if self.interrupted or limits.over():
                break
        return None

    def _recuts(self, proposal: Proposal, limits: Limits) -> Iterator[Proposal]:
        from lowtide.optimize.recut import recuts

        enough, memory = self.enough(proposal), proposal.problem.memory
        for recut in recuts(self.cutter, self.memory, proposal.parts, memory, limits, enough):
            if len(recut.graph.ops) <= (self.job.max_ops or _MOST_PARTS) and self.in_time(recut):
                other = replace(proposal, parts=recut, problem=Problem.of(recut.graph, proposal.problem.target))
                if other.above_limit <= proposal.above_limit:
                    yield other


def _same_span(limits: Limits) -> Limits:
    """Limits of a search that takes no longer than all before did."""
    return limits.at_most(max(PATIENCE_SECONDS, limits.spent_seconds))
