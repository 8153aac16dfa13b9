"""The least time of small sequences whose values may leave memory, by brute force."""

from __future__ import annotations

import heapq
from itertools import count
from random import Random

from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.optimize.recompute.swaps import Bandwidth, in_nanoseconds, with_swaps
from support.sequences import costly_graph, own


def swapping(rng: Random, n_ops: int, *, again: bool = True, bandwidth: Bandwidth | None = None) -> Sequenced:
    """A random graph whose values may leave memory, by default each way at a random rate: few bytes a nanosecond."""
    graph = costly_graph(rng, n_ops)
    problem = in_nanoseconds(own(graph), [int(op.cost or 0) for op in graph.ops])
    drawn = Bandwidth(rng.choice((1, 2, 4)) * 1e9, rng.choice((1, 2, 4)) * 1e9)
    return with_swaps(problem, bandwidth or drawn, again=again)


def least_time(problem: Sequenced, budget: int, most: int) -> int | None:
    """Nanoseconds of the fastest sequence within a budget, over all orders, repetitions and transfers; None if there is
    none that takes `most` of them.

    A state is what has run, which values are there and which have a copy, and how long ago each came and either engine
    was done (below zero: it is not yet). Between runs any value may be dropped.
    """
    values, ops, n = problem.values, problem.ops, len(problem.ops)
    longest = max([0, *(row.store for row in problem.transfers), *(row.load for row in problem.transfers)])
    movable = {row.value for row in problem.transfers}
    kept = {x for x, v in enumerate(values) if v.kept}
    before = problem.model.graph.predecessors
    number = count()
    start = {x: 0 for x, v in enumerate(values) if v.maker < 0}
    heap: list[tuple[int, int, frozenset[int], dict[int, int], frozenset[int], int, int]] = []
    heapq.heappush(heap, (0, next(number), frozenset(), start, frozenset(), 0, 0))
    seen = set()
    while heap:
        now, _, done, there, copies, storing, loading = heapq.heappop(heap)
        ago = tuple(sorted((x, max(at - now, -longest if x in movable - copies else 0)) for x, at in there.items()))
        state = (done, ago, copies, max(storing - now, -longest if movable - copies else 0), max(loading - now, 0))
        left = sum(problem.costs.units[v] for v in range(n) if v not in done)
        if state in seen or max(now + left, loading) > most:
            continue
        seen.add(state)
        if len(done) > n:
            return now
        if len(done) == n and kept <= there.keys():
            end = max([now, *(there[x] for x in kept)])
            heapq.heappush(heap, (end, next(number), done | {n}, there, copies, storing, loading))
        for x in there:
            less = {y: at for y, at in there.items() if y != x}
            heapq.heappush(heap, (now, next(number), done, less, copies, storing, loading))
        for row in problem.transfers:
            x = row.value
            if x in there and x not in copies:
                end = max(storing, there[x]) + row.store
                heapq.heappush(heap, (max(now, end), next(number), done, there, copies | {x}, end, loading))
            if x in copies and x not in there and sum(values[y].size for y in (*there, x)) <= budget:
                end = max(loading, now) + row.load
                heapq.heappush(heap, (now, next(number), done, {**there, x: end}, copies, storing, end))
        for v, op in enumerate(ops):
            if (op.once and v in done) or not set(op.reads) <= there.keys() or not set(before[v]) <= done:
                continue
            if sum(values[x].size for x in {*there, *op.makes}) + op.workspace > budget:
                continue
            end = max([now, *(there[x] for x in op.reads)]) + problem.costs.units[v]
            after = {**there, **dict.fromkeys(op.makes, end)}
            heapq.heappush(heap, (end, next(number), done | {v}, after, copies, storing, loading))
    return None
