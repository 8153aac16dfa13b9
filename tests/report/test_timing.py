"""Latency and memory of both models as rows."""

from __future__ import annotations

import msgspec

from lowtide.comparison import Comparison, ProcessMemory
from lowtide.report.timing import pair_rows, timing_rows
from lowtide.run_reports import FreshPair, Timing

MIB = 2**20


def test_rows_say_before_and_after():
    """And nothing where nothing was timed; memory only where each had its process."""
    assert timing_rows(None, "x") == []
    [(name, text)] = timing_rows(Timing(3, 0.002, 0.001), "as it stands")
    assert (name, text) == ("latency", "2 -> 1 ms (-50.0 %), medians of 3 runs in turn; before: as it stands")
    rows = dict(timing_rows(Timing(3, 0.001, 0.002, 2000, 1000), "onnxruntime's defaults"))
    assert rows["process"].startswith("2,000 B (1.95 KiB) -> 1,000 B, -50.0 %")


def _timing(*pairs: tuple[float, float, float]) -> Timing:
    """Of pairs of MiB and slowdowns, above a base of 50 MiB."""
    made = tuple(FreshPair(int(a * MIB), int(b * MIB), 50 * MIB, slower) for a, b, slower in pairs)
    return Timing(15, 0.1, 0.1, 90 * MIB, 70 * MIB, made)


def test_pairs_of_processes_have_a_spread() -> None:
    """The median of each figure, and between which values it is; nothing where both models share a process."""
    assert pair_rows(None, None) == pair_rows(Timing(3, 0.1, 0.1), None) == []
    rows = dict(pair_rows(_timing((40, 20, 1.0), (41, 20, 0.9), (45, 20, 1.2)), None))
    today = "41.0 MiB (40.0 MiB to 45.0 MiB) above Python and onnxruntime, in 3 pairs of processes"
    assert rows["process memory, today"] == today
    assert rows["process memory, planned"] == "20.0 MiB, -51.2 %"
    assert rows["time of a run"] == "x 1.00 (x 0.90 to x 1.20) of today's"
    assert "the plan says" not in rows


def test_what_differs_from_the_plan_is_named() -> None:
    """By more than 5 % of the nearest measured figure; a larger empty process, and that much less above it, is none."""
    timing = _timing((40, 20, 1.0), (41, 20, 0.9), (45, 20, 1.2))
    said = Comparison(
        model="m", runtime="r", figure="process memory", today_bytes=47 * MIB, planned_bytes=19 * MIB + MIB // 10,
        slowdown=1.25,
    )  # fmt: skip
    assert dict(pair_rows(timing, said))["the plan says"] == "the same, within 5 % of the spread"
    changed = msgspec.structs.replace(said, planned_bytes=15 * MIB, slowdown=0.8)
    told = dict(pair_rows(timing, changed))["the plan says"]
    assert told == "process memory, planned 15.0 MiB, measured +33 %; time of a run x 0.80, measured +25 %"
    warmer = msgspec.structs.replace(said, today_bytes=36 * MIB, planned_bytes=15 * MIB, base_bytes=55 * MIB)
    assert dict(pair_rows(timing, warmer))["the plan says"] == "the same, within 5 % of the spread"
    assert "the plan says" not in dict(pair_rows(timing, msgspec.structs.replace(said, figure="arena")))
    parts = dict.fromkeys(ProcessMemory.__struct_fields__, 5 * MIB)
    predicted = msgspec.structs.replace(said, predicted=ProcessMemory(**parts))
    assert dict(pair_rows(timing, predicted))["the plan says"] == "process memory, predicted 35.0 MiB, measured -43 %"
