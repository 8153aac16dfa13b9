"""How often something is measured, and which time counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from lowtide_research.bench.machine import one_line, quickest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], Callable[[], int]]:
    """Calls that take these seconds of processor time, in turn, and give their number."""

    def calls(seconds: list[float]) -> Callable[[], int]:
        now = 0.0
        left: Iterator[tuple[int, float]] = iter(enumerate(seconds, 1))

        def call() -> int:
            nonlocal now
            number, spent = next(left)
            now += spent
            return number

        monkeypatch.setattr(time, "process_time", lambda: now)
        return call

    return calls


@pytest.mark.parametrize(
    ("seconds", "least", "runs"),
    [([0.6, 0.1], 0.6, 1), ([0.3, 0.1, 0.2, 0.4, 0.2, 0.0], 0.1, 5), ([0.5, 0.4, 0.4, 0.4, 0.4], 0.4, 5)],
)
def test_a_short_run_is_repeated(
    clock: Callable[[list[float]], Callable[[], int]], seconds: list[float], least: float, runs: int
) -> None:
    """Up to five times; a run of more than half a second is believed at once."""
    result, spent, count = quickest(clock(seconds), lambda _: "complete")
    assert (result, count) == (runs, runs)
    assert spent == pytest.approx(least)


def test_what_a_limit_ended_is_not_repeated(clock: Callable[[list[float]], Callable[[], int]]) -> None:
    """Time or memory; Ctrl-C ends the measurement."""
    assert quickest(clock([0.1, 0.1, 0.1]), lambda n: "time" if n == 2 else "")[0] == 2
    assert quickest(clock([0.1, 0.1]), lambda _: "memory")[2] == 1
    assert quickest(clock([0.1, 0.1, 0.1]), lambda _: "", 3)[2] == 3
    with pytest.raises(KeyboardInterrupt):
        quickest(clock([0.1]), lambda _: "interrupt")


def test_an_error_is_one_line() -> None:
    """Its type and what it says."""
    assert one_line(ValueError("it\n  broke")) == "ValueError: it broke"
