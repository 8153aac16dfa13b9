"""Axis classes of small graphs, by hand."""

from __future__ import annotations

from pathlib import Path

from lowtide.graph import Graph
from lowtide.ops.links import axis_classes
from lowtide.read import read_model
from support.onnx_builder import constant, model, node, saved, value


def read(folder: Path, nodes: list, x: tuple[int, ...], y: tuple[int, ...], **weights: tuple[int, ...]) -> Graph:
    """A graph from nodes, the shapes of its input and result, and of its weights."""
    fixed = [constant(name, [0.5] * _elements(shape), shape) for name, shape in weights.items()]
    return read_model(saved(model(nodes, [value("x", x)], [value("y", y)], fixed), folder))


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def named(graph: Graph, **options: bool) -> list[set[tuple[str, int]]]:
    """Classes with tensors by their names."""
    return [{(graph.tensor_by_id[t].name, d) for t, d in members} for members in axis_classes(graph, **options)]


def test_an_mlp_has_three_classes(tmp_path: Path) -> None:
    """Tokens run through; features in, hidden and out are one class each, and run along the weights."""
    nodes = [node("MatMul", "x a", "h"), node("Relu", "h", "r"), node("MatMul", "r b", "y")]
    graph = read(tmp_path, nodes, (4, 3), (4, 5), a=(3, 7), b=(7, 5))
    assert named(graph) == [
        {("x", 0), ("h", 0), ("r", 0), ("y", 0)},
        {("a", 1), ("h", 1), ("r", 1), ("b", 0)},
        {("x", 1), ("a", 0)},
        {("y", 1), ("b", 1)},
    ]


def test_windows_link_if_asked_to(tmp_path: Path) -> None:
    """Rows of a convolution run together with rows of its operand, though not one by one."""
    graph = read(tmp_path, [node("Conv", "x w", "y")], (1, 2, 8), (1, 3, 6), w=(3, 2, 3))
    assert {("x", 2), ("y", 2)} in named(graph)
    assert {("x", 2), ("y", 2)} not in named(graph, windows=False)
    assert {("x", 1), ("w", 1)} in named(graph, windows=False)


def test_softmax_cuts_a_class(tmp_path: Path) -> None:
    """What an op sees whole is in no link of its."""
    graph = read(tmp_path, [node("Softmax", "x", "y", axis=-1)], (4, 3), (4, 3))
    assert named(graph) == [{("x", 0), ("y", 0)}]
