"""docs/proofs.md by brute force: every statement on every pair of states of random small graphs, from definitions.

Nothing here calls the core. A `World` is what the proofs speak of: items (ops or macros) with predecessors, a
footprint f of every downset, and the hill of every ready item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from brute import must_run_before, optimum
from lowtide.graph import Graph
from lowtide.target import BUILT_IN, Target
from lowtide.verify.memory import work_out
from random_graphs import random_graph, random_order

TARGETS = {
    "strict": BUILT_IN["strict"],
    "hmcos": BUILT_IN["hmcos"],
    "generic": BUILT_IN["generic"],
    "overwrite": replace(BUILT_IN["generic"], overwrite_inputs=True),
    "pin": replace(BUILT_IN["generic"], pin_inputs=True),
}
GRAPHS = 40

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


class World:
    """Items 0..n-1, sets of them as bits. `f` and `hill` are defined on all sets, not only on downsets."""

    def __init__(self, needs: list[int], f: Callable[[int], int], hill: Callable[[int, int], int], what: str) -> None:
        self.n, self.full, self.needs, self.what = len(needs), (1 << len(needs)) - 1, needs, what
        self.f, self.hill = cache(f), cache(hill)

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

        return World(needs, lambda d: self.f(union(d)), hill, f"{self.what} chains {chains}")


def world_of(graph: Graph, target: Target, what: str) -> World:
    """Ops of a graph, by the checker's definition of footprint."""
    memory, ids = work_out(graph, target), [op.id for op in graph.ops]
    bit = {v: 1 << i for i, v in enumerate(ids)}
    needs = must_run_before(graph)
    blocks = [(b.size, sum(bit[o] for o in b.touchers), b.at_start, b.at_end) for b in memory.blocks]

    def members(d: int) -> set[int]:
        return {v for v in ids if bit[v] & d}

    def f(d: int) -> int:
        return sum(
            size
            for size, touchers, at_start, at_end in blocks
            if (at_start or touchers & d) and (at_end or touchers & ~d)
        )

    return World(
        [sum(bit[u] for u in needs[v]) for v in ids],
        f,
        lambda d, i: memory.footprint(graph, ids[i], members(d)),
        what,
    )


def samples(target: Target, seed: int, graphs: int = GRAPHS) -> Iterator[tuple[Random, World]]:
    """Worlds of ops and of macros, forward and reversed, each with a generator."""
    for index in range(graphs):
        rng = Random(f"{seed} {index} {target.name} {target.pin_inputs} {target.overwrite_inputs}")
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


@every_target
def test_the_world_is_the_schedulers_problem(target: Target) -> None:
    """The least largest hill from nothing to everything is the optimum, from either end."""
    for index in range(GRAPHS):
        graph = random_graph(Random(index), 7)
        world = world_of(graph, target, "")
        assert world.finish(0) == world.reversed().finish(0) == optimum(graph, target)


@every_target
def test_lemma_1_f_is_submodular(target: Target) -> None:
    """F(A or B) + f(A and B) <= f(A) + f(B), for all sets, downsets or not."""
    for rng, world in samples(target, 1):
        for _ in range(150):
            a, b = rng.getrandbits(world.n), rng.getrandbits(world.n)
            assert world.f(a | b) + world.f(a & b) <= world.f(a) + world.f(b), world.what


@every_target
def test_lemma_2_up_and_change_fall_and_down_rises(target: Target) -> None:
    """With more run before v, up and change never grow and down never falls; on all sets, downsets or not."""
    for rng, world in samples(target, 2):
        for _ in range(150 if world.n else 0):
            v = rng.randrange(world.n)
            most = rng.getrandbits(world.n) & ~(1 << v)
            least = most & rng.getrandbits(world.n)
            assert world.up(v, least) >= world.up(v, most), world.what
            assert world.change(v, least) >= world.change(v, most), world.what
            assert world.down(v, least) <= world.down(v, most), world.what


@every_target
def test_theorem_1_commit(target: Target) -> None:
    """From the lowest state of an interval the end is within reach iff it is from the interval's start."""
    seen = 0
    for rng, world in samples(target, 3):
        for s, x in pairs(world, rng):
            if world.f(x) == world.lowest(s, x):
                seen += s != x
                cost = world.costs(s)[x]
                assert max(cost, world.finish(s)) == max(cost, world.finish(x)), (world.what, s, x)
    assert seen > 1000


@every_target
def test_a_state_not_above_the_start_is_no_commit(target: Target) -> None:
    """F(X) <= f(S) alone is not enough: the interval's minimum is needed."""
    wrong = 0
    for rng, world in samples(target, 3, graphs=150):
        for s, x in pairs(world, rng):
            cost = world.costs(s)[x]
            wrong += world.f(x) <= world.f(s) and max(cost, world.finish(s)) != max(cost, world.finish(x))
        if wrong:
            return
    raise AssertionError("no counterexample among the samples")


@every_target
def test_repair_reaches_the_lowest_state(target: Target) -> None:
    """A path to X, filtered to the lowest state between, is a path there of no higher hills."""
    for rng, world in samples(target, 4):
        for _ in range(40):
            s = rng.choice(world.downsets())
            path, d = [], s
            while world.ready(d) and rng.random() < 0.85:
                path.append(rng.choice(world.ready(d)))
                d |= 1 << path[-1]
            least = world.lowest(s, d)
            for low in world.downsets():
                if s & ~low or low & ~d or world.f(low) != least:
                    continue
                at, kept = s, s
                most = most_kept = 0
                for v in path:
                    most = max(most, world.hill(at, v))
                    at |= 1 << v
                    if low >> v & 1:
                        most_kept = max(most_kept, world.hill(kept, v))
                        kept |= 1 << v
                assert kept == low
                assert most_kept <= most, (world.what, s, path, low)


@every_target
def test_closure_does_not_depend_on_the_order(target: Target) -> None:
    """The one-op rule ends in one state, which only grows with the budget, and which can be committed to."""
    for rng, world in samples(target, 5):
        for d in rng.sample(world.downsets(), min(20, len(world.downsets()))):
            budget = rng.randint(0, 2 * world.finish(d) + 1)
            closed = world.closure(d, budget)
            assert closed == world.closure(d, budget, rng) == world.closure(d, budget, rng), world.what
            assert not closed & ~world.closure(d, budget + rng.randint(0, 9))
            assert world.f(closed) == world.lowest(d, closed)
            assert world.costs(d)[closed] <= budget


@every_target
def test_a_safe_move_ends_lowest(target: Target) -> None:
    """A move and its closure that end no higher, with nobody else beginning, end in the interval's minimum."""
    seen = 0
    for rng, world in samples(target, 6):
        for d in world.downsets():
            ready = world.ready(d)
            for u in ready:
                budget = world.hill(d, u) + rng.randint(0, 4)
                x = world.closure(d | 1 << u, budget)
                ran = x & ~d
                if world.f(x) <= world.f(d) and not any(ran >> w & 1 for w in ready if w != u):
                    seen += ran != 1 << u
                    assert world.f(x) == world.lowest(d, x), (world.what, d, u)
    assert seen > 20


def refute(world: World, budget: int, rng: Random) -> tuple[bool, int]:
    """Search with closures and safe moves. Whether the end was reached, and the least hill that was pruned."""
    following, seen, todo = 1 << 40, set(), [world.closure(0, budget)]
    while todo:
        d = todo.pop(rng.randrange(len(todo)))
        if d == world.full:
            return True, following
        if d in seen:
            continue
        seen.add(d)
        ready = world.ready(d)
        following = min([following, *(world.hill(d, u) for u in ready if world.hill(d, u) > budget)])
        children = []
        for u in ready:
            if world.hill(d, u) <= budget:
                x = world.closure(d | 1 << u, budget)
                if world.f(x) <= world.f(d) and not any(x >> w & 1 for w in ready if w != u):
                    children = [x]
                    break
                children.append(x)
        todo += children
    return False, following


@every_target
def test_the_least_pruned_hill_is_a_bound(target: Target) -> None:
    """A refuted budget refutes every budget below the least hill that it pruned."""
    gained = 0
    for rng, world in samples(target, 7):
        best = world.finish(0)
        for budget in {rng.randint(0, best), best - 1, best - 3, best}:
            found, following = refute(world, budget, rng)
            assert found == (budget >= best), world.what
            if not found:
                assert budget < following <= best, world.what
                gained += following > budget + 1
    assert gained > 10


@every_target
def test_theorem_3_waypoint(target: Target) -> None:
    """A cheapest way from S to T leads through any lowest state between them."""
    for rng, world in samples(target, 8):
        for s, t in pairs(world, rng, 150):
            least = world.lowest(s, t)
            for m in world.downsets():
                if not s & ~m and not m & ~t and world.f(m) == least:
                    assert world.costs(s)[t] == max(world.costs(s)[m], world.costs(m)[t]), (world.what, s, t)


@every_target
def test_theorem_4_window_bound(target: Target) -> None:
    """If nothing above P is lower than P, finishing from S costs no less than going from S to P."""
    seen = 0
    for rng, world in samples(target, 9):
        for s, p in pairs(world, rng):
            if world.f(p) == world.lowest(p, world.full):
                seen += s != p
                assert world.costs(s)[p] <= world.finish(s), (world.what, s, p)
    assert seen > 200


@every_target
def test_theorem_5_canonical_staircase(target: Target) -> None:
    """The lowest states within reach of a budget are a lattice, and their largest only grow with the budget."""
    for rng, world in samples(target, 10):
        s = rng.choice(world.downsets())
        cost = world.costs(s)
        before = s
        for budget in sorted(set(cost.values())):
            within = [d for d in cost if cost[d] <= budget]
            least = min(world.f(d) for d in within)
            lowest = {d for d in within if world.f(d) == least}
            top = 0
            for a in lowest:
                top |= a
                assert all(a | b in lowest and a & b in lowest for b in lowest), (world.what, s, budget)
            assert top in lowest
            assert not before & ~top
            before = top


def ancestors(world: World) -> list[int]:
    """What must run before each item."""
    return [min((d for d in world.downsets() if d >> v & 1), key=int.bit_count) & ~(1 << v) for v in range(world.n)]


def fusible(world: World, above: list[int], u: int, v: int) -> set[str]:
    """The rules by which u and then v may become one, by their definitions: over all states."""
    rules = set()
    behind = world.reversed()
    only_pred = all(w == u or above[u] >> w & 1 for w in range(world.n) if world.needs[v] >> w & 1)
    only_succ = all(w == v or above[w] >> v & 1 for w in range(world.n) if behind.needs[u] >> w & 1)
    at_u = [d for d in world.downsets() if u in world.ready(d)]
    at_v = [d for d in world.downsets() if v in world.ready(d)]
    change_u, down_u = [world.change(u, d) for d in at_u], [world.down(u, d) for d in at_u]
    change_v, up_v = [world.change(v, d) for d in at_v], [world.up(v, d) for d in at_v]
    if only_pred and max(change_v) <= 0 and max(up_v) <= min(down_u):
        rules.add("A")
    if only_succ and min(change_u) >= 0 and max(down_u) <= min(up_v):
        rules.add("B")
    if only_pred and only_succ and min(change_u) >= 0 and max(change_v) <= 0:
        static_u = len(set(change_u)) == 1 or len(set(down_u)) == 1
        static_v = len(set(change_v)) == 1 or len(set(up_v)) == 1
        if static_u and static_v:
            rules.add("C")
    return rules


def joined(world: World, pairs_to_join: list[tuple[int, int]]) -> World:
    """The world with these pairs as macros."""
    seconds = {v for _, v in pairs_to_join}
    after = dict(pairs_to_join)
    return world.fused([[u, after[u]] if u in after else [u] for u in range(world.n) if u not in seconds])


@every_target
@pytest.mark.parametrize("rule", ["A", "B", "C"])
def test_fusion_rule_keeps_the_optimum(rule: str, target: Target) -> None:
    """Joining one pair by the rule alone, or disjoint pairs all at once, leaves the optimum as it is."""
    seen = several = 0
    for _, world in samples(target, 11, graphs=60):
        above, best = ancestors(world), world.finish(0)
        together: list[tuple[int, int]] = []
        for v in range(world.n):
            for u in range(world.n):
                if not world.needs[v] >> u & 1 or rule not in fusible(world, above, u, v):
                    continue
                seen += 1
                assert joined(world, [(u, v)]).finish(0) == best, (world.what, u, v)
                if not {u, v} & {x for pair in together for x in pair}:
                    together.append((u, v))
        several += len(together) > 1
        assert joined(world, together).finish(0) == best, (world.what, together)
    assert seen > 50
    assert several > 3


@every_target
def test_fusion_to_fixpoint_keeps_the_optimum(target: Target) -> None:
    """All rules, pair after pair, until no more are found; what is left is often a single macro."""
    smaller = 0
    for _, world in samples(target, 12, graphs=30):
        best, before = world.finish(0), world.n
        while True:
            above = ancestors(world)
            pair = next(
                ((u, v) for v in range(world.n) for u in range(world.n)
                 if world.needs[v] >> u & 1 and fusible(world, above, u, v)),
                None,
            )  # fmt: skip
            if pair is None:
                break
            world = joined(world, [pair])
            assert world.finish(0) == best, (world.what, pair)
        smaller += world.n < before
    assert smaller > 60


@every_target
def test_least_footprint_is_the_least_of_the_in_place_cases(target: Target) -> None:
    """Under the cut bound: a hill is the least of the hills with one in-place candidate at a time."""
    for index in range(GRAPHS):
        graph = random_graph(Random(1000 + index), 7)
        memory = work_out(graph, target)
        needs = must_run_before(graph)
        rng = Random(index)
        for v in needs:
            done = {o for o in needs if o != v and rng.random() < 0.6}
            saved = [
                graph.tensor_by_id[graph.op_by_id[v].outputs[0]].size
                for t in memory.overwritable[v]
                if memory.blocks[memory.block_of[t]].touchers <= done | {v}
            ]
            whole = memory.footprint(graph, v, done) + memory.saving(graph, v, done)
            assert memory.footprint(graph, v, done) == min([whole, *(whole - s for s in saved)])


def implied(world: World, budget: int) -> list[tuple[int, int]]:
    """Pairs (u, v), u before v in every order within the budget, for otherwise v's hill would be above it."""
    found = []
    for v in range(world.n):
        at_v = [d for d in world.downsets() if v in world.ready(d)]
        for u in range(world.n):
            with_u = [world.hill(d, v) for d in at_v if d >> u & 1]
            without_u = [world.hill(d, v) for d in at_v if u != v and not d >> u & 1]
            if with_u and without_u and min(with_u) > budget:
                found.append((v, u))
            if with_u and without_u and min(without_u) > budget:
                found.append((u, v))
    return found


@every_target
def test_propagated_precedences_keep_an_order_within_the_budget(target: Target) -> None:
    """What a budget implies is added, pairs are fused under it, and so on; an order within it is never lost."""
    gained = 0
    for rng, world in samples(target, 13):
        budget = world.finish(0) + rng.choice((0, 0, 2))
        for _ in range(4):
            needs = list(world.needs)
            for u, v in implied(world, budget):
                gained += not needs[v] >> u & 1
                needs[v] |= 1 << u
            world = World(needs, world.f, world.hill, world.what)
            assert world.finish(0) <= budget, world.what
            above = ancestors(world)
            for v in range(world.n):
                u = next((u for u in range(world.n) if needs[v] >> u & 1 and fusible(world, above, u, v)), None)
                if u is not None:
                    world = joined(world, [(u, v)])
                    break
            assert world.finish(0) <= budget, world.what
    assert gained > 50
