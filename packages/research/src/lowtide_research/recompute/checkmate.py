"""Which ops run in which stage, and what is kept from stage to stage, as an integer program.

Stage t ends with the first run of the t-th op of an order; before that any earlier op may run again. For each stage
and op: R, it runs; S, its results are kept from the stage before; FREE, they go right after one of the ops that read
them. Source: Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", MLSys 2020,
equations 1 to 9, with memory written out instead of the variables U. Of an op's results all are kept, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, gcd
from typing import ClassVar

from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.stop import Limits
from lowtide_research.solvers.linear import Linear, Solver


@dataclass(frozen=True)
class Checkmate:
    """Checkmate's integer program (Jain et al., 2020): the cheapest of those with these stages."""

    name: ClassVar[str] = "checkmate"
    moves: ClassVar[bool] = False
    solver: Solver = "highs"  # of MathOpt
    most_ops: int = 60  # larger graphs are refused: the program has a variable for each op, stage and reader

    def __post_init__(self) -> None:
        if self.most_ops < 1:
            raise InputError(f"checkmate.most_ops is {self.most_ops}; give a whole number from 1")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether the program can say the graph."""
        if len(problem.ops) > self.most_ops:
            return f"more than {self.most_ops} ops"
        return shares_storages(problem)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The solver's best, and what it proves of its class."""
        from lowtide_research.solvers.linear import build, run

        program = _Program(problem, order, budget)
        model, columns = build(program.linear, "the method checkmate")
        progress = (0, 0)  # costs, and no bytes, are what it lowers
        values, bound, status = run(model, columns, {}, self.solver, limits.left_seconds, limits, progress)
        among = "first runs in the best order, results of an op kept together"
        if values is None:
            return Repeated((), "infeasible" if status == "infeasible" else "time", among)
        sequence = program.sequence(values)
        if peak_of(problem, sequence) > budget:  # the solver's tolerance
            return Repeated((), "time", among)
        return Repeated(tuple(sequence), "optimal" if status == "optimal" else "time", among, ceil(bound - 1e-6))


class _Program:
    """Columns and rows; ops are numbered as they come in the order."""

    def __init__(self, problem: Sequenced, order: Sequence[int], budget: int) -> None:
        self.problem, self.order, self.linear = problem, list(order), Linear()
        n = self.n = len(order)
        at = {i: k for k, i in enumerate(order)}
        values = problem.values
        self.reads = [
            sorted({at[values[x].maker] for x in problem.ops[i].reads if values[x].maker >= 0}) for i in order
        ]
        self.users = [[k for k in range(n) if j in self.reads[k]] for j in range(n)]
        self.kept = [any(values[x].kept for x in problem.ops[i].makes) for i in order]
        fixed = sum(v.size for v in values if v.maker < 0)
        sizes = [sum(values[x].size for x in problem.ops[i].makes) for i in order]
        workspaces = [problem.ops[i].workspace for i in order]
        self.unit = gcd(*sizes, *workspaces) or 1
        self.room = (budget - fixed) // self.unit
        self.size = [s // self.unit for s in sizes]
        self.work = [w // self.unit for w in workspaces]
        add = self.linear.column
        self.run = {(t, k): add() for t in range(n) for k in range(t + 1)}
        self.keep = {(t, k): add() for t in range(n + 1) for k in range(min(t, n))}
        self._stages()
        for t in range(n):
            self._memory(t)
        for (_, k), column in self.run.items():
            self.linear.objective[column] = problem.costs.units[self.order[k]]

    def _stages(self) -> None:
        """What runs has what it reads; what is kept was there; what runs once does so, and outputs are kept."""
        line = self.linear
        for t in range(self.n):
            line.at_least(1, {self.run[t, t]: 1})
            for k in range(t + 1):
                for j in self.reads[k]:
                    line.at_most(0, {self.run[t, k]: 1, self.run[t, j]: -1} | self._kept(t, j, -1))
                line.at_most(0, {self.keep[t + 1, k]: 1, self.run[t, k]: -1} | self._kept(t, k, -1))
                if k < t and self.problem.ops[self.order[k]].once:
                    line.at_most(0, {self.run[t, k]: 1})
        for k in range(self.n):
            if self.kept[k]:
                line.at_least(1, {self.keep[self.n, k]: 1})

    def _kept(self, t: int, k: int, factor: int) -> dict[int, int]:
        return {self.keep[t, k]: factor} if (t, k) in self.keep else {}

    def _memory(self, t: int) -> None:
        """Equations 2 to 5 and 7: bytes while each op of a stage runs are within the room."""
        line = self.linear
        live = {self.keep[t, k]: self.size[k] for k in range(t) if self.size[k]}
        for k in range(t + 1):
            now = dict(live)
            now[self.run[t, k]] = now.get(self.run[t, k], 0) + self.size[k] + self.work[k]
            line.at_most(self.room, now)
            live[self.run[t, k]] = live.get(self.run[t, k], 0) + self.size[k]
            for j in (*self.reads[k], k):
                if not self.size[j]:
                    continue
                free = line.column()
                # The result of j goes after k: k runs, nothing later in the stage reads it, the next does not keep it.
                hazards = {self.run[t, later]: 1 for later in self.users[j] if k < later <= t}
                hazards[self.keep[t + 1, j]] = 1
                line.at_most(0, {free: 1, self.run[t, k]: -1})
                line.at_most(len(hazards), {free: len(hazards)} | hazards)
                live[free] = -self.size[j]

    def sequence(self, values: Sequence[float]) -> list[int]:
        """The runs, stage by stage."""
        return [self.order[k] for (_, k), column in sorted(self.run.items()) if values[column] > 0.5]
