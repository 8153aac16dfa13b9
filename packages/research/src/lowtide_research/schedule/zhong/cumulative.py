"""The same integer program in cumulative variables: what each step has done, not what it does.

``z[v, t]`` = x[v,0] + ... + x[v,t], node v has run by step t. Not the paper's; same optimum, far better relaxation (a
fractional x spreads an op over many steps, and (3) then holds next to nothing in memory), which the solvers that
branch on a linear relaxation need::

    sum_v z[v,t] = t + 1                         one node per step
    z[v,t] >= z[v,t-1]                           what is done stays done
    z[v,t] <= z[u,t-1]                           u before v
    y[b,t] >= z[m,t] - z[c,t-1]                  b is live from its maker m to its reader c
    sum_b size_b y[b,t] + sum_v extra_v (z[v,t] - z[v,t-1]) <= M

Pruning as by (7) to (10): z is 0 before the first step in which v can run and 1 from the last one on; y is left out
where b cannot be live, and is 1 where it must be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowtide_research.schedule.zhong.problem import ReducedProblem
from lowtide_research.schedule.zhong.program import PEAK, OrderProgram, unit_of, windows

Term = tuple[int, int]  # ``(constant, variable)``; variable 0 (which is M) stands for none


def build(
    problem: ReducedProblem, *, pruning: bool = True, keep_on: Callable[[], bool] = lambda: True
) -> OrderProgram | None:
    """Write the program down; None once `keep_on` says no."""
    return _Builder(problem, pruning).build(keep_on)


class _Builder:
    def __init__(self, problem: ReducedProblem, pruning: bool) -> None:
        self.problem = problem
        self.n = problem.n
        self.first, self.last = windows(problem, pruning)
        self.program = OrderProgram(unit=unit_of(problem))

    def build(self, keep_on: Callable[[], bool]) -> OrderProgram | None:
        problem, program, n = self.problem, self.program, self.n
        for v in range(n):
            for t in range(self.first[v], self.last[v]):
                program.x[v, t] = program.variables
        for t in range(n - 1):
            self._row([(1, self._done(v, t)) for v in range(n)], t + 1, t + 1)
        for v in range(n):
            for t in range(self.first[v] + 1, self.last[v]):
                self._row([(1, self._done(v, t - 1)), (-1, self._done(v, t))], None, 0)
            if not keep_on():
                return None
            for u in problem.preds[v]:
                for t in range(self.first[v], self.last[v] + 1):
                    self._row([(1, self._done(v, t)), (-1, self._done(u, t - 1))], None, 0)
        holds: list[list[tuple[int, Term]]] = [[] for _ in range(n)]
        for b, storage in enumerate(problem.storages):
            if not keep_on():
                return None
            for t, live in enumerate(self._lives(b)):
                holds[t].append((storage.size // program.unit, live))
        for v in range(n):
            for t in range(self.first[v], self.last[v] + 1):
                extra = problem.extra[v] // program.unit
                holds[t] += [(extra, self._done(v, t)), (-extra, self._done(v, t - 1))]
            for e, (b, saving) in enumerate(problem.overwrites[v]):
                for t in range(self.first[v], self.last[v] + 1):
                    holds[t].append((-saving // program.unit, self._overwrites(v, e, b, t)))
        for t in range(n):
            self._row([(-1, (0, -1)), *holds[t]], None, 0)
        return program

    def _done(self, v: int, t: int) -> Term:
        if t < self.first[v]:
            return 0, 0
        return (1, 0) if t >= self.last[v] else (0, self.program.x[v, t])

    def _lives(self, b: int) -> list[Term]:
        """Whether storage `b` is live, per step: a constant where that is certain, else a variable and its rows."""
        storage, problem, program = self.problem.storages[b], self.problem, self.program
        if not storage.size:
            return []
        users = sum(1 << v for v in storage.users)
        makers = [v for v in storage.users if not problem.ancestors[v] & users]
        ends = [v for v in storage.users if not problem.descendants[v] & users]
        per_step: list[Term] = []
        for t in range(self.n):
            begun: list[Term] = [(1, 0)] if storage.at_start else [self._done(m, t) for m in makers]
            ended: list[Term] = [(0, 0)] if storage.at_end else [self._done(c, t - 1) for c in ends]
            if all(term == (0, 0) for term in begun) or all(term == (1, 0) for term in ended):
                per_step.append((0, 0))
                continue
            if (1, 0) in begun and (0, 0) in ended:
                per_step.append((1, 0))
                continue
            live = program.variables
            program.continuous.add(live)
            program.y[b, t] = live
            per_step.append((0, live))
            for begin in begun:
                for end in ended:
                    if begin != (0, 0) and end != (1, 0) and begin != end:
                        self._row([(1, begin), (-1, end), (-1, (0, live))], None, 0)
        return per_step

    def _overwrites(self, v: int, e: int, b: int, t: int) -> Term:
        """Whether entry `e` of the node is taken at step `t`: it runs then, and the others of the storage are done."""
        problem, program = self.problem, self.program
        program.continuous.add(program.variables)
        program.w[v, e, t] = program.variables
        me = (0, program.w[v, e, t])
        first = [(0, program.w[v, other, t]) for other in range(e)]
        runs = [(-1, self._done(v, t)), (1, self._done(v, t - 1))]
        self._row([(1, me), *((1, other) for other in first), *runs], None, 0)
        for c in problem.storages[b].users:
            if c != v and self._done(c, t) != (1, 0):
                self._row([(1, me), (-1, self._done(c, t))], None, 0)
        return me

    def _row(self, terms: Sequence[tuple[int, Term]], lower: int | None, upper: int | None) -> None:
        """Add ``lower <= sum of factor * term <= upper``; variable -1 stands for M."""
        row: dict[int, int] = {}
        constant = 0
        for factor, (value, number) in terms:
            constant += factor * value
            if number:
                number = PEAK if number < 0 else number
                row[number] = row.get(number, 0) + factor
        row = {number: factor for number, factor in row.items() if factor}
        if row:
            self.program.rows.append(
                (None if lower is None else lower - constant, None if upper is None else upper - constant, row)
            )


def hint_of(problem: ReducedProblem, program: OrderProgram, order: Sequence[int]) -> dict[int, int]:
    """Value of every variable but M for an order of the nodes."""
    n = problem.n
    step = {v: t for t, v in enumerate(order)}
    values = {number: int(step[v] <= t) for (v, t), number in program.x.items()}
    last: dict[int, int] = {}
    for b, storage in enumerate(problem.storages):
        steps = [step[v] for v in storage.users]
        begin = 0 if storage.at_start else min(steps)
        last[b] = n - 1 if storage.at_end else max(steps)
        values |= {program.y[b, t]: int(begin <= t <= last[b]) for t in range(n) if (b, t) in program.y}
    for (v, e, t), number in program.w.items():
        dies = [b for b, _ in problem.overwrites[v] if last[b] == step[v]]
        values[number] = int(step[v] == t and problem.overwrites[v][e][0] in dies[:1])
    return values


def order_of(problem: ReducedProblem, program: OrderProgram, values: Sequence[float]) -> list[int]:
    """Order of the nodes in a solution."""
    runs = list(windows(problem, True)[0])  # right for those without variables
    for (v, t), number in sorted(program.x.items(), reverse=True):
        if values[number] > 0.5:
            runs[v] = t
        elif (v, t + 1) not in program.x:
            runs[v] = t + 1
    return sorted(range(problem.n), key=lambda v: runs[v])
