"""Two models run in turn, each in a process of its own."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lowtide.run import timing
from lowtide.run.fresh_process import rest
from lowtide.run.timing import Setup, run_fresh, time_onnx
from support.settings import TIMED_PAIRS
from support.small_models import onnx_file

pytest.importorskip("onnxruntime", reason="pip install '.[run]'")


@pytest.mark.slow
def test_both_run_in_turn_and_say_what_their_process_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds above nothing; the memory is that of an interpreter with the runtime, not the caller's."""
    monkeypatch.setattr(timing, "PAIRS", TIMED_PAIRS)
    monkeypatch.setattr(timing, "RUNS", 3 * TIMED_PAIRS)
    monkeypatch.setattr(timing, "PAIRS_SECONDS", 3600.0)  # on a busy machine too
    path = onnx_file(tmp_path)
    ballast = bytearray(2**29)
    setups = Setup(path, tmp_path / "a.npz"), Setup(path, tmp_path / "b.npz")
    seen = time_onnx(*setups, tmp_path / "feeds.npz", {}, 0)
    del ballast
    assert seen is not None
    assert seen.runs == timing.RUNS
    assert len(seen.pairs) == TIMED_PAIRS == 5
    for pair in seen.pairs:
        assert min(pair.original_bytes, pair.planned_bytes, pair.base_bytes) > 0
        assert pair.slowdown > 0
    assert seen.original_seconds > 0
    assert seen.planned_seconds > 0
    for peak in (seen.original_peak_bytes, seen.planned_peak_bytes):
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


@pytest.mark.slow
def test_inputs_are_drawn_in_a_process_that_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes memory, which would count for the first of two equal models alone."""
    path, feeds, there = onnx_file(tmp_path), tmp_path / "feeds.npz", list[bool]()

    class Watched(timing._Worker):
        def __init__(self, *arguments: Any) -> None:
            there.append(feeds.exists())
            super().__init__(*arguments)

    monkeypatch.setattr(timing, "_Worker", Watched)
    measured = run_fresh([Setup(path, tmp_path / "a.npz"), Setup(path, tmp_path / "b.npz")], feeds, {}, runs=1)
    assert there == [False, True, True]
    assert len(measured) == 2


def test_a_process_rests_until_its_threads_wait() -> None:
    """A thread that uses the processor for a while after a run is waited for."""
    until = time.perf_counter() + 0.2

    def spin() -> None:
        while time.perf_counter() < until:
            pass

    spinning = threading.Thread(target=spin)
    spinning.start()
    rest()
    assert time.perf_counter() >= until
    spinning.join()
