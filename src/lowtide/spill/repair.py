"""What does not fit together although its sum does: more has to leave, or to move.

The least traffic of an order is found without addresses. Almost always its intervals pack; where they do not, CP-SAT
looks at residency and addresses together if it is there, and else, or besides, the order is searched a second time in
less room than there is, or the cheapest stretches that are in the way leave too. In the last resort a storage is moved
to another offset through the next level, between two steps: then everything fits, as every op does.

Addresses: every stretch of residency is a buffer of its own, packed into the fast memory by the arena engines.

An output that is written over a dying input is one buffer with the last stretch of that input, as in
`lowtide.allocate.buffers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from lowtide.allocate.arena import ENGINES, Engine, allocate_best
from lowtide.allocate.buffers import Buffer, Problem, Rectangle, block
from lowtide.allocate.greedy import Portfolio
from lowtide.allocate.squeaky import SqueakyWheel
from lowtide.analyse.storage import Overwrite
from lowtide.errors import MissingExtraError
from lowtide.spill.answer import Interval
from lowtide.spill.joint import joint
from lowtide.spill.one_order import along
from lowtide.spill.problem import Gap, SpillProblem, Timeline, timeline
from lowtide.spill.traffic import intervals_of, moves_of, moves_of_one, traffic_of
from lowtide.stop import Limits

QUICK: tuple[Engine, ...] = (Portfolio(), SqueakyWheel(work=200_000))

SPARED = (64, 32, 16, 8, 4)
"""Parts of the fast memory that are left free, ever larger ones, so that what is sought without addresses has some."""


@dataclass(frozen=True)
class Repaired:
    """A placement that fits, and its traffic; `best` if no other residency of the order costs less."""

    placement: PlacedResidency
    traffic_bytes: int
    best: bool


def repair(problem: SpillProblem, order: Sequence[int], dropped: Sequence[Gap], limits: Limits) -> Repaired:
    """Make the residency of an order fit the capacity, with as little more traffic as can be found."""
    line = timeline(problem, order)
    answers = []
    try:
        jointly = joint(problem, line, line.in_place, order, limits)
    except MissingExtraError:
        jointly = None
    if jointly is not None:
        placement = place(problem, order, sorted(intervals_of(line, jointly[0])), line.in_place, limits)
        if placement.height_bytes <= problem.capacity:
            answers.append(Repaired(placement, _traffic(problem, order, placement.intervals), jointly[1]))
    if not answers or not answers[0].best:
        spared = _with_less_room(problem, order, line, limits)
        answers += [] if spared is None else [spared]
        if spared is None or limits.left_seconds > 0:
            answers.append(_by_hand(problem, order, line, dropped, limits))
    return min(answers, key=lambda a: a.traffic_bytes)


def _with_less_room(problem: SpillProblem, order: Sequence[int], line: Timeline, limits: Limits) -> Repaired | None:
    """About the best residency of the order in less room, whose intervals fit all of it; None if none of those tried
    does."""
    for part in SPARED:
        capacity = problem.capacity - problem.capacity // part
        smaller = replace(problem, memories=(replace(problem.memories[0], capacity_bytes=capacity),))
        found = along(smaller, order, limits)
        if found is None:
            return None
        intervals = sorted(intervals_of(line, found.dropped))
        in_time = limits.left_seconds > 0
        placement = place(problem, order, intervals, line.in_place, limits, QUICK if in_time else QUICK[:1])
        if placement.height_bytes <= problem.capacity:
            return Repaired(placement, _traffic(problem, order, placement.intervals), best=False)
    return None


def _traffic(problem: SpillProblem, order: Sequence[int], intervals: Iterable[Interval]) -> int:
    return traffic_of(moves_of(problem, order, intervals))


def _by_hand(
    problem: SpillProblem, order: Sequence[int], line: Timeline, dropped: Sequence[Gap], limits: Limits
) -> Repaired:
    """Cut intervals where it costs least until they fit, then take back what was not needed. One cut at a time; once
    the time is over twice as many as the time before, and nothing is taken back."""
    start = sorted(intervals_of(line, dropped))
    cuts: list[tuple[int, int]] = []
    gone = set(dropped)
    kept = {(g.storage, g.start): g.end for g in line.gaps if g.read_bytes and g not in gone}
    at_once = 1
    while True:
        now = _cut(start, cuts, kept)
        in_time = limits.left_seconds > 0
        placement = place(problem, order, now, line.in_place, limits, QUICK if in_time else QUICK[:1])
        if placement.height_bytes <= problem.capacity:
            break
        at_once = 1 if in_time else 2 * at_once
        cuts += _cheapest(problem, order, line, placement, now, kept)[:at_once]
    for cut in list(cuts):
        if limits.left_seconds <= 0:
            break
        fewer = [c for c in cuts if c != cut]
        other = place(problem, order, _cut(start, fewer, kept), line.in_place, limits, QUICK)
        if other.height_bytes <= problem.capacity:
            cuts, placement = fewer, other
    return Repaired(placement, _traffic(problem, order, placement.intervals), best=False)


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
    placement: PlacedResidency,
    now: Sequence[Interval],
    gaps: dict[tuple[int, int], int],
) -> list[tuple[int, int]]:
    """Cuts at a time when something sticks out, the cheapest first; gaps before moves, larger ones first."""
    sizes = problem.model.storages
    full = [False] * (len(order) + 1)
    for v in placement.intervals:
        if v.offset + sizes[v.storage].size > problem.capacity:
            full[v.start : v.end] = [True] * (v.end - v.start)
    over = [0, *accumulate(full)]
    step_of = {i: step for step, i in enumerate(order)}
    over_end = {(problem.model.storage_of[o.output], step_of[o.op]) for o in line.in_place}
    of: dict[int, list[Interval]] = {}
    for visit in now:
        of.setdefault(visit.storage, []).append(visit)
    priced = []
    for s, visits in of.items():
        before = traffic_of(moves_of_one(problem, visits, step_of))
        for visit in visits:
            if over[-1] and over[visit.start] == over[visit.end]:
                continue
            for t in line.touches[s]:
                if not visit.start < t + 1 < visit.end or (s, t) in over_end:
                    continue
                cut = _cut(visits, [(s, t + 1)], gaps)
                cost = traffic_of(moves_of_one(problem, cut, step_of)) - before
                length = gaps.get((s, t + 1), t + 1) - t - 1
                priced.append((cost * (2 if not length else 1), -length * sizes[s].size, s, t + 1))
    assert priced, "every op fits, so some cut is left"
    return [(s, step) for _, _, s, step in sorted(priced)]


@dataclass(frozen=True)
class PlacedResidency:
    """Offsets for every interval and workspace. `height_bytes` is within the capacity if and only if they fit."""

    intervals: tuple[Interval, ...]
    workspace_offsets: dict[int, int]
    in_place: tuple[Overwrite, ...]
    height_bytes: int


def place(
    problem: SpillProblem,
    order: Sequence[int],
    intervals: Sequence[Interval],
    in_place: Iterable[Overwrite],
    limits: Limits,
    engines: Sequence[Engine] = ENGINES,
) -> PlacedResidency:
    """Pack the intervals of an order; first with only those overwrites without which the sum does not fit. `in_place`:
    what the order's timeline takes. `limits`: for engines that search; they stop at the capacity. `engines`: to be
    run in turn."""
    overwrites = tuple(in_place)
    limits = replace(limits, enough_bytes=problem.capacity)
    needed = _needed(problem, order, intervals, overwrites)
    best = _pack(problem, order, intervals, needed, limits, engines)
    if best.height_bytes > problem.capacity and len(needed) < len(overwrites):
        other = _pack(problem, order, intervals, overwrites, limits, engines)
        if other.height_bytes < best.height_bytes:
            best = other
    return best


def _needed(
    problem: SpillProblem, order: Sequence[int], intervals: Iterable[Interval], overwrites: Sequence[Overwrite]
) -> tuple[Overwrite, ...]:
    """The overwrites without which the sum at their step would be above the capacity."""
    load = [problem.model.workspace[i] for i in order] + [0, 0]
    change = [0] * (len(load) + 1)
    for v in intervals:
        size = problem.model.storages[v.storage].size
        change[v.start] += size
        change[v.end] -= size
    step_of = {i: step for step, i in enumerate(order)}
    live = 0
    for step in range(len(load)):
        live += change[step]
        load[step] += live
    return tuple(o for o in overwrites if load[step_of[o.op]] > problem.capacity)


def _pack(
    problem: SpillProblem,
    order: Sequence[int],
    intervals: Sequence[Interval],
    in_place: Sequence[Overwrite],
    limits: Limits,
    engines: Sequence[Engine],
) -> PlacedResidency:
    model = problem.model
    step_of = {i: step for step, i in enumerate(order)}
    at_start = {(v.storage, v.start): k for k, v in enumerate(intervals)}
    at_end = {(v.storage, v.end): k for k, v in enumerate(intervals)}
    into: dict[int, tuple[int, int]] = {}  # interval to the one that is written over its end, and bytes above
    over: set[int] = set()
    for o in in_place:
        step = step_of[o.op]
        dying, begun = at_end[o.storage, step + 1], at_start[model.storage_of[o.output], step]
        into[dying] = (begun, model.displacement[o.input])
        over.add(begun)
    buffers: list[Buffer] = []
    place_of: dict[int, tuple[int, int]] = {}
    for k, visit in enumerate(intervals):
        if k in over:
            continue
        size = model.storages[visit.storage].size
        rectangles = [Rectangle(visit.start, visit.end, 0, size)]
        place_of[k] = (len(buffers), 0)
        at, low = k, 0
        while at in into:
            at, above = into[at]
            low += above
            place_of[at] = (len(buffers), low)
            if rectangles[-1].end < intervals[at].end:
                rectangles.append(
                    Rectangle(rectangles[-1].end, intervals[at].end, low, model.storages[intervals[at].storage].size)
                )
        buffers.append(Buffer(f"{visit.storage}@{visit.start}", size, tuple(rectangles), model.alignment))
    workspace_of: dict[int, int] = {}
    for i in order:
        if model.workspace[i]:
            workspace_of[i] = len(buffers)
            step = step_of[i]
            buffers.append(block(f"workspace {i}", step, step + 1, model.workspace[i], model.alignment))
    packing = allocate_best(Problem(tuple(buffers)), limits, engines)
    placed = tuple(
        replace(visit, offset=packing.offsets[place_of[k][0]] + place_of[k][1]) for k, visit in enumerate(intervals)
    )
    workspaces = {i: packing.offsets[b] for i, b in workspace_of.items()}
    return PlacedResidency(placed, workspaces, tuple(in_place), packing.height_bytes)
