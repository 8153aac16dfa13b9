"""Sizes of memory in which a model fits, and how: what `inspect` says in addition to the peak, in a second or two.

From the own order down: the best order, cuts along it, and below those cuts with a slow memory behind a small fast
one. Rungs are what a quick look found: peaks of cuts before their tiles are reordered, traffic along one order and
without addresses. `plan` searches each of them in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.analyse.inspect import Rung
from lowtide.api.goals import FastMemory
from lowtide.api.job import NO_OPTIONS, Job, Search
from lowtide.api.problem import Problem, Rules
from lowtide.api.rewrites.cut_search import arena_bytes, runtime_bytes
from lowtide.api.rewrites.cut_spilling import CutSpilling
from lowtide.errors import InputError
from lowtide.ops.part import adapter
from lowtide.sizes import round_up
from lowtide.spill.problem import Memory
from lowtide.spill.words import Moves
from lowtide.stop import Limits
from lowtide.target import BUILT_IN

if TYPE_CHECKING:
    from lowtide.optimize.regions import Way
    from lowtide.transform.cut import Cutter

STEP = 0.75  # a rung is listed if it is no more than this part of the one before it

MOST_CUTS = 4  # rungs with cuts alone

_TIERS = (0.6, 0.35, 0.2)  # parts of the smallest memory without slow memory that are looked at with one

_LOWEST = (0.14, 0.1, 0.07, 0.05, 0.035, 0.025)
"""Further ones, until one is not to be had; of these the smallest is listed, below which there is little more."""

_CUTS = 0.5  # share of the time after which the search for cuts is over

_SPARE = 50  # a fast memory is tried with one part in so many above what the largest op of its cuts needs


def ladder(
    problem: Problem, own_peak: int, best_peak: int, order: Sequence[int], limits: Limits, best_arena: int | None = None
) -> tuple[list[Rung], bool]:
    """Rungs from the largest memory to the smallest, the model's own order first; and whether nothing was left out for
    want of time.

    `own_peak`, `best_peak`: bytes of the own order, and of the best one known. `order`: that one, in positions.
    `limits`: when to stop looking. `best_arena`: bytes that the runtime takes in all for the best order, if that is
    known: more than what the arena holds where it needs more while it plans.
    """
    from lowtide.transform.cut import Cutter

    whole = len(problem.graph.ops)
    kept = runtime_bytes(problem, problem.graph)
    arenas = [max(peak + kept, best_arena or 0) if kept else None for peak in (own_peak, best_peak)]
    rungs = [Rung(own_peak, "own order", whole, arenas[0])]
    if best_peak < own_peak:
        rungs.append(Rung(best_peak, "best order", whole, arenas[1]))
    if adapter(problem.graph) is None or not problem.graph.ops:
        return rungs, True
    cuts, complete = _cuts(problem, Cutter(problem.graph), order, limits)
    rungs += _thinned(_lower(cuts, _judged(rungs[-1])), _judged(rungs[-1]), MOST_CUTS)
    tiers, all_of_them = _tiers(problem, order, rungs[-1].bytes, limits)
    return [*rungs, *tiers], complete and all_of_them


def _judged(rung: Rung) -> int:
    """What a budget is for: all that the runtime takes, where that is more than what is live."""
    return rung.bytes if rung.arena_bytes is None else rung.arena_bytes


def _lower(rungs: Sequence[Rung], below: int) -> list[Rung]:
    """Those that need less than each one before: what a runtime keeps for more ops may be more than cuts save."""
    listed: list[Rung] = []
    for rung in rungs:
        if _judged(rung) < below:
            listed.append(rung)
            below = _judged(rung)
    return listed


def _thinned(rungs: Sequence[Rung], below: int, most: int) -> list[Rung]:
    """Those that are well below the one before, the last of all always among them, and not too many."""
    listed: list[Rung] = []
    for rung in rungs[:-1]:
        size = _judged(rung)
        if len(listed) + 1 < most and size <= below * STEP and size * STEP >= _judged(rungs[-1]):
            listed.append(rung)
            below = size
    return [*listed, *rungs[-1:]]


def _until(limits: Limits, share: float) -> Limits:
    return replace(limits, seconds=limits.seconds * share)


def _cuts(problem: Problem, cutter: Cutter, order: Sequence[int], limits: Limits) -> tuple[list[Rung], bool]:
    """The front of peaks along the order, and whether all of it was found."""
    from lowtide.optimize.regions import front_ways

    ways = front_ways(cutter, problem.memory, order, _until(limits, _CUTS))
    cut = [way for way in ways if way.regions]
    return [Rung(way.peak, "cuts", way.ops, arena_bytes(problem, cutter, way)) for way in cut], ways[-1].complete


def _tiers(problem: Problem, order: Sequence[int], below: int, limits: Limits) -> tuple[list[Rung], bool]:
    """Fast memories below all cuts, each with what it moves at about the least, and whether none was left out."""
    from lowtide.optimize.regions import working_ways

    target = problem.target if _spills(problem) else BUILT_IN["generic"]
    under = problem if target is problem.target else Problem.of(target.as_seen(problem.graph), target)
    if len(under.graph.ops) != len(problem.graph.ops) or limits.over():
        return [], not limits.over()
    tiers: list[Rung] = []
    lowest: list[Rung] = []
    cutter = _searched(under, below, limits).cutter
    for part in (*_TIERS, *_LOWEST):
        ways = working_ways(cutter, under.memory, order, limits, [int(below * part)])
        found = []
        for way in (way for way in ways if way.regions):
            fast = round_up(way.peak + way.peak // _SPARE, target.alignment)
            rung = None if limits.over() else _tier(under, way, fast, order, limits)
            found += [] if rung is None else [rung]
        if limits.over():
            return _worth_it(tiers + lowest), False
        if part in _TIERS:
            tiers += found
        elif found:
            lowest = found
        else:
            break
    return _worth_it(tiers + lowest), True


def _worth_it(rungs: Sequence[Rung]) -> list[Rung]:
    """Without those that move more than a smaller memory does."""
    return [
        r for k, r in enumerate(rungs) if all((r.traffic_bytes or 0) < (s.traffic_bytes or 0) for s in rungs[k + 1 :])
    ]


def _spills(problem: Problem) -> bool:
    target = problem.target
    return target.overlap == "never" and not target.rule and target.count_inputs


def _searched(problem: Problem, fast: int, limits: Limits) -> CutSpilling:
    """The search for cuts of a fast memory."""
    goal = FastMemory((Memory("fast", fast),), Moves())
    search = Search(goal.method("exact", NO_OPTIONS), limits.seconds)
    job = Job(problem.graph, {}, Rules(problem.target), goal, search, ("fission",))
    return CutSpilling(job, problem, limits)


def _tier(problem: Problem, way: Way, fast: int, order: Sequence[int], limits: Limits) -> Rung | None:
    """What a way to cut moves with so much fast memory; None if it does not fit."""
    search = _searched(problem, fast, limits)
    try:
        candidate = search.candidate(search.parts(way, order))
    except InputError:
        return None
    if candidate is None:
        return None
    return Rung(fast, "cuts and slow memory", candidate.rank[1], None, candidate.traffic_bytes, problem.target.name)
