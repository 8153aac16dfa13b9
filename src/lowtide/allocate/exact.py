"""Exact placement: branch and bound, from the load bound upwards, with proofs.

A question is "do the buffers fit under this height?", and has three answers: yes, proved not to, not known. It is put
to the core (core/place_exact.h) for each stretch of time that no buffer crosses, in many short searches by different
orders and a longer one at last. First at the lower bound, where a search fails soonest; a no raises the bound. Then at
the capacity, or else by bisection between the bound and the best known; what is not known there is left for a later
round, with four times the work. All of it is counted in work, not in seconds, which only stop it: without a time
limit that is reached the result is always the same.

Source: the search is of the family of Moffitt, "MiniMalloc" (ASPLOS 2023); docs/proofs.md proves its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from lowtide import _core
from lowtide.allocate.buffers import Problem, core_problem
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.stop import Limits, Progress

KEYS = ("contention", "area", "duration", "contention-area")
"""The orders that decide among equals, in turn: minimalloc's TWA, area, WAT, TAW."""

WORK = 100_000_000
"""What an instance may cost; a unit is about ten nanoseconds."""

QUESTION = 10_000_000
"""What a question may cost in the first round. One at the lower bound may cost four times as much."""

SLICE = 1_000_000
"""What the first short searches of a question may cost, at least; way down and some way back take longer in crowds."""

DESCENTS = 12
"""What they may cost, too, per buffer and buffer: going down once costs half of that."""

GROWTH = 110
"""What those with the next seed may cost, in percent of that."""

MOST_BUFFERS = 3_000
"""Above that, what meets what is too much to list: 200 MB where everything meets."""

RULES = ("floors", "releases", "support", "dominance", "split", "twins", "stacks", "memo")
"""The pruning rules of the search, each of which can be left out; core/place_exact.h says what each does."""


class _Stretch:
    """A stretch of time that no buffer crosses, and what is known of it."""

    def __init__(self, core: _core.Exact, index: int, offsets: Sequence[int], problem: Problem) -> None:
        facts = core.part(index)
        self.index = index
        self.members: list[int] = facts["members"]
        self.bound: int = facts["bound"]
        self.unit: int = facts["unit"]
        self.tried = -1  # no search finds anything up to this height; a proof only where the core proves
        self.sizes = [problem.buffers[i].size for i in self.members]
        self.take([offsets[i] for i in self.members])

    def take(self, offsets: Sequence[int]) -> None:
        self.offsets = offsets
        self.height = max(o + size for o, size in zip(offsets, self.sizes, strict=True))


class _Search:
    """The questions asked so far: bounds, placements, work."""

    def __init__(self, engine: Exact, problem: Problem, limits: Limits, known: Packing) -> None:
        self.engine, self.limits = engine, limits
        self.core = _core.Exact(core_problem(problem))
        self.switches = dict.fromkeys(engine.without, False)
        self.stretches = [_Stretch(self.core, i, known.offsets, problem) for i in range(len(self.core))]
        self.least = known.lower_bound_bytes
        self.work = self.nodes = self.questions = 0

    @property
    def bound(self) -> int:
        return max([self.least, *(s.bound for s in self.stretches)])

    @property
    def height(self) -> int:
        return max([self.least, *(s.height for s in self.stretches)])

    @property
    def done(self) -> bool:
        """Whether there is nothing left to ask, or nothing left to ask with."""
        enough = self.limits.enough_bytes
        decided = enough is not None and (self.height <= enough or enough < self.bound)
        spent = self.engine.work is not None and self.work >= self.engine.work
        return self.height == self.bound or decided or spent or self.limits.left_seconds <= 0

    def run(self) -> None:
        """Ask, with more work in each round."""
        budget = self.engine.question
        before = -1
        while not self.done and before < self.work:
            before = self.work
            while not self.done and self.ask(self.bound, 4 * budget) is False:
                pass
            enough = self.limits.enough_bytes
            if enough is not None and self.bound < enough < self.height:
                self.ask(enough, 4 * budget)
            unit = gcd(*(s.unit for s in self.stretches))
            low = self.bound if enough is None else self.height
            while not self.done and (self.height - low - 1) // unit > 0:
                middle = low + (self.height - low) // 2 // unit * unit
                if self.ask(max(middle, low + 1), budget) is not True:
                    low = max(middle, low + 1, self.bound)
            budget *= 4

    def ask(self, height: int, budget: int) -> bool | None:
        """Whether everything fits under a height; what is found and what is proved is kept."""
        self.questions += 1
        for s in sorted(self.stretches, key=lambda s: (-s.bound, s.index)):
            if s.height <= height:
                continue
            answer = None if height <= s.tried else self.fits(s, height, budget)
            if answer is False:
                s.bound = max(s.bound, (height // s.unit + 1) * s.unit)
            if self.limits.report is not None:
                used = self.limits.seconds - self.limits.left_seconds
                self.limits.report(Progress(self.height, self.bound, used))
            if answer is not True:
                return answer
        return True

    def fits(self, s: _Stretch, height: int, budget: int) -> bool | None:
        """Short searches, and with the last quarter of the budget a long one."""
        if self.engine.work is not None:
            budget = min(budget, self.engine.work - self.work)
        end, seed = self.work + budget, 0
        part = max(SLICE, DESCENTS * len(s.members) ** 2)
        while self.work + part < end - budget // 4:
            for key in self.engine.keys:
                answer, stop = self.search(s, height, key, seed, seed % 3 != 1, part)
                if stop:
                    return answer
            part, seed = part * GROWTH // 100, seed + 1
        return self.search(s, height, self.engine.keys[0], 0, False, max(0, end - self.work))[0]

    def search(self, s: _Stretch, height: int, key: str, seed: int, leaps: bool, work: int) -> tuple[bool | None, bool]:
        """One search: its answer, and whether that ends the question."""
        if self.limits.left_seconds <= 0:
            return None, True
        drawn = seed and self.limits.seed * 1_000_003 + seed
        answer, offsets, nodes, used = self.core.fits(
            s.index, key, drawn, leaps, height, work, self.switches, lambda: self.limits.left_seconds <= 0
        )
        self.work += used
        self.nodes += nodes
        if answer:
            s.take(offsets)
        over = used < work and not leaps and self.limits.left_seconds > 0
        if over and not answer:
            s.tried = max(s.tried, height)
        return answer, answer is not None or over


@dataclass(frozen=True)
class Exact:
    """Engine that asks, from the lower bound upwards, whether the buffers fit; its no is a proof.

    Attributes
    ----------
    keys
        Orders that decide among equals.
    work
        What an instance may cost; None: until the time is over.
    question
        What a question may cost in the first round.
    without
        Pruning rules that are left out (`RULES`); the answers are the same, later.
    """

    name: ClassVar[str] = "exact"
    keys: tuple[str, ...] = KEYS
    work: int | None = WORK
    question: int = QUESTION
    without: tuple[str, ...] = ()

    def supports(self, problem: Problem) -> str | None:
        """Up to `MOST_BUFFERS` buffers."""
        return None if len(problem.buffers) <= MOST_BUFFERS else "too many buffers"

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack from the best of the greedies."""
        return self.improve(problem, limits, Portfolio().pack(problem, limits))

    def improve(self, problem: Problem, limits: Limits, known: Packing) -> Packing:
        """Pack lower, or prove more; what is known is returned if neither is found within the limits.

        With `Limits.enough_bytes` it ends at a height of no more, or at the proof that there is none.
        """
        search = _Search(self, problem, limits, known)
        interrupted = False
        try:
            search.run()
        except KeyboardInterrupt:
            interrupted = True
        offsets = list(known.offsets)
        for s in search.stretches:
            for i, offset in zip(s.members, s.offsets, strict=True):
                offsets[i] = offset
        counters = {"exact work": search.work, "exact nodes": search.nodes, "questions": search.questions}
        winner = self.name if search.height < known.height_bytes else known.engine
        return Packing(tuple(offsets), search.height, search.bound, winner, counters, interrupted)
