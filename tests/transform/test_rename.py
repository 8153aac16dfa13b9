"""What every change of a graph needs."""

from __future__ import annotations

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.transform.rename import of_ops, reading


def test_an_op_reads_others_at_every_position() -> None:
    """Inputs and operands; what is left out stays so, and an op that reads none of them is the same."""
    op = Op(0, (1, 2, 1), (3,), operands=(1, None, 2, 1))
    changed = reading(op, {1: 7})
    assert (changed.inputs, changed.operands) == ((7, 2, 7), (7, None, 2, 7))
    assert reading(op, {5: 7}) is op


def test_the_graph_of_some_ops_has_what_they_need() -> None:
    """Ends and constants stay; an alias of what is gone has storage of its own; no file, no dialect."""
    tensors = (
        Tensor(0, 4, Kind.INPUT), Tensor(1, 4), Tensor(2, 4, alias_of=1, alias_offset=2), Tensor(3, 4, Kind.OUTPUT),
        Tensor(4, 1, Kind.CONSTANT),
    )  # fmt: skip
    ops = (Op(0, (0,), (1,)), Op(1, (1,), (2,)), Op(2, (2,), (3,)))
    graph = Graph("whole", tensors, ops, source="a.onnx", sha256="0" * 64, dialect="onnx")
    part = of_ops(graph, [Op(1, (0,), (2,)), ops[2]])
    assert [t.id for t in part.tensors] == [0, 2, 3, 4]
    assert (part.tensor_by_id[2].alias_of, part.tensor_by_id[2].alias_offset) == (None, 0)
    assert (part.source, part.sha256, part.dialect) == ("", "", "")
