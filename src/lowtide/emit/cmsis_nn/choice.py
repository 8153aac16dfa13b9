"""Which layers run together, and how many rows a call: the least arena, or the least time within a budget.

Segments follow one another along the model's order. Of every segment and number of rows the bytes that it needs and
what it costs are worked out (`arena.bytes_of`, `Costs`). The cheapest segments that need no more than a limit are a
shortest path. They are placed; where that takes more than the limit, the next best path is tried. Limits are searched
by halves. So the arena is the least that was found, not one that is proved optimal.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowtide.emit.cmsis_nn.arena import ALIGNMENT, Arena, Lives, bytes_of, height, place
from lowtide.emit.cmsis_nn.costs import Costs
from lowtide.emit.cmsis_nn.layers import Layers
from lowtide.emit.cmsis_nn.stripes import Flow, Segment, segment
from lowtide.graph import Kind

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Rows a call that are tried."""
MOST_LAYERS, SHORT = 40, 4
"""In a segment; in those that are tried first: no other one may need more than they do."""
MOST_TRIALS = 20
"""Placements of a limit."""
SLOWER = 1.1
"""Without a budget: instructions that are estimated to be at most this many times those of untiled layers."""


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
    """The search for segments."""

    layers: Layers
    budget: int | None = None  # bytes that the arena may have; None: the least arena that is at most `SLOWER`
    flow: Flow = field(init=False)
    lives: Lives = field(init=False)
    costs: Costs = field(init=False)
    edges: list[list[Edge]] = field(init=False)
    large: list[bool] = field(init=False)
    most: int = field(init=False)
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
        self.most = max(edges[0].size for edges in self.edges)
        short = [self._streams(begin, SHORT, ROWS[:1]) for begin in count]
        single = self.edges
        self.edges = [[*one, *few] for one, few in zip(single, short, strict=True)]
        self.most = max(self.budget or 0, self._least(self._most_cost).arena.size)
        self.edges = [[*one, *self._streams(begin, MOST_LAYERS, ROWS)] for begin, one in enumerate(single)]

    @property
    def _most_cost(self) -> float:
        """Instructions that the segments may take."""
        return SLOWER * self.untiled_cost if self.budget is None else math.inf

    def _edge(self, begin: int, end: int, rows: int) -> Edge:
        part = segment(self.flow, begin, end, rows)
        return Edge(part, bytes_of(self.flow, self.lives, part), self.costs.of(part))

    def _streams(self, begin: int, layers: int, tried: Sequence[int]) -> list[Edge]:
        """Segments of so many layers at most that begin with one and run in several calls of `tried` rows: those in
        which some layer alone needs more than there is, and no more rows where they save no time."""
        result: list[Edge] = []
        listed = self.layers.listed
        for end in range(begin + 1, min(len(listed), begin + layers) + 1):
            if not self.flow.possible(begin, end) or not listed[end - 1].streams:
                break
            if not any(self.large[begin:end]):
                continue
            found: list[Edge] = []
            for rows in tried:
                if rows < max(layer.rows for layer in listed[begin:end]):
                    edge = self._edge(begin, end, rows)
                    if edge.size > self.most:
                        break  # more rows need more
                    if all(edge.cost < other.cost or edge.size < other.size for other in found):
                        found.append(edge)
            result += found
        return result

    def best(self) -> Chosen:
        """The segments, placed: within the budget the fastest; without one, or where none is, the least arena."""
        if self.budget is not None:
            chosen = self._within(self.budget, math.inf)
            return chosen or self._least(self._most_cost)
        return self._least(self._most_cost)

    def _least(self, most_cost: float) -> Chosen:
        """The least arena at a cost: of the limits from the least on that segments alone keep to, a hundredth apart,
        the first within which they are placed."""
        sizes = sorted({e.size for edges in self.edges for e in edges})
        low = bisect_left(sizes, True, key=lambda size: self._cost(self._path(size, {})) <= most_cost)
        limit = sizes[low]
        while (chosen := self._within(limit, most_cost)) is None:
            limit = max(limit + ALIGNMENT, limit * 101 // 100)
        return chosen

    @staticmethod
    def _cost(path: Sequence[Edge] | None) -> float:
        return math.inf if path is None else sum(edge.cost for edge in path)

    def _within(self, limit: int, most_cost: float) -> Chosen | None:
        """The cheapest segments whose arena is found to have no more bytes than a limit, and that cost no more.

        Where what is placed is higher than the limit, the segments at which it is are left out, and the next best are
        tried.
        """
        sizes: dict[int, int] = {}
        for _ in range(MOST_TRIALS):
            path = self._path(limit, sizes)
            if path is None or self._cost(path) > most_cost:
                return None
            parts = tuple(edge.part for edge in path)
            arena = place(self.flow, self.lives, parts, limit)
            if arena.size <= limit:
                return Chosen(parts, arena, self._cost(path), self.untiled_cost)
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
