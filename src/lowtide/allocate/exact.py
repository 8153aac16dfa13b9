"""Exact placement: branch and bound, from the load bound upwards, with proofs.

A question is "do the buffers fit under this height?", and has three answers: yes, proved not to, not known. It is put
to the core (core/place/exact.h) for each stretch of time that no buffer crosses, in many short searches by different
orders and a longer one at last. First at the lower bound, where a search fails soonest; a no raises the bound. Then at
the capacity, or else down from the best known, in steps that become smaller where nothing is found; what is not known
then is left for a later round, with four times the work. All of it is counted in work, not in seconds, which only stop
it: without a time limit that is reached the result is always the same.

The first short searches take greedy orders. The others climb: a few buffers change their rank in the order of the
search that had the most buffers placed at once, and the new order is kept if as many are placed. The order of a
placement that was found is where the climb to the next height begins.

Source: the search is of the family of Moffitt, "MiniMalloc" (ASPLOS 2023); docs/proofs.md proves its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from random import Random
from typing import ClassVar

from lowtide import _core
from lowtide.allocate.buffers import Problem
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.stop import Limits, count

KEYS = ("contention", "area", "duration", "contention-area")
"""The orders that decide among equals, in turn: minimalloc's TWA, area, WAT, TAW."""

_UNIT = 10  # nanoseconds of work

WORK = 100_000_000  # what an instance may cost

QUESTION = 10_000_000
"""What a question may cost in the first round. The first at the lower bound, and one at the capacity,
may cost four times as much."""

SLICE = 1_000_000
"""What the first short searches of a question may cost, at least; way down and some way back take longer in crowds."""

DESCENTS = 12  # what they may cost, too, per buffer and buffer: going down once costs half of that
GROWTH = 110  # what those by the next greedy orders may cost, in percent of that
GREEDY_TURNS = 3  # how often every key has a turn before the climb

STEADY = 100
"""After this many more searches a climb's may cost what its first did once more; that is twice the first greedy's."""

ANEW = 3  # one search in this many takes an order near a greedy's instead
MOST_BUFFERS = 3_000  # above that, what meets what is too much to list: 200 MB where everything meets

RULES = ("floors", "releases", "support", "dominance", "split", "twins", "stacks", "memo")
"""The pruning rules of the search, each of which can be left out; core/place/exact.h says what each does."""


class _Climb:
    """The short searches of a stretch at a height: which order comes next, and what came of it."""

    def __init__(self, s: _Stretch, keys: Sequence[str], seed: int, height: int) -> None:
        self.s, self.keys, self.seed = s, keys, seed
        self.rng = Random(seed * 1_000_003 + s.index * 10_007 + height)
        self.turn, self.most = 0, -1
        self.order = s.order
        self.greedy = 0 if s.has_placement else GREEDY_TURNS * len(keys)
        self.least = max(SLICE, DESCENTS * len(s.members) ** 2)

    @property
    def work(self) -> int:
        """What the next search may cost."""
        if self.turn < self.greedy:
            return self.least * (100 + (GROWTH - 100) * (self.turn // len(self.keys))) // 100
        return self.least * (STEADY + self.turn - self.greedy) // STEADY * 2

    def next(self) -> tuple[Sequence[int], bool]:
        """The order of the next search, and whether it leaps."""
        turn, self.turn = self.turn, self.turn + 1
        if turn < self.greedy:
            k = turn // len(self.keys)
            return self._greedy(self.keys[turn % len(self.keys)], k), k % 3 != 1
        if turn == self.greedy:
            return self.s.order, True
        if turn % ANEW == 0:
            k = turn // ANEW
            return self._greedy(self.keys[k % len(self.keys)], GREEDY_TURNS + k), True
        return self._moved(self.order), True

    def learn(self, order: Sequence[int], most: int) -> None:
        """A search by this order had so many buffers placed at once."""
        if most >= self.most:
            self.order, self.most = order, most

    def _greedy(self, key: str, k: int) -> Sequence[int]:
        return self.s.core.order(self.s.index, key, k and self.seed * 1_000_003 + k)

    def _moved(self, order: Sequence[int]) -> Sequence[int]:
        moved, n = list(order), len(order)
        for _ in range(2 ** self.rng.randrange(4)):
            i = self.rng.randrange(n)
            buffer = moved.pop(i)
            moved.insert(self.rng.randrange(max(0, i - n // 2), n), buffer)
        return moved


class _Stretch:
    """A stretch of time that no buffer crosses, and what is known of it."""

    def __init__(self, core: _core.Exact, index: int, offsets: Sequence[int], problem: Problem) -> None:
        facts = core.part(index)
        self.core, self.index = core, index
        self.members = facts.members
        self.bound = facts.bound
        self.unit = facts.unit
        self.tried = -1  # no search finds anything up to this height; a proof only where the core proves
        self.has_placement = False  # by a search, in addition to the one that it began with
        self.climbs: dict[int, _Climb] = {}
        self.sizes = [problem.buffers[i].size for i in self.members]
        self.take([offsets[i] for i in self.members])
        # By this order the search found what is known, or would go a similar way.
        self.order: Sequence[int] = sorted(range(len(self.members)), key=lambda i: (self.offsets[i], i))

    def take(self, offsets: Sequence[int]) -> None:
        self.offsets = offsets
        self.height = max(o + size for o, size in zip(offsets, self.sizes, strict=True))


class _PlacementSearch:
    """The questions asked so far: bounds, placements, work."""

    def __init__(self, engine: ExactFit, problem: Problem, limits: Limits, best: Packing) -> None:
        self.engine, self.limits = engine, limits
        self.core = _core.Exact(problem.core)
        self.switches = dict.fromkeys(engine.without, False)
        self.stretches = [_Stretch(self.core, i, best.offsets, problem) for i in range(len(self.core))]
        self.least = best.lower_bound_bytes
        self.work = self.nodes = self.questions = 0
        self.share = 4  # what is asked next is by so much of the gap below the best known

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
            enough = self.limits.enough_bytes
            at_the_bound = budget if before or (enough is not None and enough > self.bound) else 4 * budget
            while not self.done and self.ask(self.bound, at_the_bound) is False:
                pass
            if enough is not None and self.bound < enough < self.height:
                self.ask(enough, 4 * budget)
            if enough is None:
                self.descend(budget)
            budget *= 4

    def descend(self, budget: int) -> None:
        """Ask below the best known, by a fourth of what is left to the bound, and less where nothing is found."""
        unit = gcd(*(s.unit for s in self.stretches))
        while not self.done:
            step = max(1, (self.height - self.bound) // self.share // unit) * unit
            if self.ask(max(self.bound, self.height - step), budget) is not True:
                if step == unit:
                    break
                self.share *= 2
        self.share = max(4, self.share // 4)

    def ask(self, height: int, budget: int) -> bool | None:
        """Whether everything fits under a height; what is found and what is proved is kept."""
        self.questions += 1
        for s in sorted(self.stretches, key=lambda s: (-s.bound, s.index)):
            if s.height <= height:
                continue
            answer = None if height <= s.tried else self.fits(s, height, budget)
            if answer is False:
                s.bound = max(s.bound, (height // s.unit + 1) * s.unit)
            self.limits.tell("", self.height, self.bound)
            if answer is not True:
                return answer
        return True

    def fits(self, s: _Stretch, height: int, budget: int) -> bool | None:
        """Short searches, and with the last quarter of the budget a long one."""
        if self.engine.work is not None:
            budget = min(budget, self.engine.work - self.work)
        end, left = self.work + budget, budget - budget // 4
        climb = s.climbs.setdefault(height, _Climb(s, self.engine.keys, self.limits.seed, height))
        while (part := climb.work) <= left:
            order, leaps = climb.next()
            before = self.work
            answer, stop, most = self.search(s, height, order, leaps, part)
            if stop:
                return answer
            climb.learn(order, most)
            left -= max(self.work - before, part // 4)  # not too many of those that end by leaps
        first = s.core.order(s.index, self.engine.keys[0], 0)
        return self.search(s, height, first, False, max(0, end - self.work))[0]

    def search(
        self, s: _Stretch, height: int, order: Sequence[int], leaps: bool, work: int
    ) -> tuple[bool | None, bool, int]:
        """One search: its answer, whether that ends the question, and how many buffers were placed at once."""
        if self.limits.left_seconds <= 0:
            return None, True, 0
        answer = self.core.fits(
            s.index, order, leaps, height, work, self.switches, lambda: self.limits.left_seconds <= 0
        )
        self.work += answer.work
        count(_UNIT * answer.work)
        self.nodes += answer.nodes
        if answer.fits:
            s.take(answer.offsets)
            s.order, s.has_placement = order, True
        over = answer.work < work and not leaps and self.limits.left_seconds > 0
        if over and not answer.fits:
            s.tried = max(s.tried, height)
        return answer.fits, answer.fits is not None or over, answer.most


@dataclass(frozen=True)
class ExactFit:
    """Engine that asks, from the lower bound upwards, whether the buffers fit; its no is a proof."""

    name: ClassVar[str] = "exact"
    keys: tuple[str, ...] = KEYS  # orders that decide among equals
    work: int | None = WORK  # what an instance may cost; None: until the time is over
    question: int = QUESTION  # what a question may cost in the first round
    without: tuple[str, ...] = ()  # pruning rules that are left out (`RULES`); the answers are the same, later

    def supports(self, problem: Problem) -> str | None:
        """Up to `MOST_BUFFERS` buffers."""
        return None if len(problem.buffers) <= MOST_BUFFERS else "too many buffers"

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack from the best of the greedies."""
        return self.improve(problem, limits, Portfolio().pack(problem, limits))

    def improve(self, problem: Problem, limits: Limits, best: Packing) -> Packing:
        """Pack lower, or prove more; what is known is returned if neither is found within the limits. With
        `Limits.enough_bytes` it ends at a height of no more, or at the proof that there is none."""
        search = _PlacementSearch(self, problem, limits, best)
        interrupted = False
        try:
            search.run()
        except KeyboardInterrupt:
            interrupted = True
        offsets = list(best.offsets)
        for s in search.stretches:
            for i, offset in zip(s.members, s.offsets, strict=True):
                offsets[i] = offset
        counters = {"exact work": search.work, "exact nodes": search.nodes, "questions": search.questions}
        winner = self.name if search.height < best.height_bytes else best.engine
        return Packing(tuple(offsets), search.height, search.bound, winner, counters, interrupted)
