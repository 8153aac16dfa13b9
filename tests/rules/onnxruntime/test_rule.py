"""onnxruntime's rule against onnxruntime: what each kernel allocates is what the rule says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lowtide.read import read_model
from lowtide.rules.onnxruntime.rule import ALIAS, MAY_INPLACE
from lowtide.target import BUILT_IN

pytest.importorskip("onnxruntime")

SHAPE = (1, 8, 24, 4)
BYTES = 8 * 24 * 4 * 4
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}

UNARY = (
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "LeakyRelu",
    "Log", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign",
    "Sqrt", "Tanh", "ThresholdedRelu", "Celu", "Softmax", "LogSoftmax", "Hardmax", "Dropout", "Identity", "Flatten",
    "Trilu", "Clip", "GlobalMaxPool",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "PRelu")
CASES = [
    *((name, {}, ()) for name in UNARY),
    ("Reshape", {}, (np.array([24, 32]),)),
    ("Squeeze", {}, (np.array([0]),)),
    ("Unsqueeze", {}, (np.array([0]),)),
    ("Transpose", {"perm": [0, 1, 3, 2]}, ()),
    ("Cast", {"to": TensorProto.INT32}, ()),
    ("Cast", {"to": TensorProto.BOOL}, ()),
    ("Concat", {"axis": 0}, ()),
    ("Expand", {}, (np.array(SHAPE),)),
    ("Slice", {}, (np.array([0]), np.array([6]))),
    ("Pad", {}, (np.zeros(8, np.int64),)),
    ("BatchNormalization", {}, tuple(np.ones(8, np.float32) for _ in range(4))),
    ("InstanceNormalization", {}, tuple(np.ones(8, np.float32) for _ in range(2))),
    ("LayerNormalization", {}, (np.ones(4, np.float32),)),
    ("ScatterElements", {}, (np.zeros((1, 1, 1, 1), np.int64), np.ones((1, 1, 1, 1), np.float32))),
    ("MatMul", {}, (np.ones((4, 4), np.float32),)),
]


def graph_of(op: str, attributes: dict[str, object], constants: tuple[np.ndarray, ...], other: int, kept: bool):
    """x -> Transpose -> op -> two Transposes; its second data input, if any, is a graph input.

    The op's input comes at place 0 (`other` 0 or 1) or 1 (`other` -1); `kept`: it is read again later.
    """
    value = helper.make_tensor_value_info
    reads = {0: ["a"], 1: ["a", "x"], -1: ["x", "a"]}[other] + [f"k{i}" for i in range(len(constants))]
    domain, _, name = op.rpartition("::")
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 1, 2, 3]),
        helper.make_node(name, reads, ["b"], name="op", domain=domain, **attributes),  # pyright: ignore
        helper.make_node("Shape", ["b"], ["y"]),
        *([helper.make_node("Transpose", ["a"], ["z"])] if kept else []),
    ]
    outputs = [value("y", TensorProto.INT64, None)] + ([value("z", TensorProto.FLOAT, None)] if kept else [])
    made = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, SHAPE)], outputs,
        [numpy_helper.from_array(c, f"k{i}") for i, c in enumerate(constants)],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=imports, ir_version=9)


def allocated(model: onnx.ModelProto, folder: Path, reuse: bool = False) -> dict[str, int]:
    """Bytes that each node allocates when it runs, by node name."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False
    options.enable_mem_reuse = reuse
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "p")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.ones([d or 1 for d in i.shape], DTYPES[i.type]) for i in session.get_inputs()}
    session.run(None, feeds)
    events = json.loads(Path(session.end_profiling()).read_bytes())
    return {
        e["name"].removesuffix("_kernel_time"): int(e["args"]["mem_requested_in_use_delta"])
        for e in events
        if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")
    }


def bytes_by_rule(model: onnx.ModelProto, folder: Path, kept: bool) -> int:
    """Bytes that the rule says the op allocates."""
    onnx.save(model, str(folder / "m.onnx"))
    graph = read_model(folder / "m.onnx")
    op = next(o for o in graph.ops if o.name == "op")
    target = BUILT_IN["onnxruntime"]
    over = target.in_place_inputs(graph, op)
    shared = target.view_source(graph, op) is not None or (bool(over) and not kept)
    made = next(t for o, t in [(op, graph.tensor_by_id[op.outputs[0]])])
    a = next(t for t in graph.tensors if t.name == "a")
    return 0 if shared and (not over or over == (a.id,)) else made.size


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["dies", "lives"])
@pytest.mark.parametrize(("op", "attributes", "constants"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_a_kernel_allocates_what_the_rule_says(
    op: str, attributes: dict[str, object], constants: tuple[np.ndarray, ...], kept: bool, tmp_path: Path
) -> None:
    """Alias kernels allocate nothing, may-inplace kernels nothing if the input dies there, others their output."""
    model = graph_of(op, attributes, constants, 0, kept)
    assert allocated(model, tmp_path)["op"] == bytes_by_rule(model, tmp_path, kept)


@pytest.mark.parametrize("other", [1, -1])
@pytest.mark.parametrize("op", BINARY)
def test_binary_kernels_are_not_in_place(op: str, other: int, tmp_path: Path) -> None:
    """Neither over the first input nor over the second, although generic would allow both."""
    model = graph_of(op, {}, (), other, False)
    assert allocated(model, tmp_path)["op"] == bytes_by_rule(model, tmp_path, False) == BYTES


@pytest.mark.parametrize("kept", [False, True], ids=["dies", "lives"])
def test_fused_convolution_writes_over_what_it_adds(kept: bool, tmp_path: Path) -> None:
    """The summand, its last input, is overwritten."""
    weights = np.ones((8, 8, 1, 1), np.float32), np.ones(8, np.float32)
    model = graph_of("com.microsoft::FusedConv", {"activation": "Relu"}, (), 1, kept)
    del model.graph.node[1].input[:]
    model.graph.node[1].input.extend(["x", "w", "c", "a"])
    model.graph.initializer.extend(numpy_helper.from_array(w, n) for w, n in zip(weights, "wc", strict=True))
    model.graph.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, SHAPE))
    assert allocated(model, tmp_path)["op"] == bytes_by_rule(model, tmp_path, kept)


@pytest.mark.parametrize("op", ["Reshape", "Relu"])
def test_a_graph_output_has_memory_of_its_own(op: str, tmp_path: Path) -> None:
    """Alias and may-inplace kernels allocate what is a graph output."""
    model = graph_of(op, {}, (np.array([24, 32]),) if op == "Reshape" else (), 0, False)
    model.graph.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, None))
    assert allocated(model, tmp_path)["op"] == bytes_by_rule(model, tmp_path, False) == BYTES


def test_a_graph_input_is_never_overwritten_and_an_alias_of_one_costs_nothing(tmp_path: Path) -> None:
    """The caller's memory is not the arena's."""
    model = graph_of("Relu", {}, (), 0, False)
    model.graph.node[0].CopyFrom(helper.make_node("Reshape", ["x", "s"], ["a"], name="alias"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(SHAPE), "s"))
    assert allocated(model, tmp_path)["op"] == BYTES
    assert allocated(model, tmp_path)["alias"] == 0
    from lowtide.analyse.storage import memory_model

    onnx.save(model, str(tmp_path / "m.onnx"))
    memory = memory_model(read_model(tmp_path / "m.onnx"), BUILT_IN["onnxruntime"])
    assert not any(memory.overwrites)
    assert sorted(s.size for s in memory.storages) == [32, BYTES]


def test_dead_buffers_wait_for_a_tensor_of_their_shape_unless_reuse_is_off(tmp_path: Path) -> None:
    """With its own reuse on, onnxruntime keeps a dead buffer for a later tensor of equal shape: `e` takes over `a`."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name="a"),
        helper.make_node("ReduceSum", ["a"], ["b"], name="b"),
        helper.make_node("Tile", ["b", "t"], ["c"], name="c"),
        helper.make_node("ReduceSum", ["c"], ["d"], name="d"),
        helper.make_node("Exp", ["x"], ["e"], name="e"),
        helper.make_node("Sum", ["e", "d"], ["y"], name="y"),
    ]
    made = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, SHAPE)], [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([5, 5, 5, 5]), "t")],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    assert allocated(model, tmp_path, reuse=True)["e"] == 0
    assert allocated(model, tmp_path, reuse=False)["e"] == BYTES


def test_shape_runs_as_soon_as_it_can() -> None:
    """`Shape` and `Size` are taken first, then the file's order; everything keeps its needs."""
    from lowtide.graph import Graph, Kind, Op, Tensor

    tensors = tuple(Tensor(i, 4, Kind.INPUT if i == 0 else Kind.ACTIVATION) for i in range(6))
    ops = (
        Op(0, (0,), (1,), type="Exp"), Op(1, (0,), (2,), type="Sin"), Op(2, (1,), (3,), type="Shape"),
        Op(3, (0,), (4,), type="Size"), Op(4, (3, 2), (5,), type="Tile"),
    )  # fmt: skip
    graph = Graph("g", tensors, ops)
    assert BUILT_IN["onnxruntime"].as_run(graph, [0, 1, 2, 3, 4]) == [3, 0, 2, 1, 4]
    assert BUILT_IN["onnxruntime"].as_run(graph, [1, 0, 3, 2, 4]) == [3, 1, 0, 2, 4]
    assert BUILT_IN["generic"].as_run(graph, [1, 0, 3, 2, 4]) == [1, 0, 3, 2, 4]


def test_the_tables_do_not_overlap() -> None:
    """A kernel is an alias or may be in place, not both."""
    assert not ALIAS & set(MAY_INPLACE)


def test_the_target_is_printed_with_its_own_tables(tmp_path: Path) -> None:
    """As TOML that reads back to the same target, and not with the table that it does not use."""
    from lowtide.report.text import target_text
    from lowtide.target import read_toml

    text = target_text(BUILT_IN["onnxruntime"])
    (tmp_path / "onnxruntime.toml").write_text(text)
    assert read_toml(tmp_path / "onnxruntime.toml") == BUILT_IN["onnxruntime"]
    assert "com.microsoft::FusedConv" in text
    assert "binary: elementwise" not in text
