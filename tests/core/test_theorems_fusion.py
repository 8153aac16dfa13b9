"""docs/proofs.md by brute force: fusion, the cases of the cut bound, and what a budget implies, on random small graphs.

Nothing here calls the core.
"""

from __future__ import annotations

from random import Random

import pytest

from lowtide.target import Target
from lowtide.verify.check.memory import work_out
from support.brute import must_run_before
from support.random_graphs import random_graph
from support.worlds import GRAPHS, World, every_target, samples


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


@pytest.mark.slow
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


@pytest.mark.slow
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
                if memory.storages[memory.storage_of[t]].users <= done | {v}
            ]
            whole = memory.footprint(v, done) + memory.saving(v, done)
            assert memory.footprint(v, done) == min([whole, *(whole - s for s in saved)])


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


@pytest.mark.slow
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
