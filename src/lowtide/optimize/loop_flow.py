"""Row-streaming candidates by data flow: the ops that have to run together so that a tensor is never materialised.

A set begins with a tensor and one of its dimensions: its producer, its consumers, and all ops on paths between them. It
grows by the tensors at its edge, the largest first: other consumers of an inner tensor, or the producer of a tiled
operand with all its consumers. Each set is convex, so in some order its ops are neighbours. Regions are grown in the
same way (`core/cut/grown.h`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field

from lowtide.graph import Graph
from lowtide.transform.loop_growth import Growth
from lowtide.transform.loops import LoopRules

LONGEST = 128  # ops of a set at the most


@dataclass
class Flow:
    """Precedence as bits: bit i of `before[k]` is set if op i has to run before op k."""

    graph: Graph
    before: list[int] = field(init=False)
    after: list[int] = field(init=False)

    def __post_init__(self) -> None:
        preds = self.graph.predecessors
        self.before, self.after = [0] * len(preds), [0] * len(preds)
        for k in self._sorted(preds):
            for p in preds[k]:
                self.before[k] |= self.before[p] | 1 << p
        for k, bits in enumerate(self.before):
            for p in members(bits):
                self.after[p] |= 1 << k

    @staticmethod
    def _sorted(preds: Sequence[Collection[int]]) -> list[int]:
        from graphlib import TopologicalSorter

        return list(TopologicalSorter(dict(enumerate(preds))).static_order())

    def between(self, ops: Collection[int]) -> list[int]:
        """Ops, by position, that have to run between some of these and are none of them."""
        before, after = self.around(ops)
        return list(members(before & after))

    def around(self, ops: Collection[int]) -> tuple[int, int]:
        """Others that have to run before some of these ops, and after some, as bits."""
        before = after = mine = 0
        for k in ops:
            before, after, mine = before | self.before[k], after | self.after[k], mine | 1 << k
        return before & ~mine, after & ~mine

    def gathered(self, order: Sequence[int], together: Collection[int], at: int) -> tuple[int, ...]:
        """The order in which some ops are neighbours, as near as can be to a position of it: what they need comes
        before them, what needs them after, all else stays on its side. Nothing has to run between them."""
        before, after = self.around(together)
        first, mine, last = [], [], []
        for place, k in enumerate(order):
            if k in together:
                mine.append(k)
            elif before >> k & 1 or (place < at and not after >> k & 1):
                first.append(k)
            else:
                last.append(k)
        return (*first, *mine, *last)


def members(bits: int) -> Iterator[int]:
    """Positions of the bits that are set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


@dataclass
class FlowSets:
    """Grows sets of ops of a graph."""

    rules: LoopRules
    flow: Flow
    streamed: frozenset[int] = frozenset()

    def sets(self, tensor: int, dim: int) -> Iterator[Growth]:
        """Sets from a dimension of a tensor, each within the next."""
        rules, graph = self.rules, self.rules.graph
        maker = graph.producer.get(tensor)
        known = None if maker is None else rules.meaning(maker)
        if maker is None or known is None:
            return
        axis = known.access.outputs[graph.op_by_id[maker].outputs.index(tensor)][dim]
        if axis is None or rules.counts(maker, (axis,)) == [1] or not rules.may(maker, (axis,)):
            return
        grown = self._with(Growth(rules, maker, (axis,), self.streamed), graph.consumers.get(tensor, ()))
        refused: set[tuple[int, bool]] = set()
        while grown is not None:
            yield grown
            now, grown = grown, None
            for edge in self._edges(now):
                if edge in refused:
                    continue
                t, behind = edge
                taken = graph.consumers.get(t, ()) if behind else (graph.producer[t], *graph.consumers.get(t, ()))
                grown = self._with(now, taken)
                if grown is not None:
                    break
                refused.add(edge)

    def _edges(self, growth: Growth) -> list[tuple[int, bool]]:
        """(tensor, whether its producer is in the set) of materialised tensors that could be streamed, the largest
        first."""
        rules, graph = self.rules, self.rules.graph
        result = dict[tuple[int, bool], int]()
        for o, axes in growth.axes.items():
            for t in graph.op_by_id[o].outputs:
                if t in growth.dims and any(r not in growth.inside for r in graph.consumers.get(t, ())):
                    result[t, True] = graph.tensor_by_id[t].size
            for t in {t for t, _ in rules.reads(o)}:
                maker = graph.producer.get(t)
                if maker is not None and maker not in growth.inside and rules.read_along(o, t, axes) is not None:
                    result[t, False] = graph.tensor_by_id[t].size
        return sorted(result, key=lambda edge: (-result[edge], edge))

    def _with(self, growth: Growth, ops: Collection[int]) -> Growth | None:
        """The set with more ops, and what has to run between; None if that is no loop, or too long."""
        graph = self.rules.graph
        grown = copy(growth)
        grown.axes, grown.dims = dict(growth.axes), dict(growth.dims)
        grown.inside, grown.pending = set(growth.inside), set(growth.pending)
        more = sorted({graph.index_of[o] for o in ops if o not in grown.inside})
        while more:
            for k in more:
                grown.add(graph.ops[k].id)
                if grown.stuck or len(grown.inside) > LONGEST:
                    return None
            more = self.flow.between([graph.index_of[o] for o in grown.inside])
        return None if grown.pending else grown
