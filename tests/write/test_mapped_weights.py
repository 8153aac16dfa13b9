"""Weights in a file of their own: the same model, and onnxruntime opens it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import lowtide
from lowtide.run import optimise
from lowtide.write.lean import LEAST_BYTES, make_lean, move_weights
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


def test_weights_of_bodies_become_weights_of_the_graph(tmp_path: Path) -> None:
    """Both branches have a weight of one name: each keeps its values, one that is a result stays, and outputs agree."""
    ort = pytest.importorskip("onnxruntime")

    def branch(sign: float, name: str) -> onnx.GraphProto:
        weight = constant("w", [sign * k for k in range(1024)], [32, 32])
        nodes = [node("MatMul", "x w", f"h_{name}")]
        results = [value(f"h_{name}", (2, 32)), value(f"r_{name}", (400,))]
        return onnx.helper.make_graph(nodes, name, [], results, [weight, constant(f"r_{name}", [sign] * 400, [400])])

    choice = onnx.helper.make_node("If", ["c"], ["y", "r"], then_branch=branch(1, "a"), else_branch=branch(-1, "b"))
    inputs = [onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []), value("x", (2, 32))]
    path = saved(model([choice], inputs, [value("y", (2, 32)), value("r", (400,))], []), tmp_path)
    feeds = [{"c": np.array(c), "x": np.arange(64, dtype=np.float32).reshape(2, 32)} for c in (True, False)]

    def results() -> list[bytes]:
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return [array.tobytes() for feed in feeds for array in session.run(None, feed)]

    before = results()
    make_lean(path)
    graph = onnx.load(path).graph
    assert [tuple(t.dims) for t in graph.initializer] == [(32, 32)] * 2
    for attribute in graph.node[0].attribute:
        assert [tuple(t.dims) for t in attribute.g.initializer] == [(400,)]
    assert results() == before
    assert before[0] != before[2]


def test_a_model_whose_weights_are_too_large_for_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written stands alone: OUT and its data, in another folder than the model, with equal outputs."""
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), name) for name in "ab"]
    nodes = [node("MatMul", "x a", "h"), node("Relu", "h", "k"), node("MatMul", "k b", "y")]
    made = model(nodes, [value("x", (2, 64))], [value("y", (2, 64))], weights)
    content, source, out = made.SerializeToString(), tmp_path / "m.onnx", tmp_path / "out" / "p.onnx"
    out.parent.mkdir()
    onnx.save_model(made, source, save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.setattr(optimise, "INLINE_BYTES", 1000)
    planned = lowtide.plan(source, slower=1000)
    assert planned.optimized_from is not None
    assert planned.weights is not None
    assert planned.weights.mapped
    planned.apply(source, out)
    source.unlink()
    (tmp_path / "w.bin").unlink()
    assert sorted(path.name for path in out.parent.iterdir()) == ["p.onnx", "p.onnx.data"]
    feed = {"x": rng.standard_normal((2, 64)).astype(np.float32)}
    came = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"]).run(None, feed)
    was = ort.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feed)
    assert came[0].tobytes() == was[0].tobytes()
