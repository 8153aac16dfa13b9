"""Fusion against the exact scheduler, on as many random graphs as asked for.

    python tests/stress_zhong.py 10000

The optimum of every graph, as the exact scheduler proves it, must be the optimum of the graph that fusion makes, as a
plain search over its downsets finds it, under each theorem alone and under both; no bound by cuts may be above it. Also
counts how often Theorem IV.2 as printed (best order only) loses the optimum.
"""

from __future__ import annotations

import argparse
import time
from random import Random

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.schedule.zhong.cut import cut_bound
from lowtide_research.schedule.zhong.fusion import Fusion, fuse
from lowtide_research.schedule.zhong.problem import ReducedProblem, problem_of
from support.random_graphs import random_graph

THEOREMS: tuple[Fusion, ...] = ("monotonic", "general", "both")


def optimum(problem: ReducedProblem) -> tuple[int, list[int]]:
    """Least peak of a problem and an order of its nodes that has it, over every set of nodes that can have run."""
    n = problem.n
    needs = [sum(1 << u for u in before) for before in problem.preds]
    masks = [sum(1 << v for v in storage.users) for storage in problem.storages]
    best: dict[int, tuple[int, int, int]] = {0: (0, 0, -1)}
    level = [0]
    while level:
        following: dict[int, None] = {}
        for done in level:
            for v in range(n):
                if done >> v & 1 or needs[v] & ~done:
                    continue
                now = done | 1 << v
                live = problem.extra[v]
                for storage, mask in zip(problem.storages, masks, strict=True):
                    if (storage.at_start or mask & now) and (storage.at_end or mask & ~done):
                        live += storage.size
                dies = [s for b, s in problem.overwrites[v] if not problem.storages[b].at_end and not masks[b] & ~now]
                peak = max(best[done][0], live - max(dies, default=0))
                if now not in best or peak < best[now][0]:
                    best[now] = (peak, done, v)
                following[now] = None
        level = list(following)
    at, order = (1 << n) - 1, []
    peak = best[at][0]
    while at:
        _, at, v = best[at]
        order.append(v)
    return peak, order[::-1]


def sample(seed: int) -> tuple[Random, MemoryModel]:
    """A random graph under a random target; one in ten is large and narrow."""
    rng = Random(seed)
    if seed % 10 == 0:
        graph = random_graph(rng, rng.randint(14, 26), width=rng.choice((1, 2)), plain=rng.random() < 0.5)
    else:
        graph = random_graph(rng, rng.randint(3, 11), width=rng.choice((2, 3, 8)))
    return rng, memory_model(graph, BUILT_IN[rng.choice(("strict", "strict", "hmcos", "generic"))])


def flaws(seed: int) -> tuple[list[str], bool, tuple[int, int]]:
    """What is wrong with fusion on one graph; whether the printed condition loses the optimum; ops before and after."""
    _, model = sample(seed)
    found = Exact().schedule(model, Limits(20))
    best, whole = profile(model, found.order).peak, problem_of(model)
    wrong = [] if found.stopped == "proof" else ["the exact scheduler did not finish"]
    after = whole.n
    for fusion in THEOREMS:
        fused = fuse(whole, Limits(), fusion=fusion)
        after = fused.n
        peak, order = optimum(fused)
        real = profile(model, fused.expand(order)).peak
        if not peak == real == best:
            wrong.append(f"graph {seed}, {fusion}: optimum {best}, after fusion {peak}, in truth {real}")
        bound = cut_bound(fused, range(fused.n))
        if bound > best:
            wrong.append(f"graph {seed}, {fusion}: optimum {best}, bound by cuts {bound}")
    printed = optimum(fuse(whole, Limits(), every_order=False))[0] > best
    return wrong, printed, (whole.n, after)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", type=int)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    began, lost, before, after = time.perf_counter(), 0, 0, 0
    bad: list[str] = []
    for seed in range(arguments.first, arguments.first + arguments.graphs):
        wrong, printed, (ops, nodes) = flaws(seed)
        bad += wrong
        lost += printed
        before, after = before + ops, after + nodes
        for line in wrong:
            print(line)
        if printed:
            print(f"graph {seed}: the printed condition loses the optimum")
    print(
        f"{arguments.graphs} graphs, {len(bad)} flaws, {before} ops fused to {after}; the printed condition loses the "
        f"optimum on {lost}; {time.perf_counter() - began:.0f} s"
    )
    raise SystemExit(bool(bad))
