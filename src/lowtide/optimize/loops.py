"""Optimal loops along one order: every interval that can be a loop, every axis, and the best of all paths.

A path runs from the start of the order to its end over untiled ops and over loops, which are intervals of the order.
The peak of a step counts the tensors that are live outside the loop and the line buffers. Simulation gives the exact
size of a line buffer but is slow. So a step begins with a lower bound: the rows that one consumer spans. The search
finds the best path over these bounds, evaluates its bounded steps, and repeats until all steps of the best path are
exact: then the path is optimal.

Source: msf-CNN's fusion graph (NeurIPS 2025), for any graph and axis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.graph import MAX_BYTES
from lowtide.ops.index import Index
from lowtide.optimize.loop_over import taken
from lowtide.optimize.loop_paths import LoopPaths, Shared, Step
from lowtide.optimize.loop_rings import leaves, made_loop
from lowtide.stop import Limits, count
from lowtide.transform.loop_growth import Growth
from lowtide.transform.loops import Axes, Loop, LoopRules

_LOWEST = 64  # fraction of the untiled peak below which the search does not begin
_OVERTIME = 4  # how often the best path of what is known is still worked out when the time is up
_AT_ONCE = 16  # intervals of one last op that are looked at before those of the next

_OP, _INTERVAL, _PLAYED = 10_000, 15_000, 300_000
"""Nanoseconds that a search takes for each op before it begins, for each interval that it looks at, and for each op of
a loop that it plays."""


@dataclass(frozen=True)
class LoopPath:
    """The best path along an order."""

    loops: tuple[Loop, ...]  # disjoint loops
    peak: int  # bytes of its largest step
    played: int  # loops whose line buffers were evaluated
    considered: int  # intervals that can be loops, with each choice of axes
    # Whether the search was not stopped: then no path of loops along this order has a peak below `least`.
    complete: bool
    least: int  # bytes of the path of lowest peak; below `peak` if that was enough
    reordered: int = 0  # how often ops were made neighbours; 0: the order is the given one


@dataclass(frozen=True)
class Around:
    """Positions [begin, end) of an order that differ from those of the order of another search.

    Loops that overlap them are looked for up to position `until`; steps of more than `limit` bytes are of no use.
    """

    search: LoopSearch
    begin: int
    end: int
    until: int
    limit: int

    def steps(self) -> list[list[Step]]:
        """The other search's steps that lie outside and need no more than the limit."""
        return [
            [step for step in steps if (end <= self.begin or step.begin >= self.end) and step.bytes <= self.limit]
            for end, steps in enumerate(self.search.paths.steps, 1)
        ]


_Intervals = Generator[Step | int | None, None, None]


@dataclass
class LoopSearch:
    """Searches one order."""

    rules: LoopRules
    memory: MemoryModel
    order: Sequence[int]  # positions in the file order
    limits: Limits
    streamed: frozenset[int] = frozenset()  # graph inputs that arrive in slices, each for one loop
    # If given, the order differs from that of another search in one window. Steps outside are taken from that search;
    # only steps that end in the window are searched.
    around: Around | None = None
    played: int = 0
    complete: bool = True
    paths: LoopPaths = field(init=False)

    def __post_init__(self) -> None:
        count(_OP * len(self.order))
        self.ids = [self.memory.graph.ops[i].id for i in self.order]
        lives = profile(self.memory, self.order)
        self.first, self.last = lives.first, lives.last
        self.untiled = list(lives.footprint)
        self.streamed_storages = {s for t in self.streamed if (s := self.memory.storage_of.get(t)) is not None}
        for s in self.streamed_storages:
            for k in range(max(0, self.first[s]), min(len(self.order) - 1, self.last[s]) + 1):
                self.untiled[k] -= self.memory.storages[s].size
        if self.around is None:
            self.paths = LoopPaths([[] for _ in self.order], Shared())
        else:
            self.paths = LoopPaths(self.around.steps(), self.around.search.paths.shared)
        self._most = MAX_BYTES
        self._level, self._paused = 0, list[tuple[int, _Intervals]]()
        for end, op in enumerate(self.ids, 1):
            if self.around is not None and not self.around.begin < end <= self.around.until:
                continue
            inside = self.around is None or end <= self.around.end
            if inside and not self.streamed_storages.intersection(self.memory.touched[self.order[end - 1]]):
                self.paths.add([Step(end - 1, end, None, self.untiled[end - 1], True)])
            self._paused += ((0, self._loops(end, start)) for start in self.rules.starts(op))
        if self.around is not None:
            self._look(self.around.limit)

    def _look(self, level: int) -> None:
        """Look for the loops of at most a given number of bytes; whether there is more to look for, `_paused` says.

        In turn, so that short ones are there everywhere if the time is not enough for long ones.
        """
        self._level = level
        searches = deque(search for least, search in self._paused if least <= level)
        self._paused = [pair for pair in self._paused if pair[0] > level]
        while searches:
            if self.limits.over():
                self.complete = False
                return
            self.limits.tell("looking for loops")
            search = searches.popleft()
            steps = list(islice(search, _AT_ONCE))
            count(_INTERVAL * len(steps))
            more = [found for found in steps if isinstance(found, int)]
            self.paths.add(step for step in steps if isinstance(step, Step) and self._of_use(step))
            if more:  # repeated until it goes on
                self._paused.append((more[0], search))
            elif len(steps) == _AT_ONCE:
                searches.append(search)

    def offer(self, begin: int, end: int, start: Axes) -> bool:
        """Take in one loop before others are looked for; whether it is one."""
        level, self._level = self._level, MAX_BYTES
        found = [step for step in islice(self._loops(end, start), end - begin) if isinstance(step, Step)]
        self._level = level
        count(_INTERVAL * (end - begin))
        taken = [step for step in found if step.begin == begin]
        self.paths.add(taken)
        return bool(taken)

    def _of_use(self, step: Step) -> bool:
        """Whether a loop may be on a path that is better than what is known, or that leads on."""
        around = self.around
        return step.bytes <= self._most and (around is None or (step.begin < around.end and step.bytes <= around.limit))

    def _bound_by_known(self, enough: int) -> None:
        """Work out the best path of the loops that were offered: none that needs more than it, or than is enough, is of
        use."""
        if all(step.start is None for step in self.paths):
            return
        path, _ = self.paths.walk(MAX_BYTES)
        if path is not None:
            self._settled(path)
            self._most = max(enough, *(step.bytes for step in path))

    def _loops(self, end: int, start: Axes) -> _Intervals:
        """Loops that end at a position, along these axes of its op, the shortest first. None for an interval that is no
        loop; an int is a lower bound of all further loops above the level."""
        growth = Growth(self.rules, self.ids[end - 1], start, self.streamed)
        if growth.stuck:
            return
        storages, first, last = self.memory.storages, self.first, self.last
        behind = self._behind[end - 1]
        outside = sum(
            b.size
            for s, b in enumerate(storages)
            if first[s] < end and last[s] >= end - 1 and s not in self.streamed_storages
        )  # fmt: skip
        ending, beginning = self._by_step
        inside = sum(b for s, b in beginning[end - 1] if last[s] < end)
        line_buffers = self.least_buffers(self.ids[end - 1], growth)
        views = [self.ids[end - 1]]
        largest, dying = self._largest_made[end - 1], tuple(self._dying[end - 1])
        alone = any(first[s] < end - 1 for s in dying) or (
            self.streamed_storages and growth.dims.keys() & self.streamed
        )
        if alone and self._keeps_sources(views, growth) and self._streamed_once(growth):
            yield self._bounded(end - 1, end, start, outside - inside, line_buffers, largest, dying)
        for begin in range(end - 2, -1, -1):
            while behind + line_buffers > self._level:
                yield behind + line_buffers
            growth.add(self.ids[begin])
            if growth.stuck:
                return
            outside += sum(b for s, b in ending[begin] if first[s] < end)
            inside += sum(b for s, b in beginning[begin] if last[s] < end)
            line_buffers += self.least_buffers(self.ids[begin], growth)
            largest = max(largest, self._largest_made[begin])
            dying = (*dying, *self._dying[begin])
            views.append(self.ids[begin])
            shown = self._keeps_sources(views, growth)
            legal = not growth.pending and shown and self._streamed_once(growth)
            yield self._bounded(begin, end, start, outside - inside, line_buffers, largest, dying) if legal else None

    def _bounded(
        self, begin: int, end: int, start: Axes, outside: int, line_buffers: int, largest: int, dying: Sequence[int]
    ) -> Step:
        """A loop with its lower bound: the overlap with an input is at most the line buffers or the largest result of
        an op."""
        storages = self.memory.storages
        over = [s for s in dying if self.first[s] < begin]
        saving = max((min(storages[s].size, max(line_buffers, largest)) for s in over), default=0)
        tensors = tuple(storages[s].tensors[0] for s in over)
        return Step(begin, end, start, outside + line_buffers - saving, False, None, outside, tensors)

    @cached_property
    def _largest_made(self) -> list[int]:
        """Bytes of the largest result of each op."""
        graph = self.memory.graph
        return [max((graph.tensor_by_id[t].size for t in graph.op_by_id[o].outputs), default=0) for o in self.ids]

    @cached_property
    def _dying(self) -> list[list[int]]:
        """Storages that end with each step and may be overwritten: of one tensor, and not streamed."""
        result: list[list[int]] = [[] for _ in self.order]
        tensors = self.memory.graph.tensor_by_id
        for s, b in enumerate(self.memory.storages):
            free = (
                not b.at_end
                and (not b.at_start or self.rules.target.overwrite_inputs)
                and s not in self.streamed_storages
            )
            alone = len(b.tensors) == 1 and tensors[b.tensors[0]].size == b.size
            if free and alone and 0 <= self.last[s] < len(self.order):
                result[self.last[s]].append(s)
        return result

    @cached_property
    def _behind(self) -> list[int]:
        """Bytes after each step that loops that end with it cannot be without: what is live there and after it."""
        change = [0] * (len(self.order) + 1)
        for s, b in enumerate(self.memory.storages):
            begin, end = max(0, self.first[s]), min(self.last[s], len(self.order))
            if s not in self.streamed_storages and begin < end:
                change[begin] += b.size
                change[end] -= b.size
        return list(accumulate(change))

    @cached_property
    def _by_step(self) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
        """(storage, bytes) of those that end with each step, and of those that begin with it; streamed inputs left
        out."""
        ending: list[list[tuple[int, int]]] = [[] for _ in self.order]
        beginning: list[list[tuple[int, int]]] = [[] for _ in self.order]
        for s, b in enumerate(self.memory.storages):
            if s not in self.streamed_storages:
                if 0 <= self.last[s] < len(self.order):
                    ending[self.last[s]].append((s, b.size))
                if self.first[s] >= 0 and not b.at_end:
                    beginning[self.first[s]].append((s, b.size))
        return ending, beginning

    def least_buffers(self, op: int, growth: Growth) -> int:
        """Lower bound in bytes of the line buffers of an op's results: the rows that one consumer spans."""
        graph, bytes_ = self.memory.graph, 0
        if op not in growth.axes:
            return 0
        for t in graph.op_by_id[op].outputs:
            if t in growth.dims and not leaves(self.rules, t, growth.inside):
                bytes_ += self._span(t, growth) * (self.rules.slot_bytes(t, growth.dims[t]) or 0)
        return bytes_

    def _span(self, tensor: int, growth: Growth) -> int:
        """Least number of positions of a tensor that some consumer needs; 0 if its consumer may overwrite it: memory
        counts for its last tensor."""
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
        for (index, size), n in zip(along, self.rules.counts(reader, growth.axes[reader]), strict=True):
            a = n // 2
            first, stop = index.need(a, a + 1, size)
            spans.append((stop - first, size))
        if min(span for span, _ in spans) <= 0:
            return 1
        return spans[0][0] if len(spans) == 1 else (spans[0][0] - 1) * spans[1][1] + spans[1][0]

    def _streamed_once(self, growth: Growth) -> bool:
        """Whether all consumers of a streamed input are in the loop, or none."""
        for t in self.streamed:
            within = [r in growth.inside for r in self.memory.graph.consumers.get(t, ())]
            if any(within) and not all(within):
                return False
        return True

    def _keeps_sources(self, views: list[int], growth: Growth) -> bool:
        """Whether no op is a view of a tensor that the loop does not keep itself. `views` loses the ops that are
        settled."""
        while views and self._keeps_source(views[-1], growth):
            views.pop()
        return not views

    def _keeps_source(self, op: int, growth: Growth) -> bool:
        source = self.rules.view_source(op)
        if source is None or source in self.streamed:
            return True
        shown = self.memory.graph.producer.get(source)
        return shown is not None and shown in growth.inside and not leaves(self.rules, source, growth.inside)

    def possible(self) -> bool:
        """Whether some path streams all streamed inputs."""
        for level in self._levels():
            self._look(level)
            if self.paths.walk(MAX_BYTES)[0] is not None:
                return True
            if not self.complete:
                break
        return False

    def _levels(self) -> Iterator[int]:
        """Ever more bytes, until there is nothing left to look for."""
        level = max(1, max(self.untiled, default=0) // _LOWEST)
        while self._paused and self.complete:
            yield max(level, self._level)
            level = level * 5 // 4 + 1

    def reaches(self, limit: int, beyond: int) -> bool:
        """Whether a path within a limit leads beyond a position, all of it worked out."""
        while not self.limits.over():
            path, _ = self.paths.walk(limit, until=self.paths.reach(limit))
            if not path or path[-1].end <= beyond:
                return False
            if self._settled(path):
                return True
        return False

    def _worked_out(self, limit: int) -> list[Step] | None:
        """The path of least peak, worked out, if that is within a limit, and there was time."""
        while not self.limits.over():
            path, _ = self.paths.walk(limit)
            if path is None or self._settled(path):
                return path
        return None

    def _settled(self, path: Collection[Step]) -> bool:
        """Work out the steps of a path that are bounded only; whether there was none."""
        open_ = [step for step in path if not step.exact]
        for step in open_:
            self.limits.tell("looking for loops")
            self._work_out(step)
        return not open_

    def _work_out(self, step: Step) -> None:
        """Play a loop."""
        assert step.start is not None, step
        ids = self.ids[step.begin : step.end]
        count(_PLAYED * len(ids))
        growth = Growth(self.rules, ids[-1], step.start, self.streamed)
        for op in reversed(ids[:-1]):
            growth.add(op)
        step.loop = made_loop(growth, ids, step.dying)
        self.paths.work_out(step, max(step.bytes, step.outside + taken(step.loop, self.memory.alignment)))
        self.played += 1

    def best(self, enough: int = 0) -> LoopPath | None:
        """The path of lowest peak; of those with no higher peak, or at most `enough` bytes, one with the fewest ops in
        loops. None if no path streams all streamed inputs."""
        self._bound_by_known(enough)
        for level in self._levels():  # what is not looked for yet needs more
            self._look(max(level, enough))
            if self._worked_out(self._level) is not None:
                break
        overtime = 0
        while True:
            path, peak = self.paths.walk(MAX_BYTES)
            if path is None:
                return None
            if self._settled(path):
                break
            overtime += self.limits.over()
            if overtime > _OVERTIME or self.limits.interrupt.seen:  # the best of what is worked out; another may be it
                self.complete = False
                path, peak = self.paths.walk(MAX_BYTES, exact=True)
                assert path is not None, "the path that was just worked out"
                break
        within = path
        while not self.limits.over():
            fewest, _ = self.paths.walk_within(max(peak, enough))
            if fewest is None or self._settled(fewest):
                within = fewest or path
                break
        loops = tuple(step.loop for step in within if step.loop is not None)
        considered = sum(step.start is not None for step in self.paths)
        return LoopPath(loops, max(step.bytes for step in within), self.played, considered, self.complete, peak)
