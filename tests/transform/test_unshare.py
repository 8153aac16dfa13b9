"""Constants that several ops read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.transform.merge import one_parameter_each
from support.random_graphs import random_graph


def test_each_reader_gets_its_own() -> None:
    """The first keeps the original; an op that reads it twice reads its copy twice, at the same positions."""
    tensors = (Tensor(0, 8, Kind.INPUT), Tensor(1, 6, Kind.CONSTANT), Tensor(2, 8), Tensor(3, 8, Kind.OUTPUT))
    graph = Graph("shared", tensors, (Op(0, (0, 1), (2,)), Op(1, (2, 1, 1), (3,), operands=(2, None, 1, 1))))
    apart = one_parameter_each(graph)
    assert [op.inputs for op in apart.ops] == [(0, 1), (2, 4, 4)]
    assert apart.ops[1].operands == (2, None, 4, 4)
    assert apart.tensor_by_id[4] == replace(tensors[1], id=4)


def test_afterwards_no_constant_has_two_readers() -> None:
    """On random graphs whose inputs become constants; every op reads as many bytes as before."""
    rng = Random(9)
    copies = 0
    for _ in range(60):
        graph = random_graph(rng, rng.randint(2, 9), plain=True, aliases=0)
        inputs = {t.id for t in graph.tensors if t.kind is Kind.INPUT}
        graph = replace(
            graph, tensors=tuple(replace(t, kind=Kind.CONSTANT) if t.id in inputs else t for t in graph.tensors)
        )
        apart = one_parameter_each(graph)
        readers = Counter(t for op in apart.ops for t in dict.fromkeys(op.inputs))
        assert all(readers[t.id] <= 1 for t in apart.tensors if t.kind is Kind.CONSTANT)
        for before, after in zip(graph.ops, apart.ops, strict=True):
            sizes = [graph.tensor_by_id[t].size for t in before.inputs]
            assert sizes == [apart.tensor_by_id[t].size for t in after.inputs]
        copies += len(apart.tensors) - len(graph.tensors)
    assert copies > 20
