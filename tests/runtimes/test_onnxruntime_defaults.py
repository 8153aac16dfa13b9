"""What onnxruntime takes by its defaults, played through and held against onnxruntime itself."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.runtimes.onnxruntime_defaults import default_order, defaults
from lowtide.target import BUILT_IN
from support.onnx_builder import constant, model, node, saved, value

TARGET = BUILT_IN["onnxruntime"]


def random_model(seed: int, ops: int) -> ModelProto:
    """Ops on rows of 4, 8 or 16 thousand floats, some of them in place or views; all that nobody reads comes out."""
    rng = random.Random(seed)
    width = {"x": 4096}
    nodes, unread = [], {"x"}
    for i in range(ops):
        read = rng.choice(list(width))
        other = rng.choice([name for name in width if width[name] == width[read]])
        kinds = ["Relu", "Exp", "Add", "Identity", *(["Concat"] * 2 if width[read] < 16384 else ["TopHalf"])]
        kind, out = rng.choice(kinds), f"t{i}"
        reads = {"Add": f"{read} {other}", "Concat": f"{read} {read}", "TopHalf": f"{read} start end axis"}
        attributes = {"axis": 1} if kind == "Concat" else {}
        nodes.append(node("Slice" if kind == "TopHalf" else kind, reads.get(kind, read), out, **attributes))
        width[out] = {"Concat": 2 * width[read], "TopHalf": width[read] // 2}.get(kind, width[read])
        unread -= {read, *([other] if kind == "Add" else [])}
        unread.add(out)
    outputs = [value(name, (16, width[name])) for name in sorted(unread - {"x"})]
    constants = [constant("start", [0], [1], 7), constant("end", [8192], [1], 7), constant("axis", [1], [1], 7)]
    return model(nodes, [value("x", (16, 4096))], outputs, constants)


def measured(path: Path, folder: Path) -> tuple[list[str], int, int]:
    """Outputs of the nodes in the order in which they ran, most bytes in use, and what the arena took, at first."""
    ort = pytest.importorskip("onnxruntime")
    from lowtide.run.onnx import draw
    from lowtide.run.ort_session import read_profile

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_pattern = False
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "p")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    draw(session, path, 0, 1, {})
    seen = read_profile(session.end_profiling())
    return [e.name for e in seen.nodes], max(e.requested_bytes for e in seen.nodes), sum(seen.growth)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), ops=st.integers(1, 16))
def test_order_bytes_and_arena_are_those_of_onnxruntime(
    tmp_path_factory: pytest.TempPathFactory, seed: int, ops: int
) -> None:
    """Random graphs, to the byte."""
    folder = tmp_path_factory.mktemp("m")
    made = random_model(seed, ops)
    for i, n in enumerate(made.graph.node):
        n.name = f"n{i}"
    path = saved(made, folder)
    graph = TARGET.as_seen(lowtide.load(path))
    names, in_use, held = measured(path, folder)
    assert names == [graph.ops[i].name for i in default_order(graph)]
    taken = defaults(memory_model(graph, TARGET))
    assert (taken.in_use_bytes, taken.arena_bytes) == (in_use, held)


@pytest.mark.slow
def test_a_network_takes_what_is_played_through(tmp_path: Path) -> None:
    """Convolutions with workspace, and a graph whose file order is not onnxruntime's."""
    from lowtide_research import zoo

    path = saved(zoo.build("darts_cifar").onnx(0), tmp_path)
    graph = TARGET.as_seen(lowtide.load(path))
    taken = defaults(memory_model(graph, TARGET))
    _, in_use, held = measured(path, tmp_path)
    assert taken.arena_bytes == held
    assert taken.in_use_bytes >= in_use  # workspace is gone once its node has run
