"""Which memory each buffer is assigned to, so that every load fits and the cost is least: a temporal knapsack.

Time is swept from section to section (a section is a stretch of steps in which the same rectangles are live). A state
is the memory of each live buffer; of states that are alike the cheapest is kept. A greedy's cost is a limit, and prices
of memory (`prices.py`) bound what a state will have cost at the end: those above the limit are left out. While the
others are no more than the sweep is wide nothing is lost, and the cheapest at the end is proved optimal. Beyond that
those of highest bound are dropped, and the least of those bounds is one for all; then a sweep four times as wide
follows, with the cost found for its limit.

    section      0     1     2     3
    live         a     a b   b c   c          states after section 1, two memories: a and b each in 0 or 1, at most 4
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lowtide.allocate.banks.bank import Demand, Loads
from lowtide.allocate.banks.prices import Prices, find_prices
from lowtide.stop import Limits

WIDTHS = (64, 256, 1024, 4096, 16384)  # most states kept in a section, sweep by sweep

WORK = 1_000_000
"""States that all sweeps of an instance may keep, all sections together; the first sweep is made in any case."""

MOST_WITHOUT_PRICES = 12  # up to this many buffers with a choice, a sweep without prices is quicker than finding them
_ROUNDING = 1e-7  # what sums of prices may be off, as a share


@dataclass(frozen=True)
class Assignment:
    """The memory of each buffer; None if none was found that fits.

    `lower_bound` is in bytes as `Demand.bytes` counts them. `complete`: nothing was left out, so that what was not
    found is not there. `interrupted`: the user ended the sweeps.
    """

    bank_of: tuple[int, ...] | None
    lower_bound: int
    complete: bool
    states: int = 0
    interrupted: bool = False


def least_cost(
    loads: Loads,
    demands: Sequence[Demand],
    capacities: Sequence[int],
    widths: Sequence[int] = WIDTHS,
    limits: Limits | None = None,
) -> Assignment:
    """Find the assignment of least cost whose loads fit. `loads`: of the problem. `demands`: per buffer. `capacities`:
    per memory, bytes. `widths`: of the sweeps; the first one is made in any case. Without any the greedies decide.
    `limits`: for the time that the others take; `report` hears of the cost and its bound."""
    if _never_fits(loads, demands, capacities):
        return Assignment(None, 0, True)
    limit: tuple[int, ...] | None = None
    for key in _ORDERS:
        bank_of = _greedy(loads, demands, capacities, key)
        if bank_of is not None and (limit is None or _full_cost(demands, bank_of) < _full_cost(demands, limit)):
            limit = bank_of
    best = Assignment(limit, 0, False)
    for width in widths:
        cost = None if best.bank_of is None else cost_of(demands, best.bank_of)
        over = partial(_over, limits, cost, best.lower_bound, width == widths[0])
        try:
            swept = AssignmentSweep(loads, demands, capacities, best.bank_of, width).run(over)
        except KeyboardInterrupt:
            return replace(best, interrupted=True)
        if swept is None:
            break
        bound = max(swept.lower_bound, best.lower_bound)
        met = swept.bank_of is not None and cost_of(demands, swept.bank_of) == bound
        best = Assignment(swept.bank_of, bound, swept.complete or met, best.states + swept.states)
        if best.complete or best.states + 2 * swept.states > WORK:
            break
    return best


def _over(limits: Limits | None, cost: int | None, bound: int, first: bool) -> bool:
    """Whether a sweep has no time left; says how far the sweeps are, once something is known."""
    if limits is None:
        return False
    if cost is not None:
        limits.tell("", cost, bound)
    return not first and limits.left_seconds <= 0


def _never_fits(loads: Loads, demands: Sequence[Demand], capacities: Sequence[int]) -> bool:
    """Whether all memories together are too small at some step, or each one for some buffer."""
    if not loads.shared and any(sum(s.live.values()) > sum(capacities) for s in loads.sections):
        return True
    return any(
        size > max(capacities[k] for k in demands[i].allowed) for s in loads.sections for i, size in s.live.items()
    )


def cost_of(demands: Sequence[Demand], bank_of: Sequence[int]) -> int:
    """Bytes of an assignment, each times the place of its memory in the buffer's list."""
    return sum(d.bytes * d.allowed.index(k) for d, k in zip(demands, bank_of, strict=True))


def _full_cost(demands: Sequence[Demand], bank_of: Sequence[int]) -> tuple[int, int]:
    accesses = sum(d.accesses * d.allowed.index(k) for d, k in zip(demands, bank_of, strict=True))
    return cost_of(demands, bank_of), accesses


Chosen = tuple["Chosen", int, int] | None  # the way to a state: the way before, a buffer, its memory

State = tuple[int, int, float, tuple[int, ...], Chosen]
"""Cost in bytes, cost in accesses, bound of the cost at the end, load of each memory, and the way."""


class AssignmentSweep:
    """States by key: the memory of each live buffer, `bits` bits wide, at the buffer's slot.

    `incumbent` is an assignment whose loads fit, if there is one: dearer ones are not looked for.
    """

    def __init__(
        self,
        loads: Loads,
        demands: Sequence[Demand],
        capacities: Sequence[int],
        incumbent: tuple[int, ...] | None = None,
        width: int = WIDTHS[-1],
    ) -> None:
        self.loads, self.demands, self.capacities, self.incumbent = loads, demands, capacities, incumbent
        self.bits = max(1, (len(capacities) - 1).bit_length())
        self.mask = (1 << self.bits) - 1
        self.width = width
        self.shift_of: dict[int, int] = {}
        self.free: list[int] = []
        self.dropped: float | None = None
        self.visited = 0
        self.limit = float("inf")
        everything = sum(d.bytes * (len(d.allowed) - 1) for d in demands)
        if incumbent is not None:
            cost = cost_of(demands, incumbent)
            self.limit = cost + _ROUNDING * (1 + cost)
        self.prices: Prices | None = None
        if not loads.shared and loads.sections and sum(len(d.allowed) > 1 for d in demands) > MOST_WITHOUT_PRICES:
            self.prices = find_prices(
                loads, demands, capacities, everything if incumbent is None else cost_of(demands, incumbent)
            )
        bound = 0.0 if self.prices is None else self.prices.bound
        self.states: dict[int, State] = {0: (0, 0, bound, (0,) * len(capacities), None)}

    def run(self, over: Callable[[], bool] = lambda: False) -> Assignment | None:
        """Go through all sections once; None if it is `over` before the end."""
        previous: dict[int, int] = {}
        for t, section in enumerate(self.loads.sections):
            for i in section.ended:
                self._end(i, previous[i])
            for i, more in section.changed:
                shift = self.shift_of[i]
                self.states = {
                    key: (c, a, f, _plus(load, key >> shift & self.mask, more), way)
                    for key, (c, a, f, load, way) in self.states.items()
                }
            if self.loads.shared or any(more > 0 for _, more in section.changed):
                self._fit()
            for i in section.begun:
                if over():
                    return None
                self._begin(i, section.live[i])
                self._narrow()
            if self.loads.shared:
                self._fit()
            if self.prices is not None and any(self.prices.slack[t]):
                self._refund_slack(self.prices.slack[t])
            self.visited += len(self.states)
            previous = section.live
            if not self.states:
                break
        best = min(self.states.values(), key=lambda s: s[:2], default=None)
        least = None if self.dropped is None else max(0, math.ceil(self.dropped - _ROUNDING * (1 + abs(self.dropped))))
        bank_of = self.incumbent
        if best is not None:
            chosen = [d.allowed[0] for d in self.demands]
            way = best[4]
            while way is not None:
                way, i, k = way
                chosen[i] = k
            if bank_of is None or best[:2] < _full_cost(self.demands, bank_of):
                bank_of = tuple(chosen)
        if bank_of is None:
            return Assignment(None, least or 0, least is None, self.visited)
        cost = cost_of(self.demands, bank_of)
        bound = cost if least is None else min(cost, least)
        return Assignment(bank_of, bound, bound == cost, self.visited)

    def _begin(self, i: int, size: int) -> None:
        used = len(self.shift_of) + len(self.free)
        shift = self.free.pop() if self.free else used * self.bits
        self.shift_of[i] = shift
        partners = [(self.shift_of[j], common) for j, common in self.loads.shared.get(i, ()) if j in self.shift_of]
        d = self.demands[i]
        extra = tuple(place * d.bytes for place in range(len(d.allowed)))
        if self.prices is not None:
            extra = self.prices.extra[i]
        # What pairs share is known once both are there: until the section is over a load may be above a capacity.
        most = [math.inf] * len(self.capacities) if self.loads.shared else self.capacities
        ways = [
            (k, k << shift, place * d.bytes, place * d.accesses, extra[place], most[k])
            for place, k in enumerate(d.allowed)
        ]
        extended: dict[int, State] = {}
        for key, (cost, accesses, bound, load, way) in self.states.items():
            for k, mark, more_cost, more_accesses, more_bound, room in ways:
                total = bound + more_bound
                if total > self.limit:
                    continue
                have = load[k] + size
                if partners:
                    have -= sum(c for s, c in partners if key >> s & self.mask == k)
                if have <= room:
                    loads = (*load[:k], have, *load[k + 1 :])
                    extended[key | mark] = (cost + more_cost, accesses + more_accesses, total, loads, (way, i, k))
        self.states = extended

    def _end(self, i: int, size: int) -> None:
        shift = self.shift_of.pop(i)
        self.free.append(shift)
        partners = [(self.shift_of[j], common) for j, common in self.loads.shared.get(i, ()) if j in self.shift_of]
        rest_of = ~(self.mask << shift)
        merged: dict[int, State] = {}
        for key, (cost, accesses, bound, load, way) in self.states.items():
            k, rest = key >> shift & self.mask, key & rest_of
            cheapest = merged.get(rest)
            if cheapest is None or (cost, accesses) < cheapest[:2]:
                common = sum(c for s, c in partners if key >> s & self.mask == k) if partners else 0
                merged[rest] = (cost, accesses, bound, _plus(load, k, common - size), way)
        self.states = merged

    def _fit(self) -> None:
        capacities = self.capacities
        self.states = {
            key: state
            for key, state in self.states.items()
            if all(have <= most for have, most in zip(state[3], capacities, strict=True))
        }

    def _refund_slack(self, price: Sequence[float]) -> None:
        """The section is over: what it left free was paid for, and is given back."""
        paid = [(k, p, self.capacities[k]) for k, p in enumerate(price) if p]
        kept: dict[int, State] = {}
        for key, (c, a, f, load, way) in self.states.items():
            back = f
            for k, p, most in paid:
                back += p * (most - load[k])
            if back <= self.limit:
                kept[key] = (c, a, back, load, way)
        self.states = kept

    def _narrow(self) -> None:
        if len(self.states) <= self.width:
            return
        ranked = sorted(self.states.items(), key=lambda item: (item[1][2], *item[1][:2], item[0]))
        lost = ranked[self.width][1][2]
        self.dropped = lost if self.dropped is None else min(self.dropped, lost)
        self.states = dict(ranked[: self.width])


def _plus(load: tuple[int, ...], k: int, more: int) -> tuple[int, ...]:
    return (*load[:k], load[k] + more, *load[k + 1 :])


_ORDERS: tuple[Callable[[Demand, int, int], float], ...] = (
    lambda demand, size, area: -demand.bytes / max(area, 1),
    lambda demand, size, area: -(demand.accesses or demand.bytes) / max(area, 1),
    lambda demand, size, area: -size,
    lambda demand, size, area: -area,
)
"""What comes first gets the fast memory: what saves most for the bytes and steps it takes, or is largest."""


def _greedy(
    loads: Loads, demands: Sequence[Demand], capacities: Sequence[int], key: Callable[[Demand, int, int], float]
) -> tuple[int, ...] | None:
    """One buffer after another into the first memory of its list whose load allows it; what pairs share is not used."""
    import numpy as np

    spans: list[list[tuple[int, int]]] = [[] for _ in range(loads.count)]
    for s, section in enumerate(loads.sections):
        for i, size in section.live.items():
            if size:
                spans[i].append((s, size))
    load = [np.zeros(max(len(loads.sections), 1), dtype=np.int64) for _ in capacities]
    bank_of = [d.allowed[0] for d in demands]
    area = [sum(size for _, size in span) for span in spans]
    largest = [max((size for _, size in span), default=0) for span in spans]
    for i in sorted(range(loads.count), key=lambda i: (key(demands[i], largest[i], area[i]), i)):
        at = np.array([s for s, _ in spans[i]], dtype=np.intp)
        sizes = np.array([size for _, size in spans[i]], dtype=np.int64)
        for k in demands[i].allowed:
            if not len(at) or int((load[k][at] + sizes).max()) <= capacities[k]:
                load[k][at] += sizes
                bank_of[i] = k
                break
        else:
            return None
    return tuple(bank_of)
