"""In half precision no change of a graph is exact: onnxruntime rounds by which nodes are neighbours."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.ops.meaning import meaning
from lowtide.read import read_model
from support.onnx_builder import model, node, saved, value

HALF, SINGLE, BRAIN = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.BFLOAT16


def wide(folder: Path, dtype: int) -> Path:
    """Repeated, computed row by row, and reduced again: worth cutting, and none of its cuts moves a bit by itself."""
    nodes = [
        node("Tile", "x times", "a"),
        node("Sigmoid", "a", "b"),
        node("Transpose", "b", "c", perm=[0, 2, 1]),
        node("Sigmoid", "c", "d"),
        node("ReduceMax", "d axes", "y"),
    ]
    constants = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("times", [1, 4, 4]), ("axes", [1]))]
    ends = [value("x", (1, 16, 8), dtype)], [value("y", (1, 1, 64), dtype)]
    return saved(model(nodes, *ends, constants, opset=20), folder, f"{dtype}.onnx")


def kept(folder: Path) -> Path:
    """A wide tensor that is read at once, and at the end by where another wide one is largest."""
    nodes = [
        node("Tile", "x times", "a"),
        node("ReduceMax", "a axes", "b"),
        node("Add", "x b", "c"),
        node("Tile", "c times", "d"),
        node("ArgMax", "d", "e"),
        node("Gather", "a e", "y"),
    ]
    constants = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("times", [64]), ("axes", [0]))]
    return saved(model(nodes, [value("x", (8,), HALF)], [value("y", (1,), HALF)], constants), folder)


def test_onnxruntime_rounds_by_neighbours() -> None:
    """Why: what a transpose passes on is rounded where somebody else reads it, too, and only there."""
    ort = pytest.importorskip("onnxruntime", reason="it is onnxruntime that rounds")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    nodes = [node("Exp", "x", "a"), node("Transpose", "a", "b"), node("Exp", "b", "y")]
    feed = {"x": np.random.default_rng(0).standard_normal((8, 8)).astype(np.float16)}
    made = []
    for shown in ((), ("b",)):
        outputs = [value(name, (8, 8), HALF) for name in ("y", *shown)]
        data = model(nodes, [value("x", (8, 8), HALF)], outputs).SerializeToString()
        made.append(ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feed)[0])
    assert not np.array_equal(*made)


@pytest.mark.parametrize(("dtype", "exact"), [(SINGLE, "bits"), (HALF, "kernel"), (BRAIN, "kernel")])
def test_cuts_of_copies_are_exact_in_single_precision_alone(tmp_path: Path, dtype: int, exact: str) -> None:
    """Of the same ops."""
    graph = read_model(wide(tmp_path, dtype))
    known = [meaning(graph, op) for op in graph.ops]
    assert {m.access.exactness(axis) for m in known if m is not None for axis in m.access.cuttable()} == {exact}


@pytest.mark.slow
def test_a_plan_of_half_precision_promises_no_bits(tmp_path: Path) -> None:
    """Nor is anything cut where bits are asked for; the checker takes no other word for it, and it runs as said."""
    single = lowtide.research.plan(wide(tmp_path, SINGLE), target="generic", allow="tile", exact_bits=True, time=2)
    assert (single.exactness, bool(single.rewrites)) == ("bits", True)
    source = wide(tmp_path, HALF)
    assert not lowtide.research.plan(source, target="generic", allow="tile", exact_bits=True, time=2).rewrites
    plan = lowtide.research.plan(source, target="generic", allow="tile", time=2)
    assert (plan.exactness, bool(plan.rewrites)) == ("kernel", True)
    with pytest.raises(VerificationError, match="promises 'bits', its cuts 'kernel'"):
        lowtide.verify(source, msgspec.structs.replace(plan, exactness="bits"))
    pytest.importorskip("onnxruntime", reason="what is written is run in it")
    run = lowtide.verify(source, plan, run=True).run
    assert run is not None
    assert all(o.as_promised and o.rounding == 2e-2 for o in run.outputs)


def test_a_second_run_in_half_precision_promises_no_bits(tmp_path: Path) -> None:
    """And is none where bits are asked for."""
    source = kept(tmp_path)
    plan = lowtide.research.plan(source, target="strict", allow="recompute", max_overhead="100%", time=2)
    assert (plan.exactness, bool(plan.rewrites)) == ("kernel", True)
    with pytest.raises(VerificationError, match="recomputed ops of half precision"):
        lowtide.verify(source, msgspec.structs.replace(plan, exactness=None))
    with pytest.raises(InputError, match="leave out --exact-bits"):
        lowtide.research.plan(source, target="strict", allow="recompute", max_overhead="100%", exact_bits=True)
