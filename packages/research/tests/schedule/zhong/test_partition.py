"""Partitions of small graphs against all partitions that there are."""

from collections.abc import Iterator
from itertools import product
from random import Random

from lowtide_research.schedule.zhong.partition import cut_weight, partition
from lowtide_research.schedule.zhong.problem import ReducedProblem, problem_of
from support.models import model_of
from support.random_graphs import random_graph


def drawn(seed: int, most: int) -> tuple[ReducedProblem, list[int]]:
    """A random graph, and its storages' bytes."""
    rng = Random(seed)
    graph = random_graph(rng, rng.randint(6, most), width=rng.choice((2, 4, 8)))
    whole = problem_of(model_of(graph, "strict"))
    return whole, [b.size for b in whole.storages]


def all_cuts(whole: ReducedProblem, weights: list[int]) -> Iterator[int]:
    """Weight of every cut in two that no edge leads back over, with at most a quarter of imbalance."""
    n = whole.n
    least, most = max(1, int(n / 2 * 0.75)), max(-(-n // 2), int(n / 2 * 1.25))
    for part_of in product((0, 1), repeat=n):
        balanced = least <= sum(part_of) <= most and least <= n - sum(part_of) <= most
        if balanced and all(part_of[u] <= part_of[v] for v in range(n) for u in whole.preds[v]):
            yield cut_weight(whole, part_of, 2, weights)


def test_cuts_are_near_the_least_of_all() -> None:
    """Neither partitioner is below the least cut of all, and each finds it on every second small graph."""
    found = {False: 0, True: 0}
    for seed in range(40):
        whole, weights = drawn(seed, 10)
        least = min(all_cuts(whole, weights))
        for multilevel in found:
            nodes = partition(whole, 2, [range(whole.n)], multilevel=multilevel)
            cost = cut_weight(whole, [int(v in nodes[1]) for v in range(whole.n)], 2, weights)
            assert cost >= least
            found[multilevel] += cost == least
    assert min(found.values()) >= 20
