"""Coarsened graphs against the graph that they are made of."""

from random import Random

from lowtide_research.schedule.zhong.coarse import coarsened
from lowtide_research.schedule.zhong.partition import cut_weight
from lowtide_research.schedule.zhong.problem import problem_of
from support.models import model_of
from support.random_graphs import random_graph


def test_a_coarsened_graph_is_the_graph_seen_from_afar() -> None:
    """Every node is in one coarse node, which runs after what its nodes run after, none after itself; sizes add up; and
    a cut of the coarse graph weighs what it weighs in the graph."""
    merged = 0
    for seed in range(60):
        rng = Random(seed)
        fine = problem_of(model_of(random_graph(rng, rng.randint(6, 60), width=rng.choice((2, 4, 8))), "strict"))
        weights = [b.size for b in fine.storages]
        sizes = (1,) * fine.n
        for level in coarsened(fine, weights, enough=4, most=8):
            coarse, at = level.problem, level.node_of
            edges = {(at[u], at[v]) for v in range(fine.n) for u in fine.preds[v] if at[u] != at[v]}
            assert edges == {(u, v) for v in range(coarse.n) for u in coarse.preds[v]}
            assert all(u < v for u, v in edges)  # numbered so that no edge leads back: there is no cycle
            assert list(level.sizes) == [sum(s for v, s in enumerate(sizes) if at[v] == c) for c in range(coarse.n)]
            assert max(level.sizes) <= 8
            part_of = [int(c >= coarse.n // 2) for c in range(coarse.n)]
            assert cut_weight(coarse, part_of, 2, weights) == cut_weight(fine, [part_of[c] for c in at], 2, weights)
            merged += fine.n - coarse.n
            fine, sizes = coarse, level.sizes
    assert merged > 300
