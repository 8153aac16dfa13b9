"""Which layers run together, and how many rows a call: the least arena, or the least time within a budget.

Segments follow one another along the model's order. Of every segment and number of rows the bytes that it needs and
what it costs are worked out (`arena.bytes_of`, `Costs`). The cheapest segments that need no more than a limit are a
shortest path. They are placed; where that takes more than the limit, the next best path is tried. Limits are searched
by halves. So the arena is the least that was found, not one that is proved least.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from lowtide.emit.cmsis_nn.arena import Arena, Lives, bytes_of, height, place
from lowtide.emit.cmsis_nn.costs import Costs
from lowtide.emit.cmsis_nn.layers import Layers
from lowtide.emit.cmsis_nn.stripes import Flow, Segment, segment
from lowtide.graph import Kind

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Rows a call that are tried."""
MOST_LAYERS = 40
"""In a segment."""
MOST_TRIALS = 30
"""Placements of a limit."""
SLOWER = 1.1
"""Without a budget: instructions that are estimated to be at most so many times those of untiled layers."""


@dataclass(frozen=True)
class Edge:
    """A segment that can be chosen, what it needs in bytes, and what it costs in instructions."""

    part: Segment
    size: int
    cost: float


@dataclass(frozen=True)
class Chosen:
    """Segments and their arena; `cost`: estimated instructions, `untiled_cost`: of untiled layers."""

    parts: tuple[Segment, ...]
    arena: Arena
    cost: float
    untiled_cost: float


@dataclass
class Choice:
    """The search for segments.

    Attributes
    ----------
    budget
        Bytes that the arena may have; None: the least arena that is at most `SLOWER`.
    """

    layers: Layers
    budget: int | None = None
    flow: Flow = field(init=False)
    lives: Lives = field(init=False)
    costs: Costs = field(init=False)
    edges: list[list[Edge]] = field(init=False)
    large: list[bool] = field(init=False)
    untiled_cost: float = field(init=False)

    def __post_init__(self) -> None:
        self.flow = Flow(self.layers)
        self.lives = Lives(self.flow)
        self.costs = Costs(self.layers)
        count = range(len(self.layers.listed))
        self.edges = [[self._edge(k, k + 1, self.layers.listed[k].rows)] for k in count]
        self.untiled_cost = sum(edges[0].cost for edges in self.edges)
        inputs = sum(t.size for t in self.layers.graph.tensors if t.kind is Kind.INPUT)
        least = max(self.budget or 0, inputs)
        self.large = [edges[0].size > least for edges in self.edges]
        for begin in count:
            self.edges[begin] += self._streams(begin)

    def _edge(self, begin: int, end: int, rows: int) -> Edge:
        part = segment(self.flow, begin, end, rows)
        return Edge(part, bytes_of(self.flow, self.lives, part), self.costs.of(part))

    def _streams(self, begin: int) -> list[Edge]:
        """Segments that begin with a layer and run in several calls: those in which some layer alone needs more than
        there is, and no more rows where they save no time."""
        result: list[Edge] = []
        listed = self.layers.listed
        most = max(edges[0].size for edges in self.edges)
        for end in range(begin + 1, min(len(listed), begin + MOST_LAYERS) + 1):
            if not self.flow.possible(begin, end) or not listed[end - 1].streams:
                break
            if not any(self.large[begin:end]):
                continue
            found: list[Edge] = []
            for rows in ROWS:
                if rows < max(layer.rows for layer in listed[begin:end]):
                    edge = self._edge(begin, end, rows)
                    if edge.size > most:
                        break  # more rows need more
                    if all(edge.cost < other.cost or edge.size < other.size for other in found):
                        found.append(edge)
            result += found
        return result

    def best(self) -> Chosen:
        """The segments, placed: within the budget the fastest; without one, or where none is, the least arena."""
        if self.budget is not None:
            chosen = self._within(self.budget, math.inf)
            return chosen or self._least(math.inf)
        return self._least(SLOWER * self.untiled_cost)

    def _least(self, most_cost: float) -> Chosen:
        """The least arena at a cost."""
        sizes = sorted({e.size for edges in self.edges for e in edges})
        low, high = 0, len(sizes) - 1
        best = None
        while best is None:  # of untiled layers, however they are placed
            best = self._within(sizes[high] if high < len(sizes) else 1 << 40, most_cost)
            high += 1
        high = bisect_right(sizes, best.arena.size) - 1
        while low <= high:
            middle = (low + high) // 2
            chosen = self._within(sizes[middle], most_cost)
            if chosen is None:
                low = middle + 1
            else:
                best = min(best, chosen, key=lambda c: c.arena.size)
                high = min(middle, bisect_right(sizes, best.arena.size)) - 1
        return best

    def _within(self, limit: int, most_cost: float) -> Chosen | None:
        """The cheapest segments whose arena is found to have no more bytes than a limit, and that cost no more.

        Where what is placed is higher than the limit, the segments at which it is are left out, and the next best are
        tried.
        """
        sizes: dict[int, int] = {}
        for _ in range(MOST_TRIALS):
            path = self._path(limit, sizes)
            if path is None or sum(edge.cost for edge in path) > most_cost:
                return None
            parts = tuple(edge.part for edge in path)
            arena = place(self.flow, self.lives, parts, limit)
            if arena.size <= limit:
                return Chosen(parts, arena, sum(edge.cost for edge in path), self.untiled_cost)
            at = 0
            for edge in path:
                calls = range(at, at + len(edge.part.calls))
                at = calls.stop
                sizes[id(edge)] = max(edge.size, height(arena, calls))
        return None

    def _path(self, limit: int, sizes: Mapping[int, int]) -> list[Edge] | None:
        """The cheapest segments that need no more than a limit; `sizes`: of edges, where they need more than alone."""
        count = len(self.edges)
        best: list[tuple[float, list[Edge]] | None] = [None] * (count + 1)
        best[count] = (0.0, [])
        for begin in range(count - 1, -1, -1):
            for edge in self.edges[begin]:
                after = best[edge.part.end]
                if after is None or sizes.get(id(edge), edge.size) > limit:
                    continue
                cost, now = edge.cost + after[0], best[begin]
                if now is None or cost < now[0]:
                    best[begin] = (cost, [edge, *after[1]])
        found = best[0]
        return None if found is None else found[1]
