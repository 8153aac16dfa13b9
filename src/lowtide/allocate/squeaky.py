"""Squeaky wheel: place by a greedy's order, then place earlier what ended above the load bound; repeatedly.

A greedy fails where a few buffers come too late and find their room taken. Those that end above the bound are
to blame ("the squeaky wheel gets the grease"); moved forward in the order they choose before the others do: to
the front, or a quarter of the way. Most arenas of real networks that no greedy rule gets down to the load bound
are there after a handful of rounds.

Source: Joslin and Clements, "Squeaky wheel optimization", JAIR 10 (1999).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowtide.allocate.buffers import Problem
from lowtide.allocate.greedy import RULES, GreedyRule, Packing, packing
from lowtide.stop import Limits

WORK = 60_000_000  # what an instance may cost, in the units of the portfolio's work
WINDOW_WORK = 3_000_000  # what one window of a sweep may cost

SWEEP_WORK = 1_000_000_000
"""What all sweeps of an instance may cost: only those of ten thousands of buffers need a tenth of it."""

MOST_FOR_WHEEL = 20_000  # buffers. Above that the wheel's work is spent before it has turned.


@dataclass(frozen=True)
class Sweep:
    """Engine that goes through time, segment by segment from low point to low point.

    Each segment is packed by the squeaky wheel with what crosses into it at its known offset. If it ends above the
    load bound it is repacked, together with the 1, 3, 7 segments before it. Each length of `segments` (least
    number of buffers) is tried in time and in time reversed, until the load bound is reached or `work` is spent. A
    repair touches a few dozen buffers and no others, so this gets to the bound where a network has hundreds of cells.
    """

    name: ClassVar[str] = "sweep"
    rules: tuple[GreedyRule, ...] = RULES[:8]
    segments: tuple[int, ...] = (24, 12, 48)
    rounds: int = 30
    window_work: int = WINDOW_WORK
    work: int = SWEEP_WORK

    def supports(self, problem: Problem) -> str | None:
        """Unless buffers are kept apart: a window does not see those that are not there."""
        return "buffers kept apart" if problem.apart else None

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack; takes no notice of the time limit, so that the result does not depend on a clock."""
        rules = [(r.key, r.best_fit) for r in self.rules]
        answer = problem.core.sweep(rules, self.rounds, self.window_work, self.work, self.segments)
        counters = {"sweep passes": answer.passes, "sweep work": answer.work}
        return packing(answer, self.name, counters)


@dataclass(frozen=True)
class SqueakyWheel:
    """Engine that repairs the order of every rule, all in turn, until one of them reaches the load bound.

    It ends after `rounds`, or when its share of `work` is spent.
    """

    name: ClassVar[str] = "squeaky wheel"
    rules: tuple[GreedyRule, ...] = RULES[:8]
    rounds: int = 30
    work: int = WORK

    def supports(self, problem: Problem) -> str | None:
        """Up to `MOST_FOR_WHEEL` buffers."""
        return None if len(problem.buffers) <= MOST_FOR_WHEEL else "too many buffers"

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack; takes no notice of the time limit, so that the result does not depend on a clock."""
        answer = problem.core.squeaky([(r.key, r.best_fit) for r in self.rules], self.rounds, self.work)
        counters = {"squeaky passes": answer.passes, "squeaky work": answer.work}
        winner = f"{self.name} on {self.rules[answer.rule].name}"
        return packing(answer, winner, counters)
