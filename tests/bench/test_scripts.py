"""The scripts under bench/ find what they import: nothing else runs them here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SCRIPTS = sorted(BENCH.rglob("*.py"))


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPTS, reason="needs bench/, which an installed package has not")
def test_scripts_can_be_imported():
    """Each beside its neighbours, as when it is run."""
    pytest.importorskip("flatbuffers", reason="pip install 'lowtide[tflite]'")
    modules = [(str(path.parent), path.stem) for path in SCRIPTS]
    lines = ["import sys", *(f"sys.path.insert(0, {folder!r}); import {name}" for folder, name in modules)]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
