"""The script for a GPU, with the CPU's meters on small networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "bench/gpu.py"
torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = [
    pytest.mark.skipif(torch is None, reason="needs the extra torch"),
    pytest.mark.skipif(not SCRIPT.exists(), reason="needs bench/, which an installed package has not"),
]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The script, on one thread."""
    command = [sys.executable, str(SCRIPT), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_every_way_is_run_and_is_eagers(tmp_path: Path) -> None:
    """Gradients of plans, with tied weights and dropout; plans take what they predict. The knob's halves are eager's
    where they make no dropout again."""
    done = run("--device", "cpu", "--small", "--only", "bert", "--ways", "knob", "plan", "-o", str(tmp_path / "gpu"))
    assert done.returncode == 0, done.stderr[-2000:]
    (net,) = json.loads((tmp_path / "gpu.json").read_text())["nets"]
    rows = {row["way"]: row for row in net["rows"]}
    assert len(rows) == 10
    for way, row in rows.items():
        assert "failed" not in row, row
        assert row["furthest"] <= 1e-5 or way.startswith("knob 0"), way
        assert row["seconds"] > 0
        if way.startswith("plan"):
            assert abs(row["bytes"] / row["predicted_bytes"] - 1) <= 1e-3
            assert row["bytes"] <= float(way.split()[1].strip(",")) * rows["eager"]["bytes"]
    assert len((tmp_path / "gpu").with_suffix(".md").read_text().splitlines()) > 14


def test_without_a_device_it_says_so(tmp_path: Path) -> None:
    """In one line."""
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    done = run("-o", str(tmp_path / "gpu"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("the step is on cuda, and torch finds no such device here")
