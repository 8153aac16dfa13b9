"""Products in parts: the same bits, and less memory as a session opens."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

pytest.importorskip("onnxruntime", reason="pip install '.[run]'")
from lowtide.run import packed_weights
from lowtide.run.ort_session import new_session
from lowtide.run.packed_weights import split_packed
from lowtide.run.timing import Setup, run_fresh
from support.onnx_builder import value

ROWS, WIDE, COLUMNS = 3, 1024, 4500


def product(folder: Path, kind: str = "Gemm", *, turned: int = 0, first: int = 0) -> Path:
    """A product with a large weight, one of another width behind it if `first`."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    gemm = kind in ("Gemm", "FusedGemm")
    weights = [weight("w", *((COLUMNS, WIDE) if turned else (WIDE, COLUMNS)))]
    domain = "" if kind in ("Gemm", "MatMul") else "com.microsoft"
    node = helper.make_node(kind, ["x", "w", "c"] if gemm else ["x", "w"], ["a" if first else "y"], domain=domain)
    weights += [weight("c", COLUMNS)] * gemm
    nodes, width = [node], first or COLUMNS
    if kind != "MatMul":
        node.attribute.append(helper.make_attribute("transB", turned))
    if kind == "FusedGemm":
        node.attribute.append(helper.make_attribute("activation", "Relu"))
    if first:
        nodes.append(helper.make_node("MatMul", ["a", "v"], ["y"]))
        weights.append(weight("v", COLUMNS, first))
    graph = helper.make_graph(nodes, "g", [value("x", (ROWS, WIDE))], [value("y", (ROWS, width))], weights)
    graph.value_info.append(value("a", (ROWS, COLUMNS)))
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    file = folder / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=8), str(file))
    return file


def outputs(file: Path) -> bytes:
    """Of a random input."""
    x = np.random.default_rng(1).standard_normal((ROWS, WIDE)).astype(np.float32)
    return new_session(str(file), "DISABLE_ALL", 0).run(None, {"x": x})[0].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "turned"),
    [("Gemm", 0), ("Gemm", 1), ("MatMul", 0), ("FusedGemm", 0), ("FusedMatMul", 0), ("FusedMatMul", 1)],
)
def test_a_large_weight_is_split_by_columns(kind: str, turned: int, tmp_path: Path) -> None:
    """No part is larger than what a run takes anyway, all together are the weight, and no bit of the result differs."""
    file = product(tmp_path, kind, turned=turned)
    before = outputs(file)
    split_packed(file)
    graph = onnx.load(str(file)).graph
    assert {node.op_type for node in graph.node} == {kind, "Concat"}
    sizes = [prod(t.dims) for t in graph.initializer if len(t.dims) == 2]
    assert sum(sizes) == WIDE * COLUMNS
    assert 4 * max(sizes) <= packed_weights._RUN_BYTES + 4 * WIDE * packed_weights._MULTIPLE
    onnx.checker.check_model(onnx.load(str(file)), full_check=not kind.startswith("Fused"))
    assert outputs(file) == before


@pytest.mark.slow
def test_what_saves_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight before a larger one is in memory twice at no cost; and a node whose parts compute other bits stays."""
    file = product(tmp_path, first=1100)
    split_packed(file)
    graph = onnx.load(str(file)).graph
    assert [node.op_type for node in graph.node if node.output[0] in ("a", "y")] == ["Gemm", "Concat"]
    monkeypatch.setattr(packed_weights._Products, "_same", lambda *_: False)
    file = product(tmp_path)
    before = file.read_bytes()
    split_packed(file)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_process_takes_less(tmp_path: Path) -> None:
    """About the weight less, as a session opens whose weights are in a file of their own."""
    mapped = []
    for folder in (tmp_path / "one", tmp_path / "parts"):
        folder.mkdir()
        file = product(folder)
        if folder.name == "parts":
            split_packed(file)
        model = onnx.load(str(file))
        onnx.save(model, str(file), save_as_external_data=True, location="product.data", size_threshold=1024)
        mapped.append(Setup(file, folder / "outputs.npz"))
    one, parts = run_fresh(mapped, tmp_path / "feeds.npz", {}, runs=1)
    assert parts.model_bytes < one.model_bytes - 0.6 * 4 * WIDE * COLUMNS
