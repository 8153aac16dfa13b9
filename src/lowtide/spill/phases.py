"""A lower bound on the traffic of every order, from a chain of ops that run one after the other in all of them.

Between an op c of the chain and the next one, c', only some reads can happen, and every order has to run what c' needs
and c does not. docs/proofs.md, section 20.4.

    order    ... what c needs ... c | . . . . . . . . . . . . . c' |  ...
    phase                           | fills at these steps         |      each fill is in one phase only
    counted           early: free   | ops that c' needs and c does not

A phase is searched alone: what is begun before c is there at the start, ops may run before c with room for everything,
and from c on the capacity holds. A write is counted in one phase only.

A lower bound on the traffic of every order: parts of the graph one by one, and the sum. proofs.md, section 20.3.

For a set W of ops, forget all others: storages live from the first to the last touch inside W. Whatever an order does,
what it pays for the storages that only W touches is at least what the best order of W alone pays. The windows of a
list of ops do not meet, so no byte is counted twice, and the sum is a bound for the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lowtide import _core
from lowtide.allocate.clique import bits_of
from lowtide.spill.core_problem import core_problem, inner_predecessors, least_traffic
from lowtide.spill.problem import SpillProblem
from lowtide.stop import Limits


@dataclass(frozen=True)
class Phase:
    """From op `begin` (position; None: from the start) to op `end` (None: to the end) `bytes` move at least."""

    begin: int | None
    end: int | None
    bytes: int
    states: int


def ancestors(problem: SpillProblem) -> list[int]:
    """Per op, the ops that run before it in every order and itself, as bits."""
    rows: list[int] = []
    for i, preds in enumerate(problem.model.graph.predecessors):
        row = 1 << i
        for p in preds:
            row |= rows[p]
        rows.append(row)
    return rows


def longest_chain(before: Sequence[int], ops: Sequence[int]) -> tuple[int, ...]:
    """Most of the ops (topological, each once) that run one after the other in every order."""
    best: list[tuple[int, ...]] = []
    for k, v in enumerate(ops):
        longest: tuple[int, ...] = ()
        for j in range(k):
            if before[v] >> ops[j] & 1 and len(best[j]) > len(longest):
                longest = best[j]
        best.append((*longest, v))
    return max(best, key=len, default=())


def phases(problem: SpillProblem, chain: Sequence[int], state_limit: int, limits: Limits) -> tuple[Phase, ...]:
    """Bound each phase of a chain of ops, which run in this order in all orders; the sum bounds the traffic."""
    before = ancestors(problem)
    everything = (1 << problem.steps) - 1
    done = [0, *(before[c] for c in chain), everything]
    ends: list[int | None] = [None, *chain, None]
    paid_in = _where_writes_count(problem, done)
    bounds = []
    for k in range(len(done) - 1):
        ops = bits_of(done[k + 1] & ~done[k])
        core = _phase(problem, ops, ends[k], done[k], {s for s, at in paid_in.items() if at == k})
        result = least_traffic(core, replace(limits, seed=0), state_limit=state_limit)
        bounds.append(Phase(ends[k], ends[k + 1], result.bound, result.states))
    return tuple(bounds)


def _where_writes_count(problem: SpillProblem, done: Sequence[int]) -> dict[int, int]:
    """Storage to the one phase in which its write counts: the first that finds it there, else that which begins it.
    Storages that are written more than once, or have a free copy, are left out."""
    result = {}
    for s, storage in enumerate(problem.model.storages):
        if problem.copied[s] or problem.written_free[s] or len(problem.writers[s]) != 1:
            continue
        touched = sum(1 << i for i in storage.users)
        inside = [k for k in range(len(done) - 1) if touched & done[k + 1] & ~done[k]]
        later = [k for k in inside if touched & done[k]]
        result[s] = (later or inside)[0]
    return result


def _phase(
    problem: SpillProblem, ops: Sequence[int], gate: int | None, done: int, writes: set[int]
) -> _core.SpillModel:
    """One phase for the core: op 0 begins what is there at the start, the gate is the op before the phase."""
    model = problem.model
    part = sorted(ops if gate is None else [*ops, gate])
    number = {i: k + 1 for k, i in enumerate(part)}
    earlier = done & ~(0 if gate is None else 1 << gate)
    workspace = [0, *(model.workspace[i] for i in part)]
    rows = []
    core_of: dict[int, int] = {}
    for s, storage in enumerate(model.storages):
        users = [number[i] for i in storage.users if i in number]
        if not users or not storage.size:
            continue
        if any(earlier >> i & 1 for i in storage.users):
            users = [0, *users]
        if len(users) == 1:
            workspace[users[0]] += storage.size
            continue
        core_of[s] = len(rows)
        size = problem.traffic_bytes[s]
        rows.append((storage.size, size, size, users, [], [s not in writes, False, False, not storage.at_end]))
    preds = [[], *([0, *(p + 1 for p in row)] for row in inner_predecessors(problem, part))]
    overwrites: list[list[tuple[int, int]]] = [[]]
    for i in part:
        dying = [o for o in model.overwrites[i] if not model.storages[o.storage].at_end]
        overwrites.append([(core_of.get(o.storage, -1), o.saving) for o in dying])
    return _core.SpillModel(
        preds=preds,
        storages=rows,
        workspace=workspace,
        overwrites=overwrites,
        capacity=problem.capacity,
        write_once=True,
        segments=[],
        gate=0 if gate is None else number[gate],
    )


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
    core = core_problem(problem, part, costs=costs).core
    result = least_traffic(core, replace(limits, seed=0), state_limit=state_limit)
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
    Inputs, constants and outputs may be away for nothing, so they are left out. 0 where sizes are rounded up."""
    storages = problem.model.storages
    if any(s.size != exact for s, exact in zip(storages, problem.traffic_bytes, strict=True)):
        return 0
    free = sum(s.size for k, s in enumerate(storages) if problem.from_outside(k) or problem.is_output[k])
    return 2 * max(0, peak - problem.capacity - free)
