"""Order and arena together: among orders of equal peak, the one that needs the smallest arena.

Most networks need one or two orders and the quick engines. Where those leave bytes lost, orders are annealed
(`lowtide.schedule.anneal_load`), so that few steps are near the peak, and each is given to the exact engine: what
cannot be packed without loss in one order often can in the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lowtide.allocate.arena import ENGINES, Allocation, Engine, allocate
from lowtide.allocate.cp_sat import CpSat
from lowtide.allocate.exact import ExactFit
from lowtide.allocate.greedy import Portfolio
from lowtide.allocate.peak_first import PeakFirst
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.anneal_load import anneal_load
from lowtide.schedule.restore_own_order import equal_orders, ops_moved
from lowtide.stop import Limits

OPS_TO_PLACE = 90_000
"""Orders are drawn and placed up to this many ops all together, 18 orders at the most, but at least the restored order
and the order found."""

OPS_TO_ANNEAL = 40_000  # orders are annealed up to this many ops all together, `MOST_ANNEALED` at the most

MOST_ANNEALED = 24

QUICK = tuple(engine for engine in ENGINES if not isinstance(engine, ExactFit))
"""Engines for every order; the exact one is for those that are worth it."""

WORK = 20_000_000
"""What the exact engine may spend on an order at first: 0.2 s or so. Later orders get more, and the best one the last
word."""

SECONDS_FOR_SOLVER = 5.0  # with less time left the solver is not called: to load it alone takes a second or two


@dataclass(frozen=True)
class Layout:
    """An order with its profile and its arena. `tried` counts the orders that were placed."""

    order: tuple[int, ...]
    profile: Profile
    allocation: Allocation
    tried: int = 1
    interrupted: bool = False


def place(model: MemoryModel, order: tuple[int, ...], limits: Limits, engines: Sequence[Engine] = ENGINES) -> Layout:
    """Place one order as it is."""
    steps = profile(model, order)
    return Layout(order, steps, allocate(model, order, steps.in_place, None, limits, engines, steps))


def best_layout(model: MemoryModel, order: tuple[int, ...], limits: Limits) -> Layout:
    """Among orders of no higher peak, the one of the smallest arena, and among those the one with fewest ops moved.
    An order whose arena is the peak of the rounded sizes cannot be beaten, so the search for a smaller one ends
    there. So it does where an arena is small enough for `Limits.enough_bytes`. Orders are counted, and the exact
    engine's work is, so that the search ends by itself; the time limit ends it earlier."""
    if not order:
        return place(model, order, limits)
    search = _LayoutSearch(model, profile(model, order).peak, limits)
    try:
        search.by_drawing(order)
        search.by_annealing(order)
    except KeyboardInterrupt:
        best = search.best or place(model, order, limits, QUICK)
        return replace(best, tried=search.tried, interrupted=True)
    assert search.best is not None, "the order itself is always a candidate"
    return replace(search.best, tried=search.tried)


class _LayoutSearch:
    """The best layout so far, and whether it is good enough."""

    def __init__(self, model: MemoryModel, peak: int, limits: Limits) -> None:
        self.model, self.peak, self.limits = model, peak, limits
        self.best: Layout | None = None
        self.tried = 0
        self.least_load = -1

    @property
    def done(self) -> bool:
        """Whether nothing better can come, or need come."""
        if self.best is None:
            return False
        arena = self.best.allocation.arena_bytes
        enough = self.limits.enough_bytes
        return arena <= self.least_load or (enough is not None and arena <= enough) or self.limits.left_seconds <= 0

    def consider(self, layout: Layout, *, loads: bool = False) -> None:
        """Keep the layout if it is better; `loads`: its lower bound is the load of its order."""
        if layout.allocation.interrupted:
            raise KeyboardInterrupt
        if loads and (self.least_load < 0 or layout.allocation.lower_bound_bytes < self.least_load):
            self.least_load = layout.allocation.lower_bound_bytes
        if self.best is None or _better(layout, self.best):
            self.best = layout

    def by_drawing(self, order: tuple[int, ...]) -> None:
        """The order as near to the own one as can be, itself, and orders drawn by beams, by the quick engines."""
        draws = max(2, min(18, OPS_TO_PLACE // len(order)))
        for candidate in islice(equal_orders(self.model, order, self.peak, self.limits.seed), draws):
            self.tried += 1
            self.consider(place(self.model, candidate, self.limits, QUICK), loads=True)
            if self.done:
                break

    def by_annealing(self, order: tuple[int, ...]) -> None:
        """Annealed orders by the exact engine: it gets more work as the orders get more. They are walks from the
        order itself and from the best one so far, in turn."""
        if self.done or self.best is None:
            return
        starts = tuple(dict.fromkeys((order, self.best.order)))
        self.consider(self.exactly(self.best.order, WORK))
        for k in range(min(MOST_ANNEALED, OPS_TO_ANNEAL // len(order))):
            if self.done:
                return
            turn, which = divmod(k, len(starts))
            seed = MOST_ANNEALED * self.limits.seed + turn
            candidate = anneal_load(self.model, starts[which], self.peak, seed, over=self.limits.over)
            if self.done:
                return
            self.tried += 1
            self.consider(self.exactly(candidate, WORK * (1 + k // 4)))
        if not self.done:
            self.consider(self.exactly(self.best.order, 10 * WORK))

    def exactly(self, order: tuple[int, ...], work: int) -> Layout:
        """By the exact engine, and a short look by CP-SAT where it is installed: it learns, and finds others."""
        engines: list[Engine] = [Portfolio(), PeakFirst(), ExactFit(work=work, question=work // 8)]
        if self.limits.left_seconds > SECONDS_FOR_SOLVER:
            engines.append(CpSat(CpSat.keys[:1], (0.05,)))
        return place(self.model, order, self.limits, engines)


def _better(layout: Layout, other: Layout) -> bool:
    """Whether its arena is smaller; of equals, fewer of its ops are moved, and of equals, more is proved."""
    one, two = layout.allocation, other.allocation
    if one.arena_bytes != two.arena_bytes:
        return one.arena_bytes < two.arena_bytes
    moved = ops_moved(layout.order), ops_moved(other.order)
    return (moved[0], -one.lower_bound_bytes) < (moved[1], -two.lower_bound_bytes)
