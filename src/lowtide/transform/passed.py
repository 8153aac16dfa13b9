"""A graph whose ops run in passes and in stripes: statistics as sums, recomputed ops, forwarded slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lowtide.transform import runs
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.decision import Level
from lowtide.transform.lower import Base, tiled
from lowtide.transform.parts import PartGraph
from lowtide.transform.runs import Runs
from lowtide.transform.statistics import Expanded


@dataclass(frozen=True)
class Passed:
    """A graph in passes."""

    expanded: Expanded  # the user's graph with statistics as sums
    runs: Runs  # that with the recomputed ops
    parts: PartGraph  # that in tiles, with origins in the user's file (`PartGraph.sources`)


def as_passed(
    expanded: Expanded, sequence: Sequence[int], regions: Callable[[Cutter, Runs], Sequence[Region]]
) -> Passed:
    """The parts of a sequence of ops with recomputation. `sequence`: op ids of the expanded graph. `regions`: of the
    graph of all runs."""
    graph = expanded.graph
    all_runs = runs.apply(graph, [graph.index_of[op] for op in sequence])
    level = Level(regions=tuple(regions(Cutter(all_runs.graph), all_runs)))
    return Passed(expanded, all_runs, tiled(Base(None, expanded, all_runs), level, split_all=True))
