"""`lowtide research bench tflite`: the table of operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.cli import main

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")


def test_the_command_says_what_it_lacks(capsys: pytest.CaptureFixture[str]):
    """Nothing to measure."""
    assert main(["research", "bench", "tflite"]) == 2
    assert "--overlap N" in capsys.readouterr().err


@pytest.mark.slow
def test_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A Markdown table, on the screen and as a page."""
    assert main(["research", "bench", "tflite", "--overlap", "1", "-o", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert "| CONV_2D | int8 |" in table
    assert (tmp_path / "tflite-overlap.md").read_text().strip() == table.strip()
