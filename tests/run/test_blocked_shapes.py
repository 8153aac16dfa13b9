"""Shapes of the blocked layout that follow from the nodes, beside those of a run."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from lowtide.run import blocks
from lowtide.run.blocked_shapes import declare_blocked
from lowtide.run.optimise import write_optimized
from lowtide.run.optimise_process import declare_shapes
from support.onnx_builder import constant, model, node, saved, value

pytest.importorskip("onnxruntime", reason="pip install '.[run]'")


def declared(file: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by name."""
    found = onnx.load(str(file)).graph.value_info
    return {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in found}


def test_they_are_those_of_a_run(tmp_path: Path) -> None:
    """Of convolutions with strides, pads and dilations, of pools, and where channels are no multiple of a block."""
    if not blocks.block_size():
        pytest.skip("this processor has no blocked layout")
    weights = [
        constant(name, [0.1] * (a * b * k * k), [b, a, k, k])
        for name, a, b, k in (("w0", 3, 16, 3), ("w1", 16, 20, 3), ("w2", 20, 32, 1))
    ]
    nodes = [
        node("Conv", "x w0", "a", pads=[1, 0, 2, 1], strides=[2, 1], kernel_shape=[3, 3]),
        node("MaxPool", "a", "p", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "p w1", "b", dilations=[2, 2], kernel_shape=[3, 3]),
        node("Conv", "b w2", "c", kernel_shape=[1, 1]),
        node("GlobalAveragePool", "c", "y"),
    ]
    made = model(nodes, [value("x", (1, 3, 33, 40))], [value("y", (1, 32, 1, 1))], weights)
    source, derived, ran = saved(made, tmp_path), tmp_path / "derived.onnx", tmp_path / "ran.onnx"
    write_optimized(source, derived, {}, "all")
    ran.write_bytes(derived.read_bytes())
    declare_blocked(derived, blocks.block_size())
    declare_shapes(ran, {})
    new = {name: shape for name, shape in declared(derived).items() if name in declared(ran)}
    assert len(new) >= 4
    assert new == {name: declared(ran)[name] for name in new}
