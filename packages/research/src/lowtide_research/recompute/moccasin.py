"""The cheapest sequence whose first runs come in a given order, by constraint programming: for small graphs, and tests.

Each op has a few retention intervals, from a run of it to the last run that reads what that made. Stage j of the order
ends with the first run of its j-th op, and before that any earlier op may run again, so that a run's place in time is
known from its stage. Source: Bartan, Li, Teague, Lott and Dilkina, "Moccasin: Efficient Tensor Rematerialization for
Neural Networks", ICML 2023, sections 2.3 and 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.stop import Limits

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MOST_OPS = 150  # more than these take too long to be of use


@dataclass(frozen=True)
class Moccasin:
    """Retention intervals on CP-SAT (Bartan et al., 2023): the cheapest for one order of first runs."""

    name: ClassVar[str] = "moccasin"
    moves: ClassVar[bool] = False
    runs: int = 2  # of an op, at most
    first: Literal["best", "own"] = "best"  # first runs in the best order, or in the file's own
    most_ops: int = MOST_OPS  # larger graphs are refused
    workers: int = 1  # threads of the solver; with more than one the same call may give another sequence of equal cost

    def __post_init__(self) -> None:
        if self.runs < 1 or self.most_ops < 1 or self.workers < 1:
            raise InputError("moccasin's runs, most_ops and workers are whole numbers from 1")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether the intervals can say the graph."""
        return why_not(problem, self.most_ops)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The solver's best, and what it proves of its class."""
        first = list(order) if self.first == "best" else list(range(len(order)))
        solved = moccasin(problem, first, budget, limits, runs=self.runs, workers=self.workers)
        among = f"first runs in the {self.first} order, {self.runs} runs of an op at most"
        if not solved.order:
            return Repeated((), "infeasible" if solved.proved else "time", among)
        return Repeated(solved.order, "optimal" if solved.proved else "time", among, max(0, solved.bound))


@dataclass(frozen=True)
class Retained:
    """What the solver found."""

    order: tuple[int, ...]  # positions as they run; empty if nothing was found
    cost: int  # units
    bound: int  # units that no such sequence costs less than
    # Whether it is proved cheapest of those with these first runs and this many runs of an op, or that there is none.
    proved: bool


def why_not(problem: Sequenced, most_ops: int = MOST_OPS) -> str | None:
    """None if the intervals can say this graph, else the reason."""
    return f"more than {most_ops} ops" if len(problem.ops) > most_ops else shares_storages(problem)


def moccasin(
    problem: Sequenced, order: Sequence[int], budget: int, limits: Limits, *, runs: int = 2, workers: int = 1
) -> Retained:
    """The cheapest sequence with these first runs. `order`: positions, each once. `budget`: bytes, sizes as they are.
    `runs`: of an op, at most. `workers`: threads of the solver. Raises `MissingExtraError`: OR-tools is not
    installed."""
    from lowtide_research.solvers.linear import load

    load("the method moccasin")
    from ortools.sat.python import cp_model

    from lowtide.solvers.cp_sat import solve

    model = _Model(cp_model.CpModel(), problem, list(order), budget, runs)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.01, limits.left_seconds)
    solver.parameters.num_workers = workers
    solver.parameters.catch_sigint_signal = False
    solver.parameters.random_seed = limits.seed
    status = solve(solver, model.cp)
    if status == cp_model.INFEASIBLE:
        return Retained((), 0, 0, proved=True)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Retained((), 0, 0, proved=False)
    found = model.sequence(solver)
    cost = sum(problem.costs.units[i] for i in found)
    return Retained(found, cost, round(solver.best_objective_bound), proved=status == cp_model.OPTIMAL)


@dataclass(frozen=True)
class _Run:
    """A run of an op that may be: when, and until when each of its values stays."""

    op: int
    there: cp_model.IntVar
    start: cp_model.IntVar
    ends: dict[int, cp_model.IntVar]


class _Model:
    """Variables and constraints. Events are numbered stage by stage: stage j has j + 1 of them."""

    def __init__(self, cp: cp_model.CpModel, problem: Sequenced, order: list[int], budget: int, runs: int) -> None:
        self.cp, self.problem, self.order = cp, problem, order
        self.stage = {op: j for j, op in enumerate(order)}
        self.horizon = self._event(len(order), 0)
        self.runs = {op: self._runs_of(op, 1 if problem.ops[op].once else runs) for op in order}
        self._cover()
        self._fit(budget)
        costs = [problem.costs.units[r.op] * r.there for runs_of in self.runs.values() for r in runs_of]
        cp.minimize(sum(costs))

    @staticmethod
    def _event(stage: int, op_stage: int) -> int:
        return stage * (stage + 1) // 2 + op_stage

    def _runs_of(self, op: int, count: int) -> list[_Run]:
        from ortools.sat.python import cp_model

        cp, own, last = self.cp, self.stage[op], len(self.order)
        runs = []
        for k in range(count):
            stages = [own] if k == 0 else range(own + k, last)
            if not stages:
                break
            events = cp_model.Domain.from_values([self._event(j, own) for j in stages])
            there, start = cp.new_bool_var(""), cp.new_int_var_from_domain(events, "")
            ends = {x: cp.new_int_var(0, self.horizon, "") for x in self.problem.ops[op].makes}
            for x, end in ends.items():
                cp.add(end >= start)
                if runs:
                    cp.add(runs[-1].ends[x] < start).only_enforce_if(there)
            if runs:
                cp.add_implication(there, runs[-1].there)
            else:
                cp.add(there == 1)
            runs.append(_Run(op, there, start, ends))
        return runs

    def _cover(self) -> None:
        """What a run reads is there then; what is kept, at the end."""
        cp, problem = self.cp, self.problem
        for runs in self.runs.values():
            for run in runs:
                for x in problem.ops[run.op].reads:
                    maker = problem.values[x].maker
                    if maker < 0:
                        continue
                    sources = []
                    for source in self.runs[maker]:
                        used = cp.new_bool_var("")
                        cp.add_implication(used, source.there)
                        cp.add(source.start < run.start).only_enforce_if(used)
                        cp.add(source.ends[x] >= run.start).only_enforce_if(used)
                        sources.append(used)
                    cp.add_bool_or([*sources, run.there.negated()])
        for x, value in enumerate(problem.values):
            if value.kept and value.maker >= 0:
                stays = []
                for source in self.runs[value.maker]:
                    used = cp.new_bool_var("")
                    cp.add_implication(used, source.there)
                    cp.add(source.ends[x] == self.horizon).only_enforce_if(used)
                    stays.append(used)
                cp.add_bool_or(stays)

    def _fit(self, budget: int) -> None:
        """At no event is there more than the budget."""
        cp, problem = self.cp, self.problem
        intervals, demands = [], []

        def hold(start: object, end: object, there: object, size: int) -> None:
            length = cp.new_int_var(1, self.horizon + 1, "")
            intervals.append(cp.new_optional_interval_var(start, length, end, there, ""))  # type: ignore[arg-type]
            demands.append(size)

        for runs in self.runs.values():
            for run in runs:
                for x, end in run.ends.items():
                    if problem.values[x].size:
                        hold(run.start, end + 1, run.there, problem.values[x].size)
                if problem.ops[run.op].workspace:
                    hold(run.start, run.start + 1, run.there, problem.ops[run.op].workspace)
        for x, value in enumerate(problem.values):
            if value.maker < 0 and value.size:
                end = cp.new_int_var(0, self.horizon, "")
                if value.kept:
                    cp.add(end == self.horizon)
                for runs in self.runs.values():
                    for run in runs:
                        if x in problem.ops[run.op].reads:
                            cp.add(end >= run.start).only_enforce_if(run.there)
                hold(0, end + 1, 1, value.size)
        cp.add_cumulative(intervals, demands, budget)

    def sequence(self, solver: cp_model.CpSolver) -> tuple[int, ...]:
        """The runs that are there, as they come."""
        there = [(solver.value(r.start), r.op) for runs in self.runs.values() for r in runs if solver.value(r.there)]
        return tuple(op for _, op in sorted(there))
