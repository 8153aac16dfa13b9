"""What ops with labels take by a cost file's families, untiled or in parts: seconds by operations and bytes.

The family of an op is its type; ``other`` where the file has no such family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lowtide.cost.file import OTHER, CostFamily, CostFile
from lowtide.errors import InputError
from lowtide.graph import Graph

Families = Mapping[str, CostFamily]
DIALECT = "labels"


def families_of(file: CostFile, place: str) -> Families:
    """The families of a file for ops with labels. Raises `InputError` if it is for others."""
    if file.dialect not in ("", DIALECT):
        raise InputError(f"it is of {file.dialect} ops, and the graph's have labels; take one of labels", place)
    return file.families


def estimated(families: Families) -> Callable[[str, float, float], float]:
    """Seconds of an op of a type, of a given number of operations, that reads and writes a given number of bytes."""
    return lambda op_type, flops, size: families.get(op_type, families[OTHER]).seconds(flops, size)


def priced(graph: Graph, families: Families) -> Graph:
    """The graph with each op's seconds as its cost; an operand that is read twice counts twice."""
    sizes, estimate = graph.tensor_by_id, estimated(families)
    ops = [
        replace(op, cost=estimate(op.type, op.flops or 0, sum(sizes[t].size for t in (*op.inputs, *op.outputs))))
        for op in graph.ops
    ]
    return replace(graph, ops=tuple(ops))
