"""Which memory each buffer is assigned to, so that every load fits and the cost is least: a temporal knapsack.

Time is swept from section to section (a section is a stretch of steps in which the same pieces are live). A state is
the memory of each live buffer; of states that are alike the cheapest is kept. While there are no more than `STATES` of
them nothing is lost, and the cheapest at the end is proved least. Beyond that the dearest are dropped, and the cheapest
of those dropped is a bound: what follows can only add to a cost. A greedy and, where ortools is installed, CP-SAT then
try to do better.

    section      0     1     2     3
    live         a     a b   b c   c          states after section 1, two memories: a and b each in 0 or 1, at most 4
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lowtide.allocate.buffers import Problem
from lowtide.stop import Limits

STATES = 4096
"""Most states kept in a section."""

WORK = 4_000_000
"""States times sections that an instance may cost; large ones keep fewer states."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The memories that a buffer may lie in, the one it prefers first, and what it costs elsewhere.

    `bytes` is what counts once for each place down that list; `accesses`, bytes read and written in an inference,
    decides among assignments of equal bytes.
    """

    allowed: tuple[int, ...]
    bytes: int
    accesses: int = 0


@dataclass(frozen=True)
class Assignment:
    """The memory of each buffer; None if none was found that fits.

    `lower_bound` is in bytes as `Demand.bytes` counts them. `complete`: nothing was left out, so that what was not
    found is not there.
    """

    bank_of: tuple[int, ...] | None
    lower_bound: int
    complete: bool
    states: int = 0


@dataclass(frozen=True)
class Section:
    """A stretch of steps in which the same pieces are live.

    `ended` and `begun` are buffers whose life ended before it, and begins with it; `changed` those that go on with
    another number of bytes, and by how much; `live` those with a piece there, and its bytes.
    """

    ended: tuple[int, ...]
    begun: tuple[int, ...]
    changed: tuple[tuple[int, int], ...]
    live: dict[int, int]


class Loads:
    """The sections of a problem, and what pairs of buffers may have in common (`shared`: partner and bytes)."""

    def __init__(self, problem: Problem) -> None:
        buffers = problem.buffers
        self.count = len(buffers)
        self.shared: dict[int, list[tuple[int, int]]] = {}
        for p in problem.pairs:
            size = min(buffers[p.lower].size - max(p.distance, 0), buffers[p.upper].size)
            if size > 0:
                self.shared.setdefault(p.lower, []).append((p.upper, size))
                self.shared.setdefault(p.upper, []).append((p.lower, size))
        steps = sorted({t for b in buffers for p in b.pieces for t in (p.start, p.end)})
        at = {t: k for k, t in enumerate(steps)}
        begun: list[list[int]] = [[] for _ in steps]
        ended: list[list[int]] = [[] for _ in steps]
        pieces: list[list[tuple[int, int]]] = [[] for _ in steps]
        for i, b in enumerate(buffers):
            if b.pieces:
                begun[at[b.start]].append(i)
                ended[at[b.end]].append(i)
            for p in b.pieces:
                pieces[at[p.start]].append((i, p.size))
                if p.end < b.end and not any(q.start == p.end for q in b.pieces):
                    pieces[at[p.end]].append((i, 0))
        self.sections: list[Section] = []
        live: dict[int, int] = {}
        for k in range(len(steps)):
            for i in ended[k]:
                live.pop(i)
            fresh = set(begun[k])
            changed = tuple((i, size - live[i]) for i, size in pieces[k] if i not in fresh)
            live.update(pieces[k])
            self.sections.append(Section(tuple(ended[k]), tuple(begun[k]), changed, dict(live)))


def least_cost(loads: Loads, demands: Sequence[Demand], capacities: Sequence[int], limits: Limits) -> Assignment:
    """Find the assignment of least cost whose loads fit.

    Parameters
    ----------
    loads
        Of the problem.
    demands
        Per buffer.
    capacities
        Per memory, bytes.
    limits
        For the solver, which is asked only where the sweep had to leave states out.
    """
    swept = _Sweep(loads, demands, capacities).run()
    if swept.complete:
        return swept
    best = swept
    for key in _ORDERS:
        found = _greedy(loads, demands, capacities, key)
        if found is not None and (
            best.bank_of is None or _full_cost(demands, found) < _full_cost(demands, best.bank_of)
        ):
            best = Assignment(found, swept.lower_bound, False, swept.states)
    if best.bank_of is not None and cost_of(demands, best.bank_of) == best.lower_bound:
        return best
    from lowtide.allocate.assignment_cp import improve

    return improve(loads, demands, capacities, limits, best)


def cost_of(demands: Sequence[Demand], bank_of: Sequence[int]) -> int:
    """Bytes of an assignment, each times the place of its memory in the buffer's list."""
    return sum(d.bytes * d.allowed.index(k) for d, k in zip(demands, bank_of, strict=True))


def _full_cost(demands: Sequence[Demand], bank_of: Sequence[int]) -> tuple[int, int]:
    accesses = sum(d.accesses * d.allowed.index(k) for d, k in zip(demands, bank_of, strict=True))
    return cost_of(demands, bank_of), accesses


Chosen = tuple["Chosen", int, int] | None
"""The way to a state: the way before, a buffer, its memory."""

State = tuple[int, int, tuple[int, ...], Chosen]
"""Cost in bytes, cost in accesses, load of each memory, and the way."""


class _Sweep:
    """States by key: the memory of each live buffer, `bits` bits wide, at the buffer's slot."""

    def __init__(self, loads: Loads, demands: Sequence[Demand], capacities: Sequence[int]) -> None:
        self.loads, self.demands, self.capacities = loads, demands, capacities
        self.bits = max(1, (len(capacities) - 1).bit_length())
        self.mask = (1 << self.bits) - 1
        self.width = max(16, min(STATES, WORK // max(1, len(loads.sections))))
        self.shift_of: dict[int, int] = {}
        self.free: list[int] = []
        self.dropped: int | None = None
        self.visited = 0
        self.states: dict[int, State] = {0: (0, 0, (0,) * len(capacities), None)}

    def run(self) -> Assignment:
        previous: dict[int, int] = {}
        for section in self.loads.sections:
            for i in section.ended:
                self._end(i, previous[i])
            for i, more in section.changed:
                shift = self.shift_of[i]
                self.states = {
                    key: (c, a, _plus(load, key >> shift & self.mask, more), way)
                    for key, (c, a, load, way) in self.states.items()
                }
            self._fit()
            for i in section.begun:
                self._begin(i, section.live[i])
                if not self.loads.shared:
                    self._fit()
                self._narrow()
            self._fit()
            self.visited += len(self.states)
            previous = section.live
            if not self.states:
                break
        best = min(self.states.values(), key=lambda s: s[:2], default=None)
        if best is None:
            return Assignment(None, self.dropped or 0, self.dropped is None, self.visited)
        bank_of = [d.allowed[0] for d in self.demands]
        way = best[3]
        while way is not None:
            way, i, k = way
            bank_of[i] = k
        bound = best[0] if self.dropped is None else min(best[0], self.dropped)
        return Assignment(tuple(bank_of), bound, self.dropped is None or bound == best[0], self.visited)

    def _begin(self, i: int, size: int) -> None:
        used = len(self.shift_of) + len(self.free)
        shift = self.free.pop() if self.free else used * self.bits
        self.shift_of[i] = shift
        partners = [(self.shift_of[j], common) for j, common in self.loads.shared.get(i, ()) if j in self.shift_of]
        d = self.demands[i]
        made: dict[int, State] = {}
        for key, (cost, accesses, load, way) in self.states.items():
            for place, k in enumerate(d.allowed):
                common = sum(c for s, c in partners if key >> s & self.mask == k)
                made[key | k << shift] = (
                    cost + place * d.bytes,
                    accesses + place * d.accesses,
                    _plus(load, k, size - common),
                    (way, i, k),
                )
        self.states = made

    def _end(self, i: int, size: int) -> None:
        shift = self.shift_of.pop(i)
        self.free.append(shift)
        partners = [(self.shift_of[j], common) for j, common in self.loads.shared.get(i, ()) if j in self.shift_of]
        merged: dict[int, State] = {}
        for key, (cost, accesses, load, way) in self.states.items():
            k = key >> shift & self.mask
            common = sum(c for s, c in partners if key >> s & self.mask == k)
            rest = key & ~(self.mask << shift)
            if rest not in merged or (cost, accesses) < merged[rest][:2]:
                merged[rest] = (cost, accesses, _plus(load, k, common - size), way)
        self.states = merged

    def _fit(self) -> None:
        capacities = self.capacities
        self.states = {
            key: state
            for key, state in self.states.items()
            if all(have <= most for have, most in zip(state[2], capacities, strict=True))
        }

    def _narrow(self) -> None:
        if len(self.states) <= self.width:
            return
        ranked = sorted(self.states.items(), key=lambda item: (*item[1][:2], item[0]))
        lost = ranked[self.width][1][0]
        self.dropped = lost if self.dropped is None else min(self.dropped, lost)
        self.states = dict(ranked[: self.width])


def _plus(load: tuple[int, ...], k: int, more: int) -> tuple[int, ...]:
    return (*load[:k], load[k] + more, *load[k + 1 :])


def _by_share(d: Demand, size: int, area: int) -> float:
    return -d.bytes / max(area, 1)


def _by_size(d: Demand, size: int, area: int) -> float:
    return -size


def _by_accesses(d: Demand, size: int, area: int) -> float:
    return -(d.accesses or d.bytes) / max(area, 1)


def _by_area(d: Demand, size: int, area: int) -> float:
    return -area


_ORDERS: tuple[Callable[[Demand, int, int], float], ...] = (_by_share, _by_accesses, _by_size, _by_area)
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
