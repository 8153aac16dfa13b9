"""SERENITY's graph rewriter (MLSys 2020, section 3.3) on all of a graph: what the paper's Table 2 orders.

A plan with ``allow="concat"`` rewrites only what its peak needs. Here every concat goes whose consumers can take its
operands one by one::

    concat - conv        ->  conv per operand - sum                      (channel-wise partitioning, equations 3 to 6)
    concat - depthwise   ->  depthwise per operand - concat              (kernel-wise partitioning, equations 7 and 8)

Concats at which the graph is divided (`hourglass_ops`) stay: a partition of the paper ends there. The sum is one node,
as in Figure 9; with `pairs` it is added up two by two, as in lowtide's plans. The paper prints
92 = {33, 28, 29} nodes for SwiftNet, which add up to 90.
"""

from __future__ import annotations

from dataclasses import replace

from lowtide.api.models import load_for
from lowtide.graph import Graph, Op
from lowtide.transform.cut import Cutter
from lowtide.transform.seam_parts import apply_with_elimination
from lowtide.transform.seams import find_elimination
from lowtide_research.schedule.serenity_parts import hourglass_ops


def rewritten(graph: Graph, *, pairs: bool = False) -> Graph:
    """The graph with every concat eliminated that can be, in an order that is topological; the graph itself if none
    can. A network of the zoo gets its operators first. `pairs`: whether sums are added up two by two.

    Examples
    --------
    >>> from lowtide_research import zoo
    >>> from lowtide_research.schedule.serenity_parts import at_hourglasses
    >>> [len(segment) for segment in at_hourglasses(rewritten(zoo.build("swiftnet_cells").graph()))]
    [33, 28, 29]
    """
    graph = graph if graph.dialect else load_for(graph.source, tiles=True)
    cutter = Cutter(graph)
    elimination = find_elimination(cutter, [graph.ops[v].id for v in hourglass_ops(graph)])
    if not elimination.cuts:
        return graph
    parts = apply_with_elimination(cutter, (), elimination).graph
    return parts if pairs else _with_one_sum(parts, {op.id for op in graph.ops})


def _with_one_sum(graph: Graph, before: set[int]) -> Graph:
    """Each chain of additions that the rewriting made as one op, where the last addition was."""
    made = {op.outputs[0]: op for op in graph.ops if op.type == "Add" and op.id not in before}
    inner = {t for op in made.values() for t in op.inputs if t in made and graph.consumers[t] == (op.id,)}

    def operands(op: Op) -> tuple[int, ...]:
        return tuple(u for t in op.inputs for u in (operands(made[t]) if t in inner else (t,)))

    ops = [
        replace(op, inputs=operands(op), type="Sum", operands=()) if op.outputs[0] in made else op
        for op in graph.ops
        if op.outputs[0] not in inner
    ]
    return replace(graph, tensors=tuple(t for t in graph.tensors if t.id not in inner), ops=tuple(ops))
