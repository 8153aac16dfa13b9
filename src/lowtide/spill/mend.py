"""What does not fit together although its sum does: more has to leave, or to move.

The least traffic of an order is found without addresses. Almost always its pieces pack; where they do not, CP-SAT
looks at residency and addresses together if it is there, and else, or besides, the cheapest stretches that are in the
way leave too. In the last resort a storage is moved to another offset through the next level, between two steps: then
everything fits, as every op does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowtide.allocate.arena import Engine
from lowtide.allocate.greedy import Portfolio
from lowtide.allocate.squeaky import SqueakyWheel
from lowtide.errors import MissingExtraError
from lowtide.spill.answer import Interval
from lowtide.spill.joint import joint
from lowtide.spill.place import Placement, place
from lowtide.spill.problem import Gap, SpillProblem, Timeline, timeline
from lowtide.spill.traffic import intervals_of, moves_of, traffic_of
from lowtide.stop import Limits

QUICK: tuple[Engine, ...] = (Portfolio(), SqueakyWheel(work=200_000))


@dataclass(frozen=True)
class Mended:
    """A placement that fits, and its traffic; `best` if no other residency of the order costs less."""

    placement: Placement
    traffic_bytes: int
    best: bool


def mend(problem: SpillProblem, order: Sequence[int], dropped: Sequence[Gap], limits: Limits) -> Mended:
    """Make the residency of an order fit the capacity, with as little more traffic as can be found."""
    line = timeline(problem, order)
    answers = []
    try:
        found = joint(problem, line, line.in_place, order, limits)
    except MissingExtraError:
        found = None
    if found is not None:
        placement = place(problem, order, sorted(intervals_of(line, found[0])), line.in_place, limits)
        if placement.height_bytes <= problem.capacity:
            answers.append(Mended(placement, _traffic(problem, order, placement.intervals), found[1]))
    if not answers or not answers[0].best:
        answers.append(_by_hand(problem, order, line, dropped, limits))
    return min(answers, key=lambda a: a.traffic_bytes)


def _traffic(problem: SpillProblem, order: Sequence[int], intervals: Iterable[Interval]) -> int:
    return traffic_of(moves_of(problem, order, intervals))


def _by_hand(
    problem: SpillProblem, order: Sequence[int], line: Timeline, dropped: Sequence[Gap], limits: Limits
) -> Mended:
    """Cut intervals where it costs least until they fit, then take back what was not needed."""
    start = sorted(intervals_of(line, dropped))
    cuts: list[tuple[int, int]] = []
    kept = {(g.storage, g.start): g.end for g in line.gaps if g.read_bytes and g not in set(dropped)}
    while True:
        now = _cut(start, cuts, kept)
        placement = place(problem, order, now, line.in_place, limits, QUICK)
        if placement.height_bytes <= problem.capacity:
            break
        cuts.append(_cheapest(problem, order, line, placement, start, cuts, kept))
    for cut in list(cuts):
        fewer = [c for c in cuts if c != cut]
        other = place(problem, order, _cut(start, fewer, kept), line.in_place, limits, QUICK)
        if other.height_bytes <= problem.capacity:
            cuts, placement = fewer, other
    return Mended(placement, _traffic(problem, order, placement.intervals), best=False)


def _cut(
    intervals: Sequence[Interval], cuts: Iterable[tuple[int, int]], gaps: dict[tuple[int, int], int]
) -> list[Interval]:
    """The intervals, each cut (storage, step) leaving out the gap that begins there, or nothing if none does."""
    result = list(intervals)
    for s, step in cuts:
        k = next(k for k, v in enumerate(result) if v.storage == s and v.start < step < v.end)
        visit = result[k]
        result[k : k + 1] = [Interval(s, visit.start, step), Interval(s, gaps.get((s, step), step), visit.end)]
    return sorted(result)


def _cheapest(
    problem: SpillProblem,
    order: Sequence[int],
    line: Timeline,
    placement: Placement,
    start: Sequence[Interval],
    cuts: Sequence[tuple[int, int]],
    gaps: dict[tuple[int, int], int],
) -> tuple[int, int]:
    """The cut that costs least of those at a time when something sticks out; gaps before moves, larger ones first."""
    sizes = problem.model.storages
    out = [v for v in placement.intervals if v.offset + sizes[v.storage].size > problem.capacity]
    over_end = {(problem.model.storage_of[o.output], order.index(o.op)) for o in line.in_place}
    places = []
    for visit in _cut(start, cuts, gaps):
        if out and not any(o.start < visit.end and visit.start < o.end for o in out):
            continue
        for t in line.touches[visit.storage]:
            if visit.start < t + 1 < visit.end and (visit.storage, t) not in over_end:
                places.append((visit.storage, t + 1))
    before = _traffic(problem, order, _cut(start, cuts, gaps))
    priced = []
    for s, step in places:
        cost = _traffic(problem, order, _cut(start, [*cuts, (s, step)], gaps)) - before
        length = gaps.get((s, step), step) - step
        priced.append((cost * (2 if not length else 1), -length * sizes[s].size, s, step))
    assert priced, "every op fits, so some cut is left"
    return min(priced)[2:]
