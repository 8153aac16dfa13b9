"""Graphs of other granularity: ops merged or left out, constants apart, smaller elements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.kinds import kind_of
from lowtide_research import zoo
from lowtide_research.zoo.merge import eight_bits, one_op_per_convolution, one_parameter_each, without_padding
from support.random_graphs import random_graph


def test_activation_joins_its_convolution_only_if_nobody_else_reads() -> None:
    """Conv and Relu are one op; where the convolution's output has a second reader they stay two."""
    tensors = [Tensor(i, 4, Kind.INPUT if i == 0 else Kind.OUTPUT if i > 2 else Kind.ACTIVATION) for i in range(5)]
    ops = (Op(0, (0,), (1,), "", "Conv"), Op(1, (1,), (2,), "", "Relu"), Op(2, (2,), (3,), "", "Relu"))
    assert len(one_op_per_convolution(Graph("single", tuple(tensors[:4]), ops)).ops) == 1
    twice = (*ops, Op(3, (1,), (4,), "", "Relu"))
    merged = one_op_per_convolution(Graph("double", tuple(tensors), twice))
    assert [op.type for op in merged.ops] == ["Conv", "Relu", "Relu", "Relu"]
    assert all(a.id < b.id for a, b in pairwise(merged.ops))


def test_constants_of_what_joins_are_read_by_the_one() -> None:
    """The slope of an activation; positions of operands mean nothing any more."""
    tensors = (Tensor(0, 4, Kind.INPUT), Tensor(1, 4), Tensor(2, 1, Kind.CONSTANT), Tensor(3, 4, Kind.OUTPUT))
    ops = (Op(0, (0,), (1,), "", "Conv", operands=(0, None)), Op(1, (1, 2), (3,), "", "PRelu", operands=(1, 2)))
    (one,) = one_op_per_convolution(Graph("slope", tensors, ops)).ops
    assert (one.inputs, one.outputs, one.operands) == ((0, 2), (3,), ())


@pytest.mark.parametrize("name", ["darts_imagenet_normal_cell", "hrnet_w18_small_v1:side=32", "unet"])
def test_nothing_is_left_to_merge(name: str) -> None:
    """What still stands alone is read by several, follows no convolution, or makes an output; the ends stay."""
    graph = zoo.build(name).graph()
    merged = one_op_per_convolution(graph)
    assert len(merged.ops) < len(graph.ops)
    for op in merged.ops:
        row = kind_of(op.type)
        alone = [t for t in op.inputs if merged.tensor_by_id[t].kind is not Kind.CONSTANT]
        if row is None or not row.elementwise or len(alone) != 1 or alone[0] not in merged.producer:
            continue
        maker = merged.op_by_id[merged.producer[alone[0]]]
        shared = len(merged.consumers[alone[0]]) > 1 or merged.tensor_by_id[alone[0]].kind is Kind.OUTPUT
        assert shared or maker.type not in {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    ends = (Kind.INPUT, Kind.OUTPUT)
    assert [t for t in merged.tensors if t.kind in ends] == [t for t in graph.tensors if t.kind in ends]


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


def test_sizes_are_a_quarter_rounded_up() -> None:
    """Of every tensor; nothing else changes."""
    tensors = (Tensor(0, 8, Kind.INPUT), Tensor(1, 6, Kind.CONSTANT), Tensor(2, 0), Tensor(3, 9, Kind.OUTPUT))
    graph = Graph("small", tensors, (Op(0, (0, 1), (2,)), Op(1, (2, 1), (3,))))
    narrow = eight_bits(graph)
    assert [t.size for t in narrow.tensors] == [2, 2, 0, 3]
    assert narrow.ops == graph.ops
