"""Squeaky wheel: place by a greedy's order, then place earlier what ended above the load bound; and again.

A greedy fails where a few buffers come too late and find their room taken. Those that end above the bound are
to blame ("the squeaky wheel gets the grease"); moved forward in the order they choose before the others do.
Most arenas of real networks that no greedy rule gets down to the load bound are there after a handful of
rounds.

Source: Joslin and Clements, "Squeaky wheel optimization", JAIR 10 (1999).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lowtide.allocate.buffers import Buffer
from lowtide.allocate.greedy import RULES, Facts, Packing, Rule, pack_stretches
from lowtide.allocate.place import height_of, placer
from lowtide.stop import Limits

LEAST_WORK, MOST_WORK = 3_000_000, 10_000_000
"""What an instance may cost, in the units of `Placer.cost`: about a third of a second; about one, if it is large."""


def to_front(order: Sequence[int], blamed: set[int]) -> list[int]:
    """Blamed buffers first, then the others, each in the order they had.

    >>> to_front([3, 1, 0, 2], {0, 2})
    [0, 2, 3, 1]
    """
    return [i for i in order if i in blamed] + [i for i in order if i not in blamed]


def a_quarter_forward(order: Sequence[int], blamed: set[int]) -> list[int]:
    """Blamed buffers move a quarter of the way past the others.

    >>> a_quarter_forward([3, 1, 0, 2, 4, 5, 6, 7], {2, 7})
    [3, 2, 1, 0, 4, 7, 5, 6]
    """
    step = len(order) // 4 + 1
    rank = {i: k - step if i in blamed else k for k, i in enumerate(order)}
    return sorted(order, key=rank.__getitem__)


Move = Callable[[Sequence[int], set[int]], list[int]]


@dataclass(frozen=True)
class SqueakyWheel:
    """Engine that repairs the order of every rule, all in turn, until one of them reaches the load bound.

    It ends after `rounds`, or when its share of `work` is spent: `LEAST_WORK` or a dozen passes.
    """

    name: ClassVar[str] = "squeaky wheel"
    rules: tuple[Rule, ...] = RULES[:8]
    rounds: int = 30
    work: int = MOST_WORK

    def supports(self, buffers: Sequence[Buffer]) -> str | None:
        """Every instance."""
        return None

    def pack(self, buffers: Sequence[Buffer], limits: Limits) -> Packing:
        """Pack; takes no notice of the time limit, so that the result does not depend on a clock."""
        counters = {"squeaky passes": 0, "squeaky work": 0}

        def pack_one(part: Sequence[Buffer], goal: int) -> tuple[list[int], str]:
            return self._pack_stretch(part, goal, counters)

        return pack_stretches(buffers, pack_one, counters)

    def _pack_stretch(self, buffers: Sequence[Buffer], goal: int, counters: dict[str, int]) -> tuple[list[int], str]:
        kernel, facts = placer(buffers), Facts(buffers)
        limit = min(self.work, max(LEAST_WORK, 12 * kernel.cost))
        best: list[int] = []
        best_height, winner = 0, ""
        lines: list[tuple[Rule, Move | None, list[int]]] = [(rule, None, rule.order(facts)) for rule in self.rules]
        for _ in range(self.rounds):
            advanced: list[tuple[Rule, Move | None, list[int]]] = []
            for rule, move, order in lines:
                if best and counters["squeaky work"] + kernel.cost > limit:
                    return best, winner
                counters["squeaky passes"] += 1
                counters["squeaky work"] += kernel.cost
                offsets = kernel.place(order, best_fit=rule.best_fit)
                assert offsets is not None
                height = height_of(buffers, offsets)
                if not best or height < best_height:
                    best, best_height, winner = offsets, height, f"{self.name} on {rule.name}"
                    if height <= goal:
                        return best, winner
                blamed = {i for i, b in enumerate(buffers) if offsets[i] + b.size > goal}
                for next_move in (to_front, a_quarter_forward) if move is None else (move,):
                    advanced.append((rule, next_move, next_move(order, blamed)))
            lines = advanced
        return best, winner
