"""Every public type crosses processes: pickled and back it is equal, or prints the same."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide import errors
from lowtide.allocate.buffers import Pair, Problem, block
from lowtide.api import Exports, MemoryUse
from lowtide.plan import Seconds
from lowtide.stop import Limits, Progress
from support.pt2_builder import archive
from support.pt2_builder import branches as pt2_branches
from support.random_graphs import random_graph
from support.small_models import branches, graph_file, onnx_file

NETWORK = "zoo:swiftnet_cell_a"
BUFFERS = [block("a", 0, 2, 16), block("b", 1, 3, 8)]


def _values(tmp_path: Path) -> dict[str, Any]:
    """One of each, as the public functions return them."""
    graph = lowtide.load(NETWORK)
    plan = lowtide.research.plan(graph, target="strict")
    banked = lowtide.research.plan(graph, target="strict", banks={"a": "160KB", "b": "1MB"})
    return {
        "Graph": graph,
        "Op": graph.ops[0],
        "Tensor": graph.tensors[0],
        "Kind": graph.tensors[0].kind,
        "Plan": plan,
        "Plan in banks": banked,
        "Plan with moves": lowtide.research.plan(graph, target="strict", memories=["fast=200KiB"]),
        "Target": lowtide.research.target("tflm"),
        "Board": lowtide.research.board("esp32s3"),
        "Comparison": lowtide.Comparison(
            model="m", runtime="r", figure="arena", today_bytes=2, planned_bytes=1, slowdown=1.0
        ),
        "Fit": lowtide.Fit("m", ("batch",), 3, "arena", 10, 9, 12),
        "Check": lowtide.check(graph, "1KiB", target="strict"),
        "Inspection": lowtide.inspect(graph, target="strict"),
        "WayToFit": lowtide.WayToFit("cuts", 1, True, "", "lowtide research plan"),
        "MethodResult": lowtide.research.compare(graph, ["own", "exact"], target="strict"),
        "Placement": lowtide.research.allocate(BUFFERS, 24),
        "Shared": lowtide.research.share([graph, graph], target="strict"),
        "Report": lowtide.verify(graph, plan, target="strict", prove=True),
        "Proof": lowtide.research.prove(graph, plan, target="strict"),
        "MemoryUse": MemoryUse("a", 1, 2, 0),
        "Exports": Exports(str(tmp_path / "h.h"), None, None),
        "Problem": Problem(tuple(BUFFERS), (Pair(0, 1, 0),)),
        "Limits": Limits(seconds=5.0),
        "Progress": Progress(2, 1, 0.5),
    }


@pytest.mark.slow
def test_every_public_value_survives(tmp_path: Path):
    """Equal to itself, and so is what it prints."""
    for name, value in _values(tmp_path).items():
        again = pickle.loads(pickle.dumps(value))
        assert again == value, name
        assert repr(again) == repr(value), name


@pytest.mark.slow
def test_nothing_public_is_forgotten(tmp_path: Path):
    """Each class that `lowtide` exports is among those tried, or an error (tests/test_errors.py)."""
    values = [v for value in _values(tmp_path).values() for v in (value if isinstance(value, list) else [value])]
    tried = {type(v).__name__ for v in values}
    for name in lowtide.__all__:
        kind = getattr(lowtide, name)
        if inspect.isclass(kind) and not issubclass(kind, errors.LowtideError):
            assert kind.__name__ in tried, name


def _file(form: str, folder: Path) -> Path:
    """A small model in a format."""
    match form:
        case "onnx":
            return onnx_file(folder)
        case "pt2":
            return archive(folder / "m.pt2", pt2_branches())
        case "tflite":
            from support.tflite_builder import residual  # skips where the extra tflite is not installed

            (folder / "m.tflite").write_bytes(residual().bytes())
            return folder / "m.tflite"
        case _:
            return graph_file(folder, branches())


@pytest.mark.parametrize("form", ["onnx", "tflite", "pt2", "graph_json"])
def test_graphs_of_every_format(tmp_path: Path, form: str):
    """Attributes and what a reader keeps of the file come along, so that the plan is the same."""
    graph = lowtide.load(_file(form, tmp_path))
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert [dict(op.attributes) for op in again.ops] == [dict(op.attributes) for op in graph.ops]
    assert lowtide.research.plan(again).required_bytes == lowtide.research.plan(graph).required_bytes


@pytest.mark.parametrize("seed", range(5))
def test_a_pickled_graph_is_planned_alike(seed: int):
    """The plan, but for its seconds, is the same bytes."""

    def plan_of(graph: lowtide.Graph) -> bytes:
        return msgspec.structs.replace(
            lowtide.research.plan(graph, target="generic", time=5), seconds=Seconds()
        ).to_json()

    graph = random_graph(Random(seed), 8)
    assert plan_of(pickle.loads(pickle.dumps(graph))) == plan_of(graph)
