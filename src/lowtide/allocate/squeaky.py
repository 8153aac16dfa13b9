"""Squeaky wheel: place by a greedy's order, then place earlier what ended above the load bound; and again.

A greedy fails where a few buffers come too late and find their room taken. Those that end above the bound are
to blame ("the squeaky wheel gets the grease"); moved forward in the order they choose before the others do: to
the front, or a quarter of the way. Most arenas of real networks that no greedy rule gets down to the load bound
are there after a handful of rounds.

Source: Joslin and Clements, "Squeaky wheel optimization", JAIR 10 (1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lowtide.allocate.buffers import Buffer, core_buffers
from lowtide.allocate.greedy import RULES, Packing, Rule, packing
from lowtide.stop import Limits

WORK = 60_000_000
"""What an instance may cost, in the units of the portfolio's work."""


@dataclass(frozen=True)
class SqueakyWheel:
    """Engine that repairs the order of every rule, all in turn, until one of them reaches the load bound.

    It ends after `rounds`, or when its share of `work` is spent.
    """

    name: ClassVar[str] = "squeaky wheel"
    rules: tuple[Rule, ...] = RULES[:8]
    rounds: int = 30
    work: int = WORK

    def supports(self, buffers: Sequence[Buffer]) -> str | None:
        """Every instance."""
        return None

    def pack(self, buffers: Sequence[Buffer], limits: Limits) -> Packing:
        """Pack; takes no notice of the time limit, so that the result does not depend on a clock."""
        found = core_buffers(buffers).squeaky([(r.key, r.best_fit) for r in self.rules], self.rounds, self.work)
        counters = {"squeaky passes": found["passes"], "squeaky work": found["work"]}
        return packing(found, self.rules, counters, f"{self.name} on ")
