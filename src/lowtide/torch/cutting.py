"""Which region of a step to run for some rows at a time, and in how many parts, for a budget."""

from __future__ import annotations

import itertools
import time as clock
from dataclasses import dataclass
from typing import Any

from lowtide.errors import InputError
from lowtide.optimize.recompute.sequence import by_cost, first_plans
from lowtide.torch.cost import Costs
from lowtide.torch.costed import Costed, costed
from lowtide.torch.rows import Region, regions
from lowtide.torch.search import floor, problem_of
from lowtide.torch.slices import sliced
from lowtide.torch.step_plan import StepCut

PARTS = (2, 4, 8, 16, 32, 64)
"""Numbers of parts that are tried first."""

FINER_PARTS = tuple(sorted({*PARTS, *(p * k // 8 for p in PARTS for k in (5, 6, 7))} - {1}))
"""All that are tried: between the best of the first and half of it, too."""

_REGIONS, _KEPT, _SECONDS = 4, 4, 1.0
"""Regions that are tried, proposals that are kept of them, seconds of search for each at most."""

_FEW_AND_MANY = (8, 32)

_NEAR = 100
"""Proposals whose times differ by less than this part of the step's are alike: fewer parts go first."""


def proposals(torch: Any, own: Costed, costs: Costs | None, budget: int) -> list[tuple[Costed, StepCut]]:
    """The cuts that promise the least time within a budget, best first, on costs that are known without measuring.

    Parameters
    ----------
    own
        The step as it is.
    costs
        What was measured of it.
    """
    pairs = itertools.product(_regions(torch, own)[:_REGIONS], PARTS)
    tried = [_proposed(torch, own, costs, budget, *pair) for pair in pairs]
    ranked = sorted((entry for entry in tried if entry is not None), key=lambda entry: entry.rank)
    if ranked and ranked[0].found:
        best, most = ranked[0].region, ranked[0].parts
        between = [parts for parts in FINER_PARTS if most // 2 < parts < most]
        tried = [_proposed(torch, own, costs, budget, best, parts) for parts in between]
        ranked = sorted([*ranked, *(entry for entry in tried if entry is not None)], key=lambda entry: entry.rank)
    return [(entry.cut, StepCut(ops=list(entry.region.indices), parts=entry.parts)) for entry in ranked[:_KEPT]]


@dataclass(frozen=True)
class _Proposal:
    """A region in so many parts, whether a quick search meets the budget, and in how many hundredths of the step's
    time, or how nearly."""

    region: Region
    parts: int
    cut: Costed
    found: bool
    near: int

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The best has the least."""
        return not self.found, self.near, self.parts


def _proposed(
    torch: Any, own: Costed, costs: Costs | None, budget: int, region: Region, parts: int
) -> _Proposal | None:
    """A region in so many parts; None where an op of it is above the budget by itself."""
    if parts > region.rows:
        return None
    cut = cut_step(torch, own, region, parts, costs)
    if floor(cut.graph)[0] > budget:
        return None
    problem, ends = problem_of(cut.graph, cut.seconds), clock.perf_counter() + _SECONDS
    firsts = first_plans(problem, range(len(cut.graph.ops)), budget, 0, lambda: max(0.0, ends - clock.perf_counter()))
    result, once = min(firsts, key=by_cost), own.seconds_of(own.graph.own_order)
    near = round(result.cost * _NEAR * 1e-9 / once) if result.found else result.peak
    return _Proposal(region, parts, cut, result.found, near)


def least_floor(torch: Any, own: Costed, costs: Costs | None) -> tuple[int, str]:
    """What the step's largest op takes by itself, whole or cut so that this is least: bytes, and the op's name."""
    bytes_alone, at = floor(own.graph)
    least = (bytes_alone, own.graph.op_by_id[at].label)
    for region, parts in itertools.product(_regions(torch, own)[:_REGIONS], PARTS):
        if parts <= region.rows:
            graph = cut_step(torch, own, region, parts, costs).graph
            bytes_alone, at = floor(graph)
            least = min(least, (bytes_alone, graph.op_by_id[at].label), key=lambda entry: entry[0])
    return least


def usual(torch: Any, own: Costed, costs: Costs | None, most: float | None = None) -> list[tuple[Costed, StepCut]]:
    """Cuts that lower own order's peak, where no budget says which: a few parts and many of each region.

    Parameters
    ----------
    most
        Seconds that the step may take; None: any number. Where many parts take more, fewer stand in their place.
    """
    cuts: list[tuple[Costed, StepCut]] = []
    for region in _regions(torch, own)[:_REGIONS]:
        seen: set[int] = set()
        for wanted in _FEW_AND_MANY:
            for parts in sorted((p for p in FINER_PARTS if p <= min(wanted, region.rows)), reverse=True):
                cut = cut_step(torch, own, region, parts, costs)
                if most is not None and cut.seconds_of(cut.graph.own_order) > most:
                    continue
                if parts not in seen and cut.own.peak_bytes < own.own.peak_bytes:
                    cuts.append((cut, StepCut(ops=list(region.indices), parts=parts)))
                seen.add(parts)
                break
    return cuts[:_KEPT]


def cut_step(torch: Any, own: Costed, region: Region, parts: int, costs: Costs | None) -> Costed:
    """The step with a region cut."""
    return costed(torch, sliced(own.program, own.graph, region, parts), costs)


def cut_again(torch: Any, own: Costed, record: StepCut, costs: Costs | None) -> Costed:
    """The step cut as a plan says.

    Raises
    ------
    InputError
        There is no such region.
    """
    for region in _regions(torch, own):
        if list(region.indices) == record.ops and 1 <= record.parts <= region.rows:
            return cut_step(torch, own, region, record.parts, costs)
    raise InputError("the saved plan does not hold: the ops that it cuts are no region of this step; plan again")


def is_cuttable(torch: Any, own: Costed) -> bool:
    """Whether a region can hold the step's largest op, so that parts may lower what it takes by itself."""
    return bool(_regions(torch, own))


def _regions(torch: Any, own: Costed) -> list[Region]:
    return regions(torch, own.program, own.graph, floor(own.graph)[1])
