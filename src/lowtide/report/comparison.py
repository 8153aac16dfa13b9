"""The table of `lowtide compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

INTERRUPTED = "stopped by interrupt"
"""Reason of the row in which Ctrl-C came; the methods after it have none."""


@dataclass(frozen=True)
class MethodResult:
    """What one method reached; a row of `compare`. Sizes are bytes.

    `lower_bound_bytes` is what this method proved; `optimal` whether its peak, or of methods that spill its traffic, is
    the best bound that any of the methods proved. `reason` is there unless `status` is ``"ok"``; after
    ``"unsupported"`` and ``"error"`` there are no sizes. A method that ends by its time limit, or by Ctrl-C, is
    ``"timeout"`` and has the best that it found.
    """

    method: str
    status: Literal["ok", "timeout", "unsupported", "error"]
    reason: str | None = None
    peak_bytes: int | None = None
    arena_bytes: int | None = None
    lower_bound_bytes: int | None = None
    optimal: bool = False
    traffic_bytes: int | None = None
    traffic_lower_bound_bytes: int | None = None
    counters: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the method, and the comparison with it."""
        return self.reason == INTERRUPTED


def comparison_text(rows: Sequence[MethodResult], target: str) -> str:
    """One line per method."""
    from lowtide.report.text import columns

    spilling = any(row.traffic_bytes is not None for row in rows)
    names = ("traffic", "traffic bound", "fast memory") if spilling else ("peak", "arena", "lower bound")
    table: list[tuple[str, ...]] = [("method", *names, "seconds", "")]
    for row in rows:
        sizes = (row.peak_bytes, row.arena_bytes, row.lower_bound_bytes)
        if spilling:
            sizes = (row.traffic_bytes, row.traffic_lower_bound_bytes, row.arena_bytes)
        note = "optimal" if row.optimal else ""
        if row.status != "ok":
            note = ", ".join(part for part in (note, f"{row.status}: {row.reason}") if part)
        shown = ("" if size is None else f"{size:,}" for size in sizes)
        table.append((row.method, *shown, f"{row.seconds:.2f}", note))
    what = "traffic" if spilling else "peak"
    head = f"bytes under target {target}; optimal: the {what} is the best bound that any of these methods proved"
    return f"{head}\n\n{columns(table, right=[1, 2, 3, 4])}"
