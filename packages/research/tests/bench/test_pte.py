"""`lowtide bench executorch`: what is said without ExecuTorch, and its tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lowtide.cli import main
from lowtide_research.bench.machine import machine
from lowtide_research.bench.output import write
from lowtide_research.bench.pte import ExecutorchSuite, Row
from lowtide_research.bench.suite import Results, run
from support.bench import csv_of, markdown, text

THERE = importlib.util.find_spec("executorch") is not None


def results(*rows: Row) -> Results[Row]:
    """Rows as if measured."""
    return Results(ExecutorchSuite(), rows, machine())


@pytest.mark.skipif(THERE, reason="ExecuTorch is installed")
def test_without_executorch_the_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """One line and status 2."""
    assert main(["bench", "executorch"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "pip install '.[torch,executorch]'" in said


def test_the_tables_have_every_figure(tmp_path: Path) -> None:
    """Text, Markdown, CSV, JSON; a program that cannot be measured is a row with the reason."""
    found = results(Row("a", 9, 7000, 5000, 8000, 6000, 7500, 5500, "equal"), Row("b", error="no graph"))
    for table in (text(found), markdown(found)):
        assert all(f"{n:,}" in table for n in (7000, 5000, 8000, 6000, 7500, 5500))
        assert "no graph" in table
    assert csv_of(found).splitlines()[1] == "a,9,7000,5000,8000,6000,7500,5500,equal,"
    assert sorted(p.name for p in write(found, tmp_path, "x")) == [
        "executorch-x.csv", "executorch-x.json", "executorch-x.md"
    ]  # fmt: skip


@pytest.mark.skipif(not THERE, reason="pip install '.[torch,executorch]'")
def test_the_planned_order_takes_less() -> None:
    """Breadth-first branches: what ExecuTorch plans for them, and their outputs."""
    rows = {row.model: row for row in run(ExecutorchSuite(time=5)).rows}
    assert rows["branches"].after_bytes < rows["branches"].before_bytes
    assert all(row.outputs == "equal" and row.after_bytes <= row.before_bytes for row in rows.values())
    assert all(row.after_placed_bytes <= row.after_bytes for row in rows.values())
