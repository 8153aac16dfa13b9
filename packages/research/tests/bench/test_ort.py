"""The onnxruntime suite: figures of the plan beside what is measured, and models without weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from lowtide.cli import main
from lowtide.run import random_weights
from lowtide.run.random_weights import missing_weights, with_random_weights
from lowtide_research import zoo
from lowtide_research.bench.ort import OnnxruntimeSuite, light_models
from lowtide_research.bench.suite import run
from support.bench import markdown

pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_a_zoo_network_takes_what_was_planned() -> None:
    """Every op's bytes, the mark with workspace and the arena are the plan's; less than by default."""
    results = run(OnnxruntimeSuite(["zoo:nasnet_a_cifar:n=2,filters=8"], time=20))
    (row,) = results.rows
    assert row.error == ""
    assert row.ops_equal == row.ops
    assert row.planned_peak_bytes == row.measured_peak_bytes < min(row.file_peak_bytes, row.default_peak_bytes)
    assert row.planned_mark_bytes == row.measured_mark_bytes
    assert row.planned_arena_bytes == row.measured_arena_bytes < row.default_held_bytes
    assert row.outputs == "equal"
    assert f"{row.measured_peak_bytes:,}" in markdown(results)


def test_a_light_model_takes_what_was_planned() -> None:
    """Its fillers become random weights."""
    (row,) = run(OnnxruntimeSuite([str(p) for p in light_models() if p.stem == "light_squeezenet"], time=10)).rows
    assert row.error == ""
    assert row.planned_peak_bytes == row.measured_peak_bytes
    assert row.planned_mark_bytes == row.measured_mark_bytes
    assert row.planned_arena_bytes == row.measured_arena_bytes
    assert row.outputs == "equal"


def test_what_cannot_be_measured_is_a_row_with_the_reason(tmp_path: Path) -> None:
    """A file that is no model ends no benchmark."""
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    (row,) = run(OnnxruntimeSuite([str(tmp_path / "bad.onnx")])).rows
    assert "not an ONNX model" in row.error


def test_a_file_that_is_not_there_ends_before_any_is_measured(tmp_path: Path) -> None:
    """A slip of the keyboard is no row of a table."""
    assert main(["research", "bench", "onnxruntime", "zoo:nasnet_a_cifar", str(tmp_path / "m.onnx")]) == 2


def test_the_command_writes_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and Markdown, and the table on stdout."""
    assert main(["research", "bench", "onnxruntime", "zoo:swiftnet_cell_a", "-o", str(tmp_path), "-q"]) == 0
    assert "swiftnet_cell_a" in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["onnxruntime.json", "onnxruntime.md"]


def test_missing_weights_are_drawn_and_others_kept(tmp_path: Path) -> None:
    """Only what is not there is random; the same seed gives the same file."""
    kept = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "kept")
    lost = numpy_helper.from_array(np.ones((3, 4), np.float32), "lost")
    nodes = [helper.make_node("MatMul", ["x", "kept"], ["a"]), helper.make_node("MatMul", ["a", "lost"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, 2])], [value("y", 1, [1, 4])], [kept, lost])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source = tmp_path / "m.onnx"
    onnx.save(model, str(source), save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    (tmp_path / "lost").unlink()
    assert missing_weights(source) == ["lost"]
    for out in ("a.onnx", "b.onnx"):
        with_random_weights(source, tmp_path / out)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    came = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(tmp_path / "a.onnx")).graph.initializer}
    assert np.array_equal(came["kept"], numpy_helper.to_array(kept))
    assert len(np.unique(came["lost"])) == 12
    assert missing_weights(tmp_path / "a.onnx") == []


def test_weights_that_one_file_cannot_hold_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the limit of a protobuf they are the same numbers, outside."""
    source = tmp_path / "m.onnx"
    onnx.save(
        zoo.build("swiftnet_cell_a").onnx(),
        str(source),
        save_as_external_data=True,
        location="gone.data",
        size_threshold=64,
    )
    (tmp_path / "gone.data").unlink()
    with_random_weights(source, tmp_path / "inside.onnx")
    monkeypatch.setattr(random_weights, "_MOST_BYTES", 1000)
    with_random_weights(source, tmp_path / "outside.onnx")
    assert (tmp_path / "outside.onnx.data").stat().st_size > 1000
    assert not missing_weights(tmp_path / "outside.onnx")
    inside, outside = (onnx.load(str(tmp_path / f"{name}.onnx")) for name in ("inside", "outside"))
    for a, b in zip(inside.graph.initializer, outside.graph.initializer, strict=True):
        assert np.array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b)), a.name


def test_a_missing_bias_of_a_convolution_is_a_vector(tmp_path: Path) -> None:
    """Torch exports some as matrices, which onnxruntime refuses; one that is there is left as it is."""
    arrays = {"w": (3, 2, 1, 1, 1), "b": (3, 2), "there": (3, 2)}
    tensors = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in arrays.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["y"], kernel_shape=[1, 1, 1]),
        helper.make_node("Relu", ["there"], ["z"]),
    ]
    value = helper.make_tensor_value_info
    outs = [value("y", 1, [1, 3, 2, 2, 2]), value("z", 1, [3, 2])]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, 2, 2, 2, 2])], outs, tensors)
    graph.value_info.append(value("b", 1, [3, 2]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(model, str(source), save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    for name in ("w", "b"):
        (tmp_path / name).unlink()
    with_random_weights(source, out)
    made = {t.name: list(t.dims) for t in onnx.load(str(out)).graph.initializer}
    assert made == {"w": [3, 2, 1, 1, 1], "b": [3], "there": [3, 2]}
    import onnxruntime

    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    (made_of_x, _) = session.run(None, {"x": np.ones((1, 2, 2, 2, 2), np.float32)})
    assert isinstance(made_of_x, np.ndarray)
    assert made_of_x.shape == (1, 3, 2, 2, 2)
