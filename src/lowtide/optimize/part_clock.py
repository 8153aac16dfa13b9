"""When parts whose values leave memory have ended: each by the clock of transfers, one after the other.

A part begins when all transfers of the one before have ended. Parts of as many rows take the same time, but for the
first, which adds nothing to sums; what is searched is the largest that adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.recompute.sequence import Sequenced, sequenced
from lowtide.optimize.recompute.swaps import Bandwidth, clock, in_nanoseconds, with_swaps
from lowtide.transform.fission import Estimate, Fission, Parts, Region, body_of

_NANO = 1_000_000_000


@dataclass(frozen=True)
class PartClock:
    """Parts by their time."""

    searched: Sequenced  # the part that is searched, in nanoseconds, its values free to leave memory
    alike: tuple[tuple[Sequenced, int], ...]  # parts that take the same time, and how many of each there are

    def seconds(self, order: Sequence[int]) -> float:
        """Of all parts, each as this sequence."""
        return sum(count * clock(problem, order) for problem, count in self.alike) / _NANO

    @property
    def parts(self) -> float:
        """How many parts like the one that is searched take as long as all, by their ops alone."""
        total = sum(count * problem.costs.total for problem, count in self.alike)
        return total / max(1, self.searched.costs.total)


def nanoseconds_of(graph: Graph) -> list[int]:
    """What ops take whose costs are seconds."""
    return [round((op.cost or 0.0) * _NANO) for op in graph.ops]


def clock_of_step(graph: Graph, model: MemoryModel, order: Sequence[int], bandwidth: Bandwidth) -> PartClock:
    """Of an untiled step."""
    problem = _problem(graph, model, order, bandwidth)
    return PartClock(problem, ((problem, 1),))


def clock_of_parts(
    graph: Graph,
    region: Region,
    fission: Fission,
    estimate: Estimate,
    model: MemoryModel,
    order: Sequence[int],
    bandwidth: Bandwidth,
) -> PartClock:
    """Of a region in parts. `model`, `order`: of the largest part."""

    def problem(parts: Parts) -> Sequenced:
        body = body_of(graph, region, parts, estimate).graph
        same = parts.largest == fission.all.largest
        return _problem(body, model if same else memory_model(body, model.target), order, bandwidth)

    searched = fission.searched
    of_largest = problem(searched)
    alike = tuple((of_largest if p == searched else problem(p), count) for p, count in fission.alike.items())
    return PartClock(of_largest, alike)


def _problem(graph: Graph, model: MemoryModel, order: Sequence[int], bandwidth: Bandwidth) -> Sequenced:
    return with_swaps(in_nanoseconds(sequenced(model, order), nanoseconds_of(graph)), bandwidth)
