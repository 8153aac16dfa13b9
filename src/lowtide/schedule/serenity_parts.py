"""Where SERENITY divides a graph: at hourglass ops, or at the cells of a network that is no chain of cells.

An op is an *hourglass* if every other op is its ancestor or its descendant (SERENITY, Figure 7; dominator and
post-dominator of all, whatever the sizes)::

    a -- b -+- c -+- e -- f -+- g -+- i        hourglass ops: a b e f i
            +- d -+          +- h -+           segments: {a b} {c d e f} {g h i}

All its ancestors come before it in every order, all its descendants after it. So every order runs what is up to it
first and the rest then, and cutting behind it loses no order.
"""

from __future__ import annotations

from lowtide.graph import Graph

Segments = list[list[int]]
"""A partition of the positions in own order. Joined up, the segments are an order; inside, positions ascend."""


def hourglass_ops(graph: Graph) -> list[int]:
    """Positions of the ops that are comparable to every other op, ascending. Takes time linear in the graph.

    The own order is topological. So op v is one exactly if every earlier op has a successor at or before v, and
    every later op a predecessor at or behind it: follow those, and v is reached.
    """
    n = len(graph.ops)
    first_successor = [n] * n
    last_predecessor = [-1] * n
    for v, before in enumerate(graph.predecessors):
        if before:
            last_predecessor[v] = before[-1]
        for u in before:
            first_successor[u] = min(first_successor[u], v)
    reached_late = [0] * n  # largest first successor of the ops before
    for v in range(1, n):
        reached_late[v] = max(reached_late[v - 1], first_successor[v - 1])
    found = []
    waits_early = n  # smallest last predecessor of the ops behind
    for v in reversed(range(n)):
        if reached_late[v] <= v <= waits_early:
            found.append(v)
        waits_early = min(waits_early, last_predecessor[v])
    return found[::-1]


def at_hourglasses(graph: Graph) -> Segments:
    """Cut behind every hourglass op. What would be a segment of a single op joins the segment before it.

    Examples
    --------
    >>> from lowtide.graph import Kind, Op, Tensor
    >>> reads = [(), (0,), (1,), (1,), (2, 3), (4,), (5,), (5,), (6, 7)]
    >>> graph = Graph(
    ...     "two cells",
    ...     tuple(Tensor(i, 1, Kind.OUTPUT if i == 8 else Kind.ACTIVATION) for i in range(9)),
    ...     tuple(Op(i, r, (i,)) for i, r in enumerate(reads)),
    ... )
    >>> hourglass_ops(graph)
    [0, 1, 4, 5, 8]
    >>> at_hourglasses(graph)
    [[0, 1], [2, 3, 4, 5], [6, 7, 8]]
    """
    segments: Segments = []
    begin = 0
    for end in [*(v + 1 for v in hourglass_ops(graph)), len(graph.ops)]:
        if end - begin == 1 and segments:
            segments[-1].append(begin)
        elif end > begin:
            segments.append(list(range(begin, end)))
        begin = end
    return segments


def at_ops(graph: Graph, ends: list[int]) -> Segments:
    """Cut behind ops that need be no hourglasses: a segment is what an op of `ends` needs and no earlier one did.

    The positions in `ends` ascend. What none of them needs is the last segment.
    """
    taken = bytearray(len(graph.ops))
    segments: Segments = []
    for end in ends:
        stack = [] if taken[end] else [end]
        segment = []
        while stack:
            v = stack.pop()
            if not taken[v]:
                taken[v] = 1
                segment.append(v)
                stack.extend(u for u in graph.predecessors[v] if not taken[u])
        if segment:
            segments.append(sorted(segment))
    rest = [v for v in range(len(graph.ops)) if not taken[v]]
    return [*segments, rest] if rest else segments
