"""A lower bound on the traffic of every order: parts of the graph one by one, and the sum. proofs.md, section 20.3.

For a set W of ops, forget all others: storages live from the first to the last touch inside W. Whatever an order does,
what it pays for the storages that only W touches is at least what the best order of W alone pays. The windows of a
list of ops do not meet, so no byte is counted twice, and the sum is a bound for the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide import _core
from lowtide.spill.core_problem import core_problem
from lowtide.spill.problem import SpillProblem
from lowtide.stop import Limits

SIZES = (16, 32, 64, 128)  # ops in a window; windows begin every half of it


@dataclass(frozen=True)
class BoundedWindow:
    """Running `ops` (positions, ascending) moves at least `bytes`, whatever else is done; `states` were looked at."""

    ops: tuple[int, ...]
    bytes: int
    states: int


def window_bound(problem: SpillProblem, ops: Sequence[int], state_limit: int, limits: Limits) -> BoundedWindow:
    """Least traffic of the storages that only `ops` touch, as far as `state_limit` states prove it."""
    part = tuple(sorted(ops))
    inside = set(part)
    costs = {
        s: problem.traffic_bytes[s]
        for s, storage in enumerate(problem.model.storages)
        if storage.users and inside.issuperset(storage.users)
    }
    if not costs:
        return BoundedWindow(part, 0, 0)
    result = _core.spill(
        core_problem(problem, part, costs=costs).core,
        width=0,
        state_limit=state_limit,
        memory_bytes=limits.memory_bytes,
        upper=-1,
        seed=0,
        jitter=0,
        seconds=limits.left_seconds,
    )
    return BoundedWindow(part, result.bound, result.states)


def windows(problem: SpillProblem, order: Sequence[int], state_limit: int, limits: Limits) -> tuple[BoundedWindow, ...]:
    """Windows of an order that do not meet and whose sum is largest, of those of `SIZES`."""
    n = len(order)
    ending: dict[int, list[tuple[int, BoundedWindow]]] = {}
    for size in SIZES:
        if size // 2 >= n:
            break
        for begin in range(0, n - size // 2, size // 2):
            if limits.left_seconds <= 0:
                break
            end = min(n, begin + size)
            if end - begin == n:
                continue
            part_bound = window_bound(problem, order[begin:end], state_limit, limits)
            if part_bound.bytes:
                ending.setdefault(end, []).append((begin, part_bound))
    best: list[tuple[int, tuple[BoundedWindow, ...]]] = [(0, ())]
    for end in range(1, n + 1):
        best.append(best[-1])
        for begin, window in ending.get(end, ()):
            if best[begin][0] + window.bytes > best[end][0]:
                best[end] = (best[begin][0] + window.bytes, (*best[begin][1], window))
    return best[n][1]


def live_too_much(problem: SpillProblem, peak: int) -> int:
    """Least traffic if no order's peak is below `peak`: what is live then and does not fit is written and read back.

    Inputs, constants and outputs may be away for nothing, so they are left out. 0 where sizes are rounded up.
    """
    storages = problem.model.storages
    if any(s.size != exact for s, exact in zip(storages, problem.traffic_bytes, strict=True)):
        return 0
    free = sum(s.size for k, s in enumerate(storages) if problem.from_outside(k) or problem.is_output[k])
    return 2 * max(0, peak - problem.capacity - free)
