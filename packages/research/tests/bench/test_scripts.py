"""The scripts under bench/ find what they import: nothing else runs them here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SCRIPTS = sorted(BENCH.rglob("*.py"))
OF_JAX = ("xla_nets", "xla_programs")
"""Networks in JAX, which no extra of lowtide brings."""


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPTS, reason="needs bench/, which an installed package has not")
@pytest.mark.parametrize("needs", ["flatbuffers", "jax"])
def test_scripts_can_be_imported(needs: str):
    """Each beside its neighbours, as when it is run."""
    pytest.importorskip(needs, reason="pip install jax" if needs == "jax" else "pip install 'lowtide[tflite]'")
    modules = [(str(path.parent), path.stem) for path in SCRIPTS if (path.stem in OF_JAX) == (needs == "jax")]
    lines = ["import sys", *(f"sys.path.insert(0, {folder!r}); import {name}" for folder, name in modules)]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
