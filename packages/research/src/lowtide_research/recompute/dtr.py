"""Evict when memory runs out, compute again when something is missing: an online rule, replayed along an order.

Of what is there and not needed by the op at hand, that goes whose projected cost / (bytes x staleness) is least. The
projected cost of a value is that of its op and of its **evicted neighbourhood**: the ops of evicted values that must
run before it can be computed again, and of those that could no longer be computed without it::

    a    [b]   [c]    x    [d]    e        []: evicted        projected cost of x: x + b + c + d

Staleness is the time since a value was read or made. What no later op of the order reads goes at once. Source: Kirisame
et al., "Dynamic Tensor Rematerialization", ICLR 2021, section 4.1 (h_DTR, the exact neighbourhood e*, not its
union-find approximation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits

Cost = Literal["best", "neighbourhood", "before", "local"]

_ORDER = 0.1  # part of the time for another order
_COSTS: tuple[Cost, ...] = ("neighbourhood", "before", "local")


@dataclass(frozen=True)
class Dtr:
    """Dynamic Tensor Rematerialization (Kirisame et al., 2021), replayed along an order of least peak."""

    name: ClassVar[str] = "dtr"
    moves: ClassVar[bool] = False
    most_runs: int = 16  # of an op on average, after which it is given up as thrashing
    cost: Cost = "best"  # which ops the projected cost counts; best: each of them, along two orders

    def __post_init__(self) -> None:
        if self.most_runs < 1:
            raise InputError(f"dtr.most_runs is {self.most_runs}; give a whole number from 1")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether ops and results are all there is."""
        return shares_storages(problem)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """What the rule does within the budget, if it gets through."""
        best, least, ended, evicted = (), None, "complete", 0
        for along in self._orders(problem, order, limits):
            for cost in _COSTS if self.cost == "best" else (self.cost,):
                replay = _Replay(problem, along, budget, self.most_runs * len(order), limits, cost, least)
                through = replay.run()
                ended = "time" if limits.over() and not through else ended
                if through:
                    best, least, evicted = tuple(replay.sequence), replay.units, replay.evicted
        among = "evictions by projected cost / (bytes x staleness)"
        return Repeated(best, "complete" if best else ended, among, counters={"evicted": evicted})

    def _orders(self, problem: Sequenced, order: Sequence[int], limits: Limits) -> Iterator[list[int]]:
        """The best order; and where all costs are tried, the exact scheduler's, which the best one may have been moved
        away from for its arena: of orders of equal peak one may take ten times as much time as another."""
        yield list(order)
        if self.cost == "best" and not limits.over():
            seconds = limits.left_seconds * _ORDER
            other = list(Exact().schedule(problem.model, Limits(seconds, limits.memory_bytes, limits.seed)).order)
            if other != list(order):
                yield other


class _Replay:
    """What is there, op by op. What is there from the start stays."""

    def __init__(
        self,
        problem: Sequenced,
        order: list[int],
        budget: int,
        most: int,
        limits: Limits,
        cost: Cost,
        below: int | None,  # units that all runs together stay below; None: any
    ) -> None:
        self.problem, self.order, self.budget, self.most, self.limits = problem, order, budget, most, limits
        directions = ((self._before, False), (self._behind, True))
        self.directions = directions[: _COSTS[::-1].index(cost)]
        self.sizes = [v.size for v in problem.values]
        self.there = {x for x, v in enumerate(problem.values) if v.maker < 0}
        self.held = sum(self.sizes[x] for x in self.there)
        self.touched = dict.fromkeys(range(len(problem.values)), 0)
        self.left = [0] * len(problem.values)
        for i in order:
            for x in problem.ops[i].reads:
                self.left[x] += 1
        for x, v in enumerate(problem.values):
            self.left[x] += v.kept
        self.readers = _readers(problem)
        self.ran: set[int] = set()
        self.around: dict[int, int] = {}  # units of evicted neighbourhoods, by op
        self.seen_from: dict[int, set[int]] = {}  # of an op, those whose neighbourhood was followed up to it
        self.clock, self.units, self.below, self.evicted = 0, 0, below, 0
        self.final: set[int] = set()
        self.sequence: list[int] = []

    def run(self) -> bool:
        """Whether all of it is through."""
        for i in self.order:
            if not self._execute(i):
                return False
            for x in self.problem.ops[i].reads:
                self.left[x] -= 1
            for x in [x for x in sorted(self.there) if not self.left[x] and self.problem.values[x].maker >= 0]:
                self._drop(x)
        for x, value in enumerate(self.problem.values):
            if value.kept and x not in self.there and not self._execute(value.maker):
                return False
            self.final |= {x} if value.kept else set()
        return True

    def _execute(self, first: int) -> bool:
        """Runs an op, before it those that make what it reads and is gone; whether all of them had room."""
        stack = [first]
        while stack:
            op = self.problem.ops[stack[-1]]
            missing = next((x for x in op.reads if x not in self.there), None)
            if missing is not None:
                stack.append(self.problem.values[missing].maker)
                if self.problem.ops[stack[-1]].once:
                    return False
                continue
            dear = self.below is not None and self.units + self.problem.costs.units[stack[-1]] >= self.below
            if dear or len(self.sequence) >= self.most or self.limits.over() or not self._make_room(stack):
                return False
            stack.pop()
        return True

    def _make_room(self, stack: Sequence[int]) -> bool:
        """Evicts until the last op of a stack has room, and runs it; what the ops of the stack read stays."""
        i, op = stack[-1], self.problem.ops[stack[-1]]
        fresh = [x for x in op.makes if x not in self.there]
        needed = sum(self.sizes[x] for x in fresh) + op.workspace
        held = {x for j in stack for x in self.problem.ops[j].reads} | self.final
        while self.held + needed > self.budget:
            can = [x for x in self.there - held if self.sizes[x] and self._droppable(x)]
            if not can:
                return False
            self._drop(min(can, key=lambda x: (self._price(x), x)))
            self.evicted += 1
        self.units += self.problem.costs.units[i]
        self.clock += max(1, self.problem.costs.units[i])
        self.sequence.append(i)
        self._forget(i)
        self.ran.add(i)
        self.there.update(fresh)
        self.held += needed - op.workspace
        for x in (*op.reads, *op.makes):
            self.touched[x] = self.clock
        return True

    def _droppable(self, value: int) -> bool:
        maker = self.problem.values[value].maker
        return maker >= 0 and not self.problem.ops[maker].once

    def _price(self, value: int) -> float:
        maker, stale = self.problem.values[value].maker, self.clock - self.touched[value] + 1
        if maker not in self.around:
            self.around[maker] = sum(self.problem.costs.units[i] for i in self._neighbours(maker))
        return (self.problem.costs.units[maker] + self.around[maker]) / (self.sizes[value] * stale)

    def _neighbours(self, op: int) -> set[int]:
        """The evicted neighbourhood of an op's results: ops that ran and whose results are gone. Of those after it,
        these that are still to be read: nothing computes the others again."""
        found: set[int] = set()
        for onward, wanted in self.directions:
            todo = [op]
            while todo:
                for i in onward(todo.pop()):
                    self.seen_from.setdefault(i, set()).add(op)
                    if i not in found and self._gone(i, wanted=wanted):
                        found.add(i)
                        todo.append(i)
        return found

    def _gone(self, op: int, *, wanted: bool) -> bool:
        missing = [x for x in self.problem.ops[op].makes if x not in self.there]
        return op in self.ran and bool(missing) and not (wanted and not any(self.left[x] for x in missing))

    def _before(self, op: int) -> list[int]:
        return [self.problem.values[x].maker for x in self.problem.ops[op].reads if self.problem.values[x].maker >= 0]

    def _behind(self, op: int) -> list[int]:
        return [i for x in self.problem.ops[op].makes for i in self.readers[x]]

    def _forget(self, op: int) -> None:
        """Forget the neighbourhoods that an op whose results go, or come back, may belong to."""
        for i in self.seen_from.pop(op, ()):
            self.around.pop(i, None)

    def _drop(self, value: int) -> None:
        self._forget(self.problem.values[value].maker)
        self.there.discard(value)
        self.held -= self.sizes[value]


def _readers(problem: Sequenced) -> list[list[int]]:
    """Of each value, the ops that read it."""
    found: list[list[int]] = [[] for _ in problem.values]
    for i, op in enumerate(problem.ops):
        for x in op.reads:
            found[x].append(i)
    return found
