"""An anytime search over moves: they take turns on the incumbent until none of them improves it.

    opening -> incumbent -> the move that gained the most when it last had a turn -> incumbent -> ...

Which moves a call has is not decided here (`lowtide.api.moves.solving`). A move gets the base, with the changes that
other moves made of it. Its plan may be built on the base, or start from the user's graph. Each move has one turn on a
base; a better base gives every move another turn, and a move whose turn ended before it was done waits for a longer
one.

A turn is a share of the limits. Where the searches of a call count their work (`lowtide.stop.count`), the share is of
this work, and the same call gives the same plan on every machine, as long as the clock does not end it. Where they do
not, the share is of the clock's time, and only a search in which no turn is cut short gives the same plan each time.

The result of a terminal move may be the best plan, but no move builds on it: the base remains the best other plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lowtide.stop import Limits

P = TypeVar("P")
C = TypeVar("C", contravariant=True)

Key = tuple[float, ...]  # how good a plan is; less is better

_FIRST, _TURN = 0.8, 0.5
"""Shares of the time left that a turn may take while other moves wait: as long as no plan was better, and then."""


class Objective(Protocol[C]):
    """What a search looks for: how it compares plans."""

    def key(self, plan: C, /) -> Key:
        """How good a plan is; the first entry is the figure whose decrease a move is judged by."""
        ...

    def is_enough(self, plan: C, /) -> bool:
        """Whether a plan need not be improved."""
        ...


class Move(ABC, Generic[P]):
    """A way to better plans."""

    is_terminal: bool = False  # whether no move can build on its result
    unfinished: bool = False  # whether a limit ended its last turn

    @property
    def figures(self) -> Mapping[str, float]:
        """What a plan says of this move in the end, for example what it tried."""
        return {}

    @abstractmethod
    def propose(self, base: P, limits: Limits) -> P | None:
        """A plan built on another one; None: none was found. Raises `KeyboardInterrupt` as the user does."""


@dataclass
class Incumbent(Generic[P]):
    """The best plan so far."""

    objective: Objective[P]
    base: P  # the best plan that moves can build on
    best: P = field(init=False)  # the best plan of all
    version: int = 0  # how many plans were the base

    def __post_init__(self) -> None:
        self.best = self.base

    def offer(self, candidate: P, *, is_terminal: bool = False) -> float:
        """Take a plan where it is better. Returns what the first entry of the key falls by, 0 if it is no better."""
        key = self.objective.key
        gain = key(self.best if is_terminal else self.base)[0] - key(candidate)[0]
        if key(candidate) < key(self.best):
            self.best = candidate
        if not is_terminal and key(candidate) < key(self.base):
            self.base, self.version = candidate, self.version + 1
        return max(0.0, gain)


def search(incumbent: Incumbent[P], moves: Sequence[Move[P]], limits: Limits) -> bool:
    """Improve an incumbent. Returns whether Ctrl-C ended the search."""
    seen: dict[int, int] = {}
    gained, had = [0.0] * len(moves), [0.0] * len(moves)
    while not limits.over() and not incumbent.objective.is_enough(incumbent.best):
        waiting = [k for k in range(len(moves)) if seen.get(k) != incumbent.version]
        cut_short = [
            k for k, move in enumerate(moves) if k not in waiting and move.unfinished and had[k] < limits.left_seconds
        ]
        if not waiting and not cut_short:
            break
        k = max(waiting or cut_short, key=lambda k: (k not in seen, gained[k], -k))
        share = 1.0 if len(waiting) < 2 else _TURN if incumbent.version else _FIRST
        turn = limits.share(share)
        seen[k], had[k] = incumbent.version, turn.left_seconds
        try:
            found = moves[k].propose(incumbent.base, turn)
        except KeyboardInterrupt:
            return True
        gained[k] = 0.0 if found is None else incumbent.offer(found, is_terminal=moves[k].is_terminal)
    return limits.interrupt.seen
