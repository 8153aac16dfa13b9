"""Several ops as one."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.table import kind_of
from lowtide.transform.merge import one_op_per_convolution
from lowtide_research import zoo


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
