"""Several ops as one, as papers count them: a convolution with its normalisation and activation."""

from __future__ import annotations

from dataclasses import replace

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.table import kind_of
from lowtide.transform.rename import of_ops

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def one_op_per_convolution(graph: Graph, *, after: frozenset[str] | None = CONVOLUTIONS) -> Graph:
    """Make one op of a convolution and the normalisation and activation behind it, if the values between have no other
    consumer.

    Parameters
    ----------
    after
        Types of the ops that others are merged into; None is all (so that Add and Relu become one as well).

    Returns
    -------
    Graph
        A separate graph for measurements: its orders are not of the user's ops.
    """
    head: dict[int, int] = {}
    merged: dict[int, Op] = {op.id: op for op in graph.ops}
    gone: set[int] = set()
    for op in graph.ops:
        read = _only_read(graph, op)
        if read is None:
            continue
        maker = graph.producer[read]
        first = head.get(maker, maker)
        if graph.consumers[read] != (op.id,) or len(merged[first].outputs) != 1:
            continue
        if after is not None and merged[first].type not in after:
            continue
        extra = tuple(t for t in op.inputs if t != read)
        merged[first] = replace(merged[first], inputs=(*merged[first].inputs, *extra), outputs=op.outputs, operands=())
        head[op.id] = first
        gone.add(op.id)
    return of_ops(graph, [merged[op.id] for op in graph.ops if op.id not in gone])


def _only_read(graph: Graph, op: Op) -> int | None:
    """The tensor that an op follows: the only one it reads, constants apart, which an op makes and which is no output
    of the graph. None if there is none, or if the op does more than change single elements."""
    read = [t for t in dict.fromkeys(op.inputs) if graph.tensor_by_id[t].kind is not Kind.CONSTANT]
    row = kind_of(op.type)
    plain = row is not None and (row.elementwise or row.family == "batch_normalisation")
    if not plain or len(read) != 1 or len(op.outputs) != 1 or op.after or read[0] not in graph.producer:
        return None
    return None if graph.tensor_by_id[read[0]].kind is Kind.OUTPUT else read[0]
