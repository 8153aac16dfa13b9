"""Models that run in turn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="models are timed in onnxruntime, which is not installed")
from lowtide.run.ort_session import PLANNED
from lowtide_research.bench.in_turn import milliseconds_in_turn
from support.onnx_builder import saved
from support.small_nets import random_net


def test_each_round_has_a_median_of_each_file(tmp_path: Path) -> None:
    """In the order of the files, above nothing."""
    path = saved(random_net(random.Random(1).choice, 6), tmp_path)
    rounds = milliseconds_in_turn([(path, PLANNED)] * 3, rounds=2)
    assert [len(medians) for medians in rounds] == [3, 3]
    assert all(ms > 0 for medians in rounds for ms in medians)
