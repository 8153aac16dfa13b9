"""An oracle of plans whose ops run more than once: the least cost within a budget, by looking at every set of tensors
that can be live. Nothing here is lowtide's.

A plan runs ops in any order, each as often as it likes, when what it reads is live; it may drop any tensor at any time,
and has all outputs at the end. A dropped input does not come back. A view is a further name of the bytes that it reads:
these are there while one of their names is live, and not made anew before.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from support.changed_nets import Net
from support.changed_ops import ELEMENTWISE, VIEWS


class Runs:
    """Plans for one net.

    Parameters
    ----------
    costs
        Of a run of each op.
    in_place
        Whether an elementwise op may write over an operand of the same size, no graph input, that is not read again.
    views
        Whether a view takes no bytes.
    """

    def __init__(self, net: Net, costs: Sequence[int], *, in_place: bool, views: bool) -> None:
        self.net, self.costs = net, costs
        self.size = [net.bytes_of(t) for t in range(len(net.shapes))]
        self.inputs = sum(1 << t for t in net.inputs if any(t in op.reads for op in net.ops))
        self.outputs = sum(1 << t for t in net.outputs)
        self.reads = [sum(1 << t for t in set(op.reads)) for op in net.ops]
        self.makes = [sum(1 << t for t in op.makes) for op in net.ops]
        root = list(range(len(net.shapes)))
        for op in net.ops:
            if views and op.kind in VIEWS:
                root[op.makes[0]] = root[op.reads[0]]
        self.names = [sum(1 << t for t, r in enumerate(root) if r == own) for own in root]
        self.taken = [  # none of these may be live when an op runs
            sum({self.names[t] if root[t] == t else 1 << t for t in op.makes}) for op in net.ops
        ]
        self.roots = [t for t, r in enumerate(root) if t == r]
        self.over = [
            [t for t in set(op.reads) if root[t] not in net.inputs and self.size[t] == self.size[op.makes[0]]]
            if in_place and op.kind in ELEMENTWISE
            else []
            for op in net.ops
        ]
        self._bytes: dict[int, int] = {}

    def bytes_of(self, live: int) -> int:
        """Of the tensors of a set."""
        if live not in self._bytes:
            self._bytes[live] = sum(self.size[t] for t in self.roots if live & self.names[t])
        return self._bytes[live]

    def least_cost(self, budget: int) -> int | None:
        """Of all plans within a budget; None: there is no such plan."""
        if self.bytes_of(self.inputs) > budget:
            return None
        best, heap = {self.inputs: 0}, [(0, self.inputs)]
        while heap:
            cost, live = heapq.heappop(heap)
            if cost > best[live]:
                continue
            if live & self.outputs == self.outputs:
                return cost
            for after, more in self._next(live, budget):
                if cost + more < best.get(after, cost + more + 1):
                    best[after] = cost + more
                    heapq.heappush(heap, (cost + more, after))
        return None

    def least_peak(self, most_cost: int) -> int:
        """Of all plans of no more than a cost, each op at least once."""
        sizes = sorted({self.bytes_of(live) for live in range(1 << len(self.size))})
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            cost = self.least_cost(sizes[middle])
            low, high = (low, middle) if cost is not None and cost <= most_cost else (middle + 1, high)
        return sizes[low]

    def _next(self, live: int, budget: int) -> list[tuple[int, int]]:
        """Sets that are live after one thing more, and what it costs."""
        found = [(live & ~(1 << t), 0) for t in range(len(self.size)) if live >> t & 1]
        for v, reads in enumerate(self.reads):
            if reads & ~live or self.taken[v] & live:
                continue
            after = live | self.makes[v]
            ways = [after, *(after & ~self.names[t] for t in self.over[v])]
            found += [(way, self.costs[v]) for way in ways if self.bytes_of(way) <= budget]
        return found
