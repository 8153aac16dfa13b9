"""Two models run in turn, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.run.ort_session import AS_SHIPPED, PLANNED
from lowtide.run.timing import RUNS, time_onnx
from support.small_models import onnx_file

pytest.importorskip("onnxruntime", reason="pip install '.[run]'")


@pytest.mark.slow
def test_both_run_in_turn_and_say_what_their_process_had(tmp_path: Path) -> None:
    """Seconds above nothing; the memory is that of an interpreter with the runtime, not the caller's."""
    path = onnx_file(tmp_path)
    ballast = bytearray(2**29)
    timing = time_onnx((path, AS_SHIPPED), (path, PLANNED), 0, {})
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
    assert time_onnx((path, AS_SHIPPED), (bad, PLANNED), 0, {}) is None
    assert time_onnx((bad, AS_SHIPPED), (path, PLANNED), 0, {}) is None
