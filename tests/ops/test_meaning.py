"""Meanings of single ops: versions of the operator set, what is opaque and why, damaged nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.forms import Along, Indexed, Opaque
from lowtide.ops.index import FIXED
from lowtide.ops.meaning import Meaning, meaning
from support.onnx_rows import INSTANCES, Instance, ints


def meant(graph: Graph) -> Meaning:
    """Meaning of a graph's only op."""
    known = meaning(graph, graph.ops[0])
    assert known is not None
    return known


def test_softmax_by_version() -> None:
    """Before version 13 everything from the axis on is one."""
    assert meant(Instance("Softmax", ((2, 3, 4),), {"axis": 1}, 13).graph()).form == Along((1,))
    assert meant(Instance("Softmax", ((2, 3, 4),), {"axis": 1}, 12).graph()).form == Along((1, 2))
    assert meant(Instance("Softmax", ((2, 3, 4),), {}, 12).graph()).form == Along((1, 2))


def test_a_constant_row_is_named() -> None:
    """A gather of one row reads that row alone, whatever the part."""
    form = meant(Instance("Gather", ((3, 5), ints(-1)), {"axis": 1}).graph()).form
    assert isinstance(form, Indexed)
    assert form.indices[1] is not None
    assert form.indices[1].axis == FIXED
    assert form.indices[1].need(0, 1, 5) == (4, 5)


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        (Instance("Det", ((3, 3),)), "no row for Det"),
        (Instance("Slice", ((8,), ("int64", (1,)), ints(4)), results=(("float32", (3,)),)), "operand 1 is no constant"),
        (Instance("MaxPool", ((1, 1, 4, 4),), {"kernel_shape": [2, 2]}, outputs=("y", "at")), "indices count"),
        (Instance("Resize", ((1, 1, 4, 4), ints(0).astype("float32").repeat(8), None, ints(1, 1, 2, 2)),
                  {"coordinate_transformation_mode": "tf_crop_and_resize"}), "region of interest"),
    ],
)  # fmt: skip
def test_opaque_says_why(instance: Instance, reason: str) -> None:
    """An op without a map has a reason for people, and no axis."""
    known = meant(instance.graph())
    assert known.family == "opaque"
    assert isinstance(known.form, Opaque)
    assert known.opaque is not None
    assert reason in known.opaque
    assert known.access.sizes == ()


def test_ops_of_nobody_have_no_meaning() -> None:
    """Without a dialect names say nothing."""
    tensors = (Tensor(0, 4, Kind.INPUT, shape=(1,)), Tensor(1, 4, Kind.OUTPUT, shape=(1,)))
    op = Op(0, (0,), (1,), type="Relu")
    assert meaning(Graph("g", tensors, (op,)), op) is None


def test_flops_are_those_of_the_reader() -> None:
    """Where the reader counts them, both count alike."""
    counted = 0
    for instance in INSTANCES:
        graph = instance.graph()
        for op in graph.ops:
            known = meaning(graph, op)
            if op.flops is not None and known is not None:
                assert known.flops == op.flops, instance.label
                counted += 1
    assert counted >= 10


VALUES = st.one_of(
    st.none(), st.integers(-9, 9), st.floats(-3, 3), st.text(max_size=3), st.tuples(st.integers(-3, 9)), st.just(())
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damaged_nodes_are_opaque(data: st.DataObject) -> None:
    """Whatever attributes and shapes say, an op has a map or a reason, and nothing is raised."""
    graph = data.draw(st.sampled_from(INSTANCES)).graph()
    (op,) = graph.ops
    names = sorted(op.attributes) or ["axis"]
    attributes = {**op.attributes, data.draw(st.sampled_from(names)): data.draw(VALUES)}
    victim = data.draw(st.sampled_from(graph.tensors))
    shape = data.draw(st.one_of(st.none(), st.lists(st.integers(0, 5), max_size=5).map(tuple)))
    tensors = tuple(replace(t, shape=shape, value=None) if t.id == victim.id else t for t in graph.tensors)
    operands = op.operands
    if data.draw(st.booleans()) and len(operands) > 1:
        operands = operands[: data.draw(st.integers(0, len(operands) - 1))]
    damaged = replace(op, attributes=attributes, operands=operands, inputs=tuple(t for t in operands if t is not None))
    known = meaning(Graph("g", tensors, (damaged,), dialect="onnx", opset=graph.opset), damaged)
    assert known is not None
    assert (known.opaque is None) or known.access.sizes == ()
