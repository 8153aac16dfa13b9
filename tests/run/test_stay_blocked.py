"""Elementwise ops that stay in the blocked layout: fewer copies from one layout to the other, never more."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path

import onnx
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime has the layout, and is not installed")
from lowtide.ops.onnx.blocked import DOMAIN
from lowtide.run import optimise
from lowtide.run.blocks import block_size
from lowtide.run.optimise import write_optimized
from lowtide.run.stay_blocked import stay_blocked
from support.blocked_nets import drawn_blocked_net
from support.onnx_builder import saved
from support.part_runs import difference, feeds

pytestmark = pytest.mark.skipif(block_size() == 0, reason="convolutions have no blocked layout on this processor")


def _copied(file: Path) -> int:
    """Elements that change their layout in a run."""
    graph = onnx.load(str(file)).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    sizes = {v.name: prod(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    ends = {"ReorderInput": lambda n: n.input[0], "ReorderOutput": lambda n: n.output[0]}
    return sum(sizes[ends[n.op_type](n)] for n in graph.node if n.domain == DOMAIN and n.op_type in ends)


@pytest.mark.slow
def test_fewer_elements_are_copied_and_no_bit_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the file as onnxruntime's optimiser left it, for drawn networks."""
    monkeypatch.setattr(optimise, "stay_blocked", lambda file, block: None)
    fewer: Counter[bool] = Counter()
    for seed in range(30):
        source, own, ours = saved(drawn_blocked_net(seed), tmp_path), tmp_path / "own.onnx", tmp_path / "ours.onnx"
        write_optimized(source, own, {}, "all")
        ours.write_bytes(own.read_bytes())
        stay_blocked(ours, block_size())
        assert _copied(ours) <= _copied(own)
        assert difference(own, ours, feeds(own, seed)) == 0
        fewer[_copied(ours) < _copied(own)] += 1
        changed = ours.read_bytes()
        stay_blocked(ours, block_size())
        assert ours.read_bytes() == changed
    assert fewer[True] >= 5, fewer
