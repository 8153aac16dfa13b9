"""Evict when memory runs out, compute again when something is missing: an online rule, replayed along an order.

Of what is there and not needed by the op at hand, that goes whose cost / (bytes x staleness) is least; staleness is the
time since it was read or made. What no later op of the order reads goes at once. Source: Kirisame et al., "Dynamic
Tensor Rematerialization", ICLR 2021, section 3, with the local heuristic of its table 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.stop import Limits


@dataclass(frozen=True)
class Dtr:
    """Dynamic Tensor Rematerialization (Kirisame et al., 2021), replayed along the best order."""

    name: ClassVar[str] = "dtr"
    moves: ClassVar[bool] = False
    most_runs: int = 16  # of an op on average, after which it is given up as thrashing

    def __post_init__(self) -> None:
        if self.most_runs < 1:
            raise InputError(f"dtr.most_runs is {self.most_runs}; give a whole number from 1")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether ops and results are all there is."""
        return shares_storages(problem)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """What the rule does within the budget, if it gets through."""
        replay = _Replay(problem, list(order), budget, self.most_runs * len(order), limits)
        among = "evictions by cost / (bytes x staleness)"
        through = replay.run()
        ended = "time" if limits.over() and not through else "complete"
        return Repeated(tuple(replay.sequence) if through else (), ended, among, counters={"evicted": replay.evicted})


class _Replay:
    """What is there, op by op. What is there from the start stays."""

    def __init__(self, problem: Sequenced, order: list[int], budget: int, most: int, limits: Limits) -> None:
        self.problem, self.order, self.budget, self.most, self.limits = problem, order, budget, most, limits
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
        self.clock, self.evicted = 0, 0
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
            if len(self.sequence) >= self.most or self.limits.over() or not self._make_room(stack):
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
        self.clock += max(1, self.problem.costs.units[i])
        self.sequence.append(i)
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
        return self.problem.costs.units[maker] / (self.sizes[value] * stale)

    def _drop(self, value: int) -> None:
        self.there.discard(value)
        self.held -= self.sizes[value]
