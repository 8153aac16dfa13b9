"""Two models run in turn, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.run.timing import RUNS, Setup, time_onnx
from support.small_models import onnx_file

pytest.importorskip("onnxruntime", reason="pip install '.[run]'")


@pytest.mark.slow
def test_both_run_in_turn_and_say_what_their_process_had(tmp_path: Path) -> None:
    """Seconds above nothing; the memory is that of an interpreter with the runtime, not the caller's."""
    path = onnx_file(tmp_path)
    ballast = bytearray(2**29)
    setups = Setup(path, tmp_path / "a.npz"), Setup(path, tmp_path / "b.npz")
    timing = time_onnx(*setups, tmp_path / "feeds.npz", {}, 0)
    del ballast
    assert timing is not None
    assert timing.runs == RUNS
    assert timing.original_seconds > 0
    assert timing.planned_seconds > 0
    for peak in (timing.original_peak_bytes, timing.planned_peak_bytes):
        assert peak is not None
        assert 2**24 < peak < 2**29


@pytest.mark.slow
def test_a_model_that_does_not_run_is_not_timed(tmp_path: Path) -> None:
    """Whichever of the two it is."""
    path, bad = onnx_file(tmp_path), tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    good, broken, feeds = Setup(path, tmp_path / "a.npz"), Setup(bad, tmp_path / "b.npz"), tmp_path / "feeds.npz"
    assert time_onnx(good, broken, feeds, {}, 0) is None
    assert time_onnx(broken, good, feeds, {}, 0) is None
