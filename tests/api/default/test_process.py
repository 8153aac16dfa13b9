"""What a process takes, part by part, beside what is measured."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from lowtide.api.default import plan, process
from lowtide.comparison import Weights
from lowtide.run.timing import Setup, run_fresh
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
    assert parts.session_bytes > 2**20 > parts.weights_bytes
    assert parts.nodes_bytes >= parts.tensors_bytes // 32
    assert parts.total_bytes == pytest.approx(seen.planned_bytes, rel=0.1)


def _saved_gemm(folder: Path, *, mapped: bool) -> tuple[Path, int]:
    """A Gemm with a weight of 16 MiB, in the file or outside, and the bytes of the weight."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2048, 2048], bytes(2**24), raw=True)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2048]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    file = folder / "gemm.onnx"
    onnx.save(model, file, save_as_external_data=mapped, location="gemm.onnx.data")
    return file, 2**24


def test_a_copied_weight_is_there_twice_while_the_session_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process takes without onnxruntime at hand: a mapped weight once, or while it is copied twice."""
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    process.empty_session.cache_clear()
    file, size = _saved_gemm(tmp_path, mapped=True)
    kept = process.predicted_process(file, 2**16, Weights(mapped=True, prepacked=False), 8192)
    assert (kept.weights_bytes, kept.prepacked_bytes, kept.loading_bytes) == (size, 0, 0)
    copied = process.predicted_process(file, 2**16, Weights(mapped=True), 8192)
    assert (copied.weights_bytes, copied.prepacked_bytes) == (0, size)
    assert 0.9 * size < copied.loading_bytes < size
    process.empty_session.cache_clear()


def test_products_by_vectors_run_row_by_row(tmp_path: Path) -> None:
    """The heap has 88 bytes for each row, in both runs; measured where onnxruntime runs it."""
    vector = helper.make_tensor("v", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    nodes = [helper.make_node("MatMul", ["x", "v"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 256, 256, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256, 256])
    file = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [vector]), ir_version=9), file)
    heap = process.heap_bytes(file)
    assert heap == 88 * 256 * 256
    (run,) = run_fresh([Setup(file, tmp_path / "outputs.npz")], tmp_path / "feeds.npz", {}, runs=1)
    tensors = 4 * 256 * 256
    predicted = process.predicted_process(file, tensors, None, 4 * tensors, heap)
    assert predicted.total_bytes == pytest.approx(run.model_bytes, rel=0.1)
    assert predicted.total_bytes - heap < 0.9 * run.model_bytes
    assert process.heap_bytes(_saved_gemm(tmp_path, mapped=False)[0]) == 0
