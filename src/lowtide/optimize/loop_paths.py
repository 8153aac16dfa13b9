"""Paths from the start of an order to its end, over untiled ops and loops.

Steps to a position are sorted by bytes. Labels of a position stay valid until a step to it or before it changes:
between two walks a search evaluates the few steps of one path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from lowtide.graph import MAX_BYTES
from lowtide.stop import count
from lowtide.transform.loops import Axes, Loop

_STEP = 500  # nanoseconds that a walk takes for each step that it looks at


@dataclass
class Step:
    """A step of a path: positions [begin, end) as a loop along `start` of the last op; None: one untiled op.

    `bytes`: peak of the step, a lower bound until `exact`. It counts `outside`, the bytes live outside the loop, and
    the line buffers, less the overlap with one of the `dying` tensors.
    """

    begin: int
    end: int
    start: Axes | None
    bytes: int
    exact: bool
    loop: Loop | None = None
    outside: int = 0
    dying: tuple[int, ...] = ()

    @property
    def looped(self) -> int:
        """Ops in the loop."""
        return 0 if self.start is None else self.end - self.begin


Label = tuple[int, int, Step | None]  # of the best path to a position: what is least, and then, and its last step


@dataclass
class Shared:
    """State of searches that share steps: how often one of them evaluated a step."""

    worked_out: int = 0


@dataclass
class LoopPaths:
    """Steps to each position of an order."""

    steps: list[list[Step]]  # by the position that they lead to, less one
    shared: Shared  # with other searches that have some of these steps
    _unsorted: set[int] = field(init=False)
    _labels: list[Label] = field(init=False)
    _labelled: tuple[int, bool] = (0, False)
    _known: int = 0

    def __post_init__(self) -> None:
        self._forget()

    def __iter__(self) -> Iterator[Step]:
        return (step for steps in self.steps for step in steps)

    def _forget(self) -> None:
        """Nothing is known of the order of the steps, nor of the paths."""
        self._unsorted, self._labels = set(range(1, len(self.steps) + 1)), []
        self._known = self.shared.worked_out

    def _follow(self) -> None:
        """Take notice of what others have worked out."""
        if self._known != self.shared.worked_out:
            self._forget()

    def add(self, steps: Iterable[Step]) -> None:
        """Take in steps."""
        for step in steps:
            self.steps[step.end - 1].append(step)
            self._changed(step.end)

    def work_out(self, step: Step, exact: int) -> None:
        """Say what a step takes, which is no less than what it was bounded by."""
        assert exact >= step.bytes, (step, exact)
        self._follow()
        step.bytes, step.exact = exact, True
        self._changed(step.end)
        self.shared.worked_out += 1
        self._known += 1

    def _changed(self, end: int) -> None:
        self._unsorted.add(end)
        del self._labels[end:]

    def _cheapest(self, end: int, limit: int) -> Iterator[Step]:
        """Steps to a position that need no more than a limit, those first that need least."""
        if end in self._unsorted:
            self._unsorted.remove(end)
            self.steps[end - 1].sort(key=lambda step: step.bytes)
        count(_STEP * len(self.steps[end - 1]))
        return takewhile(lambda step: step.bytes <= limit, self.steps[end - 1])

    def reach(self, limit: int) -> int:
        """The last position to which paths within a limit lead, as far as it is known."""
        self._follow()
        ends: list[list[int]] = [[] for _ in range(len(self.steps) + 1)]
        for end in range(1, len(ends)):
            for begin in {step.begin for step in self._cheapest(end, limit)}:
                ends[begin].append(end)
        furthest, reached = 0, [True] + [False] * len(self.steps)
        for begin, listed in enumerate(ends):
            if reached[begin]:
                furthest = begin
                for end in listed:
                    reached[end] = True
        return furthest

    def walk(self, limit: int, *, exact: bool = False, until: int | None = None) -> tuple[list[Step] | None, int]:
        """The path of least peak, and of few ops in loops: (steps, peak); (None, 0) if there is none within a limit.
        `exact`: over steps alone that are worked out. `until`: to this position only."""
        self._follow()
        if self._labelled != (limit, exact) or not self._labels:
            self._labelled, self._labels = (limit, exact), [(0, 0, None)]
        labels, until = self._labels, len(self.steps) if until is None else until
        for end in range(len(labels), until + 1):
            best: Label = (MAX_BYTES, 0, None)
            for step in self._cheapest(end, limit):
                if step.bytes > best[0]:
                    break
                before = labels[step.begin]
                key = (max(before[0], step.bytes), before[1] + step.looped)
                if (step.exact or not exact) and key[0] < MAX_BYTES and key < best[:2]:
                    best = (*key, step)
            labels.append(best)
        return _back(labels[: until + 1])

    def walk_within(self, limit: int) -> tuple[list[Step] | None, int]:
        """The path with the fewest ops in loops, then the fewest steps, of those no step of which is above a limit."""
        self._follow()
        none: Label = (len(self.steps) + 1, 0, None)
        labels: list[Label] = [(0, 0, None)]
        for end in range(1, len(self.steps) + 1):
            best = none
            for step in self._cheapest(end, limit):
                before = labels[step.begin]
                key = (before[0] + step.looped, before[1] + 1)
                if before[0] <= len(self.steps) and key < best[:2]:
                    best = (*key, step)
            labels.append(best)
        return _back(labels)


def _back(labels: list[Label]) -> tuple[list[Step] | None, int]:
    at, path = len(labels) - 1, list[Step]()
    while at:
        step = labels[at][2]
        if step is None:
            return None, 0
        path.append(step)
        at = step.begin
    return path[::-1], max((step.bytes for step in path), default=0)
