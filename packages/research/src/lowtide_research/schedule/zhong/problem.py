"""The reduced graph that fusion makes and the integer program orders: nodes of one or more ops, and storages of memory.

A node stands for ops that run one after another. While it runs it holds every storage that it touches and `extra` bytes
more; `extra` is the paper's e_i (Table I), and is negative where a fused node never holds all of its storages at once
(Definition 5: the stable footprint of a hyper-node "is not simply the sum of the input and output tensors").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from lowtide.analyse.storage import MemoryModel


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """Memory that is live from the first node that touches it to the last.

    `users` are nodes, ascending. `at_start`: live before the first step. `at_end`: live after the last one.
    """

    size: int
    users: tuple[int, ...]
    at_start: bool
    at_end: bool


@dataclass(frozen=True)
class ReducedProblem:
    """What is to be ordered. Nodes are numbered 0, 1, ... in a topological order."""

    preds: tuple[tuple[int, ...], ...]  # per node, the nodes that must run earlier, ascending
    storages: tuple[NodeStorage, ...]  # every storage of memory that some node touches or that is live throughout
    extra: tuple[int, ...]  # per node, bytes while it runs, beyond those of the storages it touches
    # Per node, its ops' positions in the model's own order, in the order in which they run.
    members: tuple[tuple[int, ...], ...]
    # Per node, ``(storage, saving)``: if the storage dies there, the node's footprint is less by `saving` bytes; at
    # most one of a node's entries counts.
    overwrites: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.preds)

    @cached_property
    def touched(self) -> tuple[tuple[int, ...], ...]:
        """Per node, the storages it touches, ascending."""
        rows: list[list[int]] = [[] for _ in self.preds]
        for b, storage in enumerate(self.storages):
            for v in storage.users:
                rows[v].append(b)
        return tuple(tuple(row) for row in rows)

    @cached_property
    def succs(self) -> tuple[tuple[int, ...], ...]:
        """Per node, the nodes that wait for it, ascending."""
        rows: list[list[int]] = [[] for _ in self.preds]
        for v, before in enumerate(self.preds):
            for u in before:
                rows[u].append(v)
        return tuple(tuple(row) for row in rows)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Per node, its ancestor set as bits."""
        sets: list[int] = []
        for before in self.preds:
            mask = 0
            for u in before:
                mask |= sets[u] | 1 << u
            sets.append(mask)
        return tuple(sets)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Per node, its descendant set as bits."""
        sets = [0] * self.n
        for v in range(self.n - 1, -1, -1):
            for u in self.preds[v]:
                sets[u] |= sets[v] | 1 << v
        return tuple(sets)

    def footprints(self, order: Sequence[int]) -> list[int]:
        """Stable footprint (Definition 2) of every step of an order of the nodes, in bytes."""
        n = len(order)
        step = [0] * self.n
        for t, v in enumerate(order):
            step[v] = t
        change = [0] * (n + 1)
        last = []
        for storage in self.storages:
            steps = [step[v] for v in storage.users]
            first = 0 if storage.at_start else min(steps)
            last.append(n if storage.at_end else max(steps))
            change[first] += storage.size
            change[min(last[-1] + 1, n)] -= storage.size
        held, live = [], 0
        for t, v in enumerate(order):
            live += change[t]
            saving = max((s for b, s in self.overwrites[v] if last[b] == t), default=0)
            held.append(live + self.extra[v] - saving)
        return held

    def peak(self, order: Sequence[int]) -> int:
        """Largest stable footprint of an order, in bytes."""
        return max(self.footprints(order), default=0)

    @cached_property
    def floor(self) -> int:
        """Bytes that some node needs in every order: `extra`, and the storages that are live whenever it runs because
        it or an ancestor touches them, and so does it or a descendant."""
        most = 0
        masks = [sum(1 << v for v in storage.users) for storage in self.storages]
        for v in range(self.n):
            before, after = self.ancestors[v] | 1 << v, self.descendants[v] | 1 << v
            held = sum(
                storage.size
                for storage, mask in zip(self.storages, masks, strict=True)
                if (storage.at_start or mask & before) and (storage.at_end or mask & after)
            )
            saving = max((saved for _, saved in self.overwrites[v]), default=0)
            most = max(most, held + self.extra[v] - saving)
        return most

    def expand(self, order: Iterable[int]) -> tuple[int, ...]:
        """Order of ops from an order of nodes."""
        return tuple(i for v in order for i in self.members[v])

    def lift(self, order: Sequence[int]) -> list[int]:
        """Order of nodes that follows an order of ops: of the ready nodes, the one whose last op comes first."""
        node_of = {i: v for v, ops in enumerate(self.members) for i in ops}
        return self.order_by(node_of, order)

    def order_by(self, node_of: Mapping[int, int] | Sequence[int], order: Sequence[int]) -> list[int]:
        """Order of nodes that follows an order of what they are made of: of the ready nodes, the one whose last piece
        comes first. `node_of`: the node of each piece."""
        key = [0] * self.n
        for step, i in enumerate(order):
            key[node_of[i]] = step
        waits = [len(before) for before in self.preds]
        ready = [(key[v], v) for v in range(self.n) if not waits[v]]
        heapify(ready)
        order_of_nodes = []
        while ready:
            _, v = heappop(ready)
            order_of_nodes.append(v)
            for w in self.succs[v]:
                waits[w] -= 1
                if not waits[w]:
                    heappush(ready, (key[w], w))
        return order_of_nodes

    def split(self, part_of: Sequence[int], parts: int) -> list[ReducedProblem]:
        """Problems of the parts, each run after all earlier ones and before all later ones. `part_of` says where
        each node belongs; in a part nodes are numbered anew, in the same sequence. What is live throughout a part
        without being touched in it is one storage."""
        new = [0] * self.n
        nodes: list[list[int]] = [[] for _ in range(parts)]
        for v, p in enumerate(part_of):
            new[v] = len(nodes[p])
            nodes[p].append(v)
        storages: list[list[NodeStorage]] = [[] for _ in range(parts)]
        number: dict[tuple[int, int], int] = {}
        across = [0] * (parts + 1)
        for b, storage in enumerate(self.storages):
            users: dict[int, list[int]] = {}
            for v in storage.users:
                users.setdefault(part_of[v], []).append(new[v])
            first = 0 if storage.at_start else min(users)
            last = parts - 1 if storage.at_end else max(users)
            across[first] += storage.size
            across[last + 1] -= storage.size
            for p, inside in users.items():
                across[p] -= storage.size
                across[p + 1] += storage.size
                number[b, p] = len(storages[p])
                at_start, at_end = storage.at_start or first < p, storage.at_end or p < last
                storages[p].append(NodeStorage(storage.size, tuple(sorted(inside)), at_start, at_end))
        base, problems = 0, []
        for p in range(parts):
            base += across[p]
            if base:
                storages[p].append(NodeStorage(base, (), True, True))
            problems.append(
                ReducedProblem(
                    tuple(tuple(new[u] for u in self.preds[v] if part_of[u] == p) for v in nodes[p]),
                    tuple(storages[p]),
                    tuple(self.extra[v] for v in nodes[p]),
                    tuple(self.members[v] for v in nodes[p]),
                    tuple(
                        tuple((number[b, p], s) for b, s in self.overwrites[v] if not storages[p][number[b, p]].at_end)
                        for v in nodes[p]
                    ),
                )
            )
        return problems


def problem_of(model: MemoryModel) -> ReducedProblem:
    """The problem in which every op is a node."""
    return ReducedProblem(
        model.graph.predecessors,
        tuple(NodeStorage(s.size, s.users, s.at_start, s.at_end) for s in model.storages),
        model.workspace,
        tuple((i,) for i in range(len(model.graph.ops))),
        tuple(tuple((o.storage, o.saving) for o in row) for row in model.overwrites),
    )


def as_printed(problem: ReducedProblem) -> ReducedProblem:
    """The problem that equations (1) to (6) describe as printed: an unread output weighs nothing, and a graph output
    may leave once it is made and read."""
    storages = tuple(
        replace(b, size=0 if len(b.users) == 1 and not b.at_start else b.size, at_end=False) if b.users else b
        for b in problem.storages
    )
    return replace(problem, storages=storages)
