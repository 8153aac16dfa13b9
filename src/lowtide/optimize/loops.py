"""The best loops along one order: every interval of it that can be a loop, every axis, and the best of all paths.

A path goes from the start of the order to its end over ops that run whole and over loops, intervals of the order. Its
peak is the largest of its steps: what lives beside a loop, and the loop's rings. Rings are worked out by playing the
loop, which takes long; so a step has a lower bound first (a ring has as many rows as one reader spans), the best path
is sought over these bounds, what is bounded on it is worked out, and again, until all of it is: then no path is better.

Source: msf-CNN's fusion graph (NeurIPS 2025), for any graph and axis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.graph import MAX_BYTES
from lowtide.ops.index import Index
from lowtide.optimize.loop_rings import leaves, made_loop
from lowtide.sizes import round_up
from lowtide.stop import Limits
from lowtide.transform.loop_growth import Growth
from lowtide.transform.loops import Axes, Loop, LoopRules

_AT_ONCE = 16
"""Intervals of one last op that are looked at before those of the next."""


@dataclass(frozen=True)
class LoopPath:
    """The best path along an order.

    Attributes
    ----------
    loops
        None share an op.
    peak
        Bytes of its largest step.
    played
        Loops whose rings were worked out.
    considered
        Intervals that can be loops, each with each choice of axes.
    complete
        Whether the search was not stopped: then no path of loops along this order has a lower peak.
    """

    loops: tuple[Loop, ...]
    peak: int
    played: int
    considered: int
    complete: bool


@dataclass
class _Step:
    """A step of a path: positions [begin, end) as a loop along `start` of the last op; None: one op that runs whole.

    `bytes` is what it takes, at the least until `exact`.
    """

    begin: int
    end: int
    start: Axes | None
    bytes: int
    exact: bool
    loop: Loop | None = None
    beside: int = 0

    @property
    def looped(self) -> int:
        """Ops that do not run whole."""
        return 0 if self.start is None else self.end - self.begin


_Label = tuple[int, int, _Step | None]
"""Of the best path to a position: what is least, and then, and its last step."""


@dataclass
class LoopSearch:
    """Searches one order.

    Attributes
    ----------
    order
        Positions in the graph's own order.
    streamed
        Graph inputs that are handed over in parts, each to one loop.
    """

    rules: LoopRules
    memory: MemoryModel
    order: Sequence[int]
    limits: Limits
    streamed: frozenset[int] = frozenset()
    played: int = 0
    complete: bool = True
    _steps: list[list[_Step]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ids = [self.memory.graph.ops[i].id for i in self.order]
        lives = profile(self.memory, self.order)
        self.first, self.last = lives.first, lives.last
        self.whole = list(lives.footprint)
        self.handed = {s for t in self.streamed if (s := self.memory.storage_of.get(t)) is not None}
        for s in self.handed:
            for k in range(max(0, self.first[s]), min(len(self.order) - 1, self.last[s]) + 1):
                self.whole[k] -= self.memory.storages[s].size
        self._steps = [[] for _ in self.order]
        searches: deque[Iterator[_Step | None]] = deque()
        for end, op in enumerate(self.ids, 1):
            if not self.handed.intersection(self.memory.touched[self.order[end - 1]]):
                self._steps[end - 1].append(_Step(end - 1, end, None, self.whole[end - 1], True))
            searches += (self._loops(end, start) for start in self.rules.starts(op))
        while searches:  # in turn, so that short loops are there everywhere if the time is not enough for long ones
            if self.limits.over():
                self.complete = False
                break
            search = searches.popleft()
            steps = list(islice(search, _AT_ONCE))
            for step in steps:
                if step is not None:
                    self._steps[step.end - 1].append(step)
            if len(steps) == _AT_ONCE:
                searches.append(search)

    def _loops(self, end: int, start: Axes) -> Iterator[_Step | None]:
        """Loops that end at a position and run along these axes of the op there, the shortest first; None for an
        interval that is none."""
        growth = Growth(self.rules, self.ids[end - 1], start, self.streamed)
        if growth.stuck:
            return
        storages, first, last = self.memory.storages, self.first, self.last
        beside = sum(
            b.size
            for s, b in enumerate(storages)
            if first[s] < end and last[s] >= end - 1 and s not in self.handed
        )  # fmt: skip
        ending, beginning = self._by_step
        inside = sum(b for s, b in beginning[end - 1] if last[s] < end)
        rings = self._least_rings(end - 1, end, growth)
        views = [o for o in self.ids[end - 1 : end] if not self._shows_whole(o, growth)]
        if not views and self._handed_over_once(growth) and (self.handed and growth.dims.keys() & self.streamed):
            yield _Step(end - 1, end, start, beside - inside + rings, False, None, beside - inside)
        for begin in range(end - 2, -1, -1):
            growth.add(self.ids[begin])
            if growth.stuck:
                return
            beside += sum(b for s, b in ending[begin] if first[s] < end)
            inside += sum(b for s, b in beginning[begin] if last[s] < end)
            rings += self._least_rings(begin, end, growth)
            views = [o for o in (*views, self.ids[begin]) if not self._shows_whole(o, growth)]
            legal = not growth.pending and not views and self._handed_over_once(growth)
            yield _Step(begin, end, start, beside - inside + rings, False, None, beside - inside) if legal else None

    @cached_property
    def _by_step(self) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
        """(storage, bytes) of those that end with each step, and of those that begin with it; none that is handed
        over."""
        ending: list[list[tuple[int, int]]] = [[] for _ in self.order]
        beginning: list[list[tuple[int, int]]] = [[] for _ in self.order]
        for s, b in enumerate(self.memory.storages):
            if s not in self.handed:
                if 0 <= self.last[s] < len(self.order):
                    ending[self.last[s]].append((s, b.size))
                if self.first[s] >= 0 and not b.at_end:
                    beginning[self.first[s]].append((s, b.size))
        return ending, beginning

    def _least_rings(self, begin: int, end: int, growth: Growth) -> int:
        """Bytes that the rings of what an op makes take at the least: what one reader spans."""
        graph, bytes_ = self.memory.graph, 0
        op = self.ids[begin]
        if op not in growth.axes:
            return 0
        for t in graph.op_by_id[op].outputs:
            if t in growth.dims and not leaves(self.rules, t, growth.inside):
                bytes_ += self._span(t, growth) * (self.rules.slot_bytes(t, growth.dims[t]) or 0)
        return bytes_

    def _span(self, tensor: int, growth: Growth) -> int:
        """Positions of a tensor that some reader needs at once, at the least; 0 if its reader may write over it: what
        lies in one memory counts where it is last."""
        readers = self.memory.graph.consumers.get(tensor, ())
        if len(readers) == 1 and tensor in self.rules.written_over(readers[0]):
            return 0
        counts, most = self.rules.tensor_counts(tensor, growth.dims[tensor]), 1
        for reader in readers:
            for t, dims in self.rules.reads(reader):
                if t == tensor and reader in growth.axes:
                    along = zip(growth.dims[t], counts, strict=True)
                    read = [(self.rules.index(reader, i, t, d), n) for d, n in along if (i := dims[d]) is not None]
                    most = max(most, self._read_at_once(reader, growth, read))
        return most

    def _read_at_once(self, reader: int, growth: Growth, along: Sequence[tuple[Index, int]]) -> int:
        """Positions that one position of a reader in the middle of its axes reads, with those between them."""
        spans = []
        for (index, size), count in zip(along, self.rules.counts(reader, growth.axes[reader]), strict=True):
            a = count // 2
            first, stop = index.need(a, a + 1, size)
            spans.append((stop - first, size))
        if min(span for span, _ in spans) <= 0:
            return 1
        return spans[0][0] if len(spans) == 1 else (spans[0][0] - 1) * spans[1][1] + spans[1][0]

    def _handed_over_once(self, growth: Growth) -> bool:
        """Whether all of a handed input's readers are in the loop, or none."""
        for t in self.streamed:
            within = [r in growth.inside for r in self.memory.graph.consumers.get(t, ())]
            if any(within) and not all(within):
                return False
        return True

    def _shows_whole(self, op: int, growth: Growth) -> bool:
        """Whether an op is no view of what the loop does not keep itself: as the loop grows, once none, for good."""
        source = self.rules.view_source(op)
        if source is None or source in self.streamed:
            return True
        shown = self.memory.graph.producer.get(source)
        return shown is not None and shown in growth.inside and not leaves(self.rules, source, growth.inside)

    def possible(self) -> bool:
        """Whether some path hands over what is to be handed over."""
        return self._walk(MAX_BYTES)[0] is not None

    def _walk(self, limit: int, *, exact: bool = False) -> tuple[list[_Step] | None, int]:
        """The path of least peak, then of the fewest ops in loops: (steps, peak); (None, 0) if there is none within a
        limit. `exact`: over steps alone that are worked out."""
        best: list[_Label] = [(0, 0, None), *[(MAX_BYTES, 0, None)] * len(self.order)]
        for end, steps in enumerate(self._steps, 1):
            for step in steps:
                before = best[step.begin]
                key = (max(before[0], step.bytes), before[1] + step.looped)
                known = step.exact or not exact
                if known and step.bytes <= limit and key[0] < MAX_BYTES and key < best[end][:2]:
                    best[end] = (*key, step)
        return self._back(best)

    def _walk_within(self, limit: int) -> tuple[list[_Step] | None, int]:
        """The path with the fewest ops in loops, then the fewest steps, of those no step of which is above a limit."""
        best: list[_Label] = [(0, 0, None), *[(len(self.order) + 1, 0, None)] * len(self.order)]
        for end, steps in enumerate(self._steps, 1):
            for step in steps:
                before = best[step.begin]
                key = (before[0] + step.looped, before[1] + 1)
                if step.bytes <= limit and before[0] <= len(self.order) and key < best[end][:2]:
                    best[end] = (*key, step)
        return self._back(best)

    def _back(self, best: list[_Label]) -> tuple[list[_Step] | None, int]:
        at, path = len(self.order), []
        while at:
            step = best[at][2]
            if step is None:
                return None, 0
            path.append(step)
            at = step.begin
        return path[::-1], max((step.bytes for step in path), default=0)

    def _settled(self, path: Collection[_Step]) -> bool:
        """Work out the steps of a path that are bounded only; whether there was none."""
        open_ = [step for step in path if not step.exact]
        for step in open_:
            self._work_out(step)
        return not open_

    def _work_out(self, step: _Step) -> None:
        """Play a loop."""
        assert step.start is not None, step
        ids = self.ids[step.begin : step.end]
        growth = Growth(self.rules, ids[-1], step.start, self.streamed)
        for op in reversed(ids[:-1]):
            growth.add(op)
        step.loop = made_loop(growth, ids)
        exact = step.beside + sum(round_up(size, self.memory.alignment) for _, size in step.loop.pieces())
        assert exact >= step.bytes, (step, exact)
        step.bytes, step.exact = exact, True
        self.played += 1

    def best(self, enough: int = 0) -> LoopPath | None:
        """The path of least peak; of those that need no more, or no more than `enough` bytes, one with the fewest ops
        in loops. None if inputs are to be handed over, and no path does so."""
        peak = 0
        while True:
            path, peak = self._walk(MAX_BYTES)
            if path is None:
                return None
            if self._settled(path):
                break
            if self.limits.over():  # of what is worked out, the best; something else may be better
                self.complete = False
                path, peak = self._walk(MAX_BYTES, exact=True)
                assert path is not None, "the path that was just worked out"
                break
        within = path
        while not self.limits.over():
            fewest, _ = self._walk_within(max(peak, enough))
            if fewest is None or self._settled(fewest):
                within = fewest or path
                break
        loops = tuple(step.loop for step in within if step.loop is not None)
        considered = sum(step.start is not None for steps in self._steps for step in steps)
        return LoopPath(loops, max(step.bytes for step in within), self.played, considered, self.complete)
