"""One anytime search over all means: moves take turns on the incumbent until none of them improves it.

    opening -> incumbent -> the move that gained the most when it last had a turn -> incumbent -> ...

A move gets the incumbent, whatever means are in it already. Its plan may be built on the incumbent, or start from the
user's graph. Each move has one turn on an incumbent; a better incumbent gives every move another turn. The clock ends
turns and the search: only a search in which no turn is cut short gives the same result each time.

A move that places tensors in others gives a result on which nothing else can be built. Such a result may be the best
plan; the base, on which others are built, remains the best one without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from lowtide.stop import Limits

P = TypeVar("P")

Key = tuple[int, ...]
"""How good a plan is; less is better."""

_TURN = 0.5
"""Share of the time left that a turn may take, where a clock has to stop it."""


class Move(Protocol[P]):
    """A way to better plans."""

    @property
    def closes(self) -> bool:
        """Whether nothing can be built on what it gives."""
        ...

    def propose(self, base: P, limits: Limits) -> P | None:
        """A plan built on another one; None: none was found. Raises `KeyboardInterrupt` as the user does."""
        ...


@dataclass
class Incumbent(Generic[P]):
    """The best plan so far.

    Attributes
    ----------
    key
        The comparison of plans that this search uses; the driver reads the first entry as bytes. For plans of one arena
        these are the bytes that the plan requires, then its operators (`api/rewrites/solving.py`).
    base
        The best plan that others can be built on.
    best
        The best plan of all.
    version
        How many plans were the base.
    """

    key: Callable[[P], Key]
    base: P
    best: P = field(init=False)
    version: int = 0

    def __post_init__(self) -> None:
        self.best = self.base

    def offer(self, candidate: P, *, closes: bool = False) -> int:
        """Take a plan where it is better. Returns the bytes that it saves, 0 if it is no better."""
        before = self.best if closes else self.base
        saved = self.key(before)[0] - self.key(candidate)[0]
        if self.key(candidate) < self.key(self.best):
            self.best = candidate
        if not closes and self.key(candidate) < self.key(self.base):
            self.base, self.version = candidate, self.version + 1
        return max(0, saved)


def search(incumbent: Incumbent[P], moves: Sequence[Move[P]], limits: Limits, is_enough: Callable[[P], bool]) -> bool:
    """Improve an incumbent. Returns whether Ctrl-C ended the search.

    Parameters
    ----------
    is_enough
        Whether a plan need not be improved.
    """
    seen: dict[int, int] = {}
    gained = [0] * len(moves)
    while not limits.over() and not is_enough(incumbent.best):
        waiting = [k for k in range(len(moves)) if seen.get(k) != incumbent.version]
        if not waiting:
            break
        k = max(waiting, key=lambda k: (k not in seen, gained[k], -k))
        seen[k] = incumbent.version
        began = limits.seconds - limits.left_seconds
        share = 1.0 if len(waiting) == 1 else _TURN
        turn = replace(limits, seconds=began + share * limits.left_seconds)
        try:
            found = moves[k].propose(incumbent.base, turn)
        except KeyboardInterrupt:
            return True
        gained[k] = 0 if found is None else incumbent.offer(found, closes=moves[k].closes)
    return limits.interrupt.seen
