"""How long both models took, and what memory their processes had, as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from lowtide.report.columns import change
from lowtide.report.first_screen import size_text
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.comparison import Comparison
    from lowtide.run_reports import Timing

_WITHIN = 0.05
"""Share of a measured figure by which the plan's may differ from the nearest measured one and count as the same."""


def timing_rows(timing: Timing | None, before: str) -> list[tuple[str, str]]:
    """Rows of a table; none if nothing was timed. `before` says how the original ran."""
    if timing is None:
        return []
    first, second = (1000 * s for s in (timing.original_seconds, timing.planned_seconds))
    ratio = f"{100 * (second - first) / first:+.1f} %" if first else "unchanged"
    text = f"{first:.3g} -> {second:.3g} ms ({ratio}), medians of {timing.runs} runs in turn; before: {before}"
    rows = [("latency", text)]
    if timing.original_peak_bytes is not None and timing.planned_peak_bytes is not None:
        sizes = f"{format_size(timing.original_peak_bytes)} -> {format_size(timing.planned_peak_bytes)}"
        gain = change(timing.original_peak_bytes, timing.planned_peak_bytes)
        rows.append(("process", f"{sizes}, {gain}: most memory of it, Python, runtime and weights included"))
    return rows


def pair_rows(timing: Timing | None, comparison: Comparison | None) -> list[tuple[str, str]]:
    """Rows of what pairs of fresh processes showed, with their spread, and of what the plan says otherwise."""
    if timing is None or not timing.pairs:
        return []
    before = [pair.original_bytes for pair in timing.pairs]
    after = [pair.planned_bytes for pair in timing.pairs]
    times = [pair.slowdown for pair in timing.pairs]
    count = len(timing.pairs)
    rows = [
        (
            "process memory, today",
            f"{_spread(before, _size)} above Python and onnxruntime, in {format_count(count, 'pair')} of processes",
        ),
        ("process memory, planned", f"{_spread(after, _size)}, {change(int(median(before)), int(median(after)))}"),
        ("time of a run", f"{_spread(times, _times)} of today's"),
    ]
    if comparison is None or comparison.figure != "process memory":
        return rows
    base = comparison.base_bytes
    more = 0 if base is None else median(pair.base_bytes for pair in timing.pairs) - base
    differ = [
        _difference("process memory, today", comparison.today_bytes, before, more, _size),
        _difference("process memory, planned", comparison.planned_bytes, after, more, _size),
        _difference("time of a run", comparison.slowdown, times, 0, _times),
    ]
    if comparison.predicted is not None:
        differ.append(_difference("process memory, predicted", comparison.predicted.total_bytes, after, more, _size))
    text = "; ".join(one for one in differ if one)
    return [*rows, ("the plan says", text or f"the same, within {100 * _WITHIN:.0f} % of the spread")]


def _difference(name: str, planned: float | None, seen: Sequence[float], base: float, text: Callable[..., str]) -> str:
    """What the plan says of a figure that was measured otherwise; empty: as measured, with the empty process or
    without, of which the system keeps now more and now less in memory: by `base` more than when it was planned."""
    if not planned or any(
        min(seen) * (1 - _WITHIN) <= planned - more <= max(seen) * (1 + _WITHIN) for more in (0, base)
    ):
        return ""
    return f"{name} {text(planned)}, measured {100 * (median(seen) / planned - 1):+.0f} %"


def _size(size: float) -> str:
    return size_text(int(size))


def _times(ratio: float) -> str:
    return f"x {ratio:.2f}"


def _spread(values: Sequence[float], text: Callable[..., str]) -> str:
    """The median, and between which values all are."""
    low, high = text(min(values)), text(max(values))
    return f"{text(median(values))} ({low} to {high})" if low != high else low
