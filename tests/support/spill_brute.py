"""Least traffic by brute force: Dijkstra over everything that the fast memory can hold. Slow and obvious.

A state is the set of ops that have run, who is in the fast memory at which offset, and who has a valid copy outside.
Before an op runs, any resident may leave, what the op needs comes in anywhere it fits. Nothing here knows of gaps,
intervals or timelines, and what a storage costs is worked out from the problem's definition.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count, product
from typing import NamedTuple

from lowtide.analyse.storage import Overwrite
from lowtide.spill.answer import Interval
from lowtide.spill.problem import SpillProblem, timeline
from lowtide.spill.traffic import intervals_of, moves_of, traffic_of


class State(NamedTuple):
    """`done` and `copied` are bits; `there` is ((storage, offset), ...) ascending."""

    done: int
    there: tuple[tuple[int, int], ...]
    copied: int


def least_traffic(problem: SpillProblem, order: tuple[int, ...] | None = None, *, addresses: bool = True) -> int | None:
    """Least traffic in bytes over all orders, or of one order; None if nothing fits.

    Parameters
    ----------
    addresses
        Whether storages need a stretch of bytes each; if not, only their sum has to fit.
    """
    return _Search(problem, order, addresses).run()


class _Search:
    def __init__(self, problem: SpillProblem, order: tuple[int, ...] | None, addresses: bool) -> None:
        self.problem, self.order, self.addresses = problem, order, addresses
        model = problem.model
        self.model, self.n, self.size = model, len(model.graph.ops), [s.size for s in model.storages]
        self.users = [sum(1 << i for i in s.users) for s in model.storages]
        self.writers = [sum(1 << i for i in w) for w in problem.writers]
        self.needs = [sum(1 << p for p in before) for before in model.graph.predecessors]
        self.outside = [problem.copied[s] or st.at_start for s, st in enumerate(model.storages)]

    def run(self) -> int | None:
        copied = sum(1 << s for s in range(len(self.size)) if self.problem.copied[s])
        copied |= sum(
            1 << s for s in range(len(self.size)) if self.problem.written_free[s] and not self.problem.writers[s]
        )
        start = State(0, (), copied)
        best = {start: 0}
        tie = count()
        heap = [(0, next(tie), start)]
        full = (1 << self.n) - 1
        goals: list[int] = []
        while heap:
            cost, _, state = heappop(heap)
            if cost > best[state]:
                continue
            if state.done == full:
                if not self.problem.semantics.outputs_end_fast:
                    return cost
                ends = [c for c, _ in self._step(state, None)]
                if ends:
                    goals.append(cost + min(ends))
                continue
            if goals and cost >= min(goals):
                break
            ready = range(self.n) if self.order is None else (self.order[state.done.bit_count()],)
            for i in ready:
                if state.done >> i & 1 or self.needs[i] & ~state.done:
                    continue
                for extra, after in self._step(state, i):
                    if cost + extra < best.get(after, 1 << 62):
                        best[after] = cost + extra
                        heappush(heap, (cost + extra, next(tie), after))
        return min(goals, default=None)

    def _needed(self, s: int, done: int) -> bool:
        """Whether the storage's value matters after `done`, other than by being there at the very end."""
        if self.users[s] & ~done:
            return True
        return self.problem.is_output[s]

    def _step(self, state: State, op: int | None):
        """Every way to run an op (None: to have all outputs in the fast memory at the end)."""
        problem, model = self.problem, self.model
        if op is None:
            touched = [s for s in range(len(self.size)) if problem.is_output[s] and self.size[s]]
            workspace, after = 0, state.done
        else:
            touched = [s for s in model.touched[op] if self.size[s]]
            workspace, after = model.workspace[op], state.done | 1 << op
        there = dict(state.there)
        free = [s for s in there if s not in touched]
        for leaving in range(1 << len(free)):
            kept = {s: o for s, o in there.items() if s in touched or not leaving >> free.index(s) & 1}
            cost, copied = 0, state.copied
            for s in there:
                if s in kept or not self._needed(s, state.done) or copied >> s & 1:
                    continue
                cost += problem.traffic_bytes[s]  # a spill
                copied |= 1 << s
            coming = [s for s in touched if s not in kept]
            for s in coming:
                new = not self.users[s] & state.done
                if new:
                    if self.outside[s]:
                        continue  # the first load is free
                    assert op is not None
                    assert self.writers[s] >> op & 1
                else:
                    assert copied >> s & 1
                    cost += problem.traffic_bytes[s]
                    if not problem.semantics.write_once and not self._free_copy(s, state.done):
                        copied &= ~(1 << s)
            if op is not None:
                for s in touched:
                    if self.writers[s] >> op & 1:
                        copied &= ~(1 << s)
                        if problem.written_free[s] and not self.writers[s] & ~after:
                            copied |= 1 << s
            for placed in self._places(kept, coming, workspace, op, after):
                stay = tuple(sorted((s, o) for s, o in placed.items() if self._stays(s, after)))
                yield cost, State(after, stay, copied)

    def _free_copy(self, s: int, done: int) -> bool:
        unwritten = not self.writers[s] & done
        final = not self.writers[s] & ~done
        return (self.problem.copied[s] and unwritten) or (self.problem.written_free[s] and final)

    def _stays(self, s: int, done: int) -> bool:
        return bool(self.users[s] & ~done) or self.problem.is_output[s]

    def _places(self, kept: dict[int, int], coming: list[int], workspace: int, op: int | None, after: int):
        """Every placement of what comes in, the workspace last; in place over a dying input where that is allowed."""
        overs: list[Overwrite | None] = [None]
        if op is not None:
            for o in self.model.overwrites[op]:
                target = self.model.storage_of[o.output]
                if (
                    target in coming
                    and not self.users[o.storage] & ~after
                    and not self.model.storages[o.storage].at_end
                ):
                    overs.append(o)
        capacity = self.problem.capacity
        for over in overs:
            hidden = self.model.storage_of[over.output] if over else -1
            if not self.addresses:
                total = sum(self.size[s] for s in (*kept, *coming)) + workspace
                if total - (over.saving if over else 0) <= capacity:
                    yield {**kept, **dict.fromkeys(coming, 0)}
                continue
            todo = [s for s in coming if s != hidden]
            for placed in self._fit(kept, todo, workspace):
                if over:
                    placed = {**placed, hidden: placed[over.storage] + self.model.displacement[over.input]}
                yield placed

    def _fit(self, placed: dict[int, int], todo: list[int], workspace: int):
        unit = self.model.alignment
        taken = [(o, o + self.size[s]) for s, o in placed.items()]
        size = self.size[todo[0]] if todo else workspace
        if not todo and not workspace:
            yield placed
            return
        for low in range(0, self.problem.capacity - size + 1, unit):
            if all(low + size <= a or low >= b for a, b in taken):
                if not todo:
                    yield placed
                    return
                yield from self._fit({**placed, todo[0]: low}, todo[1:], workspace)


def least_traffic_by_gaps(problem: SpillProblem, orders: Iterable[tuple[int, ...]]) -> int | None:
    """Least traffic of some orders with addresses, without in-place: every set of gaps, every placement. None: none.

    Faster than `least_traffic`, which tests hold against it; it takes the gaps from `timeline`.
    """
    best: int | None = None
    for order in orders:
        line = timeline(problem, order, ())
        for drops in product((False, True), repeat=len(line.gaps)):
            dropped = [gap for gap, out in zip(line.gaps, drops, strict=True) if out]
            intervals = intervals_of(line, dropped)
            traffic = traffic_of(moves_of(problem, order, intervals))
            if (best is None or traffic < best) and _packs(problem, order, intervals):
                best = traffic
    return best


def every_order(problem: SpillProblem) -> list[tuple[int, ...]]:
    """All topological orders."""
    before = problem.model.graph.predecessors
    orders: list[tuple[int, ...]] = [()]
    for _ in before:
        orders = [(*o, i) for o in orders for i in range(len(before)) if i not in o and all(p in o for p in before[i])]
    return orders


def _packs(problem: SpillProblem, order: tuple[int, ...], intervals: list[Interval]) -> bool:
    """Whether the intervals and workspaces have offsets at which none overlap: all offsets are tried."""
    model = problem.model
    boxes = [(v.start, v.end, model.storages[v.storage].size) for v in intervals]
    boxes += [(t, t + 1, model.workspace[i]) for t, i in enumerate(order) if model.workspace[i]]
    boxes.sort(key=lambda box: (box[0], -box[2]))
    if any(sum(size for a, b, size in boxes if a <= t < b) > problem.capacity for t in range(len(order) + 1)):
        return False

    def fit(k: int, placed: list[tuple[int, int, int, int]]) -> bool:
        if k == len(boxes):
            return True
        start, end, size = boxes[k]
        near = [(low, high) for a, b, low, high in placed if a < end and start < b]
        return any(
            fit(k + 1, [*placed, (start, end, low, low + size)])
            for low in range(0, problem.capacity - size + 1, model.alignment)
            if all(low + size <= a or low >= b for a, b in near)
        )

    return fit(0, [])
