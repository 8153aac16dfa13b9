"""What a kernel takes is as planned for each that is called known, and is not called so where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.ops.kinds import TABLE
from lowtide.rules.onnxruntime.known import MEASURED, unknown_kernels
from lowtide.run.onnx import run_onnx
from support.onnx_rows import INSTANCES, Instance

pytest.importorskip("onnxruntime")

DRAWN = {"Range", "ConstantOfShape"}
"""Random inputs are no sizes: measured with real ones below."""
QUANTISED = [np.array(0.05, np.float32), np.array(9, np.uint8)]


def _measured(path: Path) -> tuple[lowtide.Plan, int, int]:
    """A plan, and what onnxruntime takes from the system and hands out in the block that it gives."""
    plan = lowtide.research.plan(path, target="onnxruntime", time=5)
    run = run_onnx(path, path, plan)
    assert run.exact is not None
    return plan, run.exact.held_bytes, run.exact.mark_bytes


def _saved(graph: onnx.GraphProto, folder: Path) -> Path:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
    return path


def _alone(instance: Instance, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(instance.model(9).SerializeToString())
    return path


@pytest.mark.slow
@pytest.mark.parametrize("instance", [i for i in INSTANCES if i.kind not in DRAWN], ids=lambda i: i.label)
def test_a_known_kernel_takes_what_is_planned(instance: Instance, tmp_path: Path) -> None:
    """Each row of the ONNX operator table by itself, in a block of the planned size: nothing more is taken."""
    path = _alone(instance, tmp_path)
    try:
        plan, held, mark = _measured(path)
    except (InputError, VerificationError) as error:
        pytest.skip(f"onnxruntime does not run it: {str(error)[-60:]}")
    if plan.runtime_unknown is None:
        assert (held, mark) == (plan.runtime_arena_bytes, plan.runtime_arena_bytes)
    else:
        assert plan.runtime_unknown == [instance.type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    sorted(
        k
        for k in MEASURED & {name for row in TABLE for name in row.types}
        if k not in {i.kind for i in INSTANCES} and "::" not in k
    ),
)
def test_a_known_elementwise_kernel_takes_what_is_planned(kind: str, tmp_path: Path) -> None:
    """With one or two operands of the first type that it takes."""
    floats, truths = (3, 4), ("bool", (3, 4))
    for operands in ((floats,), (floats, floats), (truths,), (truths, truths), (("int64", (3, 4)),) * 2):
        try:
            plan, held, mark = _measured(_alone(Instance(kind, operands), tmp_path))
        except (InputError, VerificationError):
            continue
        assert plan.runtime_unknown is None
        assert (held, mark) == (plan.runtime_arena_bytes, plan.runtime_arena_bytes)
        return
    pytest.skip("it takes other operands")


def _tensors(**shapes: Any) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in shapes.items()]


def _constant(name: str, array: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def _quantised_convolution(channels: int, filters: int) -> onnx.GraphProto:
    weights = np.ones((filters, channels, 3, 3), np.int8)
    operands = ["x", "s", "z", "w", "s", "zw", "s", "z"]
    made = helper.make_node("QLinearConv", operands, ["y"], pads=[1] * 4)
    byte = TensorProto.UINT8
    constants = [_constant("s", QUANTISED[0]), _constant("z", QUANTISED[1]), _constant("w", weights),
                 _constant("zw", np.array(0, np.int8))]  # fmt: skip
    shapes = {"x": (byte, (1, channels, 8, 8))}, {"y": (byte, (1, filters, 8, 8))}
    return helper.make_graph([made], "g", _tensors(**shapes[0]), _tensors(**shapes[1]), constants)


def test_a_quantised_convolution_that_unfolds_is_known_and_one_by_pointers_is_not(tmp_path: Path) -> None:
    """The latter takes what the CPU at hand has a kernel for."""
    plan, held, mark = _measured(_saved(_quantised_convolution(3, 32), tmp_path))
    assert plan.runtime_unknown is None
    assert held == plan.runtime_arena_bytes >= mark
    by_pointers = lowtide.load(_saved(_quantised_convolution(32, 32), tmp_path))
    assert unknown_kernels(by_pointers) == ["QLinearConv"]


def test_dynamic_quantisation_is_planned_to_the_byte(tmp_path: Path) -> None:
    """Between other ops, where it matters when the 8-bit operand is taken."""
    rng = np.random.default_rng(0)
    constants = [_constant("w", rng.integers(0, 255, (64, 64)).astype(np.uint8)), _constant("s", QUANTISED[0])]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("DynamicQuantizeMatMul", ["a", "w", "s"], ["b"], domain="com.microsoft"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("DynamicQuantizeMatMul", ["c", "w", "s"], ["d"], domain="com.microsoft"),
        helper.make_node("Add", ["d", "a"], ["y"]),
    ]
    ends = {"x": (1, (100, 64))}, {"y": (1, (100, 64))}
    plan, held, mark = _measured(
        _saved(helper.make_graph(nodes, "g", _tensors(**ends[0]), _tensors(**ends[1]), constants), tmp_path)
    )
    assert plan.runtime_unknown is None
    assert held == plan.runtime_arena_bytes >= mark


def test_what_the_runtime_converts_or_doubles_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16-bit floats, and a DequantizeLinear that two ops read; what only hands on is. `check` says at least."""
    from lowtide.cli import main

    half = TensorProto.FLOAT16
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Flatten", ["a"], ["y"])]
    halves = helper.make_graph(nodes, "g", _tensors(x=(half, (4, 4))), _tensors(y=(half, (4, 4))))
    path = _saved(halves, tmp_path)
    plan = lowtide.research.plan(path, target="onnxruntime")
    assert plan.runtime_unknown == ["Relu"]
    assert main(["check", str(path), "--target", "onnxruntime", "--budget", "1MiB"]) == 0
    assert "required at least 512 B" in capsys.readouterr().out
    assert main(["research", "plan", str(path), "--target", "onnxruntime"]) == 0
    assert "a minimum: what the kernels of Relu need is not known" in capsys.readouterr().out
    constants = [_constant("s", QUANTISED[0]), _constant("z", QUANTISED[1])]
    nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), helper.make_node("Relu", ["d"], ["a"]),
             helper.make_node("Neg", ["d"], ["b"]), helper.make_node("Add", ["a", "b"], ["y"])]  # fmt: skip
    twice = helper.make_graph(nodes, "g", _tensors(x=(2, (4, 4))), _tensors(y=(1, (4, 4))), constants)
    assert unknown_kernels(lowtide.load(_saved(twice, tmp_path))) == ["DequantizeLinear"]


def test_ops_without_a_type_are_named_as_such(tmp_path: Path) -> None:
    """Graph JSON need not say any."""
    from lowtide.graph import Graph, Kind, Op, Tensor

    graph = Graph("g", (Tensor(0, 8, Kind.INPUT), Tensor(1, 8, Kind.OUTPUT)), (Op(0, (0,), (1,)),))
    assert lowtide.research.plan(graph, target="onnxruntime").runtime_unknown == ["ops without a type"]


def test_a_plan_cannot_claim_to_know(tmp_path: Path) -> None:
    """What is not known follows from the graph, in the checker too."""
    import msgspec

    half = TensorProto.FLOAT16
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", _tensors(x=(half, (4, 4))), _tensors(y=(half, (4, 4)))
    )
    path = _saved(graph, tmp_path)
    plan = lowtide.research.plan(path, target="onnxruntime")
    for claim in (None, ["Neg"]):
        with pytest.raises(VerificationError, match="runtime_arena: not known are the kernels of Relu, not"):
            lowtide.verify(path, msgspec.structs.replace(plan, runtime_unknown=claim))
