"""Orders of a step: its own so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.graph import Graph


def floor(graph: Graph) -> tuple[int, int]:
    """Bytes that the largest op takes with what it reads and makes, workspace included; and its id."""
    counted = {t.id: t.size for t in graph.tensors if t.id in graph.producer and t.alias_of is None}
    most = {
        op.id: op.workspace + sum(counted.get(t, 0) for t in dict.fromkeys((*op.inputs, *op.outputs)))
        for op in graph.ops
    }
    at = max(most, key=lambda op: (most[op], -op), default=0)
    return most.get(at, 0), at


def search(graph: Graph, seconds: Mapping[int, float], budget: int | None, time: float) -> Sequence[int]:
    """Ids of the ops as they should run."""
    return graph.own_order
