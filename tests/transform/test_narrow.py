"""Smaller elements."""

from __future__ import annotations

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.transform.merge import eight_bits


def test_sizes_are_a_quarter_rounded_up() -> None:
    """Of every tensor; nothing else changes."""
    tensors = (Tensor(0, 8, Kind.INPUT), Tensor(1, 6, Kind.CONSTANT), Tensor(2, 0), Tensor(3, 9, Kind.OUTPUT))
    graph = Graph("small", tensors, (Op(0, (0, 1), (2,)), Op(1, (2, 1), (3,))))
    narrow = eight_bits(graph)
    assert [t.size for t in narrow.tensors] == [2, 2, 0, 3]
    assert narrow.ops == graph.ops
