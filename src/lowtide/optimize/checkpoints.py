"""Checkpoints: the least recomputation within a limit on the peak, as a shortest path.

A path follows an order from mark to mark, places where a single tensor is live. Between two marks the ops run untiled,
in regions, or in passes (`lowtide.optimize.passes`), and the peak of a segment depends on the segment alone. So the
least recomputation is a shortest path. The search assumes that an edge is feasible until the path uses it. Then it
evaluates the edge in ever narrower stripes, and repeats until all edges of the path are feasible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.optimize.passes import Passes, find_passes, region_of
from lowtide.optimize.regions import Bounds, best_regions
from lowtide.optimize.segments import Mark, as_runs, find_marks, peak_of, segment_graph, with_ends
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.passed import Passed, as_passed
from lowtide.transform.runs import Runs
from lowtide.transform.statistics import ROWS_DIM, Expanded, expand, statistics

How = Literal["whole", "cut", "passes"]

_SMALL = 256  # a tensor of this part of the peak, or less, counts as a few numbers; so do a number or two for each row
_ROWS = (64, 32, 16, 8, 4, 2, 1)  # rows of a stripe that are tried, the most first: few parts are better than many
_MOST_PASSES = 16
_CUT_SECONDS = 4.0
"""For the regions of one segment."""
_NEAR = 1.005  # limits within this factor count as equal
_WORK = (0.1, 0.3, 1.0)  # limits on recomputed operations, as fractions of all; searched before wider ones
_STEP = 0.8  # what is requested next is no less than this part of what there is: far below, much is tried in vain


@dataclass(frozen=True)
class Edge:
    """A segment, and how it runs: marks `begin` to `end`."""

    begin: int
    end: int
    how: How


@dataclass(frozen=True)
class Run:
    """A segment that is feasible within a limit."""

    edge: Edge  # the segment and its mode
    peak: int  # bytes
    rows: int = 0  # rows of a stripe, for passes
    regions: tuple[Region, ...] = ()  # its tiled regions


@dataclass
class Checkpoints:
    """The segments of an order under a target, and what is known of them."""

    memory: MemoryModel  # the graph under the target
    order: tuple[int, ...]  # op ids
    limits: Limits  # when to stop
    tried: int = 0  # segments that were evaluated
    cut_short: bool = False  # whether the limits ended a search
    _peaks: dict[tuple[Edge, int, bool, int], int | None] = field(default_factory=dict)
    _cuts: dict[Edge, list[Run]] = field(default_factory=dict)
    _sought: dict[Edge, int] = field(default_factory=dict)
    _passes: dict[tuple[int, int], Passes | None] = field(default_factory=dict)
    _recomputed: dict[tuple[int, int], int] = field(default_factory=dict)
    _refused: dict[tuple[Edge, bool, bool], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph = self.memory.graph
        lives = profile(self.memory, [graph.index_of[o] for o in self.order])
        self.peak, self.footprint = lives.peak, lives.footprint
        every = statistics(graph)
        rows = [graph.tensor_by_id[s.source] for s in every if s.groups]
        self.small = max([self.peak // _SMALL, *(t.size // (t.shape or (1,))[-1] for t in rows)])
        self.known = [s for s in every if graph.tensor_by_id[s.source].size > self.small]
        self.expanded = expand(graph, self.known)
        self.lowered = _lowered(self.expanded, self.order)
        there = self.expanded.graph.tensor_by_id
        marks = [m for m in find_marks(graph, self.order, self.small) if m.tensor is None or m.tensor in there]
        self.marks = _few(marks)
        self.flops = sum(op.flops or 0 for op in graph.ops)

    # edges

    def passes(self, begin: int, end: int) -> Passes | None:
        """The passes between two marks; None if there are none."""
        key = (begin, end)
        if key not in self._passes:
            ops, end_tensor = self._ops(begin, end), self.marks[end].tensor
            self._passes[key] = find_passes(self.expanded.graph, ops, end_tensor, self.small, _MOST_PASSES)
        return self._passes[key]

    def _ops(self, begin: int, end: int) -> list[int]:
        """Ops of the graph with all statistics as sums."""
        a, b = self.marks[begin].position, self.marks[end].position
        return [op for k in range(a, b) for op in self.lowered[k]]

    def recomputed(self, edge: Edge) -> int:
        """Operations that an edge recomputes."""
        key, ops = (edge.begin, edge.end), self.expanded.graph.op_by_id
        passes = self.passes(*key) if edge.how == "passes" else None
        if passes is None:
            return 0
        if key not in self._recomputed:
            self._recomputed[key] = sum((ops[op].flops or 0) * n for op, n in passes.recomputed().items())
        return self._recomputed[key]

    def _streamed(self, edge: Edge) -> int:
        """How many ops an edge runs in parts, each time counted: of equal work that with few of them is better."""
        if edge.how == "cut":
            return self.marks[edge.end].position - self.marks[edge.begin].position
        passes = self.passes(edge.begin, edge.end) if edge.how == "passes" else None
        return 0 if passes is None else sum(map(len, passes.passes))

    def _edges(self, begin: int, limit: int, most: int | None) -> list[Edge]:
        """What may come after a mark, as far as sizes and work alone say."""
        edges = []
        for end in range(begin + 1, len(self.marks)):
            a, b = self.marks[begin].position, self.marks[end].position
            if end == begin + 1:
                if max(self.footprint[a:b], default=0) <= limit:
                    edges.append(Edge(begin, end, "whole"))
                else:
                    edges.append(Edge(begin, end, "cut"))
            fits = max(self.marks[begin].size, self.marks[end].size) <= limit
            if fits and self.passes(begin, end) is not None:
                edges.append(Edge(begin, end, "passes"))
                if most is not None and self.recomputed(edges[-1]) > most:
                    edges.pop()
        return edges

    # paths

    def way(self, limit: int, most: int | None) -> list[Run] | None:
        """The segments of least work within `limit` bytes and `most` recomputed operations. None: none exist, or the
        time is up."""
        edges = [self._edges(k, limit, most) for k in range(len(self.marks) - 1)]
        while not self.limits.over():
            path = self._shortest(edges, limit)
            if path is None or (most is not None and sum(self.recomputed(e) for e in path) > most):
                return None
            runs = self._all_within(path, limit)
            if runs is not None:
                return runs
        self.cut_short = True
        return None

    def _all_within(self, path: Sequence[Edge], limit: int) -> list[Run] | None:
        """How the segments of a path run; None if one needs more than the limit, which is known from now on."""
        runs = []
        for k, edge in enumerate(path):
            before = self._chunks(runs[-1]) if runs else 0
            behind = k + 1 < len(path) and path[k + 1].how == "passes"
            run = self._within(edge, limit, before, behind)
            if run is None:
                self._refused[edge, before > 0, behind] = limit
                return None
            runs.append(run)
        return runs

    def _shortest(self, edges: Sequence[Sequence[Edge]], limit: int) -> list[Edge] | None:
        """The path of least work, then of fewest ops in parts, of those not known to need more than the limit."""
        best: dict[tuple[Edge, bool], tuple[int, int, tuple[Edge, ...]]] = {
            (edge, False): (self.recomputed(edge), self._streamed(edge), (edge,)) for edge in edges[0]
        }
        done: tuple[int, int, tuple[Edge, ...]] | None = None
        for at in range(1, len(self.marks)):
            for (edge, before), (work, count, path) in [x for x in best.items() if x[0][0].end == at]:
                if at + 1 == len(self.marks):
                    if self._refused.get((edge, before, False), -1) < limit and (
                        done is None or (work, count) < done[:2]
                    ):
                        done = (work, count, path)
                    continue
                passed = edge.how == "passes"
                for later in edges[at]:
                    behind = later.how == "passes"
                    together = passed and not behind  # slices are concatenated
                    if self._refused.get((edge, before, behind), -1) >= limit:
                        continue
                    if together and 2 * self.marks[at].size > limit:
                        continue
                    mine = (work + self.recomputed(later), count + self._streamed(later), (*path, later))
                    if (later, passed) not in best or mine[:2] < best[later, passed][:2]:
                        best[later, passed] = mine
        return None if done is None else list(done[2])

    # single segments

    def _chunks(self, run: Run) -> int:
        """Slices in which a segment forwards its result; 0: untiled, as for a tensor without rows."""
        tensor = self.marks[run.edge.end].tensor
        if run.edge.how != "passes" or tensor is None:
            return 0
        rows = (self.graph.tensor_by_id[tensor].shape or ())[ROWS_DIM : ROWS_DIM + 1]
        return -(-rows[0] // run.rows) if rows else 0

    def _within(self, edge: Edge, limit: int, before: int, behind: bool) -> Run | None:
        """How a segment runs within a limit if it reads `before` slices (0: a full tensor); None if nothing was
        found."""
        a, b = self.marks[edge.begin], self.marks[edge.end]
        if edge.how == "whole":
            return Run(edge, max(self.footprint[a.position : b.position], default=0))
        if edge.how == "cut":
            return self._cut(edge, limit)
        slope, former = 0, None
        for rows in _ROWS:
            if slope and max(a.size, b.size) + slope * rows > limit * 1.1:
                continue  # what a row takes is known, about
            peak = self._passes_peak(edge, before, behind, rows)
            if peak is None:
                return None
            if peak <= limit:
                return Run(edge, peak, rows)
            slope = (peak - max(a.size, b.size)) // (2 * rows)
            # Bytes of an op are linear in the rows, so the peak is convex, about: no stripes need less than the line
            # through two of them says of none.
            least = 0 if former is None else peak - rows * (former[1] - peak) / (former[0] - rows)
            if self.limits.over() or least > limit:
                return None
            former = (rows, peak)
        return None

    def _cut(self, edge: Edge, limit: int) -> Run | None:
        """A segment in regions in which nothing runs twice."""
        known = [run for run in self._cuts.get(edge, ()) if run.peak <= limit]
        if known:
            return max(known, key=lambda run: run.peak)
        if self._sought.get(edge, limit + 1) <= limit:
            return None  # what was looked for below this needs more
        self.tried += 1
        a, b = self.marks[edge.begin].position, self.marks[edge.end].position
        graph = segment_graph(self.graph, self.order[a:b], self.marks[edge.end].tensor)
        model = memory_model(graph, self.memory.target)
        look = replace(self.limits.at_most(_CUT_SECONDS), report=None)
        way = best_regions(Cutter(graph), model, range(len(graph.ops)), look, Bounds(limit))
        own = set(self.order[a:b])
        if way.order != tuple(range(len(graph.ops))) or any(not own.issuperset(r.of) for r in way.regions):
            return None
        self._sought[edge] = limit
        parts = with_ends(graph, way.regions, graph.own_order, (None, None), 1)
        run = Run(edge, peak_of(parts.graph, self.memory.target), regions=way.regions)
        self._cuts.setdefault(edge, []).append(run)
        return run if run.peak <= limit else None

    def _passes_peak(self, edge: Edge, before: int, behind: bool, rows: int) -> int | None:
        """What a segment needs in passes; None if they cannot be."""
        key = (edge, before, behind, rows)
        if key not in self._peaks:
            self.tried += 1
            self._peaks[key] = self._worked_out(edge, before, behind, rows)
        return self._peaks[key]

    def _worked_out(self, edge: Edge, before: int, behind: bool, rows: int) -> int | None:
        passes = self.passes(edge.begin, edge.end)
        assert passes is not None, edge
        first, last = self.marks[edge.begin].tensor, self.marks[edge.end].tensor
        graph = segment_graph(self.expanded.graph, self._ops(edge.begin, edge.end), last)
        all_runs = as_runs(graph, passes.sequence())
        own = {op.type for op in self.expanded.graph.ops}
        begin = 1 if all_runs.graph.op_by_id[all_runs.order[0]].type not in own else 0
        cutter = Cutter(all_runs.graph)
        regions = pass_regions(cutter, all_runs.order[begin:], passes, rows)
        if regions is None:
            return None
        ends = (first if before else None, last if behind else None)
        parts = with_ends(all_runs.graph, regions, all_runs.order, ends, before)
        self.limits.tell("", self.peak)
        return peak_of(parts.graph, self.memory.target)

    # all of it

    def applied(self, runs: Sequence[Run]) -> Passed:
        """The graph with all segments as these runs say."""
        wanted = set[int]()
        for run in runs:
            if run.edge.how == "passes":
                a, b = self.marks[run.edge.begin].position, self.marks[run.edge.end].position
                wanted.update(self.order[a:b])
        expanded = expand(self.graph, [s for s in self.known if s.op in wanted])
        lowered = _lowered(expanded, self.order)
        sequence: list[int] = []
        plans: list[tuple[int, Passes | None, Run]] = []
        for run in runs:
            a, b = self.marks[run.edge.begin].position, self.marks[run.edge.end].position
            ops = [op for k in range(a, b) for op in lowered[k]]
            passes = None
            if run.edge.how == "passes":
                passes = find_passes(expanded.graph, ops, self.marks[run.edge.end].tensor, self.small)
                assert passes is not None, run
            plans.append((len(sequence), passes, run))
            sequence += ops if passes is None else passes.sequence()

        def regions(cutter: Cutter, all_runs: Runs) -> list[Region]:
            found: list[Region] = []
            for begin, passes, run in plans:
                own = None if passes is None else pass_regions(cutter, all_runs.order[begin:], passes, run.rows)
                found += run.regions if own is None else own
            return found

        return as_passed(expanded, sequence, regions)


def pass_regions(cutter: Cutter, order: Sequence[int], passes: Passes, rows: int) -> list[Region] | None:
    """The region of each pass, whose runs stand first in an order; None if one cannot be cut."""
    regions, at = [], 0
    for between, own in zip(passes.between, passes.passes, strict=True):
        at += len(between)
        region = region_of(cutter, order[at : at + len(own)], rows)
        if region is None:
            return None
        regions.append(region)
        at += len(own)
    return regions


def _lowered(expanded: Expanded, order: Sequence[int]) -> list[tuple[int, ...]]:
    """For each op of an order, the ops that run in its place."""
    instead = {e.statistic.op: e.ops for e in expanded.expansions}
    gone = {op for e in expanded.expansions for op in e.statistic.gone}
    return [instead.get(op, () if op in gone else (op,)) for op in order]


def _few(marks: Sequence[Mark]) -> list[Mark]:
    """Of the marks of one tensor the first and the last, and none of a tensor larger than those on both sides."""
    tensors = [m.tensor for m in marks]
    some = [m for k, m in enumerate(marks) if m.tensor is None or tensors[k - 1 : k + 2] != [m.tensor] * 3]
    sizes = [m.size for m in some]
    inner = range(1, len(some) - 1)
    return [some[0], *(some[k] for k in inner if sizes[k] <= max(sizes[k - 1], sizes[k + 1])), some[-1]]


def least(search: Checkpoints, above: int, most: int | None) -> list[Run] | None:
    """The path of lowest peak below `above` bytes within `most` recomputed operations; None if there is none.

    The search begins with small limits on work, which few paths keep. Later limits reuse what is known of the segments.
    """
    best: list[Run] | None = None
    bounds = [*(int(part * search.flops) for part in _WORK if most is None or int(part * search.flops) < most), most]
    limits = search.limits
    for k, bound in enumerate(bounds):
        search.limits = limits.share(1 / (len(bounds) - k))
        runs = _least_within(search, above, bound)
        search.cut_short |= search.limits.over()
        if runs is not None:
            best, above = runs, max(run.peak for run in runs)
    search.limits = limits
    return best


def _least_within(search: Checkpoints, above: int, most: int | None) -> list[Run] | None:
    low, high, best = 0, above, None
    while high > low * _NEAR and high - low > 1 and not search.limits.over():
        limit = max((low + high) // 2, int(high * _STEP))
        runs = search.way(limit, most)
        if runs is None:
            low = limit
        else:
            best, high = runs, max(run.peak for run in runs)
    return best
