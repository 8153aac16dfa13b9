"""If in onnxruntime: the block holds whichever branch is taken, and both are measured."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest
from onnx import TensorProto, helper

import lowtide
from lowtide.errors import VerificationError
from lowtide.rules.onnxruntime.known import MOST_CONDITIONAL, branch_choices
from lowtide.run.onnx import RunReport

N = 1024


def _floats(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _branch(name: str, width: int, inner: onnx.GraphProto | None = None) -> onnx.GraphProto:
    """Swells a captured tensor to `width` of it, and makes one of it; `inner`: an If in it, by the same condition."""
    nodes = [
        helper.make_node("Concat", ["a"] * width, [f"{name}c"], axis=0),
        helper.make_node("Neg", [f"{name}c"], [f"{name}n"]),
        helper.make_node("Slice", [f"{name}n", "begin", "end", "axis"], [f"{name}s"]),
    ]
    if inner is not None:
        nodes.append(helper.make_node("If", ["c1"], [f"{name}i"], then_branch=inner, else_branch=_leaf(f"{name}l")))
        nodes.append(helper.make_node("Add", [f"{name}s", f"{name}i"], [f"{name}a"]))
    last = f"{name}s" if inner is None else f"{name}a"
    nodes.append(helper.make_node("Sqrt", [last], [f"{name}o"]))
    return helper.make_graph(nodes, name, [], [_floats(f"{name}o", N)])


def _leaf(name: str) -> onnx.GraphProto:
    return helper.make_graph([helper.make_node("Exp", ["a"], [f"{name}o"])], name, [], [_floats(f"{name}o", N)])


def _model(widths: list[tuple[int, int]], folder: Path, nested: bool = False) -> Path:
    """Conditional ops in a row, each of two branches of these widths, each by a condition of its own."""
    numbers = {"begin": 0, "end": N, "axis": 0}
    constants = [helper.make_tensor(name, TensorProto.INT64, [1], [value]) for name, value in numbers.items()]
    nodes, read = [helper.make_node("Exp", ["x"], ["a"])], "a"
    for k, (first, second) in enumerate(widths):
        inner = _branch(f"n{k}", 7) if nested else None
        branches: dict[str, Any] = {
            "then_branch": _branch(f"t{k}", first, inner),
            "else_branch": _branch(f"e{k}", second),
        }
        nodes += [helper.make_node("If", [f"c{k % 2}"], [f"i{k}"], **branches),
                  helper.make_node("Add", [f"i{k}", read], [f"y{k}"])]  # fmt: skip
        read = f"y{k}"
    inputs = [_floats("x", N), *(_floats(f"c{k}", kind=TensorProto.BOOL) for k in range(2))]
    graph = helper.make_graph(nodes, "g", inputs, [_floats(read, N)], constants)
    path = folder / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("widths", [[(3, 5)], [(5, 3)], [(1, 9)], [(2, 6), (7, 3)], [(4, 4), (2, 9), (5, 1)]])
@pytest.mark.parametrize("nested", [False, True])
def test_both_branches_fit_and_are_measured(widths: list[tuple[int, int]], nested: bool, tmp_path: Path) -> None:
    """Runs alternate between true and false: nothing beyond the block is taken in any of them."""
    pytest.importorskip("onnxruntime")
    path = _model(widths[:2] if nested else widths, tmp_path, nested)
    plan = lowtide.research.plan(path, target="onnxruntime")
    assert plan.runtime_unknown is None
    report = lowtide.verify(path, plan, run=True).run
    assert isinstance(report, RunReport)
    assert report.exact is not None
    assert report.exact.held_bytes == plan.runtime_arena_bytes
    assert report.equal


@pytest.mark.parametrize(("first", "second"), [(3, 5), (2, 8)])
def test_the_order_of_branches_does_not_matter(first: int, second: int, tmp_path: Path) -> None:
    """The larger one decides, and the block is at least the peak."""
    one = lowtide.research.plan(_model([(first, second)], tmp_path), target="onnxruntime")
    other = lowtide.research.plan(_model([(second, first)], tmp_path), target="onnxruntime")
    assert one.runtime_arena_bytes == other.runtime_arena_bytes
    assert (one.runtime_arena_bytes or 0) >= one.peak_bytes == other.peak_bytes


def test_a_block_for_the_smaller_branch_alone_does_not_hold(tmp_path: Path) -> None:
    """The checker plays both through."""
    path = _model([(3, 5)], tmp_path)
    plan = lowtide.research.plan(path, target="onnxruntime")
    smaller = lowtide.research.plan(_model([(3, 3)], tmp_path), target="onnxruntime").runtime_arena_bytes
    path = _model([(3, 5)], tmp_path)
    forged = msgspec.structs.replace(plan, runtime_arena_bytes=smaller, required_bytes=smaller)
    with pytest.raises(VerificationError, match=r"runtime_arena: in a block of \d+ bytes .* finds no place"):
        lowtide.verify(path, forged)


def test_many_conditions_are_at_least(tmp_path: Path) -> None:
    """Not every choice of branches is tried then."""
    path = _model([(2, 3)] * (MOST_CONDITIONAL + 1), tmp_path)
    assert lowtide.research.plan(path, target="onnxruntime").runtime_unknown == ["If"]
    few = lowtide.load(_model([(2, 3)] * 3, tmp_path))
    assert branch_choices(few) == list(product((0, 1), repeat=3))


def _free(folder: Path) -> Path:
    """Conv, Relu and Conv of a picture whose height is free."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 4, 3, 3], [0.01] * 144)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    heights: list[tuple[str, str | None]] = [("x", "h"), ("y", None)]
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, size, 16])
              for name, size in heights]  # fmt: skip
    graph = helper.make_graph(nodes, "g", shapes[:1], shapes[1:], [weights])
    path = folder / "free.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return path


def test_in_place_is_not_promised_where_sizes_are_free(tmp_path: Path) -> None:
    """onnxruntime writes Relu over its input only where it knows both sizes equal: else the arena is at least."""
    path = _free(tmp_path)
    plan = lowtide.research.plan(path, target="onnxruntime", dims={"h": 32})
    assert plan.runtime_unknown == ["Relu"]
    assert "a minimum: what the kernels of Relu need is not known where the file leaves sizes free" in str(plan)
    assert lowtide.verify(path, plan).checks


def _swelling(path: Path, free: bool) -> Path:
    """An If whose branches make their result last, behind tensors two and three times as large."""
    size: str | int = "n" if free else 64
    one = helper.make_tensor_value_info("r", TensorProto.FLOAT, [size])
    bodies: dict[str, Any] = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Concat", ["x"] * width, [f"{name}c"], axis=0),
             helper.make_node("Neg", [f"{name}c"], [f"{name}n"]),
             helper.make_node("Slice", [f"{name}n", "begin", "end", "begin"], [f"{name}r"])],
            name, [], [helper.make_tensor_value_info(f"{name}r", TensorProto.FLOAT, [size])],
        )
        for name, width in (("then", 3), ("else", 2))
    }  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["i"], **bodies), helper.make_node("Sin", ["i"], ["r"])]
    numbers = [helper.make_tensor(name, TensorProto.INT64, [1], [k]) for name, k in (("begin", 0), ("end", 64))]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size]), _floats("c", kind=TensorProto.BOOL)]
    graph = helper.make_graph(nodes, "g", inputs, [one], numbers)
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return path


def test_outputs_that_the_branch_allocates_fit(tmp_path: Path) -> None:
    """With free sizes nothing is there before the branch: the same block holds both ways."""
    pytest.importorskip("onnxruntime")
    for free in (False, True):
        path = _swelling(tmp_path / f"{free}.onnx", free)
        plan = lowtide.research.plan(path, target="onnxruntime", dims={"n": 64} if free else {})
        report = lowtide.verify(path, plan, run=True)
        assert isinstance(report.run, RunReport)
        assert report.run.exact is not None
        assert report.run.exact.held_bytes == plan.runtime_arena_bytes
        assert any("before they run or by them" in str(check) for check in report.checks)
