"""Both files run under onnxruntime: equal outputs are seen as equal, and others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lowtide.certificates import NoCertificate
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, PlanOp, Seconds
from lowtide.run.onnx import run_onnx

pytest.importorskip("onnxruntime")

KIB = 1024
ORDER = [2, 4, 3, 5, 6]


def model(scale: float = 2.0, order: tuple[int, ...] = (), constant: bool = False) -> onnx.ModelProto:
    """x -> two branches of 256 KiB tensors, one of which shrinks at once; nodes 0 and 1 are folded."""
    first = "k" if constant else "x"
    nodes = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([scale]))),
        helper.make_node("Neg", ["k"], ["minus"]),
        helper.make_node("Exp", [first], ["a"], name="exp"),
        helper.make_node("Sin", [first], ["b"]),
        helper.make_node("ReduceSum", ["a"], ["c"], keepdims=1),
        helper.make_node("ReduceSum", ["b"], ["d"], keepdims=1, name="sum"),
        helper.make_node("Sum", ["c", "d", "minus"], ["y"]),
    ]
    if order:
        nodes[2:] = [nodes[i] for i in order]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 256])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def plan(order: list[int]) -> Plan:
    """As much of a plan as the run needs."""
    return Plan(
        version=1, lowtide="", graph="", model_sha256="", target="strict", method="", seed=0, status="ok",
        stopped="proof", ops=[PlanOp(id=i, name="", type="") for i in range(7)], folded=[0, 1], tensors=[],
        order=order, own_order_peak_bytes=0, peak_bytes=0, lower_bound_bytes=0, optimal=True,
        certificate=NoCertificate(), in_place=[], alignment=1, required_bytes=0, seconds=Seconds(),
    )  # fmt: skip


def saved(path: Path, content: onnx.ModelProto) -> Path:
    """Write a model, give its path back."""
    onnx.save(content, str(path))
    return path


def test_a_reordered_model_gives_equal_outputs_and_less_memory(tmp_path: Path) -> None:
    """The planned file runs in the plan's order, with the memory that the order promises."""
    original = saved(tmp_path / "m.onnx", model())
    planned = saved(tmp_path / "p.onnx", model(order=tuple(ORDER)))
    seen = run_onnx(original, planned, plan(ORDER), dims={"batch": 256}, footprint_bytes=[5, 6, 7, 8, 9])
    assert seen.equal
    assert seen.deterministic
    assert seen.order_kept
    assert not seen.vacuous
    assert seen.input_bytes == 256 * KIB
    assert [n.op for n in seen.planned.nodes] == ORDER
    assert [n.planned_bytes for n in seen.planned.nodes] == [5, 6, 7, 8, 9]
    assert [n.op for n in seen.original.nodes] == [2, 3, 4, 5, 6]
    assert 512 * KIB <= seen.original.peak_bytes < 576 * KIB
    assert 256 * KIB <= seen.planned.peak_bytes < 320 * KIB


def test_another_result_is_noticed(tmp_path: Path) -> None:
    """A file whose weights differ is not equal, and the report says by how much."""
    original, other = model(), model()
    for m, value in ((original, 0.0), (other, 0.5)):
        m.graph.node[-1].input.append("w")
        m.graph.initializer.append(numpy_helper.from_array(np.float32([value]), "w"))
    files = saved(tmp_path / "m.onnx", original), saved(tmp_path / "p.onnx", other)
    seen = run_onnx(*files, plan([2, 3, 4, 5, 6]), dims={"x:0": 4})
    assert not seen.equal
    assert seen.outputs[0].max_abs_difference == pytest.approx(0.5, abs=1e-3)


def test_a_file_that_is_not_the_plans_is_refused(tmp_path: Path) -> None:
    """The planned file's nodes must be the original's in the plan's order, each unchanged."""
    original = saved(tmp_path / "m.onnx", model())
    with pytest.raises(VerificationError, match="node 3 is not node 4"):
        run_onnx(original, original, plan(ORDER), dims={"batch": 2})
    changed = saved(tmp_path / "p.onnx", model(scale=3.0))
    with pytest.raises(VerificationError, match="node 0 is not node 0"):
        run_onnx(original, changed, plan([2, 3, 4, 5, 6]), dims={"batch": 2})


def test_outputs_that_do_not_depend_on_the_input_are_vacuous(tmp_path: Path) -> None:
    """Equal outputs show nothing where the input is not read."""
    original = saved(tmp_path / "m.onnx", model(constant=True))
    seen = run_onnx(original, original, plan([2, 3, 4, 5, 6]), dims={"batch": 2})
    assert seen.equal
    assert seen.vacuous


def test_free_dimensions_are_named(tmp_path: Path) -> None:
    """Without a size for it, a symbolic dimension is an error that names it."""
    original = saved(tmp_path / "m.onnx", model())
    with pytest.raises(InputError, match=r"batch.*--dim"):
        run_onnx(original, original, plan([2, 3, 4, 5, 6]))


def test_what_cannot_run_is_an_input_error_or_a_failed_plan(tmp_path: Path) -> None:
    """A broken original or missing external data is the user's mistake, a broken planned file ours."""
    good, bad = saved(tmp_path / "m.onnx", model()), tmp_path / "bad.onnx"
    bad.write_bytes(b"nothing")
    with pytest.raises(InputError, match="not an ONNX model"):
        run_onnx(bad, good, plan(ORDER), dims={"batch": 2})
    with pytest.raises(VerificationError, match="run"):
        run_onnx(good, bad, plan(ORDER), dims={"batch": 2})
    content = model()
    content.graph.node[-1].input.append("w")
    content.graph.initializer.append(numpy_helper.from_array(np.zeros((64, 64), np.float32), "w"))
    onnx.save(content, str(tmp_path / "e.onnx"), save_as_external_data=True, location="e.bin", size_threshold=0)
    (tmp_path / "e.bin").unlink()
    with pytest.raises(InputError, match=r"e\.onnx: its weights are in 'e\.bin'.*--random-weights"):
        run_onnx(tmp_path / "e.onnx", good, plan(ORDER), dims={"batch": 2})


def test_nothing_is_left_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles go to a temporary folder."""
    original = saved(tmp_path / "m.onnx", model())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run_onnx(original, original, plan([2, 3, 4, 5, 6]), dims={"batch": 2})
    assert list((tmp_path / "here").iterdir()) == []
