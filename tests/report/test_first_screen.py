"""The first screen of a plan."""

from __future__ import annotations

import re

import msgspec
import pytest

import lowtide
from lowtide.comparison import Comparison, OptimizedFrom, ProcessMemory, SmallestSizes
from lowtide.plan import Plan, RuntimeFigure
from lowtide.report.first_screen import first_screen, process_table

MIB = 2**20


@pytest.fixture(scope="module")
def planned() -> Plan:
    """A plan, whatever it is of."""
    return lowtide.plan("zoo:swiftnet_cell_a", without=["recompute"])


@pytest.mark.parametrize("today", [3 * MIB, 4 * MIB + 1, 50 * MIB])
def test_a_row_has_one_unit(planned: Plan, today: int) -> None:
    """That of its largest figure, the time's row too."""
    seen = Comparison(
        model="m.onnx", runtime="onnxruntime", figure="process memory", today_bytes=today, planned_bytes=2 * MIB,
        measured=True, base_bytes=3 * MIB, tensors_bytes=MIB, today_seconds=0.99, planned_seconds=1.02, slowdown=1.03,
    )  # fmt: skip
    arena = RuntimeFigure(runtime="onnxruntime", what="arena", default_bytes=5 * MIB, planned_bytes=MIB)
    made = msgspec.structs.replace(planned, comparison=seen, runtime_figures=[arena], budget_bytes=today)
    lines = first_screen(made).splitlines()
    for line in lines:
        units = {unit for _, unit in re.findall(r"([\d,.]+) (MiB|B|ms|s)\b", line)}
        assert len(units) <= 1, line
    tensors = next(line for line in lines if line.startswith("  arena"))
    assert tensors.split()[1:5] == ["5.0", "MiB", "1.0", "MiB"]


def test_what_else_would_do_is_at_most_the_eighth_line(planned: Plan) -> None:
    """Over a budget the outputs of a plan that is not written are left out."""
    assert planned.comparison is not None
    seen = msgspec.structs.replace(planned.comparison, tensors_bytes=9)
    made = msgspec.structs.replace(planned, comparison=seen, budget_bytes=9, status="over_budget")
    lines = first_screen(made, next_commands=["lowtide inspect m", "lowtide fit m"]).splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["next:", "or:"]
    assert len(lines) == 8


def test_a_file_for_this_processor_is_opened_through_its_session(planned: Plan) -> None:
    """On another one it computes wrong numbers, which only the session sees; a file for any processor has no note."""
    for block, note in ((8, ": for this CPU's SIMD width; open it through small_session.py"), (0, "")):
        origin = OptimizedFrom(sha256="0" * 64, runtime="onnxruntime 1.32.0", level="all", block=block)
        made = msgspec.structs.replace(planned, optimized_from=origin)
        last = first_screen(made, ["demo/small.onnx", "demo/small.plan.json", "demo/small_session.py"]).splitlines()[-1]
        assert last == f"wrote demo/small.onnx, demo/small.plan.json, demo/small_session.py{note}"


def test_the_process_is_a_table_in_one_unit() -> None:
    """Its parts add up to what is predicted, and what was measured is the last row."""
    parts = ProcessMemory(
        session_bytes=10 * MIB, nodes_bytes=MIB, weights_bytes=4 * MIB, prepacked_bytes=0, tensors_bytes=3 * MIB,
        values_bytes=MIB, loading_bytes=2 * MIB,
    )  # fmt: skip
    seen = Comparison(
        model="m.onnx",
        runtime="onnxruntime",
        figure="process memory",
        today_bytes=50 * MIB,
        planned_bytes=20 * MIB,
        measured=True,
    )
    assert process_table(seen) == ""
    rows = process_table(msgspec.structs.replace(seen, predicted=parts)).splitlines()
    assert [row.split()[-2:] for row in rows[-2:]] == [["21.0", "MiB"], ["20.0", "MiB"]]
    assert sum(float(row.split()[-2]) for row in rows[1:-2]) == 21.0


@pytest.mark.parametrize(
    ("slowdown", "small_bytes", "says"), [(1.2, MIB, "slower than allowed"), (1, 9 * MIB, "no better")]
)
def test_why_a_file_for_several_sizes_is_not_written(
    planned: Plan, slowdown: float, small_bytes: int, says: str
) -> None:
    """What is wrong at the smallest size, next to what it takes there."""
    small = SmallestSizes(
        sizes={"n": 1}, largest={"n": 8}, today_bytes=6 * MIB, planned_bytes=small_bytes, slowdown=slowdown,
        outputs="equal", good=False,
    )  # fmt: skip
    seen = Comparison(
        model="m.onnx", runtime="onnxruntime", figure="process memory", today_bytes=9 * MIB, planned_bytes=2 * MIB,
        smallest=small, better=False,
    )  # fmt: skip
    lines = first_screen(msgspec.structs.replace(planned, comparison=seen)).splitlines()
    assert f"at n = 1: process memory 6.0 MiB -> {small_bytes / MIB:.1f} MiB" in "\n".join(lines)
    assert f"at the smallest size this is {says}" in lines[-1]
