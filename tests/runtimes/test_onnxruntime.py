"""onnxruntime's arena, worked out: it fits, the checker agrees, and the runtime takes just that."""

from __future__ import annotations

import platform
import random
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.api import PlanFiles, write_all
from lowtide.api.optimized import optimized_file
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Op, Tensor
from lowtide.run.ort_session import PLANNED, open_session, read_profile
from lowtide.run_reports import RunReport
from lowtide.runtimes.onnxruntime import high_water, least_block
from lowtide.target import BUILT_IN

TARGET = BUILT_IN["onnxruntime"]


def random_graph(seed: int, ops: int) -> Graph:
    """Ops that read one or two earlier tensors; Relu runs in place, Exp does not, Reshape is a view."""
    rng = random.Random(seed)
    tensors = [Tensor(0, 512, kind=lowtide.Kind.INPUT, shape=(128,), dtype="float32")]
    made: list[Op] = []
    for i in range(ops):
        read = rng.sample(range(len(tensors)), min(len(tensors), rng.choice((1, 1, 2))))
        kind = rng.choice(("Exp", "Relu", "Reshape", "Concat"))
        size = tensors[read[0]].size if kind in ("Relu", "Reshape") else 4 * rng.randrange(1, 500)
        tensors.append(Tensor(i + 1, size, shape=(size // 4,), dtype="float32"))
        made.append(Op(i, tuple(read), (i + 1,), type=kind))
    return Graph("g", tuple(tensors), tuple(made))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), ops=st.integers(1, 14))
def test_a_block_fits_by_the_checkers_own_account(seed: int, ops: int) -> None:
    """Planner and checker place chunks by different code; both find room in the block, and it holds the load."""
    graph = random_graph(seed, ops)
    plan = lowtide.research.plan(graph, target="onnxruntime", time=5)
    assert plan.runtime_arena_bytes is not None
    assert plan.runtime_arena_bytes >= (plan.arena_lower_bound_bytes or 0)
    assert plan.required_bytes == plan.runtime_arena_bytes
    memory = memory_model(graph, TARGET)
    order = [graph.index_of[op] for op in plan.order]
    assert least_block(memory, order, profile(memory, order)) == plan.runtime_arena_bytes


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_checker_refuses_a_block_that_is_too_small(seed: int) -> None:
    """One step of 256 bytes below the load cannot fit."""
    graph = random_graph(seed, 8)
    plan = lowtide.research.plan(graph, target="onnxruntime", time=5)
    load = lowtide.verify(graph, plan).numbers["arena_load_bytes"]
    if not load:
        return
    from msgspec.structs import replace as changed

    small = load - 256
    with pytest.raises(VerificationError, match="runtime_arena"):
        lowtide.verify(graph, changed(plan, runtime_arena_bytes=small, required_bytes=small))


def test_best_fit_takes_the_smallest_hole_then_the_lowest() -> None:
    """Holes of 3 and 2 units: a chunk of 2 goes into the second; freed neighbours join."""
    unit = 256
    made = [(1, 3), (2, 1), (3, 2), (4, 1), (1, 0), (3, 0), (5, 2), (5, 0), (2, 0), (6, 6), (4, 0), (6, 0), (7, 8)]
    assert high_water([(c, n * unit) for c, n in made], 8 * unit) == 8 * unit
    assert high_water([(c, n * unit) for c, n in made], 7 * unit) is None
    assert high_water([(1, unit), (2, unit)], 2 * unit) == 2 * unit


def convolutions(seed: int) -> bytes:
    """A random net of convolutions with paddings, strides and groups, softmaxes, selections and a linear resize."""
    rng = random.Random(seed)
    value, nodes, weights, known = helper.make_tensor_value_info, [], [], ["x"]
    for i in range(14):
        read, out, kernel = rng.choice(known[-4:]), f"t{i}", rng.choice((1, 3, 5))
        kind = rng.choice(("Conv", "Conv", "Relu", "Add", "Softmax", "Where", "BiasGelu", "LRN", "ConvTranspose"))
        if kind == "Conv":
            groups, width = rng.choice((1, 2, 8)), 8
            weights.append(numpy_helper.from_array(np.ones((width, 8 // groups, kernel, kernel), np.float32), f"w{i}"))
            pads = [kernel // 2] * 4
            nodes.append(helper.make_node("Conv", [read, f"w{i}"], [out], pads=pads, group=groups))
        elif kind == "Add":
            nodes.append(helper.make_node("Add", [read, rng.choice(known)], [out]))
        elif kind == "Softmax":
            nodes.append(helper.make_node("Softmax", [read], [out], axis=rng.choice((1, 2, -1))))
        elif kind == "ConvTranspose":
            weights.append(numpy_helper.from_array(np.ones((8, 4, 3, 3), np.float32), f"w{i}"))
            nodes.append(helper.make_node("ConvTranspose", [read, f"w{i}"], [out], pads=[1] * 4, group=2))
        elif kind == "LRN":
            nodes.append(helper.make_node("LRN", [read], [out], size=rng.choice((3, 5))))
        elif kind == "Where":
            nodes.append(helper.make_node("Where", ["c", read, "zero"], [out]))
        elif kind == "BiasGelu":
            nodes.append(helper.make_node("BiasGelu", [read, "bias"], [out], domain="com.microsoft"))
        else:
            nodes.append(helper.make_node(kind, [read], [out]))
        known.append(out)
    used = {name for node in nodes for name in node.input}
    left = [name for name in known if name not in used]
    nodes.append(helper.make_node("Sum", left, ["s"]))
    nodes.append(helper.make_node("Resize", ["s", "", "scales"], ["y"], mode="linear"))
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    weights.append(numpy_helper.from_array(np.zeros((), np.float32), "zero"))
    weights.append(numpy_helper.from_array(np.zeros(9, np.float32), "bias"))
    weights.append(numpy_helper.from_array(np.ones((8, 9, 9), bool), "c"))
    shapes = [value(name, 1, [1, 8, 9, 9]) for name in (*known[1:], "s")]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [1, 8, 9, 9])], [value("y", 1, [1, 8, 18, 18])], weights, value_info=shapes
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_onnxruntime_takes_what_was_planned(seed: int, tmp_path: Path) -> None:
    """Sizes in use at every op, the highest mark with workspace, the arena's block: each to the byte."""
    pytest.importorskip("onnxruntime")
    source = tmp_path / "m.onnx"
    source.write_bytes(convolutions(seed))
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    report = lowtide.verify(source, plan, run=True)
    seen = report.run
    assert isinstance(seen, RunReport)
    assert seen.exact is not None
    assert seen.equal
    assert seen.order_kept
    assert all(node.in_use_bytes == node.planned_bytes for node in seen.planned.nodes)
    assert len(seen.planned.nodes) == len(plan.order)
    assert seen.exact.mark_bytes == report.numbers["arena_load_bytes"]
    assert seen.exact.held_bytes == plan.runtime_arena_bytes == seen.arena_bytes


def test_what_nothing_reads_stays(tmp_path: Path) -> None:
    """Of a Split one part is not read: it is there until the run ends, in the plan as in the runtime."""
    pytest.importorskip("onnxruntime")
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Split", ["a"], ["b", "c", "d"], axis=1, num_outputs=3),
        helper.make_node("Exp", ["b"], ["e"]), helper.make_node("Concat", ["e", "c", "e", "c"], ["f"], axis=1),
        helper.make_node("Exp", ["f"], ["y"]),
    ]  # fmt: skip
    known = [
        value(name, 1, [1, channels, 32, 32]) for name, channels in zip("abcdef", (24, 8, 8, 8, 8, 32), strict=True)
    ]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, 24, 32, 32])], [value("y", 1, [1, 32, 32, 32])], [])
    graph.value_info.extend(known)
    source = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), source)
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    seen = lowtide.verify(source, plan, run=True).run
    assert isinstance(seen, RunReport)
    assert seen.exact is not None
    assert [node.in_use_bytes for node in seen.planned.nodes] == [node.planned_bytes for node in seen.planned.nodes]
    assert seen.exact.held_bytes == plan.runtime_arena_bytes
    in_use = next(figure for figure in plan.runtime_figures or () if figure.what == "in use")
    assert seen.unmodified is not None
    assert seen.unmodified.mark_bytes == in_use.default_bytes  # onnxruntime's own reuse gives it to others


def test_a_smaller_block_makes_the_arena_grow(tmp_path: Path) -> None:
    """The predicted block is needed: with half of it, onnxruntime takes more, but not twice the half beside it."""
    pytest.importorskip("onnxruntime")
    source, out = tmp_path / "m.onnx", tmp_path / "p.onnx"
    source.write_bytes(convolutions(3))
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    plan.apply(source, out)
    block = (plan.runtime_arena_bytes or 0) // 512 * 256
    session = open_session(out, replace(PLANNED, arena_bytes=block), str(tmp_path), "p")
    session.run(None, {"x": np.zeros((1, 8, 9, 9), np.float32)})
    held = read_profile(session.end_profiling()).held_bytes(block)
    assert block < held <= block + (plan.runtime_arena_bytes or 0)


def test_the_snippet_is_a_session_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed as it is written, it opens the planned file and gives the original's outputs."""
    ort = pytest.importorskip("onnxruntime")
    source, out, snippet = tmp_path / "m.onnx", tmp_path / "p.onnx", tmp_path / "session.py"
    source.write_bytes(convolutions(5))
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    write_all(plan, source, PlanFiles(out, snippet=snippet))
    module = runpy.run_path(str(snippet))
    assert module["ARENA_BYTES"] == plan.runtime_arena_bytes
    assert module["options"]().intra_op_num_threads == ort.SessionOptions().intra_op_num_threads == 0
    assert module["options"](3).intra_op_num_threads == 3
    feed = {"x": np.random.default_rng(0).random((1, 8, 9, 9), np.float32)}
    came = module["open_session"](threads=2).run(None, feed)
    was = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"]).run(None, feed)
    assert np.allclose(came[0], was[0], atol=1e-4)
    with pytest.raises(InputError, match="--target onnxruntime"):
        write_all(lowtide.research.plan(source, time=5), source, PlanFiles(snippet=snippet))


def widths(seed: int) -> bytes:
    """A random net of convolutions and concatenations whose channels vary."""
    rng = random.Random(seed)
    nodes, weights, made = [], [], [("x", 16)]
    for i in range(12):
        read, channels = rng.choice(made[-4:])
        if rng.random() < 0.5:
            width = rng.randrange(8, 40)
            weights.append(numpy_helper.from_array(np.ones((width, channels, 3, 3), np.float32), f"w{i}"))
            nodes.append(helper.make_node("Conv", [read, f"w{i}"], [f"t{i}"], pads=[1] * 4))
        else:
            other, more = rng.choice(made)
            width = channels + more
            nodes.append(helper.make_node("Concat", [read, other], [f"t{i}"], axis=1))
        made.append((f"t{i}", width))
    left = [each for each in made if all(each[0] not in node.input for node in nodes)]
    nodes.append(helper.make_node("Concat", [name for name, _ in left], ["y"], axis=1))
    made.append(("y", sum(width for _, width in left)))
    values = [helper.make_tensor_value_info(name, 1, [1, width, 32, 32]) for name, width in made]
    graph = helper.make_graph(nodes, "g", values[:1], values[-1:], weights, value_info=values[1:-1])
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


GROWN = """
import sys, runpy
import numpy as np, onnxruntime as ort
from lowtide.run.ort_session import read_profile
module, threads = runpy.run_path(sys.argv[1]), int(sys.argv[2])
module["register_arena"](threads)
options = module["options"](threads)
options.enable_profiling, options.profile_file_prefix = True, sys.argv[1]
session = ort.InferenceSession(module["MODEL"], options, providers=["CPUExecutionProvider"])
for _ in range(3):
    session.run(None, {"x": np.ones((1, 16, 32, 32), np.float32)})
block = module["ARENA_BYTES"] + 65536 * (threads - 1)
print(read_profile(session.end_profiling()).held_bytes(block) - block)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [34, 65, 147])  # with one thread in mind alone, they do not fit
def test_further_threads_fit_as_well(seed: int, tmp_path: Path) -> None:
    """The block is larger by what they take, in which best fit may place everything elsewhere: it never grows."""
    pytest.importorskip("onnxruntime")
    source, out, snippet = tmp_path / "m.onnx", tmp_path / "p.onnx", tmp_path / "session.py"
    source.write_bytes(widths(seed))
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    write_all(plan, source, PlanFiles(out, snippet=snippet))
    for threads in (1, 2, 4, 8):
        command = [sys.executable, "-c", GROWN, str(snippet), str(threads)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["0"]


def test_the_runtimes_optimiser_runs_beforehand(tmp_path: Path) -> None:
    """Its file is planned and run like any other; it is the same on every call."""
    pytest.importorskip("onnxruntime")
    source, first, second = tmp_path / "m.onnx", tmp_path / "a.onnx", tmp_path / "b.onnx"
    source.write_bytes(convolutions(7))
    optimized_file(source, first, {}, "extended")
    optimized_file(source, second, {}, "extended")
    assert first.read_bytes() == second.read_bytes()
    graph = lowtide.load(first)
    assert any(op.type == "com.microsoft::FusedConv" for op in graph.ops) or len(graph.ops) <= 16
    report = lowtide.verify(first, lowtide.research.plan(first, target="onnxruntime", time=10), run=True)
    assert isinstance(report.run, RunReport)
    assert report.run.equal
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot optimise"):
        optimized_file(tmp_path / "broken.onnx", second, {}, "extended")
    assert first.read_bytes() == second.read_bytes()


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    """Not in onnxruntime's words, and without the place that it looked in."""
    pytest.importorskip("onnxruntime")
    model = onnx.load_from_string(convolutions(7))
    path = tmp_path / "m.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(
        InputError, match=r"its weights are in 'w\.bin', which does not exist; put it into the model's folder$"
    ):
        optimized_file(path, tmp_path / "o.onnx", {}, "extended")


def test_free_dimensions_are_fixed_in_the_optimised_file(tmp_path: Path) -> None:
    """What --dim gives is in the file afterwards."""
    pytest.importorskip("onnxruntime")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"])], "g", [value("x", 1, ["n", 3])], [value("y", 1, ["n", 3])]
    )
    source, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    source.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    optimized_file(source, out, {"n": 5}, "extended")
    assert [t.size for t in lowtide.load(out).tensors] == [60, 60]


def test_weights_outside_the_file_are_neither_read_nor_put_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above 2 GiB no message of protobuf holds them; here the limit is lower."""
    pytest.importorskip("onnxruntime")
    from lowtide.run import optimise

    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 1, ["n", 64])], [value("y", 1, ["n", 64])], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source, inside, outside = tmp_path / "m.onnx", tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save_model(made, source, save_as_external_data=True, location="w.bin", size_threshold=0)
    optimized_file(source, inside, {"n": 3}, "extended")
    monkeypatch.setattr(optimise, "INLINE_BYTES", 1000)
    optimized_file(source, outside, {"x": (3, 64)}, "extended")
    assert inside.stat().st_size > 64 * 64 * 4 > outside.stat().st_size
    assert (tmp_path / "b.onnx.data").stat().st_size >= 64 * 64 * 4
    assert not (tmp_path / "a.onnx.data").exists()
    assert [t.size for t in lowtide.load(outside).tensors] == [t.size for t in lowtide.load(inside).tensors]
    report = lowtide.verify(outside, lowtide.research.plan(outside, target="onnxruntime"), run=True).run
    assert isinstance(report, RunReport)
    assert report.equal


def test_blocked_convolutions_are_planned_to_the_byte(tmp_path: Path) -> None:
    """Level "all": convolutions for this CPU, whose shapes a run shows, and which add in place."""
    pytest.importorskip("onnxruntime")
    value, rng = helper.make_tensor_value_info, np.random.default_rng(0)
    filters = {f"w{i}": rng.standard_normal((16, 16, 3, 3)).astype(np.float32) for i in range(3)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1] * 4),
        helper.make_node("Conv", ["c", "w2"], ["d"], pads=[1] * 4),
        helper.make_node("Add", ["d", "b"], ["y"]),
    ]
    shape = [1, 16, 12, 12]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, shape)], [value("y", 1, shape)],
        [numpy_helper.from_array(w, n) for n, w in filters.items()],
    )  # fmt: skip
    source, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    source.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    optimized_file(source, out, {})
    plan = lowtide.research.plan(out, target="onnxruntime", time=10)
    seen = lowtide.verify(out, plan, run=True).run
    assert isinstance(seen, RunReport)
    assert seen.equal
    assert seen.exact is not None
    assert all(node.in_use_bytes == node.planned_bytes for node in seen.planned.nodes)
    assert seen.exact.held_bytes == plan.runtime_arena_bytes


def test_what_depends_on_constants_only_runs_and_counts(tmp_path: Path) -> None:
    """Without its optimiser onnxruntime turns weights on every run: they are planned close to their reader."""
    pytest.importorskip("onnxruntime")
    value = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.ones((64, 64), np.float32), f"w{i}") for i in range(3)]
    nodes = [helper.make_node("Transpose", [f"w{i}"], [f"t{i}"]) for i in range(3)]
    nodes += [helper.make_node("MatMul", ["x" if i == 0 else f"y{i - 1}", f"t{i}"], [f"y{i}"]) for i in range(3)]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, 64])], [value("y2", 1, [1, 64])], weights)
    source, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source.write_bytes(model.SerializeToString())
    assert lowtide.research.plan(source, target="generic").folded == [0, 1, 2]
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    assert plan.folded == []
    assert sorted(plan.order) == list(range(6))
    assert plan.own_order_peak_bytes == 3 * 16384 + 256
    assert plan.peak_bytes == 16384 + 2 * 256
    plan.apply(source, out)
    assert lowtide.research.plan(out, target="onnxruntime", time=10).own_order_peak_bytes == plan.peak_bytes
    seen = lowtide.verify(source, plan, run=True).run
    assert isinstance(seen, RunReport)
    assert seen.equal
    assert (seen.original.peak_bytes, seen.planned.peak_bytes) == (plan.own_order_peak_bytes, plan.peak_bytes)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kernels are those of x86-64")
@pytest.mark.parametrize("channels", [4, 6, 16])
@pytest.mark.parametrize("groups", [1, 2])
def test_quantised_convolutions_take_what_was_planned(channels: int, groups: int, tmp_path: Path) -> None:
    """Read by pointers or unfolded, with and without groups."""
    pytest.importorskip("onnxruntime")
    value = helper.make_tensor_value_info
    scalars = {"s": np.float32(0.1), "z": np.uint8(3), "v": np.int8(0)}
    weights = [numpy_helper.from_array(np.array(v), k) for k, v in scalars.items()]
    nodes, at, width = [], "x", channels
    for i, (made, kernel) in enumerate([(16, 3), (24, 1), (12, 5)]):
        made = made * groups
        filters = np.ones((made, width // groups, kernel, kernel), np.int8)
        weights.append(numpy_helper.from_array(filters, f"w{i}"))
        reads = [at, "s", "z", f"w{i}", "s", "v", "s", "z"]
        nodes.append(helper.make_node("QLinearConv", reads, [f"y{i}"], group=groups, pads=[kernel // 2] * 4))
        at, width = f"y{i}", made
    inputs, outputs = [value("x", 2, [1, channels, 12, 12])], [value(at, 2, [1, width, 12, 12])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    source = tmp_path / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source.write_bytes(model.SerializeToString())
    plan = lowtide.research.plan(source, target="onnxruntime", time=10)
    report = lowtide.verify(source, plan, run=True)
    seen = report.run
    assert isinstance(seen, RunReport)
    assert seen.exact is not None
    assert seen.exact.mark_bytes == report.numbers["arena_load_bytes"]
    assert seen.exact.held_bytes == plan.runtime_arena_bytes


def test_a_method_keeps_its_own_order() -> None:
    """Only the exact method looks for another order of equal peak; the file order stays the file order."""
    for seed in range(20):
        graph = random_graph(seed, 10)
        plan = lowtide.research.plan(graph, target="onnxruntime", method="own")
        assert plan.order == list(graph.own_order)
        assert plan.peak_bytes == plan.own_order_peak_bytes
