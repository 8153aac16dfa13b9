"""The cost of an op, as an integer in some unit.

The graph gives it per op (`Op.cost`). Otherwise it is floating-point operations if they are known (`Op.flops`), else
the bytes that an op reads and writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

from lowtide.graph import Graph
from lowtide.rewrites import CountedAs

MOST_UNITS = 2**52  # costs that are no integers are counted in at most this many units of their sum


@dataclass(frozen=True)
class Costs:
    """Costs of a graph's ops."""

    counted: CountedAs  # their source: ``"cost"`` of the file, ``"flops"`` or ``"bytes"``
    units: tuple[int, ...]  # an integer per op position
    scale: float  # units per counted item: a power of two, 1 for integers

    @property
    def total(self) -> int:
        """Units of running each op once."""
        return sum(self.units)


def costs_of(graph: Graph) -> Costs:
    """What the ops of a graph cost."""
    if any(op.cost is not None for op in graph.ops):
        return _integers("cost", [float(op.cost or 0) for op in graph.ops])
    if any(op.flops for op in graph.ops):
        return _integers("flops", [float(op.flops or 0) for op in graph.ops])
    sizes = {t.id: t.size for t in graph.tensors}
    return _integers("bytes", [float(sum(sizes[t] for t in (*op.inputs, *op.outputs))) for op in graph.ops])


def _integers(counted: CountedAs, given: list[float]) -> Costs:
    total = sum(given)
    if total < MOST_UNITS and all(cost.is_integer() for cost in given):
        return Costs(counted, tuple(int(cost) for cost in given), 1)
    scale = 2.0 ** (52 - frexp(total)[1])
    return Costs(counted, tuple(round(cost * scale) for cost in given), scale)
