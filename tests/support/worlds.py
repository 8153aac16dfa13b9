"""Small scheduling problems as docs/proofs.md speaks of them: items, downsets, hills; nothing here calls the core.

Items are ops or macros with predecessors, a footprint f of every downset, and the hill of every ready item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from lowtide.graph import Graph
from lowtide.target import BUILT_IN, Target
from lowtide.verify.check.memory import work_out
from support.brute import must_run_before
from support.random_graphs import random_graph, random_order

TARGETS = {
    "strict": BUILT_IN["strict"],
    "hmcos": BUILT_IN["hmcos"],
    "generic": BUILT_IN["generic"],
    "overwrite": replace(BUILT_IN["generic"], overwrite_inputs=True),
    "pin": replace(BUILT_IN["generic"], keep_inputs=True),
}
GRAPHS = 40

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


class World:
    """Items 0..n-1, sets of them as bits. `f` and `hill` are defined on all sets, not only on downsets."""

    def __init__(
        self,
        needs: list[int],
        f: Callable[[int], int],
        hill: Callable[[int, int], int],
        what: str,
        users: Sequence[int] = (),
        early: Sequence[Sequence[int]] = (),
    ) -> None:
        self.n, self.full, self.needs, self.what = len(needs), (1 << len(needs)) - 1, needs, what
        self.f, self.hill = cache(f), cache(hill)
        self.shared = sorted({mask for mask in users if mask.bit_count() > 1})
        """Of each storage that two items or more touch, those."""
        self.early = early or [()] * self.n
        """Per item, which of these it has touched before its last op."""

    def up(self, v: int, d: int) -> int:
        """The hill of v above f before it."""
        return self.hill(d, v) - self.f(d)

    def down(self, v: int, d: int) -> int:
        """The hill of v above f after it."""
        return self.hill(d, v) - self.f(d | 1 << v)

    def change(self, v: int, d: int) -> int:
        """F after v less f before it."""
        return self.f(d | 1 << v) - self.f(d)

    def ready(self, d: int) -> list[int]:
        """Items that can run next."""
        return [v for v in range(self.n) if not d >> v & 1 and not self.needs[v] & ~d]

    @cache  # noqa: B019 - worlds live as long as a test
    def downsets(self) -> list[int]:
        """Every downset, smallest first."""
        found, level = [], {0}
        while level:
            found += sorted(level)
            level = {d | 1 << v for d in level for v in self.ready(d)}
        return found

    @cache  # noqa: B019
    def costs(self, start: int) -> dict[int, int]:
        """Least largest hill on a way from `start` to each downset above it."""
        cost = {start: 0}
        for d in self.downsets():
            if d in cost:
                for v in self.ready(d):
                    c = max(cost[d], self.hill(d, v))
                    cost[d | 1 << v] = min(c, cost.get(d | 1 << v, c))
        return cost

    def finish(self, start: int) -> int:
        """Least largest hill from `start` to the end."""
        return self.costs(start)[self.full]

    @cache  # noqa: B019
    def lowest(self, low: int, high: int) -> int:
        """Least f of the downsets between two."""
        return min(self.f(d) for d in self.downsets() if not low & ~d and not d & ~high)

    def closure(self, d: int, budget: int, rng: Random | None = None) -> int:
        """The state after everything that the one-op rule allows, tried in any order."""
        while True:
            able = [v for v in self.ready(d) if self.change(v, d) <= 0 and self.hill(d, v) <= budget]
            if not able:
                return d
            d |= 1 << (rng.choice(able) if rng else able[0])

    def reversed(self) -> World:
        """The same world from the end: an item needs what needed it."""
        behind = [sum(1 << w for w in range(self.n) if self.needs[w] >> v & 1) for v in range(self.n)]
        return World(
            behind,
            lambda r: self.f(self.full & ~r),
            lambda r, v: self.hill(self.full & ~r & ~(1 << v), v),
            f"{self.what} reversed",
        )

    def fused(self, chains: list[list[int]]) -> World:
        """The world whose items are chains that run without interruption."""
        whole = [sum(1 << v for v in chain) for chain in chains]
        needs = []
        for i, chain in enumerate(chains):
            outside = 0
            for v in chain:
                outside |= self.needs[v] & ~whole[i]
            needs.append(sum(1 << j for j, mask in enumerate(whole) if mask & outside))

        def union(d: int) -> int:
            return sum(mask for j, mask in enumerate(whole) if d >> j & 1)

        def hill(d: int, i: int) -> int:
            at, most = union(d), 0
            for v in chains[i]:
                most = max(most, self.hill(at, v))
                at |= 1 << v
            return most

        users = [sum(1 << j for j, mask in enumerate(whole) if mask & own) for own in self.shared]
        early = [
            sorted(
                mask
                for mask, own in zip(users, self.shared, strict=True)
                if mask.bit_count() > 1 and own & whole[i] and not own >> last & 1
            )
            for i, last in enumerate(chain[-1] for chain in chains)
        ]
        return World(needs, lambda d: self.f(union(d)), hill, f"{self.what} chains {chains}", users, early)


def world_of(graph: Graph, target: Target, what: str) -> World:
    """Ops of a graph, by the checker's definition of footprint."""
    memory, ids = work_out(graph, target), [op.id for op in graph.ops]
    bit = {v: 1 << i for i, v in enumerate(ids)}
    needs = must_run_before(graph)
    storages = [(b.size, sum(bit[o] for o in b.users), b.at_start, b.at_end) for b in memory.storages]

    def members(d: int) -> set[int]:
        return {v for v in ids if bit[v] & d}

    def f(d: int) -> int:
        return sum(
            size for size, users, at_start, at_end in storages if (at_start or users & d) and (at_end or users & ~d)
        )

    return World(
        [sum(bit[u] for u in needs[v]) for v in ids],
        f,
        lambda d, i: memory.footprint(ids[i], members(d)),
        what,
        [users for size, users, _, _ in storages if size],
    )


def samples(target: Target, seed: int, graphs: int = GRAPHS) -> Iterator[tuple[Random, World]]:
    """Worlds of ops and of macros, forward and reversed, each with a generator."""
    for index in range(graphs):
        rng = Random(f"{seed} {index} {target.name} {target.keep_inputs} {target.overwrite_inputs}")
        graph = random_graph(rng, rng.randint(3, 7))
        ops = world_of(graph, target, f"graph {index}")
        at = {v: i for i, v in enumerate(op.id for op in graph.ops)}
        order = [at[v] for v in random_order(rng, graph)]
        chains: list[list[int]] = []
        for v in order:  # slices of an order: such macros never wait for each other in a circle
            if chains and rng.random() < 0.4:
                chains[-1].append(v)
            else:
                chains.append([v])
        macros = ops.fused(chains)
        for world in (ops, ops.reversed(), macros, macros.reversed()):
            yield rng, world


def pairs(world: World, rng: Random, most: int = 400) -> Iterator[tuple[int, int]]:
    """Downsets S within T: all pairs, or `most` of them."""
    found = [(s, t) for s in world.downsets() for t in world.downsets() if not s & ~t]
    yield from found if len(found) <= most else rng.sample(found, most)
