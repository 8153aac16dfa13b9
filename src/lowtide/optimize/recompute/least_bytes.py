"""The lowest peak of recomputation within a bound on its time, and the Pareto front of peak and time.

Both call the search for the least time within bytes (`sequence.search`) for one budget after another, warm-started from
the previous budget. For a bound on time, budgets are bisected; for the front they descend. `on_front` reads the result
for a bound on time off a front, so that more time never means more bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lowtide.optimize.recompute.sequence import Sequenced, search
from lowtide.sizes import round_up
from lowtide.stop import Limits, Progress

_STEPS, _GROWTH = 64, 4
"""Repairs that are tried for a budget in the first round of halvings, and how many times more in each further one."""

_FINEST = 2**12  # a round of halvings ends where budgets differ by less than this part of the peak

_ROUNDS = 8

_SWEEP_STEPS = 256  # repairs that are tried for each budget of a front

_BETWEEN = 16  # budgets between two points of a front


@dataclass(frozen=True)
class Spent:
    """A sequence: positions as the core runs them, its peak in bytes as the search counts it, and units of cost."""

    order: tuple[int, ...]
    peak: int
    units: int


@dataclass(frozen=True)
class Lowest:
    """The lowest sequences that were found within a bound on time, the very lowest last; `stopped`: why no lower one
    was sought: ``"time"``, ``"interrupt"``, ``"complete"``, or ``"proof"`` where there is none."""

    found: tuple[Spent, ...]
    stopped: str
    tried: int


def once(problem: Sequenced, order: Sequence[int]) -> Spent:
    """An order in which every op runs once."""
    begin = problem.without_views(order)
    footprints = problem.core(problem.model.alignment).footprints(begin)
    return Spent(tuple(begin), max(footprints, default=0), problem.costs.total - problem.unmoved_units)


def spent_by(problem: Sequenced, order: Sequence[int]) -> Spent:
    """A sequence as it is: positions, and transfers."""
    runs, core = problem.without_views(order), problem.core(problem.model.alignment)
    return Spent(tuple(runs), max(core.footprints(runs), default=0), core.cost(runs))


def least_bytes(problem: Sequenced, order: Sequence[int], most: int, least: int, limits: Limits) -> Lowest:
    """The sequence of least peak whose cost is within a bound. `order`: positions to begin with, each once. `most`:
    units of cost that all runs may take together. `least`: bytes that no such sequence needs less than."""
    return _Halving(problem, once(problem, order), most - problem.unmoved_units, least, limits).run()


def lower(problem: Sequenced, begin: Spent, most: int, least: int, limits: Limits) -> Lowest:
    """The same from a sequence that has recomputation already."""
    return _Halving(problem, begin, most - problem.unmoved_units, least, limits).run()


class _Halving:
    """Budgets between what is proved and what is found, halved in rounds of ever more repairs."""

    def __init__(self, problem: Sequenced, begin: Spent, most: int, least: int, limits: Limits) -> None:
        self.problem, self.most, self.limits = problem, most, limits
        self.unit = max(1, problem.model.alignment)
        self.least = round_up(least, self.unit)
        self.found = [begin]
        self.below: Spent | None = None  # the cheapest of those too dear, at the highest budget that was not met
        self.tried = 0
        self.stopped = "complete"

    def run(self) -> Lowest:
        """Until nothing is left to try, or Ctrl-C."""
        with self.limits.interrupt:
            self._rounds()
        if self.limits.interrupt.seen:
            self.stopped = "interrupt"
        if self.found[-1].peak <= self.least:
            self.stopped = "proof"
        return Lowest(tuple(self.found), self.stopped, self.tried)

    def _rounds(self) -> None:
        steps, seed = _STEPS, self.limits.seed
        for number in range(_ROUNDS):
            before = self.found[-1]
            self._round(steps, seed + number)
            if self._over():
                break
            if self.found[-1] is before:
                steps *= _GROWTH

    def _over(self) -> bool:
        if self.stopped == "complete" and self.limits.over():
            self.stopped = "time"
        return self.stopped != "complete" or self.found[-1].peak <= self.least

    def _round(self, steps: int, seed: int) -> None:
        """From the lowest peak down, by halves."""
        low, self.below = self.least, None
        while not self._over():
            high = self.found[-1].peak - self.unit
            if high < low:
                return
            last = high - low < self.found[-1].peak // _FINEST
            budget = low if last else max(low, (low + high) // 2 // self.unit * self.unit)
            if not self._meet(budget, steps, seed):
                if last:
                    return
                low = budget + self.unit

    def _meet(self, budget: int, steps: int, seed: int) -> bool:
        """Whether a sequence of that peak is found."""
        starts = [self.found[-1]] if self.below is None else [self.found[-1], self.below]
        tried = [spent for s in starts if (spent := self._search(s.order, budget, 0, seed)) is not None]
        begin = min(tried, key=lambda spent: spent.units, default=None)
        if begin is None or begin.units > self.most:
            begin = self._search((begin or self.found[-1]).order, budget, steps, seed) or begin
        if begin is None or begin.units > self.most:
            self.below = begin or self.below
            return False
        self.found.append(begin)
        return True

    def _search(self, order: Sequence[int], budget: int, steps: int, seed: int) -> Spent | None:
        self.tried += 1
        enough = self.most + self.problem.unmoved_units
        limits = replace(self.limits, seed=seed, report=self._report())
        result = search(self.problem, order, budget, limits, steps=steps, enough=enough)
        return Spent(tuple(result.order), result.peak, result.cost) if result.found else None

    def _report(self) -> Callable[[Progress], None] | None:
        """Progress of the search over all budgets."""
        tell, passed = self.limits.report, self.limits.passed_seconds
        if tell is None:
            return None
        return lambda progress: tell(Progress(self.found[-1].peak, self.least, passed + progress.seconds))


def sweep(problem: Sequenced, order: Sequence[int], budgets: Sequence[int], limits: Limits) -> tuple[list[Spent], str]:
    """Ever lower peaks in ever more time: one descending sweep, each budget warm-started from the one before. `order`:
    positions of all ops, without repeats. `budgets`: bytes, descending. The sweep ends at the first infeasible one,
    with the lowest sequence so far. Returns: the first has no recomputation; and why the sweep ended."""
    points, stopped = [once(problem, order)], "complete"
    for number, budget in enumerate(budgets):
        if budget >= points[-1].peak:
            continue
        share = limits.share(1 / (len(budgets) - number))
        result = search(problem, points[-1].order, budget, share, steps=_SWEEP_STEPS)
        if not result.found and result.peak < points[-1].peak:
            result = search(problem, result.order, result.peak, share, steps=_SWEEP_STEPS)
            points.append(Spent(tuple(result.order), result.peak, result.cost))
            break
        if result.found:
            points.append(Spent(tuple(result.order), result.peak, result.cost))
        if limits.over() or result.stopped == "interrupt":
            stopped = "interrupt" if result.stopped == "interrupt" else "time"
        if stopped != "complete" or not result.found:
            break
    return _cheaper_from_below(problem, undominated(points), limits), stopped


def on_front(
    problem: Sequenced, order: Sequence[int], budgets: Sequence[int], most: int, least: int, limits: Limits
) -> Lowest:
    """The lowest sequence of the front whose cost is within a bound, or one between it and the next lower point.

    The bound decides only where the front is refined, and a refined point is no lower than the next point. So with
    enough time a larger bound never gives a higher peak, and the peak is at most that of `sweep`.

    `order`, `budgets`: those of `sweep`. `most`: units of cost of all runs together, at least those of each op once.
    `least`: lower bound of all sequences, in bytes.
    """
    points, stopped = sweep(problem, order, budgets, limits)
    units = most - problem.unmoved_units
    found = [point for point in points if point.units <= units]
    rest = points[len(found) :]
    above, low, tried = found[-1], rest[0].peak if rest else least, len(budgets)
    gap = above.peak - low
    for k in range(1, _BETWEEN + (not rest)):
        budget = low + gap * (_BETWEEN - k) // _BETWEEN
        if stopped != "complete" or limits.over():
            stopped = "time" if stopped == "complete" else stopped
            break
        if budget >= above.peak:
            continue
        share = limits.share(1 / (_BETWEEN + 1 - k))
        results = [search(problem, above.order, budget, share, steps=_SWEEP_STEPS)]
        results += [search(problem, rest[0].order, budget, replace(share, report=None), steps=0)] if rest else []
        met = [Spent(tuple(result.order), result.peak, result.cost) for result in results if result.found]
        tried += len(results)
        if not met:
            break
        above = min(met, key=lambda spent: (spent.units, spent.peak))
        if above.units <= units and above.peak >= low:
            found.append(above)
    return Lowest(tuple(found), "proof" if found[-1].peak <= least else stopped, tried)


def _cheaper_from_below(problem: Sequenced, points: list[Spent], limits: Limits) -> list[Spent]:
    """Each peak from the sequence of the next lower one, without the recomputation that the larger budget makes
    needless; no repairs."""
    better = list(points)
    for at in range(len(points) - 2, 0, -1):
        if limits.over():
            break
        share = replace(limits, report=None)
        result = search(problem, better[at + 1].order, points[at].peak, share, steps=0)
        if result.found and result.cost < points[at].units:
            better[at] = Spent(tuple(result.order), result.peak, result.cost)
    return undominated(better)


def undominated(points: Sequence[Spent]) -> list[Spent]:
    """Those of which no other is as low and as cheap, the highest first."""
    kept: list[Spent] = []
    for point in sorted(points, key=lambda p: (p.peak, p.units, len(p.order))):
        if not kept or point.units < kept[-1].units:
            kept.append(point)
    return kept[::-1]
