"""Coarsening a graph without a cycle coming up: the first phase of a multilevel acyclic partition (as dagP's).

Two nodes become one where an edge joins them and no other path does::

    u --> v      one node      u --> w --> v      u and v stay separate: with w between, {u, v} would wait for itself

Herrmann et al. (CCGRID 2017) match nodes of neighbouring levels, so that one look at the neighbours tells. Here a match
is an edge from an even level (longest path from a source) to the next one, or from an odd one in every other round. All
paths that can close a cycle then run between those two levels, and a search there tells. The heaviest edges are
matched first, as they are the ones that no cut is to cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lowtide_research.schedule.zhong.problem import NodeStorage, ReducedProblem

SHRINKING = 0.95  # a round that leaves more of the nodes than this is the last one


class Level(NamedTuple):
    """A graph, for each of its nodes how many of the first graph's it stands for, and which of its nodes each node of
    the next finer graph is in."""

    problem: ReducedProblem
    sizes: tuple[int, ...]
    node_of: tuple[int, ...]


def coarsened(problem: ReducedProblem, weights: Sequence[int], *, enough: int, most: int) -> list[Level]:
    """Smaller and smaller graphs, each of the one before. `weights`: of the storages, which keep their numbers.
    `enough`: nodes at which to stop. `most`: nodes of the first graph that one node may stand for."""
    levels: list[Level] = []
    fine, sizes, idle = problem, (1,) * problem.n, 0
    while fine.n > enough and idle < 2:
        mate = _matched(fine, sizes, weights, most, odd=len(levels) + idle & 1)
        coarse = _merged(fine, sizes, mate)
        if coarse.problem.n > SHRINKING * fine.n:
            idle += 1
            continue
        levels.append(coarse)
        fine, sizes, idle = coarse.problem, coarse.sizes, 0
    return levels


def _matched(
    problem: ReducedProblem, sizes: Sequence[int], weights: Sequence[int], most: int, *, odd: int
) -> list[int]:
    """Per node, its mate, or itself."""
    level = [0] * problem.n
    for v, before in enumerate(problem.preds):
        level[v] = max((level[u] + 1 for u in before), default=0)
    heavy = [
        (-sum(weights[b] for b in {*problem.touched[u]} & {*problem.touched[v]}), u, v)
        for v, before in enumerate(problem.preds)
        for u in before
        if level[v] == level[u] + 1 and level[u] % 2 == odd and sizes[u] + sizes[v] <= most
    ]
    mate = list(range(problem.n))
    for _, u, v in sorted(heavy):
        if mate[u] == u and mate[v] == v and not _closes_cycle(problem, level, mate, u, v):
            mate[u], mate[v] = v, u
    return mate


def _closes_cycle(problem: ReducedProblem, level: Sequence[int], mate: Sequence[int], u: int, v: int) -> bool:
    """Whether a path leads from `u` to `v` beside their edge, through nodes that are matched already."""
    seen, waiting = {u}, [u]
    while waiting:
        at = waiting.pop()
        for w in problem.succs[at]:
            if level[w] != level[u] + 1 or (at, w) == (u, v):
                continue
            if w == v:
                return True
            if mate[w] != w and mate[w] not in seen:
                seen.add(mate[w])
                waiting.append(mate[w])
    return False


def _merged(fine: ReducedProblem, sizes: Sequence[int], mate: Sequence[int]) -> Level:
    first = [min(v, m) for v, m in enumerate(mate)]
    waits = dict.fromkeys(first, 0)
    follow: dict[int, set[int]] = {c: set() for c in waits}
    for v, before in enumerate(fine.preds):
        for u in before:
            if first[u] != first[v] and first[v] not in follow[first[u]]:
                follow[first[u]].add(first[v])
                waits[first[v]] += 1
    order = [c for c, number in waits.items() if not number]
    for c in order:  # grows while it is read
        for d in sorted(follow[c]):
            waits[d] -= 1
            if not waits[d]:
                order.append(d)
    assert len(order) == len(waits), "a match has closed a cycle"
    new = {c: i for i, c in enumerate(order)}
    node_of = tuple(new[c] for c in first)
    preds: list[set[int]] = [set() for _ in order]
    for c, others in follow.items():
        for d in others:
            preds[new[d]].add(new[c])
    storages = tuple(
        NodeStorage(b.size, tuple(sorted({node_of[v] for v in b.users})), b.at_start, b.at_end) for b in fine.storages
    )
    total = [0] * len(order)
    for v, c in enumerate(node_of):
        total[c] += sizes[v]
    none = ((),) * len(order)
    problem = ReducedProblem(tuple(tuple(sorted(p)) for p in preds), storages, (0,) * len(order), none, none)
    return Level(problem, tuple(total), node_of)
