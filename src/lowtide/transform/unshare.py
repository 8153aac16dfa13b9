"""Constants that several ops read become copies, one for each reader."""

from __future__ import annotations

from dataclasses import replace

from lowtide.graph import Graph, Kind
from lowtide.transform.rename import reading


def one_parameter_each(graph: Graph) -> Graph:
    """The graph with a copy of its own for each op that reads a constant; the first reader keeps the original.

    COSMA (section V-B): "parameter tensors are used only for single operators". Exported graphs share scalars such as
    an epsilon or a scale.
    """
    constants = {t.id for t in graph.tensors if t.kind is Kind.CONSTANT}
    tensors, ops = list(graph.tensors), []
    fresh = max((t.id for t in tensors), default=0) + 1
    taken: set[int] = set()
    for op in graph.ops:
        copies: dict[int, int] = {}
        for t in dict.fromkeys(t for t in op.inputs if t in constants):
            if t in taken:
                tensors.append(replace(graph.tensor_by_id[t], id=fresh))
                copies[t] = fresh
                fresh += 1
            taken.add(t)
        ops.append(reading(op, copies))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))
