"""Acyclic partition into parts that run one after another (Zhong et al., section IV-C).

Part 0 runs first; no edge leads back. What the parts hand on to each other is the cut, weighed by the tensors' bytes
(memory-aware: small tensors between the parts, as Theorem IV.2 wants them around what it fuses) or by their number
(naive: topology only). Each starts from a topological order, cut at its cheapest places, and moves single nodes over
the boundaries while that helps. The paper uses dagP (Herrmann et al., CCGRID 2017), which does the same on a graph made
smaller, and again on each larger one: `multilevel`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from lowtide_research.schedule.zhong.coarse import Level, coarsened
from lowtide_research.schedule.zhong.problem import ReducedProblem

Partition = Literal["none", "naive", "heuristic", "multilevel"]

COARSEST = 8  # nodes per part at which the graph is small enough to be cut


class _Balance(NamedTuple):
    """How many of the problem's nodes a part may have; `sizes`: how many of them each node stands for."""

    sizes: Sequence[int]
    least: int
    most: int


def partition(
    problem: ReducedProblem,
    parts: int,
    orders: Iterable[Sequence[int]],
    *,
    by_bytes: bool = True,
    multilevel: bool = False,
    imbalance: float = 0.25,
) -> list[list[int]]:
    """Divide the nodes into `parts` sets of about equal number.

    `orders`: topological orders of the nodes to start from; the cheapest result is taken, the earlier one of equals.
    `by_bytes`: whether a tensor that is cut counts its bytes (the heuristic partition) or one (the naive one).
    `multilevel`: whether to cut a coarsened graph and refine on the way back. `imbalance`: how much a part may be
    larger or smaller than the mean, as a fraction of it. Returns: the parts in the order in which they run, each with
    its nodes ascending; none is empty.
    """
    n = problem.n
    parts = max(1, min(parts, n))
    if parts == 1:
        return [list(range(n))]
    weights = [b.size if by_bytes else 1 for b in problem.storages]
    least = max(1, int(n / parts * (1 - imbalance)))
    most = max(-(-n // parts), int(n / parts * (1 + imbalance)))
    levels = [Level(problem, (1,) * n, tuple(range(n)))]
    if multilevel:
        levels += coarsened(problem, weights, enough=COARSEST * parts, most=max(1, least // 2))
    best: list[int] = []
    best_cost = -1
    for order in orders:
        part_of = _uncoarsened(levels, order, parts, weights, least, most)
        cost = cut_weight(problem, part_of, parts, weights)
        if best_cost < 0 or cost < best_cost:
            best, best_cost = part_of, cost
    return [[v for v in range(n) if best[v] == p] for p in range(parts)]


def _uncoarsened(
    levels: Sequence[Level], order: Sequence[int], parts: int, weights: Sequence[int], least: int, most: int
) -> list[int]:
    """Cut the coarsest graph that can be cut in balance, refine it and each finer one."""
    orders = [list(order)]
    for level in levels[1:]:
        orders.append(level.problem.order_by(level.node_of, orders[-1]))
    part_of: list[int] | None = None
    for k in range(len(levels) - 1, -1, -1):
        problem, balance = levels[k].problem, _Balance(levels[k].sizes, least, most)
        if part_of is None:
            part_of = _cut_order(problem, orders[k], parts, weights, balance)
        else:
            part_of = [part_of[c] for c in levels[k + 1].node_of]
        if part_of is not None:
            _refine(problem, part_of, parts, weights, balance)
    assert part_of is not None, "single nodes are always in balance"
    return part_of


def cut_weight(problem: ReducedProblem, part_of: Sequence[int], parts: int, weights: Sequence[int]) -> int:
    """Sum over the boundaries of the weight of what is live there."""
    return sum(
        weights[b] * _span(problem, part_of, parts, b) for b, storage in enumerate(problem.storages) if storage.users
    )


def _span(problem: ReducedProblem, part_of: Sequence[int], parts: int, b: int) -> int:
    """Number of boundaries that storage `b` is live at."""
    storage = problem.storages[b]
    places = [part_of[v] for v in storage.users]
    return (parts - 1 if storage.at_end else max(places)) - (0 if storage.at_start else min(places))


def _cut_order(
    problem: ReducedProblem, order: Sequence[int], parts: int, weights: Sequence[int], balance: _Balance
) -> list[int] | None:
    """Cut an order where it is cheapest: dynamic programming over the places of the boundaries. None if no places give
    parts in balance."""
    n, least, most = problem.n, balance.least, balance.most
    step = [0] * n
    done = [0]  # nodes done after each step, each counted as often as it stands for others
    for t, v in enumerate(order):
        step[v] = t
        done.append(done[-1] + balance.sizes[v])
    change = [0] * (n + 2)
    for b, storage in enumerate(problem.storages):
        if storage.users:
            steps = [step[v] for v in storage.users]
            change[0 if storage.at_start else min(steps) + 1] += weights[b]
            change[n + 1 if storage.at_end else max(steps) + 1] -= weights[b]
    live, total = [], 0
    for t in range(n + 1):
        total += change[t]
        live.append(total)  # weight live once t steps are done
    costs: list[dict[int, tuple[int, int]]] = [{0: (0, 0)}]
    for p in range(1, parts + 1):
        row: dict[int, tuple[int, int]] = {}
        for end in range(p, n + 1):
            left = done[n] - done[end]
            if not (p == parts) <= (end == n) or not (parts - p) * least <= left <= (parts - p) * most:
                continue
            options = [
                (costs[-1][begin][0] + (live[end] if p < parts else 0), begin)
                for begin in range(bisect_left(done, done[end] - most), bisect_right(done, done[end] - least))
                if begin in costs[-1]
            ]
            if options:
                row[end] = min(options)
        costs.append(row)
    if n not in costs[-1]:
        return None
    part_of = [0] * n
    end = n
    for p in range(parts, 0, -1):
        begin = costs[p][end][1]
        for t in range(begin, end):
            part_of[order[t]] = p - 1
        end = begin
    return part_of


def _refine(problem: ReducedProblem, part_of: list[int], parts: int, weights: Sequence[int], balance: _Balance) -> None:
    """Move nodes to the part before or after, the order of the parts and their sizes allowing it, while that helps."""
    filled = [0] * parts
    for v, p in enumerate(part_of):
        filled[p] += balance.sizes[v]

    def weigh(v: int) -> int:
        return sum(weights[b] * _span(problem, part_of, parts, b) for b in problem.touched[v])

    improved = True
    while improved:
        improved = False
        for v in range(problem.n):
            here, size = part_of[v], balance.sizes[v]
            for there in (here - 1, here + 1):
                if not 0 <= there < parts:
                    continue
                if filled[here] - size < balance.least or filled[there] + size > balance.most:
                    continue
                if there < here and any(part_of[u] > there for u in problem.preds[v]):
                    continue
                if there > here and any(part_of[w] < there for w in problem.succs[v]):
                    continue
                before = weigh(v)
                part_of[v] = there
                if weigh(v) < before:
                    filled[here] -= size
                    filled[there] += size
                    improved = True
                    break
                part_of[v] = here
