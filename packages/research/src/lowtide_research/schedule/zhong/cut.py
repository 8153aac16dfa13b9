"""A lower bound for the peak by minimum cuts, one node at a time; not the paper's.

Whatever the order, some set D of nodes has run when node v runs: all its ancestors, none of its descendants. A storage
is live then if something that touches it is in D (or it is there from the start) and something is not (or it stays).
Which D holds least is a minimum cut::

    source = D          u in D  =>  p(b) on the source side     for u that touches b
       p(b) --size(b)--> q(b)
    sink = the others   q(b) on the source side  =>  u in D     for u that touches b

The integer programs start from this bound: their relaxations are weak, and where the bound is met nothing is left to
prove.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from lowtide_research.schedule.zhong.problem import ReducedProblem

UNLIMITED = 1 << 62
MAX_NODES = 1000
"""Larger problems are left alone."""


def cut_bound(problem: ReducedProblem, order: Sequence[int], least: int = 0, enough: int = UNLIMITED) -> int:
    """Bytes that no order of the nodes beats. `order`: any order; a node's footprint in it is above what a cut can
    prove at that node, so most need none. `least`: a bound that is known already. `enough`: stop as soon as this is
    proved."""
    if problem.n > MAX_NODES:
        return least
    footprints = sorted(((f, -v) for v, f in zip(order, problem.footprints(order), strict=True)), reverse=True)
    for footprint, v in footprints:
        if footprint <= least or least >= enough:
            break
        least = max(least, _least_footprint(problem, -v, enough))
    return least


def _least_footprint(problem: ReducedProblem, v: int, enough: int) -> int:
    """Least footprint of node `v` over all orders; not worked out past `enough`."""
    before, after = problem.ancestors[v], problem.descendants[v] | 1 << v
    network = _CutNetwork()
    free = {u: network.add_node() for u in range(problem.n) if not (before | after) >> u & 1}
    for u, node in free.items():
        for w in problem.preds[u]:
            if w in free:
                network.add_arc(node, free[w], UNLIMITED)
    held = problem.extra[v] - max((saving for _, saving in problem.overwrites[v]), default=0)
    for storage in problem.storages:
        users = sum(1 << u for u in storage.users)
        begun, lasts = storage.at_start or users & before, storage.at_end or users & after
        if users >> v & 1 or (begun and lasts):
            held += storage.size
            continue
        p = network.SOURCE if begun else network.add_node()
        q = network.SINK if lasts else network.add_node()
        network.add_arc(p, q, storage.size)
        for u in storage.users:
            if u in free and not begun:
                network.add_arc(free[u], p, UNLIMITED)
            if u in free and not lasts:
                network.add_arc(q, free[u], UNLIMITED)
    return held + network.flow(enough - held)


class _CutNetwork:
    """Arcs with capacities; the flow from SOURCE to SINK along shortest paths."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self.arcs: list[list[int]] = [[], []]
        self.head: list[int] = []
        self.room: list[int] = []

    def add_node(self) -> int:
        self.arcs.append([])
        return len(self.arcs) - 1

    def add_arc(self, tail: int, head: int, room: int) -> None:
        self.arcs[tail].append(len(self.head))
        self.arcs[head].append(len(self.head) + 1)
        self.head += [head, tail]
        self.room += [room, 0]

    def flow(self, enough: int) -> int:
        total = 0
        while total < enough and (path := self._path()):
            amount = min(self.room[arc] for arc in path)
            for arc in path:
                self.room[arc] -= amount
                self.room[arc ^ 1] += amount
            total += amount
        return total

    def _path(self) -> list[int]:
        """Arcs of a shortest path with room, last one first; empty if there is none."""
        arc_to = {self.SOURCE: -1}
        waiting = deque([self.SOURCE])
        while waiting and self.SINK not in arc_to:
            u = waiting.popleft()
            for arc in self.arcs[u]:
                if self.room[arc] and self.head[arc] not in arc_to:
                    arc_to[self.head[arc]] = arc
                    waiting.append(self.head[arc])
        path, at = [], self.SINK
        while at != self.SOURCE:
            if at not in arc_to:
                return []
            path.append(arc_to[at])
            at = self.head[arc_to[at] ^ 1]
        return path
