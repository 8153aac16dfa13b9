"""`lowtide bench tflite`: a table of models, and one of operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.cli import main
from lowtide_research.bench.output import write
from lowtide_research.bench.suite import run
from lowtide_research.bench.tflm import Row, TfliteSuite
from support.bench import markdown, text
from support.tflite_builder import branches, residual

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")


@pytest.mark.slow
def test_models_are_planned_run_and_reported(tmp_path: Path):
    """Predicted and measured figures are equal, outputs too; a file that is no model is one line."""
    (tmp_path / "residual.tflite").write_bytes(residual().bytes())
    (tmp_path / "branches.tflite").write_bytes(branches().bytes())
    (tmp_path / "broken.tflite").write_bytes(b"no model")
    found = run(TfliteSuite(tmp_path, time=5))
    rows = {row.model: row for row in found.rows if isinstance(row, Row)}
    assert "TFL3" in rows["broken"].error
    for name in ("residual", "branches"):
        row = rows[name]
        assert (row.planned_head_bytes, row.planned_arena_bytes) == (row.head_bytes, row.arena_bytes)
        assert row.head_bytes < row.own_head_bytes
        assert row.lower_bound_bytes <= row.head_bytes <= min(row.in_place_head_bytes, row.pinned_head_bytes)
        assert row.outputs == "tflm equal, litert equal, litert-xnnpack equal"
    assert "residual" in text(found)
    assert "TinyTS" in markdown(found)
    assert {p.suffix for p in write(found, tmp_path / "out")} == {".json", ".csv", ".md"}


def test_the_command_says_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Nothing to measure, and a directory without models."""
    assert main(["bench", "tflite"]) == 2
    assert "--models DIR" in capsys.readouterr().err
    assert main(["bench", "tflite", "--models", str(tmp_path)]) == 2
    assert "no .tflite file" in capsys.readouterr().err


@pytest.mark.slow
def test_operators(capsys: pytest.CaptureFixture[str]):
    """A Markdown table."""
    assert main(["bench", "tflite", "--overlap", "1", "-q"]) == 0
    assert "| CONV_2D | int8 |" in capsys.readouterr().out
