"""The reduced graph that fusion makes and the integer program orders: nodes of one or more ops, and blocks of memory.

A node stands for ops that run one after another. While it runs it holds every block that it touches and `extra` bytes
more; `extra` is the paper's e_i (Table I), and is negative where a fused node never holds all of its blocks at once
(Definition 5: the stable footprint of a hyper-node "is not simply the sum of the input and output tensors").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from lowtide.analyse.storage import MemoryModel


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is live from the first node that touches it to the last.

    `touchers` are nodes, ascending. `at_start`: live before the first step. `at_end`: live after the last one.
    """

    size: int
    touchers: tuple[int, ...]
    at_start: bool
    at_end: bool


@dataclass(frozen=True)
class Problem:
    """What is to be ordered. Nodes are numbered 0, 1, ... in a topological order.

    Attributes
    ----------
    preds
        Per node, the nodes that must run earlier, ascending.
    blocks
        Every block of memory that some node touches or that is live throughout.
    extra
        Per node, bytes while it runs, beyond those of the blocks it touches.
    members
        Per node, its ops' positions in the model's own order, in the order in which they run.
    overwrites
        Per node, ``(block, saving)``: if the block dies there, the node's footprint is less by `saving` bytes; at
        most one of a node's entries counts.
    """

    preds: tuple[tuple[int, ...], ...]
    blocks: tuple[Block, ...]
    extra: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    overwrites: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.preds)

    @cached_property
    def touched(self) -> tuple[tuple[int, ...], ...]:
        """Per node, the blocks it touches, ascending."""
        rows: list[list[int]] = [[] for _ in self.preds]
        for b, block in enumerate(self.blocks):
            for v in block.touchers:
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
        found: list[int] = []
        for before in self.preds:
            mask = 0
            for u in before:
                mask |= found[u] | 1 << u
            found.append(mask)
        return tuple(found)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Per node, its descendant set as bits."""
        found = [0] * self.n
        for v in range(self.n - 1, -1, -1):
            for u in self.preds[v]:
                found[u] |= found[v] | 1 << v
        return tuple(found)

    def footprints(self, order: Sequence[int]) -> list[int]:
        """Stable footprint (Definition 2) of every step of an order of the nodes, in bytes."""
        n = len(order)
        step = [0] * self.n
        for t, v in enumerate(order):
            step[v] = t
        change = [0] * (n + 1)
        last = []
        for block in self.blocks:
            steps = [step[v] for v in block.touchers]
            first = 0 if block.at_start else min(steps)
            last.append(n if block.at_end else max(steps))
            change[first] += block.size
            change[min(last[-1] + 1, n)] -= block.size
        found, live = [], 0
        for t, v in enumerate(order):
            live += change[t]
            saving = max((s for b, s in self.overwrites[v] if last[b] == t), default=0)
            found.append(live + self.extra[v] - saving)
        return found

    def peak(self, order: Sequence[int]) -> int:
        """Largest stable footprint of an order, in bytes."""
        return max(self.footprints(order), default=0)

    @cached_property
    def floor(self) -> int:
        """Bytes that some node needs in every order: `extra`, and the blocks that are live whenever it runs because
        it or an ancestor touches them, and so does it or a descendant."""
        most = 0
        masks = [sum(1 << v for v in block.touchers) for block in self.blocks]
        for v in range(self.n):
            before, after = self.ancestors[v] | 1 << v, self.descendants[v] | 1 << v
            held = sum(
                block.size
                for block, mask in zip(self.blocks, masks, strict=True)
                if (block.at_start or mask & before) and (block.at_end or mask & after)
            )
            saving = max((saved for _, saved in self.overwrites[v]), default=0)
            most = max(most, held + self.extra[v] - saving)
        return most

    def expand(self, order: Iterable[int]) -> tuple[int, ...]:
        """Order of ops from an order of nodes."""
        return tuple(i for v in order for i in self.members[v])

    def lift(self, order: Sequence[int]) -> list[int]:
        """Order of nodes that follows an order of ops: of the ready nodes, the one whose last op comes first."""
        at = {i: step for step, i in enumerate(order)}
        key = [max(at[i] for i in ops) for ops in self.members]
        waits = [len(before) for before in self.preds]
        ready = [(key[v], v) for v in range(self.n) if not waits[v]]
        heapify(ready)
        found = []
        while ready:
            _, v = heappop(ready)
            found.append(v)
            for w in self.succs[v]:
                waits[w] -= 1
                if not waits[w]:
                    heappush(ready, (key[w], w))
        return found

    def split(self, part_of: Sequence[int], parts: int) -> list[Problem]:
        """Problems of the parts, each run after all earlier ones and before all later ones.

        `part_of` says where each node belongs; in a part nodes are numbered anew, in the same sequence. What is live
        throughout a part without being touched in it is one block.
        """
        new = [0] * self.n
        nodes: list[list[int]] = [[] for _ in range(parts)]
        for v, p in enumerate(part_of):
            new[v] = len(nodes[p])
            nodes[p].append(v)
        blocks: list[list[Block]] = [[] for _ in range(parts)]
        number: dict[tuple[int, int], int] = {}
        across = [0] * (parts + 1)
        for b, block in enumerate(self.blocks):
            touchers: dict[int, list[int]] = {}
            for v in block.touchers:
                touchers.setdefault(part_of[v], []).append(new[v])
            first = 0 if block.at_start else min(touchers)
            last = parts - 1 if block.at_end else max(touchers)
            across[first] += block.size
            across[last + 1] -= block.size
            for p, inside in touchers.items():
                across[p] -= block.size
                across[p + 1] += block.size
                number[b, p] = len(blocks[p])
                at_start, at_end = block.at_start or first < p, block.at_end or p < last
                blocks[p].append(Block(block.size, tuple(sorted(inside)), at_start, at_end))
        base, found = 0, []
        for p in range(parts):
            base += across[p]
            if base:
                blocks[p].append(Block(base, (), True, True))
            found.append(
                Problem(
                    tuple(tuple(new[u] for u in self.preds[v] if part_of[u] == p) for v in nodes[p]),
                    tuple(blocks[p]),
                    tuple(self.extra[v] for v in nodes[p]),
                    tuple(self.members[v] for v in nodes[p]),
                    tuple(
                        tuple((number[b, p], s) for b, s in self.overwrites[v] if not blocks[p][number[b, p]].at_end)
                        for v in nodes[p]
                    ),
                )
            )
        return found


def problem_of(model: MemoryModel) -> Problem:
    """The problem in which every op is a node."""
    return Problem(
        model.graph.predecessors,
        tuple(Block(s.size, s.touchers, s.at_start, s.at_end) for s in model.storages),
        model.workspace,
        tuple((i,) for i in range(len(model.graph.ops))),
        tuple(tuple((o.storage, o.saving) for o in row) for row in model.overwrites),
    )


def as_printed(problem: Problem) -> Problem:
    """The problem that equations (1) to (6) describe as printed: an unread output weighs nothing, and a graph output
    may leave once it is made and read."""
    blocks = tuple(
        replace(b, size=0 if len(b.touchers) == 1 and not b.at_start else b.size, at_end=False) if b.touchers else b
        for b in problem.blocks
    )
    return replace(problem, blocks=blocks)
