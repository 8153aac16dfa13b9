"""What a process takes, part by part, beside what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.api.default import plan
from support.blocked_nets import drawn_blocked_net
from support.onnx_builder import saved

pytest.importorskip("onnxruntime", reason="onnxruntime runs the model, and is not installed")


@pytest.mark.slow
def test_the_parts_add_up_to_about_what_is_measured(tmp_path: Path) -> None:
    """A small network: nearly all of it is the session itself, which is measured; nothing is left out."""
    made = plan(saved(drawn_blocked_net(1), tmp_path), slower=1000)
    seen = made.comparison
    assert seen is not None
    assert seen.predicted is not None
    parts = seen.predicted
    assert parts.tensors_bytes == made.runtime_arena_bytes
    assert parts.session_bytes > 2**20 > parts.weights_bytes > 0
    assert parts.nodes_bytes > len(made.order)
    assert parts.total_bytes == pytest.approx(seen.planned_bytes, rel=0.3)
