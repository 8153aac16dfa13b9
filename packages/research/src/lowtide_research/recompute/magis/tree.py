"""The fission hierarchy tree (F-Tree) and its mutation rules (MAGIS, sections 4.3 and 5.1).

A node is a region and a number n of parts; n = 1: disabled. The parent of a node is the smallest region around it::

    root                    enable   a disabled leaf, or with its lifts any node: n = the least divisor of its rows
     `- A (all, batch)      lift     an enabled node is disabled, its parent enabled
         |- B (half)        disable  n = 1
         |   `- C (heads)   mutate   n = the next divisor of the rows
         `- D (sequence)

The paper also enables a node inside or around an enabled one: parts of parts. A plan of lowtide has no parts within
parts, and `lowtide verify` refuses them. Here such a rule disables the enabled nodes below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from lowtide.analyse.model import MemoryModel
from lowtide.graph import Graph
from lowtide.ops.links import axis_classes
from lowtide.ops.meaning import Meaning, meaning
from lowtide.optimize.fission_tree import tree_regions
from lowtide.optimize.step_regions import axes_of_class, links_of, step_regions
from lowtide.transform.fission import NoFission, Region, region_of

Counts = tuple[int, ...]  # n of each node
DRAWN, KEPT = 2000, 12
"""Regions that are drawn at random, and how many legal ones are kept."""


@dataclass(frozen=True)
class Tree:
    """Regions, and of each the number of its parent; -1: it has none."""

    regions: tuple[Region, ...]
    parents: tuple[int, ...]

    @classmethod
    def built(cls, graph: Graph, model: MemoryModel, order: Sequence[int], levels: int) -> Tree:
        """By algorithm 1. The step's inputs are the entry of each dominator tree: the ops that they dominate, all of a
        class of dimensions, are a candidate too."""
        found = [*tree_regions(graph, model, order, levels), *step_regions(graph).regions]
        regions = {region.axes: region for region in sorted(found, key=lambda r: (-len(r.axes), r.axes))}
        return cls.of(list(regions.values()))

    @classmethod
    def at_random(cls, graph: Graph) -> Tree:
        """Of stretches of ops along classes of dimensions, all drawn (section 7.2.5, naive fission)."""
        random, links = Random(0), links_of(graph, known := _meanings(graph))
        classes = axis_classes(graph, windows=False, meanings=lambda _, op: known.get(op.id))
        regions: dict[tuple[tuple[int, int], ...], Region] = {}
        for _ in range(DRAWN):
            try:
                axes = list(axes_of_class(graph, random.choice(classes), links).items())
                begin, end = sorted(random.sample(range(len(axes) + 1), 2)) if axes else (0, 0)
                region = region_of(graph, dict(axes[begin:end]))
            except (NoFission, KeyError):
                continue
            regions[region.axes] = region
            if len(regions) == KEPT:
                break
        return cls.of(sorted(regions.values(), key=lambda r: (-len(r.axes), r.axes)))

    @classmethod
    def of(cls, regions: Sequence[Region]) -> Tree:
        """Regions, the largest first, as a tree."""
        parents = []
        for k, region in enumerate(regions):
            ops = dict(region.axes).keys()
            around = [j for j in range(k) if ops < dict(regions[j].axes).keys()]
            parents.append(around[-1] if around else -1)
        return cls(tuple(regions), tuple(parents))

    @cached_property
    def ops(self) -> tuple[frozenset[int], ...]:
        """Ids of each region's ops."""
        return tuple(frozenset(dict(region.axes)) for region in self.regions)

    def above(self, node: int) -> list[int]:
        """Its ancestors, the nearest first."""
        found: list[int] = []
        while (node := self.parents[node]) >= 0:
            found.append(node)
        return found

    def leaves(self) -> list[int]:
        """Nodes that are no parent."""
        return sorted({*range(len(self.parents))} - {*self.parents})

    def mutations(self, counts: Counts, enabling: Iterable[int]) -> Iterator[tuple[str, Counts]]:
        """What one rule makes of these numbers, with the rule's name. `enabling`: nodes that may be enabled."""
        enabled = [k for k, n in enumerate(counts) if n > 1]
        inside = frozenset[int]().union(*(self.ops[k] for k in enabled))
        for k in enabling:
            if inside.isdisjoint(self.ops[k]):
                yield "enable", _with(counts, {k: self._next(k, 1)})
        for k in enabled:
            yield "disable", _with(counts, {k: 1})
            if (more := self._next(k, counts[k])) > counts[k]:
                yield "mutate", _with(counts, {k: more})
            parent = self.parents[k]
            others = [j for j in enabled if parent not in self.above(j)]
            if parent >= 0 and all(self.ops[parent].isdisjoint(self.ops[j]) for j in others):
                below = {j: 1 for j in enabled if parent in self.above(j)}
                yield "lift", _with(counts, {**below, parent: self._next(parent, 1)})

    def _next(self, node: int, count: int) -> int:
        """The next larger number of parts of equal rows; the same if there is none."""
        rows = self.regions[node].rows
        return next((n for n in range(count + 1, rows + 1) if rows % n == 0), count)


def _meanings(graph: Graph) -> dict[int, Meaning]:
    return {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}


def _with(counts: Counts, changed: dict[int, int]) -> Counts:
    return tuple([changed.get(k, n) for k, n in enumerate(counts)])
