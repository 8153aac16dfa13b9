"""Weights in a file of their own: the same model, and onnxruntime opens it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from lowtide.write.lean import LEAST_BYTES, move_weights
from support.onnx_builder import constant, model, node, saved, value


def test_the_same_weights_are_read_from_the_file(tmp_path: Path) -> None:
    """Large ones are outside, small ones stay; every byte is as it was."""
    rng = np.random.default_rng(0)
    weights = [
        constant("w", rng.standard_normal(4096).tolist(), [64, 64]),
        constant("b", rng.standard_normal(64).tolist(), [64]),
        constant("v", rng.standard_normal(64 * 9).tolist(), [64, 9]),
    ]
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "k"), node("MatMul", "k v", "y")]
    before = model(nodes, [value("x", (2, 64))], [value("y", (2, 9))], weights)
    path = saved(before, tmp_path)
    with (tmp_path / "m.onnx.data").open("wb") as data:
        move_weights(path, data, "m.onnx.data")
    outside = {t.name for t in onnx.load(path, load_external_data=False).graph.initializer if t.external_data}
    assert outside == {"w", "v"}
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 73 * 4 > LEAST_BYTES
    after = onnx.load(path)
    for a, b in zip(before.graph.initializer, after.graph.initializer, strict=True):
        assert np.array_equal(onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b))
    ort = pytest.importorskip("onnxruntime")
    assert ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()[0].name == "x"
