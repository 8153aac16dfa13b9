"""The least time of small sequences whose values may leave memory, by brute force."""

from __future__ import annotations

import heapq
from itertools import count
from random import Random
from typing import Any

from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.optimize.recompute.swaps import Bandwidth, in_nanoseconds, with_swaps
from support.sequences import costly_graph, own


def swapping(rng: Random, n_ops: int, *, again: bool = True, bandwidth: Bandwidth | None = None) -> Sequenced:
    """A random graph whose values may leave memory, by default each way at a random rate: few bytes a nanosecond."""
    graph = costly_graph(rng, n_ops)
    problem = in_nanoseconds(own(graph), [int(op.cost or 0) for op in graph.ops])
    drawn = Bandwidth(rng.choice((1, 2, 4)) * 1e9, rng.choice((1, 2, 4)) * 1e9)
    return with_swaps(problem, bandwidth or drawn, recompute=again)


def least_time(problem: Sequenced, budget: int, most: int) -> int | None:
    """Nanoseconds of the fastest sequence within a budget, over all orders, repetitions and transfers; None if there is
    none that takes `most` of them.

    A state is what has run, which values are there and which have a copy, and how long ago each came and either engine
    was done (below zero: it is not yet). Values are dropped only where something that could come next would not fit:
    what is dropped before is as well dropped then. First comes what could end first, if nothing waited.
    """
    values, ops, n = problem.values, problem.ops, len(problem.ops)
    longest = max([0, *(row.store for row in problem.transfers), *(row.load for row in problem.transfers)])
    movable = {row.value for row in problem.transfers}
    kept = {x for x, v in enumerate(values) if v.kept}
    before = problem.model.graph.predecessors
    number = count()
    start = {x: 0 for x, v in enumerate(values) if v.maker < 0}
    heap: list[tuple[Any, ...]] = []

    def push(now: int, done: frozenset[int], there: dict[int, int], copies: frozenset[int], *engines: int) -> None:
        left = sum(problem.costs.units[v] for v in range(n) if v not in done)
        if max(now + left, engines[1]) <= most:
            heapq.heappush(heap, (now + left, next(number), now, done, there, copies, *engines))

    push(0, frozenset(), start, frozenset(), 0, 0)
    seen = set()
    while heap:
        _, _, now, done, there, copies, storing, loading = heapq.heappop(heap)
        ago = tuple(sorted((x, max(at - now, -longest if x in movable - copies else 0)) for x, at in there.items()))
        state = (done, ago, copies, max(storing - now, -longest if movable - copies else 0), max(loading - now, 0))
        if state in seen:
            continue
        seen.add(state)
        if len(done) > n:
            return now
        if len(done) == n and kept <= there.keys():
            end = max([now, *(there[x] for x in kept)])
            push(end, done | {n}, there, copies, storing, loading)
        full = False
        for row in problem.transfers:
            x = row.value
            if x in there and x not in copies:
                end = max(storing, there[x]) + row.store
                push(max(now, end), done, there, copies | {x}, end, loading)
            if x in copies and x not in there:
                if sum(values[y].size for y in (*there, x)) > budget:
                    full = True
                    continue
                end = max(loading, now) + row.load
                push(now, done, {**there, x: end}, copies, storing, end)
        for v, op in enumerate(ops):
            if (op.once and v in done) or not set(op.reads) <= there.keys() or not set(before[v]) <= done:
                continue
            if sum(values[x].size for x in {*there, *op.makes}) + op.workspace > budget:
                full = True
                continue
            end = max([now, *(there[x] for x in op.reads)]) + problem.costs.units[v]
            after = {**there, **dict.fromkeys(op.makes, end)}
            push(end, done | {v}, after, copies, storing, loading)
        for x in there if full else ():
            push(now, done, {y: at for y, at in there.items() if y != x}, copies, storing, loading)
    return None
