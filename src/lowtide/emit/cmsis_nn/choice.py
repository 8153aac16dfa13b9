"""Which layers run together, and how many rows a call: the least arena, or the least time within a budget.

Segments follow one another along the model's order. Of every segment and number of rows the bytes that it needs and
what it costs are worked out (`arena.bytes_of`, `Costs`). The cheapest path of segments that need no more than a limit is
a shortest path; the least limit that has one is the least arena of such paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowtide.emit.cmsis_nn.arena import Arena, Lives, bytes_of, place
from lowtide.emit.cmsis_nn.costs import Costs
from lowtide.emit.cmsis_nn.layers import Layers
from lowtide.emit.cmsis_nn.stripes import Flow, Segment, segment

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Rows a call that are tried."""
MOST_LAYERS = 40
"""In a segment."""
SLOWER = 1.1
"""Without a budget: instructions that are estimated to be at most so many times those of whole layers."""


@dataclass(frozen=True)
class Edge:
    """A segment that can be chosen, what it needs in bytes, and what it costs in instructions."""

    part: Segment
    size: int
    cost: float


@dataclass(frozen=True)
class Chosen:
    """Segments and their arena; `cost`: estimated instructions, `whole_cost`: of whole layers."""

    parts: tuple[Segment, ...]
    arena: Arena
    cost: float
    whole_cost: float


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

    def __post_init__(self) -> None:
        self.flow = Flow(self.layers)
        self.lives = Lives(self.flow)
        self.costs = Costs(self.layers)
        self.edges = [self._edges(begin) for begin in range(len(self.layers.listed))]

    def _edges(self, begin: int) -> list[Edge]:
        """Segments that begin with a layer; no more rows where they save no time, and none that need more for less."""
        result: list[Edge] = []
        listed = self.layers.listed
        for end in range(begin + 1, min(len(listed), begin + MOST_LAYERS) + 1):
            if not self.flow.possible(begin, end):
                break
            height = max(layer.rows for layer in listed[begin:end])
            tried = [rows for rows in ROWS if rows < height] if listed[end - 1].streams else []
            found: list[Edge] = []
            for rows in (*tried, *([height] if end == begin + 1 else [])):
                part = segment(self.flow, begin, end, rows)
                edge = Edge(part, bytes_of(self.flow, self.lives, part), self.costs.of(part))
                if all(edge.cost < other.cost or edge.size < other.size for other in found):
                    found.append(edge)
            result += found
        return result

    def best(self) -> Chosen:
        """The segments, placed."""
        whole = self._path(max(e.size for edges in self.edges for e in edges), whole=True)
        whole_cost = sum(e.cost for e in whole or ())
        sizes = sorted({e.size for edges in self.edges for e in edges})
        if self.budget is None:
            return self._least(sizes, whole_cost)
        return self._within(sizes, whole_cost, self.budget)

    def _least(self, sizes: Sequence[int], whole_cost: float) -> Chosen:
        """The least arena whose cost is at most `SLOWER`."""
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            path = self._path(sizes[middle])
            if path is not None and sum(e.cost for e in path) <= SLOWER * whole_cost:
                high = middle
            else:
                low = middle + 1
        return self._placed(self._path(sizes[low]) or [], whole_cost)

    def _within(self, sizes: Sequence[int], whole_cost: float, budget: int) -> Chosen:
        """The least cost whose arena is within the budget; the least arena if there is none."""
        allowed = [size for size in sizes if size <= budget]
        while allowed:
            path = self._path(allowed[-1])
            if path is None:
                break
            chosen = self._placed(path, whole_cost)
            if chosen.arena.size <= budget:
                return chosen
            most = max(e.size for e in path)
            allowed = [size for size in allowed if size < most]
        possible = [size for size in sizes if self._path(size) is not None]
        return self._placed(self._path(possible[0]) or [], whole_cost)

    def _path(self, limit: int, *, whole: bool = False) -> list[Edge] | None:
        """The cheapest segments that need no more than a limit; `whole`: layers in one call alone."""
        count = len(self.edges)
        best: list[tuple[float, list[Edge]] | None] = [None] * (count + 1)
        best[count] = (0.0, [])
        for begin in range(count - 1, -1, -1):
            for edge in self.edges[begin]:
                after = best[edge.part.end]
                if after is None or edge.size > limit or (whole and len(edge.part.steps) > 1):
                    continue
                cost, now = edge.cost + after[0], best[begin]
                if now is None or cost < now[0]:
                    best[begin] = (cost, [edge, *after[1]])
        found = best[0]
        return None if found is None else found[1]

    def _placed(self, path: Sequence[Edge], whole_cost: float) -> Chosen:
        parts = tuple(edge.part for edge in path)
        return Chosen(parts, place(self.flow, self.lives, parts), sum(edge.cost for edge in path), whole_cost)
