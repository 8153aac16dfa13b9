"""A pool of dsa-solver's JSON as buffers to place."""

from __future__ import annotations

from pathlib import Path

from lowtide.allocate.buffers import Buffer, Problem, Rectangle
from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.read.dsa_problem import PoolProblem, read_dsa_problem


def read_pool(path: str | Path, pool: str | None = None) -> tuple[Problem, int | None, dict[tuple[int, int], int]]:
    """The buffers of a pool, its capacity in bytes, and what reuse costs, by pairs of indices, the smaller first.

    It is the only pool that has any buffers, where none is named.

    Raises `InputError`: as `read_dsa_problem`; no such pool, or several and none named.
    """
    pools = {p.pool: p for p in read_dsa_problem(path)}
    if pool is None and len(pools) > 1:
        raise InputError(f"there are {len(pools)} pools; say which with --pool: {', '.join(pools)}", str(path))
    if pool is not None and pool not in pools:
        hint = did_you_mean(pool, pools)
        raise InputError(f"there is no pool {pool!r} with buffers; use one of {', '.join(pools)}{hint}", str(path))
    if not pools:
        return Problem(()), None, {}
    chosen = pools[pool] if pool is not None else next(iter(pools.values()))
    return problem_of(chosen), chosen.capacity, costs_of(chosen)


def costs_of(pool: PoolProblem) -> dict[tuple[int, int], int]:
    """What reuse costs, by pairs of indices of the pool's buffers."""
    index = {b.id: k for k, b in enumerate(pool.buffers)}
    return {(min(index[a], index[b]), max(index[a], index[b])): cost for (a, b), cost in pool.penalties.items()}


def problem_of(pool: PoolProblem) -> Problem:
    """Its buffers; a reserved range is one that is there all the time."""
    buffers = [
        Buffer(
            pool.names[b.id],
            b.size,
            tuple(Rectangle(i.lower, i.upper, 0, b.size) for i in sorted(b.live_intervals, key=lambda i: i.lower))
            if b.size
            else (),
            b.alignment,
            pool.offsets.get(b.id),
        )
        for b in pool.buffers
    ]
    steps = [step for b in pool.buffers for i in b.live_intervals for step in (i.lower, i.upper)]
    for number, (begin, end) in enumerate(pool.reserved):
        size = end - begin
        buffers.append(Buffer(f"reserved{number}", size, (Rectangle(min(steps), max(steps), 0, size),), 1, begin))
    index = {b.id: k for k, b in enumerate(pool.buffers)}
    apart = [(min(index[a], index[b]), max(index[a], index[b])) for a, b in pool.apart]
    return Problem(tuple(buffers), (), tuple(sorted(apart)))
