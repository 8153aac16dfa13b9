"""A graph carries what its reader parsed: once loaded it is planned without its file."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest
from onnx import TensorProto

import lowtide
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.target import BUILT_IN
from support.onnx_builder import graph, model, node, saved, value
from support.pt2_builder import archive, call, document, meta


def _onnx(folder: Path) -> Path:
    body = graph([node("Neg", "a", "n"), node("Exp", "n", "t")], [], [value("t", (8,))])
    made = model(
        [node("Relu", "x", "a"), node("If", "c", "b", then_branch=body, else_branch=body), node("Add", "a b", "z")],
        [value("c", (), TensorProto.BOOL), value("x", (8,))],
        [value("z", (8,))],
    )
    return saved(made, folder)


def _pt2(folder: Path) -> Path:
    nodes = [call("relu.default", ["x"], ["a"]), call("add.Tensor", ["a", "x"], ["y"])]
    return archive(folder / "m.pt2", document(nodes, ["x"], ["y"], {n: meta([8]) for n in "xay"}))


def _tflite(folder: Path) -> Path:
    from support.tflite_builder import residual

    path = folder / "m.tflite"
    path.write_bytes(residual().bytes())
    return path


def _plan(model: Path | Graph, target: str) -> Plan:
    return msgspec.structs.replace(lowtide.research.plan(model, target=target, time=5), seconds=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(BUILT_IN))
@pytest.mark.parametrize("build", [_onnx, _pt2, _tflite], ids=["onnx", "pt2", "tflite"])
def test_a_graph_is_planned_without_its_file(tmp_path: Path, build, target: str) -> None:
    """Loaded, pickled or not, under every target, it has the plan that its file has."""
    path = build(tmp_path)
    expected = _plan(path, target)
    loaded = lowtide.load(path)
    path.unlink()
    assert _plan(loaded, target) == expected
    assert _plan(pickle.loads(pickle.dumps(loaded)), target) == expected


def test_bodies_are_measured_under_the_users_target(tmp_path: Path) -> None:
    """In place where the target writes in place; the plan is verified by code of the checker's own."""
    loaded = lowtide.load(_onnx(tmp_path))
    peaks = {
        target: lowtide.research.plan(loaded, target=target, time=5).peak_bytes for target in ("strict", "generic")
    }
    # At If: c, a and b, and of the body n and t, which lies over n where that is allowed.
    assert peaks == {"strict": 1 + 32 + 32 + 64, "generic": 1 + 32 + 32 + 32}
