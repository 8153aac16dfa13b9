"""When to stop a search, and how it says how far it is."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from types import FrameType


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is."""

    # best_bytes, bound_bytes: the best peak of a complete plan so far, and the bound that holds for all that is
    # searched; 0: not known.
    best_bytes: int
    bound_bytes: int
    seconds: float  # how long it has run
    phase: str = ""  # what is being done, in a few words, where the figures do not say enough


PATIENCE_SECONDS = 5.0  # for so long at the least a search goes on that gains nothing


def clock() -> float:
    """Seconds that the clock shows: `time.perf_counter`."""
    return time.perf_counter()


class _Work(threading.local):
    """What the searches of a thread did, in nanoseconds."""

    nanoseconds: int = 0


_WORK = _Work()


def count(nanoseconds: int) -> None:
    """Note work of this thread, as many nanoseconds as it takes on a quiet machine: steps of searches, candidates,
    operators of graphs that are made, each with its price. Limits that are counted go by that."""
    _WORK.nanoseconds += nanoseconds


def counted() -> int:
    """The nanoseconds that this thread noted."""
    return _WORK.nanoseconds


@dataclass
class Interrupt:
    """Whether Ctrl-C ended one of the searches that share it: then all of them are over. As a context it notes a
    `KeyboardInterrupt`, and goes on after its block."""

    seen: bool = False

    def __enter__(self) -> Interrupt:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.seen = self.seen or stopped
        return stopped


@dataclass
class Tally:
    """What the searches that share it tried, and the seconds that it took, by name."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, count: int, began: float) -> None:
        """Note so many of a kind, tried since `began` (`time.perf_counter`)."""
        self.counts[name] = self.counts.get(name, 0) + count
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def figures(self) -> dict[str, float]:
        """Both as a plan has them: counts, and seconds to milliseconds."""
        taken = {f"{name}_seconds": round(seconds, 3) for name, seconds in self.seconds.items()}
        return {**self.counts, **taken}


@contextmanager
def noting(interrupt: Interrupt) -> Iterator[None]:
    """In its block Ctrl-C is noted as well, whatever ends with the best it has on a `KeyboardInterrupt`."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.seen = True
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Limits:
    """What a search may use: seconds of work, and seconds of the clock.

    Where the work is counted (`count`), searches divide it among each other, and what they find does not depend on the
    clock as long as that does not end them. Where it is not, the clock divides it.
    """

    seconds: float = 60.0  # wall time; the search returns the best it has when they are over
    memory_bytes: int = 2 * 1024**3  # memory for stored states
    seed: int = 0  # for methods that draw at random
    budget_bytes: int | None = None  # If given, the search asks about a peak within it too
    until_impossible: bool = False  # whether to stop once it is known that no peak is within the budget
    gap: float = 0.0  # part of the peak that the bound may lack: the search for an order ends once it lacks no more
    # If given, an arena of at most this many bytes is small enough: no other order is tried for a smaller one.
    enough_bytes: int | None = None
    # If given, each improvement of the best or the bound is appended: the anytime log.
    trace: list[Progress] | None = None
    # Called now and then with the progress; may raise KeyboardInterrupt to stop the search.
    report: Callable[[Progress], None] | None = None
    started: float = field(default_factory=clock)  # what `clock` showed when it was started
    work_seconds: float = inf  # counted work after which the search is over, too; without, nothing is counted
    begun: int = field(default_factory=counted)  # what was counted when the search began
    # Whether Ctrl-C ended a search within these limits, or within others that `dataclasses.replace` made of them.
    interrupt: Interrupt = field(default_factory=Interrupt, compare=False, repr=False)
    # What was tried within these limits, or within others made of them.
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)

    @property
    def passed_seconds(self) -> float:
        """Seconds of the clock since the search was started."""
        return clock() - self.started

    @property
    def clock_seconds(self) -> float:
        """Seconds until the clock ends the search, never negative."""
        return max(0.0, self.seconds - self.passed_seconds)

    @property
    def _worked_seconds(self) -> float:
        return (counted() - self.begun) / 1e9

    @property
    def all_seconds(self) -> float:
        """What the search may take in all: seconds of work where that is counted."""
        return min(self.seconds, self.work_seconds)

    @property
    def left_seconds(self) -> float:
        """Seconds until the limit, never negative: of work where that is counted, unless the clock leaves less."""
        return max(0.0, min(self.work_seconds - self._worked_seconds, self.clock_seconds))

    @property
    def spent_seconds(self) -> float:
        """Seconds since the search began, at most the limit: of work where that is counted."""
        return self.all_seconds - self.left_seconds

    @property
    def is_counted(self) -> bool:
        """Whether work is counted."""
        return self.work_seconds < inf

    def most(self, nanoseconds: int) -> int:
        """How many there may be of what takes so many nanoseconds each, one at the least; 0: any number."""
        return max(1, int(self.left_seconds * 1e9) // nanoseconds) if self.is_counted else 0

    def until(self, share: float) -> Limits:
        """The same for a search that is over after a share of all that this one may take."""
        return replace(self, seconds=self.seconds * share, work_seconds=self.work_seconds * share)

    def share(self, share: float) -> Limits:
        """The same for a search that has a share of what is left."""
        seconds = self.seconds - self.clock_seconds * (1.0 - share)
        if not self.is_counted:
            return replace(self, seconds=seconds)
        worked = self._worked_seconds
        return replace(self, seconds=seconds, work_seconds=worked + (self.work_seconds - worked) * share)

    def at_most(self, seconds: float) -> Limits:
        """The same for a search that has so many seconds from now, or what is left if that is less."""
        if not self.is_counted:
            return replace(self, seconds=min(self.seconds, self.spent_seconds + seconds))
        return replace(self, work_seconds=min(self.work_seconds, self._worked_seconds + seconds))

    def over(self) -> bool:
        """Whether nothing is left, or Ctrl-C came."""
        return self.interrupt.seen or self.left_seconds <= 0

    def why(self, stopped: str) -> str:
        """Why a search ended that went on until it was done, or something else stopped it: its work may be over."""
        return "time" if stopped == "complete" and self.left_seconds <= 0 else stopped

    def tell(self, phase: str = "", best_bytes: int = 0, bound_bytes: int = 0) -> None:
        """Report what is being done, and the best peak and the bound where they are known."""
        if self.report is not None:
            self.report(Progress(best_bytes, bound_bytes, self.passed_seconds, phase))

    def saying(self, phase: str) -> Limits:
        """The same for a search whose figures are of a part of the graph, or of something that is tried: a phase is
        reported, and no figures."""
        report = self.report
        if report is None:
            return self
        return replace(self, report=lambda progress: report(Progress(0, 0, progress.seconds, phase)))

    def over_choices(self) -> Limits:
        """The same for searches that each make complete plans of one choice of changes: the best of them all is
        reported, and no bound, for none holds for the other choices."""
        report = self.report
        if report is None:
            return self
        best = 0

        def tell(progress: Progress) -> None:
            nonlocal best
            if progress.best_bytes:
                best = min(best or progress.best_bytes, progress.best_bytes)
            report(replace(progress, best_bytes=best, bound_bytes=0))

        return replace(self, report=tell)
