"""One file for a range of sizes: right at each, and compared with today at both ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.cli import main
from support.small_models import onnx_file

EVERY_SIZE = """
import numpy as np, onnxruntime as ort
own = ort.InferenceSession("m.onnx")
for n in (4, 1, 3, 2):
    x = np.random.default_rng(n).random((n, 2**18), np.float32)
    print(np.array_equal(session.run(None, {"x": x})[0], own.run(None, {"x": x})[0]))
"""


@pytest.mark.slow
def test_one_file_is_right_for_a_range_of_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is planned for the largest size, and compared with today at the smallest, too."""
    pytest.importorskip("onnxruntime")
    source, out = onnx_file(tmp_path, batch="n", width=2**18), tmp_path / "small.onnx"
    words = ["plan", str(source), "--dim", "n=1..4", "--slower", "100000%", "-q"]
    assert main([*words, "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "x 4x" in shown
    assert "at n = 1: process memory" in shown
    assert "all sizes up to n = 4" in shown
    code = f"{shown.splitlines()[-1].removeprefix('next: ')}\n{EVERY_SIZE}"
    made = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["True"] * 4
    assert main(["verify", str(source), str(tmp_path / "small.plan.json"), "-q"]) == 0
    assert main([*words, "--only", "tile", "-o", str(out)]) == 2
    capsys.readouterr()
    assert main([*words, "--budget", "1MiB", "-o", str(out)]) == 3
    again = [line for line in capsys.readouterr().out.splitlines() if "lowtide plan" in line]
    assert all("--dim n=1..4" in line for line in again)
