"""The integer program (Zhong et al., section IV-A, equations 1 to 10) as numbers.

Binary variables: ``x[v, t]``, node v runs at step t; ``y[b, t]``, storage b is in memory at step t. A storage is the
paper's tensor; its makers are the nodes that may touch it first (the paper: its only producer). In steps 0 .. n-1::

    (1) sum_v x[v,t] = 1            (2) sum_t x[v,t] = 1
    (3) x[v,t] <= y[b,t]            for the storages b that v reads
    (4) y[b,t] <= y[b,t-1] + x[m,t] for the maker m (sum over the makers)
    (5) y[b,-1] = 0                 unless b is there at the start
    (6) sum_b size_b y[b,t] + sum_v extra_v x[v,t] <= M, least M

Pruning, by the numbers of ancestors and descendants, leaves out the variables that are 0: (7) x before, (9) x after
the steps in which v can run; (8) y before its makers, (10) y after its last readers can run.

Not in the paper: (3) also for the maker of a storage that nobody reads, and y = 1 at the last step for storages that
stay (as printed an unread output weighs nothing and an output may vanish; `problem.as_printed` gives that reading);
precedence that no storage implies; storages with several makers (aliases); in-place writing, w[v,b,t] <= x[v,t] and
w[v,b,t] <= 1 - y[b,t+1]; M between the largest single node and the peak of the order to start from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd

from lowtide_research.schedule.zhong.problem import NodeStorage, ReducedProblem


@dataclass(frozen=True)
class OrderProgram:
    """The integer program as plain numbers, before any solver sees it."""

    # x, y, w: variable number by (node, step), (storage, step), (node, entry of its overwrites, step). Number 0 is M.
    x: dict[tuple[int, int], int] = field(default_factory=dict)
    y: dict[tuple[int, int], int] = field(default_factory=dict)
    w: dict[tuple[int, int, int], int] = field(default_factory=dict)
    # ``(lower, upper, {variable: coefficient})``; None is no limit.
    rows: list[tuple[float | None, float | None, dict[int, int]]] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)  # variables that are 1
    # Variables that are whole in some best solution without being asked to.
    continuous: set[int] = field(default_factory=set)
    unit: int = 1  # what the sizes are divided by

    @property
    def variables(self) -> int:
        """Number of variables, M among them."""
        return len(self.x) + len(self.y) + len(self.w) + 1

    @property
    def constraints(self) -> int:
        """Number of rows; variables left out by pruning have none."""
        return len(self.rows)


PEAK = 0  # number of the variable M


def windows(problem: ReducedProblem, pruning: bool) -> tuple[list[int], list[int]]:
    """First and last step in which each node can run: after its ancestors (7), before its descendants (9)."""
    n = problem.n
    if not pruning:
        return [0] * n, [n - 1] * n
    return [m.bit_count() for m in problem.ancestors], [n - 1 - m.bit_count() for m in problem.descendants]


def unit_of(problem: ReducedProblem) -> int:
    """Greatest common divisor of all bytes."""
    savings = [saving for row in problem.overwrites for _, saving in row]
    return gcd(*(b.size for b in problem.storages), *problem.extra, *savings) or 1


def count_variables(problem: ReducedProblem, *, pruning: bool = True) -> int:
    """Number of variables that `build` makes, M among them."""
    first, last = windows(problem, pruning)
    count = 1 + sum(
        (end - begin + 1) * (1 + len(row)) for begin, end, row in zip(first, last, problem.overwrites, strict=True)
    )
    for storage in problem.storages:
        if storage.users:
            begin, end = _lifetime(problem, storage, first, last)
            count += end - begin + 1
    return count


def _lifetime(problem: ReducedProblem, storage: NodeStorage, first: list[int], last: list[int]) -> tuple[int, int]:
    """First and last step in which a storage may be live, by (8) and (10)."""
    begin = 0 if storage.at_start else min(first[v] for v in storage.users)
    return begin, problem.n - 1 if storage.at_end else max(last[v] for v in storage.users)


def build(
    problem: ReducedProblem, *, pruning: bool = True, keep_on: Callable[[], bool] = lambda: True
) -> OrderProgram | None:
    """Write down equations (1) to (6), and (7) to (10) if `pruning`; None once `keep_on` says no."""
    n = problem.n
    sizes = [b.size for b in problem.storages]
    program = OrderProgram(unit=unit_of(problem))
    x, y, w, rows, unit = program.x, program.y, program.w, program.rows, program.unit
    count = 1
    first, last = windows(problem, pruning)
    for v in range(n):
        for t in range(first[v], last[v] + 1):
            x[v, t], count = count, count + 1
    for b, storage in enumerate(problem.storages):
        if not storage.users:
            continue
        begin, end = _lifetime(problem, storage, first, last)
        for t in range(begin, end + 1):
            y[b, t], count = count, count + 1
        if storage.at_end:
            program.fixed.add(y[b, n - 1])
    for v in range(n):
        for e in range(len(problem.overwrites[v])):
            for t in range(first[v], last[v] + 1):
                w[v, e, t], count = count, count + 1

    for t in range(n):
        rows.append((1, 1, {x[v, t]: 1 for v in range(n) if (v, t) in x}))  # (1)
    for v in range(n):
        rows.append((1, 1, {x[v, t]: 1 for t in range(first[v], last[v] + 1)}))  # (2)
    for b in range(len(problem.storages)):
        if not keep_on():
            return None
        _storage_rows(problem, program, b, first, last)
    _precedence_rows(problem, program)
    for v, entries in enumerate(problem.overwrites):
        for t in range(first[v], last[v] + 1) if entries else ():
            rows.append((None, 0, {x[v, t]: -1, **{w[v, e, t]: 1 for e in range(len(entries))}}))
            for e, (b, _) in enumerate(entries):
                if (b, t + 1) in y:
                    rows.append((None, 1, {w[v, e, t]: 1, y[b, t + 1]: 1}))
    always = sum(storage.size for storage in problem.storages if not storage.users)
    holds: list[dict[int, int]] = [{PEAK: -1} for _ in range(n)]
    for (b, t), number in y.items():
        if sizes[b]:
            holds[t][number] = sizes[b] // unit
    for (v, t), number in x.items():
        if problem.extra[v]:
            holds[t][number] = problem.extra[v] // unit
    for (v, e, t), number in w.items():
        holds[t][number] = -problem.overwrites[v][e][1] // unit
    rows.extend((None, -(always // unit), row) for row in holds)  # (6)
    return program


def _storage_rows(problem: ReducedProblem, program: OrderProgram, b: int, first: list[int], last: list[int]) -> None:
    """Equations (3) to (5) for one storage."""
    storage, n = problem.storages[b], problem.n
    x, y, rows = program.x, program.y, program.rows
    users = sum(1 << v for v in storage.users)
    makers = [v for v in storage.users if not problem.ancestors[v] & users and not storage.at_start]
    ends = [v for v in storage.users if not problem.descendants[v] & users]
    for v in storage.users:
        if len(makers) == 1 and v == makers[0] and (len(storage.users) > 1 or storage.at_end):
            continue  # what (4) and a later use imply
        for t in range(first[v], last[v] + 1):
            rows.append((None, 0, {x[v, t]: 1, y[b, t]: -1}))  # (3)
    for t in range(n):
        if (b, t) not in y or (storage.at_start and t == 0):
            continue
        row = {y[b, t]: 1}
        if (b, t - 1) in y:
            row[y[b, t - 1]] = -1
        row.update({x[m, t]: -1 for m in makers if (m, t) in x})
        rows.append((None, 0, row))  # (4), (5)
    if len(makers) > 1:  # no gap between the first touch of one and the last touch of another
        for m in makers:
            for end in [None] if storage.at_end else [v for v in ends if v != m]:
                for t in range(n):
                    if (b, t) in y:
                        row = {y[b, t]: -1, **{x[m, s]: 1 for s in range(t + 1) if (m, s) in x}}
                        if end is not None:
                            row.update({x[end, s]: -1 for s in range(t) if (end, s) in x})
                        rows.append((None, 0, row))


def _precedence_rows(problem: ReducedProblem, program: OrderProgram) -> None:
    """Precedence that no storage implies: ``after``, and aliases with several makers."""
    n, x = problem.n, program.x
    implied: set[tuple[int, int]] = set()
    for storage in problem.storages:
        if storage.at_start or not storage.users:
            continue
        users = sum(1 << v for v in storage.users)
        makers = [v for v in storage.users if not problem.ancestors[v] & users]
        if len(makers) == 1:
            implied.update((makers[0], v) for v in storage.users)
    for v, before in enumerate(problem.preds):
        for u in before:
            if (u, v) in implied:
                continue
            for t in range(n):
                row = {x[v, s]: 1 for s in range(t + 1) if (v, s) in x}
                if row and (v, t) in x:
                    row.update({x[u, s]: -1 for s in range(t) if (u, s) in x})
                    program.rows.append((None, 0, row))


def hint_of(problem: ReducedProblem, program: OrderProgram, order: Sequence[int]) -> dict[int, int]:
    """Value of every variable but M for an order of the nodes."""
    n = problem.n
    step = {v: t for t, v in enumerate(order)}
    values = {number: int(step[v] == t) for (v, t), number in program.x.items()}
    last: list[int] = []
    for b, storage in enumerate(problem.storages):
        steps = [step[v] for v in storage.users]
        begin = 0 if storage.at_start else min(steps)
        last.append(n - 1 if storage.at_end else max(steps))
        values |= {program.y[b, t]: int(begin <= t <= last[b]) for t in range(n) if (b, t) in program.y}
    for v, entries in enumerate(problem.overwrites):
        dies = [s if last[b] == step[v] else -1 for b, s in entries]
        chosen = dies.index(max(dies)) if entries and max(dies) >= 0 else None
        values |= {program.w[v, e, t]: int(e == chosen) for e in range(len(entries)) for t in (step[v],)}
    values |= {number: 0 for number in program.w.values() if number not in values}
    return values


def order_of(problem: ReducedProblem, program: OrderProgram, values: Sequence[float]) -> list[int]:
    """Order of the nodes in a solution."""
    at = {v: t for (v, t), number in program.x.items() if values[number] > 0.5}
    return sorted(range(problem.n), key=lambda v: at[v])
