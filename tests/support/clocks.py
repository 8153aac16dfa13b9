"""A clock of any speed, and plans without what it decides."""

from __future__ import annotations

from typing import Any


class Clock:
    """A clock that goes on by so many seconds at each look."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def perf_counter(self) -> float:
        """What it shows."""
        self.now += self.seconds
        return self.now


def untimed(value: Any) -> Any:
    """What a plan says, without what says how long it took."""
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if "seconds" not in key}
    return [untimed(each) for each in value] if isinstance(value, list) else value
