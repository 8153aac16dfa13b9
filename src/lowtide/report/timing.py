"""How long both models took, and what memory their processes had, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.columns import change
from lowtide.sizes import format_size

if TYPE_CHECKING:
    from lowtide.run_reports import Timing

_SLOWER = 0.1
"""From so much on, slower is no chance."""


def timing_rows(timing: Timing | None, before: str, if_slower: str = "") -> list[tuple[str, str]]:
    """Rows of a table; none if nothing was timed. `before` says how the original ran, `if_slower` what to do then."""
    if timing is None:
        return []
    first, second = (1000 * s for s in (timing.original_seconds, timing.planned_seconds))
    ratio = f"{100 * (second - first) / first:+.1f} %" if first else "unchanged"
    text = f"{first:.3g} -> {second:.3g} ms ({ratio}), medians of {timing.runs} runs in turn; before: {before}"
    rows = [("latency", text)]
    if if_slower and second > (1 + _SLOWER) * first:
        rows.append(("", if_slower))
    if timing.original_peak_bytes is not None and timing.planned_peak_bytes is not None:
        sizes = f"{format_size(timing.original_peak_bytes)} -> {format_size(timing.planned_peak_bytes)}"
        gain = change(timing.original_peak_bytes, timing.planned_peak_bytes)
        rows.append(("process", f"{sizes}, {gain}: most memory of it, Python, runtime and weights included"))
    return rows
