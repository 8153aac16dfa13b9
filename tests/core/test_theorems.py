"""docs/proofs.md by brute force: the statements on states, on every pair of them, of random small graphs.

Nothing here calls the core. test_theorems_fusion.py has the statements on what is joined and what a budget implies.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from lowtide.target import Target
from support.brute import optimum
from support.random_graphs import random_graph
from support.waiting_graphs import waiting_graph
from support.worlds import GRAPHS, World, every_target, pairs, samples, world_of


@pytest.mark.slow
@every_target
def test_the_world_is_the_schedulers_problem(target: Target) -> None:
    """The least largest hill from nothing to everything is the optimum, from either end."""
    for index in range(GRAPHS):
        graph = random_graph(Random(index), 7)
        world = world_of(graph, target, "")
        assert world.finish(0) == world.reversed().finish(0) == optimum(graph, target)


@pytest.mark.slow
@every_target
def test_lemma_1_f_is_submodular(target: Target) -> None:
    """F(A or B) + f(A and B) <= f(A) + f(B), for all sets, downsets or not."""
    for rng, world in samples(target, 1):
        for _ in range(150):
            a, b = rng.getrandbits(world.n), rng.getrandbits(world.n)
            assert world.f(a | b) + world.f(a & b) <= world.f(a) + world.f(b), world.what


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@every_target
def test_theorem_3_waypoint(target: Target) -> None:
    """A cheapest way from S to T leads through any lowest state between them."""
    for rng, world in samples(target, 8):
        for s, t in pairs(world, rng, 150):
            least = world.lowest(s, t)
            for m in world.downsets():
                if not s & ~m and not m & ~t and world.f(m) == least:
                    assert world.costs(s)[t] == max(world.costs(s)[m], world.costs(m)[t]), (world.what, s, t)


@pytest.mark.slow
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


@pytest.mark.slow
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


def _behind(world: World) -> list[int]:
    """Of each item what needs it, however far behind."""
    behind = [sum(1 << w for w in range(world.n) if world.needs[w] >> v & 1) for v in range(world.n)]
    for _ in range(world.n):
        for v in range(world.n):
            for w in range(world.n):
                if behind[v] >> w & 1:
                    behind[v] |= behind[w]
    return behind


@pytest.mark.slow
@every_target
def test_theorem_6_waist(target: Target) -> None:
    """A cheapest way from L to H leads through any waist between them; without either condition some does not."""
    seen, without = 0, [0, 0]
    for rng, world in samples(target, 11):
        behind = _behind(world)
        for low, high in pairs(world, rng, 40):
            inside = [d for d in world.downsets() if not low & ~d and not d & ~high]
            for x in inside:
                last = [v for v in range(world.n) if (x & ~low) >> v & 1 and not behind[v] & x]
                before = all(
                    world.f(t) >= world.f(x)
                    for t in inside
                    if not t & ~x and any((high & ~x) >> w & 1 for w in world.ready(t))
                )
                after = all(
                    world.f(u) >= world.f(x) for u in inside if not x & ~u and any(not behind[m] & u for m in last)
                )
                through = max(world.costs(low)[x], world.costs(x)[high])
                if before and after:
                    seen += low != x != high
                    assert world.costs(low)[high] == through, (world.what, low, x, high)
                elif before or after:
                    without[int(after)] += world.costs(low)[high] < through
    assert seen > 200
    assert min(without) > 0


def ends_nothing(world: World, d: int, more: int) -> bool:
    """Whether every shared storage that somebody has yet to touch is still so with `more` run."""
    return not any(users & ~d and not users & ~(d | more) for users in world.shared)


def plain(world: World) -> list[bool]:
    """Per item: wherever it ends no shared storage, its end is its highest place and no lower than its begin."""
    return [
        all(
            world.down(v, d) == 0 and world.change(v, d) >= 0
            for d in range(world.full + 1)
            if not d >> v & 1 and not any(users >> v & 1 and not users & ~(d | 1 << v) for users in world.shared)
        )
        for v in range(world.n)
    ]


def moves_on_demand(world: World, d: int, is_plain: list[bool], *, sets: bool = True) -> Iterator[tuple[int, int]]:
    """The sets of theorem 7 with their last items, whatever the last one may write over.

    `sets`: whether two storages or more are waited for, too.
    """

    def needed(items: int) -> int:
        while True:
            more = items
            for v in range(world.n):
                if items >> v & 1:
                    more |= world.needs[v] & ~d
            if more == items:
                return items
            items = more

    left = world.full & ~d
    for z in range(world.n):
        if not left >> z & 1:
            continue
        touched = [users & ~d for users in world.shared if users >> z & 1]
        unions = {0}  # of those who touch what is waited for
        for users in world.early[z] if sets else ():
            unions |= {union | users & ~d for union in unions}
        for union in sorted({union | users for union in unions for users in (0, *touched)}):
            own = needed(union | 1 << z)
            others = own & ~(1 << z)
            last = not any(world.needs[v] >> z & 1 for v in range(world.n) if others >> v & 1)
            quiet = all(is_plain[v] for v in range(world.n) if others >> v & 1) and ends_nothing(world, d, others)
            if last and quiet and not (is_plain[z] and ends_nothing(world, d, own)):
                yield own, z
    if left and all(is_plain[v] for v in range(world.n) if left >> v & 1) and ends_nothing(world, d, left):
        yield left, left.bit_length() - 1


def on_demand(world: World, *, sets: bool = True) -> Iterator[tuple[int, int, int]]:
    """Every state, the least largest hill of a completion that begins with a move on demand, and how many there are."""
    is_plain = plain(world)
    for d in world.downsets():
        if d == world.full:
            continue
        ends = []
        for own, z in moves_on_demand(world, d, is_plain, sets=sets):
            most, at = 0, d
            for v in sorted((v for v in range(world.n) if own >> v & 1), key=lambda v, z=z: (v == z, v)):
                most, at = max(most, world.hill(at, v)), at | 1 << v
            ends.append((d | own, most))
        yield d, min(max(most, world.finish(end)) for end, most in ends), len({end for end, _ in ends})


@pytest.mark.slow
@every_target
def test_theorem_7_what_only_adds_waits_until_it_is_needed(target: Target) -> None:
    """From every state some cheapest completion begins with a move on demand; often there are fewer of these."""
    fewer = 0
    for _, world in samples(target, 12, graphs=30):
        if not world.shared or world.what.endswith("reversed"):
            continue
        for d, least, moves in on_demand(world):
            assert least == world.finish(d), (world.what, d)
            fewer += moves < len(world.ready(d))
    assert fewer > 10


@pytest.mark.slow
@every_target
def test_theorem_7_where_a_chain_waits_for_several_storages(target: Target) -> None:
    """The same where such chains are macros; with moves for single storages alone it would be wrong."""
    wrong = 0
    for index in range(30):
        graph = waiting_graph(Random(f"waiting {index}"))
        chain = [i for i, op in enumerate(graph.ops) if op.name.startswith("chain")]
        world = world_of(graph, target, f"waiting {index}").fused(
            [chain, *([i] for i in range(len(graph.ops)) if i not in chain)]
        )
        for d, least, _ in on_demand(world):
            assert least == world.finish(d), (world.what, d)
        wrong += any(least > world.finish(d) for d, least, _ in on_demand(world, sets=False))
    assert wrong > 0
