"""What running an op costs: the file's figures first, then what stands in for them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from lowtide.graph import Graph
from lowtide.optimize.recompute.costs import costs_of
from support.sequences import costly_graph


def graph_with(cost: float | None, flops: int | None) -> Graph:
    """A graph whose first op alone says what it costs."""
    graph = costly_graph(Random(1), 4)
    first, *others = (replace(op, cost=None) for op in graph.ops)
    return replace(graph, ops=(replace(first, cost=cost, flops=flops), *others))


def test_the_files_costs_come_first():
    """An op without one costs nothing then; else FLOPs count, else bytes read and made."""
    assert costs_of(graph_with(3, 5)).counted == "cost"
    assert costs_of(graph_with(3, 5)).units == (3, 0, 0, 0)
    assert costs_of(graph_with(None, 5)).units == (5, 0, 0, 0)
    plain = graph_with(None, None)
    size = plain.tensor_by_id
    assert costs_of(plain).units == tuple(sum(size[t].size for t in (*op.inputs, *op.outputs)) for op in plain.ops)


def test_parts_of_one_are_counted_in_parts_of_the_sum():
    """Whole numbers stay as they are; others keep twelve digits of what all cost together."""
    assert costs_of(graph_with(7, None)).scale == 1
    costs = costs_of(graph_with(0.1, None))
    assert costs.scale > 2**40
    assert abs(costs.total / costs.scale - 0.1) < 1e-12
