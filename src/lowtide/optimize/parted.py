"""A step with a tiled region, as a search sees it: the sequence of the body, and the ops around it.

::

    peak of the step = max(rest, base + peak of a tile)        seconds = outside + all tiles

`base` is what is live in addition to a tile while the region runs, `rest` the highest step outside. Within a bound on
time, the search finds for each number of tiles the least peak of the body; within bytes, its least time
(`recompute.sequence`). Promising numbers get more time. Where values may leave memory, the search covers one tile by
the transfer clock, and the step is timed tile by tile (`part_clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.cost.labelled import Families, estimated
from lowtide.graph import Graph
from lowtide.optimize.part_clock import PartClock, clock_of_parts, clock_of_step
from lowtide.optimize.recompute.least_bytes import Spent, lower, once, spent_by, sweep
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, search, sequenced
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.sizes import format_size
from lowtide.stop import Limits
from lowtide.target import Target
from lowtide.transform.fission import PARTS, Body, Fission, Loop, Region, body_of, even_ends, outer_of

_FEWEST = 3  # numbers of parts that are made however late it is

_FINALISTS = 3  # numbers of parts that are searched for longer

_ROUNDED = 1e-12  # fraction of a time that rounding costs to units may add

_BUDGETS, _SWEEP_STEPS = 24, 64  # of a sweep of one number of parts: budgets, and repairs that are tried for each

_DESCENT = 0.6
"""Part of the time for a number of parts that the first sweep may take; the rest is for halving from there."""

_ALONE = 0.4  # part of a search with transfers for what stays in memory, before

_QUICK = 0.5  # part of the time in which all of them are searched

_NANO = 1_000_000_000

Orders = Callable[[Graph], Sequence[int]]  # a good order of a graph, positions


@dataclass(frozen=True)
class Parted:
    """A region in a given number of tiles; without a region, the unmodified step."""

    region: Region | None
    fission: Fission | None
    body: Body | None
    # sequence, order: of the body (without a region, of the step), and positions in a good order.
    sequence: Sequenced
    order: tuple[int, ...]
    # base, rest: bytes in addition to the body, and at the highest step outside.
    base: int
    rest: int
    outside_seconds: float  # time of the ops outside
    # Where values may leave memory: the time of all tiles. The sequence is then of one tile, else of all together.
    clock: PartClock | None = None
    # Tiled regions, each one op of the searched graph (`lowtide.optimize.together`); there is then no other region.
    within: tuple[Parted, ...] = ()

    @property
    def count(self) -> int:
        """Parts, of several regions the most."""
        most = max((choice.count for choice in self.within), default=1)
        return most if self.fission is None else len(self.fission.ends)

    @property
    def in_words(self) -> str:
        """The number of tiles, for messages; empty for the unmodified step."""
        return f" in {self.count} parts" if self.count > 1 else ""

    @property
    def cut_ops(self) -> int:
        """Ops that run in parts."""
        own = 0 if self.region is None else len(self.region.axes)
        return own + sum(choice.cut_ops for choice in self.within)

    @property
    def alone(self) -> Sequenced:
        """Of the body, nothing of which leaves memory."""
        return replace(self.sequence, transfers=())

    @cached_property
    def still(self) -> Parted:
        """The same, nothing of which leaves memory."""
        if self.clock is None:
            return self
        return replace(self, sequence=sequenced(self.sequence.model, self.order), clock=None)

    @property
    def begin(self) -> Spent:
        """The order in which every op of the body runs once."""
        return once(self.sequence, self.order)

    def spent(self, order: Sequence[int]) -> Spent:
        """A sequence of the body."""
        return spent_by(self.sequence, order)

    def peak(self, spent: Spent) -> int:
        """Of the step, with a sequence of the body."""
        return max(self.rest, self.base + spent.peak)

    def seconds(self, spent: Spent) -> float:
        """Of the step, with a sequence of the body."""
        if self.clock is not None:
            return self.outside_seconds + self.clock.seconds(spent.order)
        return self.outside_seconds + (spent.units + self.sequence.unmoved_units) / self.sequence.costs.scale

    def units(self, seconds: float) -> int:
        """Units that the body may take where the step takes so many seconds: with a clock about so many."""
        inside = seconds - self.outside_seconds
        if self.clock is not None:
            return int(inside * _NANO / self.clock.parts)
        return int(inside * self.sequence.costs.scale)


def part_counts(rows: int) -> list[int]:
    """Numbers of parts: of those whose largest part has as many rows the smallest."""
    largest = {-(-rows // n): n for n in range(rows, 1, -1)}
    return sorted(largest.values())


def widest_gaps(counts: Sequence[int]) -> list[int]:
    """Numbers in an order in which each of the first many lie far apart: the middle, then the middles of both halves.

    >>> widest_gaps([2, 3, 4, 6, 8, 16, 32])
    [6, 3, 16, 2, 4, 8, 32]
    """
    order, spans = list[int](), [(0, len(counts))]
    for low, high in spans:
        if low < high:
            middle = (low + high) // 2
            order.append(counts[middle])
            spans += [(low, middle), (middle + 1, high)]
    return order


def unmodified(graph: Graph, target: Target, order: Sequence[int], bandwidth: Bandwidth | None = None) -> Parted:
    """The unmodified step; with a bandwidth its values may leave memory."""
    model = memory_model(graph, target)
    clock = None if bandwidth is None else clock_of_step(graph, model, order, bandwidth)
    sequence = sequenced(model, order) if clock is None else clock.searched
    return Parted(None, None, None, sequence, tuple(order), 0, 0, 0.0, clock)


def taken_in_turn(counts: Sequence[int]) -> list[int]:
    """Those that micro-batches alone try come first: a search that runs out of time has made what they have."""
    doubled = [n for n in counts if n & (n - 1) == 0]
    return widest_gaps(doubled) + widest_gaps([n for n in counts if n not in doubled])


def parted(
    graph: Graph,
    target: Target,
    region: Region,
    counts: Sequence[int],
    families: Families,
    orders: Orders,
    bandwidth: Bandwidth | None = None,
    over: Callable[[], bool] = lambda: False,
) -> list[Parted]:
    """A region in each of these numbers of parts. The order of the first one, or of the fewest parts, serves all: their
    ops are the same, and what every part holds in full weighs more the more parts there are. With a
    bandwidth the values of a part may leave memory. Once `over` says so, no further number is taken: powers of two
    are first, and of these and the others each time the one that leaves the widest gap."""
    result: list[Parted] = []
    known: list[tuple[int, ...]] = []
    around = memory_model(outer_of(graph, [Loop(region, 0, 0.0)]), target)
    outside_order = orders(around.graph)
    footprint = profile(around, outside_order).footprint
    loop = next(i for i, op in enumerate(around.graph.ops) if op.type == PARTS)
    base = footprint[list(outside_order).index(loop)]
    rest = max(footprint)
    outside = sum(op.cost or 0.0 for op in around.graph.ops)
    for count in taken_in_turn(counts):
        if len(result) >= _FEWEST and over():
            break
        fission = Fission(region.axes, even_ends(region.rows, count))
        body = body_of(graph, region, fission.all, estimated(families))
        model = memory_model(body.graph, target)
        if not known or count == min(counts):
            known.append(tuple(orders(body.graph)))
        order, clock = min(known, key=model.core.peak), None
        if bandwidth is not None:
            clock = clock_of_parts(graph, region, fission, estimated(families), model, order, bandwidth)
        sequence = sequenced(model, order) if clock is None else clock.searched
        result.append(Parted(region, fission, body, sequence, order, base, rest, outside, clock))
    return sorted(result, key=lambda choice: choice.count)


Found = tuple[Parted, Spent]  # parts, and the body's sequence


@dataclass(frozen=True)
class Best:
    """What was found: the parts and the body's sequence, and `behind` them others, the best first."""

    parted: Parted
    spent: Spent
    behind: tuple[Found, ...] = ()

    @property
    def ranked(self) -> list[Found]:
        """All of them."""
        return [(self.parted, self.spent), *self.behind]


def _first(entries: Iterable[Found], rank: Callable[[Found], tuple[float, float]]) -> list[Found]:
    """Of each choice its best sequence, the best first."""
    first: dict[int, Found] = {}
    for entry in sorted(entries, key=lambda entry: (*rank(entry), entry[0].count)):
        first.setdefault(id(entry[0]), entry)
    return list(first.values())


def _best_of(entries: Iterable[Found], rank: Callable[[Found], tuple[float, float]]) -> Best | None:
    best, *behind = _first(entries, rank) or (None,)
    return None if best is None else Best(*best, tuple(behind))


def _by_time(entry: Found) -> tuple[float, float]:
    return entry[0].seconds(entry[1]), 0.0


def _by_peak(entry: Found) -> tuple[float, float]:
    return entry[0].peak(entry[1]), entry[0].seconds(entry[1])


def least_peak(
    choices: Sequence[Parted], most_seconds: float, limits: Limits, begun: Sequence[Found] = ()
) -> Best | None:
    """The choice of lowest peak within a bound on time; None if none is feasible even without recomputation. `begun`:
    known sequences of some of these choices: the result is no worse."""
    return _with_still(choices, limits, begun, lambda *given: _least_peak(given[0], most_seconds, *given[1:]))


def least_time(choices: Sequence[Parted], budget: int, limits: Limits, begun: Sequence[Found] = ()) -> Best | None:
    """The choice of least time within a budget; None if none is found. `begun` as for `least_peak`."""
    return _with_still(choices, limits, begun, lambda *given: _least_time(given[0], budget, *given[1:]))


Search = Callable[[Sequence[Parted], Limits, Sequence[Found]], Best | None]


def _with_still(choices: Sequence[Parted], limits: Limits, begun: Sequence[Found], search: Search) -> Best | None:
    """The best of a search. Where values may leave memory the same search of what stays there comes first: it tries
    many times as much, and is where to begin."""
    moving = {id(c.still): c for c in choices if c.clock is not None}
    if moving:
        still = search([c.still for c in choices], share(limits, limits.left_seconds * _ALONE), ())
        known = [] if still is None else still.ranked
        begun = [*begun, *((moving[id(c)], moving[id(c)].spent(s.order)) for c, s in known if id(c) in moving)]
    return search(choices, limits, begun)


def _least_peak(choices: Sequence[Parted], most_seconds: float, limits: Limits, begun: Sequence[Found]) -> Best | None:
    most = most_seconds * (1 + _ROUNDED)
    known = [(c, s) for c, s in begun if c.seconds(s) <= most]
    lowest = _first([*known, *((c, c.begin) for c in choices if c.seconds(c.begin) <= most)], _by_peak)
    if not lowest:
        return None
    found = lowest

    def improve(choice: Parted, spent: Spent, seconds: float) -> Spent:
        begin = spent
        least = max(least_possible(choice.sequence)[0], choice.rest - choice.base)
        units = choice.units(most_seconds)
        if limits.over() or spent.peak <= least or units <= spent.units:
            return spent
        part = share(limits, seconds, f"looking for the least peak{choice.in_words}")
        spent = _descended(choice, spent, units, least, part.until(_DESCENT))
        lowest = lower(choice.sequence, spent, units, least, part)
        kept = [s for s in (spent, *lowest.found) if choice.seconds(s) <= most]
        return min(kept, key=lambda s: (s.peak, s.units), default=begin)

    quick = limits.left_seconds * _QUICK / len(found)
    found = [(c, improve(c, s, quick)) for c, s in found]
    finalists = sorted(found, key=_by_peak)[:_FINALISTS]
    long = limits.left_seconds / len(finalists)
    return _best_of([*((c, improve(c, s, long)) for c, s in finalists), *found, *known], _by_peak)


def _descended(choice: Parted, begin: Spent, most: int, least: int, limits: Limits) -> Spent:
    """One sweep of ever lower budgets, each begun at the sequence before, until one costs too much."""
    best, most, alone = begin, most - choice.sequence.unmoved_units, choice.alone
    with limits.interrupt:
        for k in range(1, _BUDGETS + 1):
            budget = begin.peak - (begin.peak - least) * k // _BUDGETS
            if limits.over() or budget >= best.peak:
                continue
            problem = alone if max(best.order, default=0) < len(alone.ops) else choice.sequence
            result = search(problem, best.order, budget, limits, steps=_SWEEP_STEPS)
            if not result.found or result.cost > most:
                break
            best = Spent(tuple(result.order), result.peak, result.cost)
    return best


def _least_time(choices: Sequence[Parted], budget: int, limits: Limits, begun: Sequence[Found]) -> Best | None:
    found: list[Found] = []
    tried = [c for c in choices if c.rest <= budget and least_possible(c.sequence)[0] + c.base <= budget]
    known = [(c, s) for c, s in begun if c.peak(s) <= budget]
    first = {id(c): s for c, s in _first(known, _by_time)}

    def improve(choice: Parted, spent: Spent | None, seconds: float) -> Spent | None:
        begin, room = choice.begin, budget - choice.base
        if begin.peak <= room:
            return begin
        if limits.interrupt.seen or (found and limits.over()):
            return spent
        start, result = choice.order if spent is None else spent.order, None
        words = f"trying {format_size(budget)}{choice.in_words}"
        with limits.interrupt:
            result = search(choice.sequence, start, room, share(limits, seconds, words))
        if result is None or not result.found or (spent is not None and spent.units <= result.cost):
            return spent
        return Spent(tuple(result.order), result.peak, result.cost)

    quick = limits.left_seconds * _QUICK / max(1, len(tried))
    for choice in tried:
        if found and choice.seconds(choice.begin) >= min(c.seconds(s) for c, s in found):
            continue
        spent = improve(choice, first.get(id(choice)), quick)
        if spent is not None:
            found.append((choice, spent))
    nearest = sorted(tried, key=lambda c: (c.peak(c.begin), c.count))[: 0 if found else _FINALISTS]
    for number, choice in enumerate(nearest):  # each had too little time
        spent = improve(choice, None, limits.left_seconds / (len(nearest) - number))
        if spent is not None:
            return Best(choice, spent)
    if not found:
        return None
    found.sort(key=lambda entry: (entry[0].seconds(entry[1]), entry[0].count))
    fastest = found[0][0].seconds(found[0][1])
    seen = {id(c) for c, _ in found}  # of the others one may have had too little time
    missed = [c for c in tried if id(c) not in seen and c.seconds(c.begin) < fastest]
    waiting = min(missed, key=lambda c: (c.cut_ops > 0, c.peak(c.begin)), default=None)
    late = None if waiting is None else improve(waiting, None, limits.left_seconds / (1 + _FINALISTS))
    improved = [(waiting, late)] if waiting is not None and late is not None else []
    for number, (choice, spent) in enumerate(found[:_FINALISTS]):  # what one leaves of its time is the others'
        long = limits.left_seconds / (len(found[:_FINALISTS]) - number)
        improved.append((choice, improve(choice, spent, long) or spent))
    fitting = [(c, c.begin) for c in tried if c.peak(c.begin) <= budget]
    return _best_of([*improved, *found, *fitting, *known], _by_time)


def pareto_front(choices: Sequence[Parted], limits: Limits) -> tuple[list[tuple[Parted, Spent]], bool]:
    """Choices with sequences of their bodies of which no other is as low and as fast, the highest peak first, and
    whether all of them were swept."""
    found: list[tuple[Parted, Spent]] = []
    complete = True
    for number, choice in enumerate(choices):
        begin = choice.begin
        least = max(least_possible(choice.sequence)[0], choice.rest - choice.base)
        budgets = [begin.peak - (begin.peak - least) * k // _BUDGETS for k in range(1, _BUDGETS + 1)]
        words = f"looking for low peaks{choice.in_words}"
        part = share(limits, limits.left_seconds / (len(choices) - number), words)
        points, ended = sweep(choice.sequence, choice.order, budgets, part)
        complete = complete and ended == "complete"
        found += [(choice, spent) for spent in points]
    kept: list[tuple[Parted, Spent]] = []
    for c, s in sorted(found, key=lambda entry: (entry[0].peak(entry[1]), entry[0].seconds(entry[1]), entry[0].count)):
        if not kept or c.seconds(s) < kept[-1][0].seconds(kept[-1][1]):
            kept.append((c, s))
    return kept[::-1], complete


def share(limits: Limits, seconds: float, words: str = "") -> Limits:
    """Limits of a search of its own that takes so many seconds at most. With `words` these are what is reported: its
    figures are of a part, or of a budget that is tried, and not of the step."""
    tell, spent = (limits.saying(words) if words else limits).report, limits.spent_seconds
    report = None
    if tell is not None:
        report = lambda progress: tell(replace(progress, seconds=progress.seconds + spent))  # noqa: E731
    own = max(0.01, min(seconds, limits.left_seconds))
    return Limits(own, limits.memory_bytes, limits.seed, report=report, interrupt=limits.interrupt, tally=limits.tally)
