"""Where SERENITY divides a graph: at hourglass ops, or at the cells of a network that is no chain of cells.

An op is an *hourglass* if every other op is its ancestor or its descendant (SERENITY, Figure 7; dominator and
post-dominator of all, whatever the sizes)::

    a -- b -+- c -+- e -- f -+- g -+- i        hourglass ops: a b e f i
            +- d -+          +- h -+           segments: {a b} {c d e f} {g h i}

All its ancestors come before it in every order, all its descendants after it. So every order runs what is up to it
first and the rest then, and cutting after it loses no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.analyse.storage import MemoryModel
from lowtide.graph import Graph

Segments = list[list[int]]
"""A partition of the positions in file order. Joined up, the segments are an order; inside, positions ascend."""


def hourglass_ops(graph: Graph) -> list[int]:
    """Positions of the ops that are comparable to every other op, ascending. Takes time linear in the graph. The own
    order is topological. So op v is one exactly if every earlier op has a successor at or before v, and every later
    op a predecessor at or after it: follow those, and v is reached."""
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
    positions = []
    waits_early = n  # smallest last predecessor of the ops after
    for v in reversed(range(n)):
        if reached_late[v] <= v <= waits_early:
            positions.append(v)
        waits_early = min(waits_early, last_predecessor[v])
    return positions[::-1]


def at_hourglasses(graph: Graph) -> Segments:
    """Cut after every hourglass op. What would be a segment of a single op joins the segment before it.

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
    """Cut after ops that need be no hourglasses: a segment is what an op of `ends` needs and no earlier one did.
    The positions in `ends` ascend. What none of them needs is the last segment."""
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


def cell_outputs(graph: Graph, types: Sequence[str]) -> list[int]:
    """Positions of the ops of the given types, ascending; ATen names are compared without their overload."""
    wanted = {name.strip() for name in types}
    return [
        v
        for v, op in enumerate(graph.ops)
        if op.type in wanted or (op.type.startswith("aten.") and ".".join(op.type.split(".")[:2]) in wanted)
    ]


def joined(model: MemoryModel, segments: Segments) -> list[list[list[int]]]:
    """Join the ops of each segment to sequences that run without interruption, and lose no order of least peak by it.

    HMCOS (DAC 2022), section 3.1.1, and its comparison with SERENITY: op b joins the sequence that ends with a if
    a has no other successor and b no other predecessor, and wherever the sequence runs,

    1. the footprint of b is at most that of the sequence's first op, and
    2. no more is live after b than before it.

    That no order is lost needs one thing more than the paper asks for: what b touches must begin in the sequence,
    and what another op can touch before b runs must not be among it. Then take an order that keeps the sequence up to
    a together, and move b up to a. The ops that are passed have at most the footprint that they had, by 2; b has at
    most that of the sequence's first op, by 1. And no other sequence is torn, as what follows a in one is b.
    """
    users = [frozenset(s.users) for s in model.storages]
    return [_join(model, users, segment) for segment in segments]


def _join(model: MemoryModel, users: list[frozenset[int]], segment: list[int]) -> list[list[int]]:
    before, successors = model.graph.predecessors, dict.fromkeys(segment, 0)
    for v in segment:
        for u in before[v]:
            if u in successors:
                successors[u] += 1
    by_last: dict[int, _Sequence] = {}
    for v in segment:
        last = before[v][0] if len(before[v]) == 1 else -1
        sequence = by_last.get(last)
        if sequence is not None and successors[last] == 1 and sequence.joins(model, users, v):
            del by_last[last]
        else:
            sequence = _Sequence.begin(model, users, v)
        by_last[v] = sequence
    return sorted(sequence.ops for sequence in by_last.values())


@dataclass
class _Sequence:
    """Ops of a sequence; bytes that its first op's footprint is sure to have above what is live after that op, and
    bytes by which what is live has fallen since."""

    ops: list[int]
    room: int
    fallen: int

    @classmethod
    def begin(cls, model: MemoryModel, users: list[frozenset[int]], v: int) -> _Sequence:
        """Of what dies at v, only that is sure whose other users must have run; a saving may use it up. What dies
        there by chance and is overwritten saves at most its own bytes: no room is lost by it."""
        ran = {v, *model.graph.predecessors[v]}
        sure = {s for s in model.touched[v] if users[s] <= ran and not model.storages[s].at_end}
        saving = max((o.saving for o in model.overwrites[v] if o.storage in sure), default=0)
        room = sum(model.storages[s].size for s in sure) + model.workspace[v] - saving
        return cls([v], room, 0)

    def joins(self, model: MemoryModel, users: list[frozenset[int]], v: int) -> bool:
        """Put v at the end if it may."""
        members = {*self.ops, v}
        begun = died = 0
        dying = set()
        for s in model.touched[v]:
            storage, others = model.storages[s], users[s] - members
            if storage.at_start or any(v not in model.graph.predecessors[w] for w in others):
                return False
            if users[s].isdisjoint(self.ops):
                begun += storage.size
            if not others and not storage.at_end:
                died += storage.size
                dying.add(s)
        saving = max((o.saving for o in model.overwrites[v] if o.storage in dying), default=0)
        if begun + model.workspace[v] - saving - self.fallen > self.room or begun > died:
            return False
        self.ops.append(v)
        self.fallen += died - begun
        return True
