"""Processor time of one measurement, and an error as the reason of a row."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHORT_SECONDS = 0.5
MOST_RUNS = 5
"""A run shorter than this is repeated up to so often; the best time counts."""


def quickest(call: Callable[[], T], stopped: Callable[[T], str], most_runs: int = MOST_RUNS) -> tuple[T, float, int]:
    """The last result, the least processor seconds of all threads, and the number of runs. `stopped`: why a result's
    search ended; one that ``"time"`` or ``"memory"`` ended is not repeated. Raises `KeyboardInterrupt`: a result's
    search ended by ``"interrupt"``, that is Ctrl-C."""
    least, runs = float("inf"), 0
    while True:
        began = clock.process_time()
        result = call()
        least, runs = min(least, clock.process_time() - began), runs + 1
        if stopped(result) == "interrupt":
            raise KeyboardInterrupt
        if least > SHORT_SECONDS or runs == most_runs or stopped(result) in ("time", "memory"):
            return result, least, runs


def one_line(error: Exception) -> str:
    """The reason that a row gives for an error: one that fails is a row, and the others go on."""
    return " ".join(f"{type(error).__name__}: {error}".split())
