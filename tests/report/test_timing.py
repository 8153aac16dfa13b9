"""Latency and memory of both models as rows."""

from __future__ import annotations

from lowtide.report.timing import timing_rows
from lowtide.run_reports import Timing


def test_rows_say_before_and_after():
    """And nothing where nothing was timed; memory only where each had its process."""
    assert timing_rows(None, "x") == []
    [(name, text)] = timing_rows(Timing(3, 0.002, 0.001), "as it stands")
    assert (name, text) == ("latency", "2 -> 1 ms (-50.0 %), medians of 3 runs in turn; before: as it stands")
    rows = dict(timing_rows(Timing(3, 0.001, 0.002, 2000, 1000), "onnxruntime's defaults", "what to do"))
    assert rows["process"].startswith("2,000 B (1.95 KiB) -> 1,000 B, -50.0 %")
    assert rows[""] == "what to do"
    assert "" not in dict(timing_rows(Timing(3, 0.001, 0.001), "as it stands", "what to do"))
