"""Ops that are left out."""

from __future__ import annotations

from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.transform.merge import without_padding
from support.random_graphs import random_graph


def test_padding_is_read_through() -> None:
    """A Pad and a Slice of one convolution are part of it."""
    tensors = [Tensor(i, 4, Kind.INPUT if i == 0 else Kind.OUTPUT if i == 3 else Kind.ACTIVATION) for i in range(4)]
    ops = tuple(Op(i, (i,), (i + 1,), "", kind) for i, kind in enumerate(("Slice", "Pad", "Conv")))
    bypassed = without_padding(Graph("padded", tuple(tensors), ops))
    assert [(op.type, op.inputs) for op in bypassed.ops] == [("Conv", (0,))]
    assert [t.id for t in bypassed.tensors] == [0, 3]


def test_a_pad_that_makes_an_output_stays() -> None:
    """Somebody outside reads it."""
    tensors = (Tensor(0, 4, Kind.INPUT), Tensor(1, 4, Kind.OUTPUT))
    graph = Graph("end", tensors, (Op(0, (0,), (1,), "", "Pad"),))
    assert without_padding(graph).ops == graph.ops


def test_who_reads_is_reached_from_the_same_inputs() -> None:
    """On random graphs: each op that stays depends on the ops that stay as before, and the ends are the same."""
    rng = Random(5)
    left_out = 0
    for _ in range(60):
        graph = random_graph(rng, rng.randint(1, 9), plain=True)
        types = frozenset(op.type for op in graph.ops if rng.random() < 0.5)
        bypassed = without_padding(graph, types)
        left_out += len(graph.ops) - len(bypassed.ops)
        kept = {op.id for op in bypassed.ops}
        whole, less = ancestors(graph), ancestors(bypassed)
        assert all(less[i] <= whole[i] & kept for i in kept)
        ends = (Kind.INPUT, Kind.OUTPUT)
        assert [t for t in bypassed.tensors if t.kind in ends] == [t for t in graph.tensors if t.kind in ends]
    assert left_out > 20


def ancestors(graph: Graph) -> dict[int, set[int]]:
    """Of each op, every one that has to run before it."""
    found: dict[int, set[int]] = {}
    for i, op in enumerate(graph.ops):
        before = [graph.ops[p].id for p in graph.predecessors[i]]
        found[op.id] = set(before).union(*(found[b] for b in before))
    return found
