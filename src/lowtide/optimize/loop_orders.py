"""Row streaming beyond one order: where paths along an order end, ops that have to run together are made neighbours.

Under a limit just below the peak of the best path, something large is live at the last position that paths reach. The
search grows sets of ops by data flow from the tensors that are live there (`loop_flow`), and tries them as loops, those
with the fewest bytes first. It makes the ops neighbours and searches the changed window of the order. The new order
stays if paths within the limit reach further. This repeats to the end, then below the next peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from lowtide.optimize.loop_flow import Flow, FlowSets
from lowtide.optimize.loops import Around, LoopPath, LoopSearch
from lowtide.stop import Limits, count
from lowtide.transform.loop_growth import Growth

_STEP, _SMALLEST = 0.2, 0.02
"""Part of the peak by which the limit is below it at first, halved where nothing is found, and the part at which it is
just below the peak instead."""
_SEEDS, _LEAST = 16, 64
"""Tensors from which sets are grown at a place, the largest, and the part of the peak that they have at the least."""
_TRIED = 16  # orders of a place in which loops are looked for
_MORE = 4  # of these, how many more where paths in one lead further, but not beyond what has changed
_STORAGE = 3_000  # nanoseconds that the bound of a set takes for each storage
_BEHIND = 48  # positions after what has changed in which loops over it may end


@dataclass(frozen=True)
class _Candidate:
    """A new order with a set of ops as neighbours, its changed window and the least bytes of the loop. The unmodified
    order if time ended before its loops were tried."""

    least: int
    begin: int
    end: int
    order: tuple[int, ...]


@dataclass
class LoopOrders:
    """Continues from the best path along one order."""

    # search, path: along that order; then along the best one.
    search: LoopSearch
    path: LoopPath
    flow: Flow = field(init=False)
    sets: FlowSets = field(init=False)

    def __post_init__(self) -> None:
        self.flow = Flow(self.search.memory.graph)
        self.sets = FlowSets(self.search.rules, self.flow, self.search.streamed)

    def improve(self, limits: Limits, enough: int = 0) -> LoopPath:
        """A path of a lower peak along some order, or the one that there is; none below `enough` is looked for."""
        self.search.limits = limits
        step = _STEP
        while self.path.peak > enough and not limits.over():
            limits.tell("looking for loops in other orders", self.path.peak)
            limit = max(enough, min(int(self.path.peak * (1 - step)), self.path.peak - 1))
            if self._lower(limit, limits, enough):
                continue
            if step == 0:
                break
            step = 0 if step <= _SMALLEST else step / 2
        return self.path

    def _lower(self, limit: int, limits: Limits, enough: int) -> bool:
        """Whether a path within a limit is found; then it is the one."""
        now, moved = self.search, self.path.reordered
        while not limits.over():
            reached = now.paths.reach(limit)
            if reached < len(now.order):
                further = self._further(now, reached, limit, limits)
                if further is None:
                    return False
                now, moved = further, moved + 1
            elif now.reaches(limit, len(now.order) - 1):
                path = now.best(enough)
                assert path is not None, "the path that was just worked out"
                self.search, self.path = now, replace(path, complete=False, reordered=moved)
                return True
        return False

    def _further(self, now: LoopSearch, reached: int, limit: int, limits: Limits) -> LoopSearch | None:
        """A search along an order in which paths within the limit lead further; None if none is found."""
        best: LoopSearch | None = None
        furthest, left = reached, _TRIED
        here = [] if now is self.search and now.complete else [_Candidate(0, reached, reached + 1, tuple(now.order))]
        for candidate in chain(here, self._candidates(now, reached, limit, limits)):
            if limits.over() or not left:
                break
            until = min(len(now.order), candidate.end + _BEHIND)
            around = Around(now, candidate.begin, candidate.end, until, limit)
            found = LoopSearch(now.rules, now.memory, candidate.order, limits, now.streamed, around)
            left -= 1
            if found.reaches(limit, furthest):
                best, furthest, left = found, found.paths.reach(limit), min(left, _MORE)
                if furthest >= candidate.end:
                    break
        return best

    def _candidates(self, now: LoopSearch, reached: int, limit: int, limits: Limits) -> Iterator[_Candidate]:
        """Orders to try, those first whose set needs least."""
        result: dict[tuple[int, ...], _Candidate] = {}
        index = now.memory.graph.index_of
        place = {k: p for p, k in enumerate(now.order)}
        for tensor, dim in self._seeds(now, reached, limit):
            for growth in self.sets.sets(tensor, dim):
                if limits.over():
                    break
                ops = {index[o] for o in growth.inside}
                least = self._least(now, growth, ops)
                if least > limit:
                    continue
                at = sorted(place[k] for k in ops)
                for where in (at[0], at[-1] + 1):
                    order = self.flow.gathered(now.order, ops, where)
                    other = [p for p, k in enumerate(order) if now.order[p] != k]
                    if other and (order not in result or result[order].least > least):
                        begin, end = min(other[0], reached), max(other[-1], reached) + 1
                        result[order] = _Candidate(least, begin, end, order)
        yield from sorted(result.values(), key=lambda c: (c.least, c.end - c.begin, c.order))

    def _seeds(self, now: LoopSearch, reached: int, limit: int) -> Iterator[tuple[int, int]]:
        """(tensor, dimension) of what is live where no path leads on, the largest first."""
        memory = now.memory
        live = [
            (-b.size, s) for s, b in enumerate(memory.storages)
            if now.first[s] <= reached <= now.last[s] and b.size * _LEAST >= limit
        ]  # fmt: skip
        for _, s in sorted(live)[:_SEEDS]:
            for t in memory.storages[s].tensors:
                for d in range(len(memory.graph.tensor_by_id[t].shape or ())):
                    yield t, d

    def _least(self, now: LoopSearch, growth: Growth, ops: set[int]) -> int:
        """Lower bound of a set as one loop, in an order in which only its predecessors run before it; a result or a
        buffer may overlap a dying input."""
        count(_STORAGE * len(now.memory.storages))
        before, after = self.flow.around(ops)
        graph = now.memory.graph
        line_buffers = bytes_ = sum(now.least_buffers(o, growth) for o in growth.inside)
        made = max(graph.tensor_by_id[t].size for o in growth.inside for t in graph.op_by_id[o].outputs)
        over = 0
        for s, storage in enumerate(now.memory.storages):
            if s in now.streamed_storages:
                continue
            within = sum(k in ops for k in storage.users)
            early = storage.at_start or any(before >> k & 1 for k in storage.users)
            late = storage.at_end or any(after >> k & 1 for k in storage.users)
            if (early and late) or (within and (early or late or within < len(storage.users))):
                bytes_ += storage.size
                over = over if late or not within else max(over, storage.size)
        return bytes_ - min(over, max(line_buffers, made))
