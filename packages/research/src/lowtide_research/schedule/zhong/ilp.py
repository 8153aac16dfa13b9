"""The integer programs on MathOpt (OR-tools), with a choice of solver.

One thread, a fixed seed, M in units of the greatest common divisor of all sizes, from the order in hand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

from lowtide.stop import Limits
from lowtide_research.schedule.zhong import cumulative
from lowtide_research.schedule.zhong import program as printed
from lowtide_research.schedule.zhong.cut import cut_bound
from lowtide_research.schedule.zhong.problem import ReducedProblem
from lowtide_research.schedule.zhong.program import PEAK, OrderProgram
from lowtide_research.solvers import linear as solvers
from lowtide_research.solvers.linear import Solver

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

Formulation = Literal["paper", "cumulative"]
Status = Literal["optimal", "time", "memory", "interrupt"]

MAX_VARIABLES = 100_000  # larger programs are not built: the solvers do nothing with them in any time that one waits

HANDING_OVER = 0.5
"""What MathOpt takes to hand a program to the solver, and the solver to read it, over what building it took."""


@dataclass(frozen=True, slots=True)
class PartSolution:
    """What a solver made of one integer program. `order` is of nodes; `bound` is bytes that no order of them beats,
    as far as the solver says; `seconds` is its wall time."""

    order: list[int]
    peak: int
    bound: int
    status: Status
    variables: int
    constraints: int
    seconds: float


def solve(
    problem: ReducedProblem,
    start: Sequence[int],
    limits: Limits,
    *,
    solver: Solver = "highs",
    formulation: Formulation = "paper",
    pruning: bool = True,
    cuts: bool = True,
    floor: int = 0,
    seconds: float | None = None,
) -> PartSolution:
    """Find the order of least peak. `start`: an order of the nodes; the result is no worse. `cuts`: whether M starts
    from the bound by minimum cuts; else from what the largest single node needs. `floor`: bytes below which the peak
    need not go. `seconds`: wall time for the solver, if less than what `limits` leave. Raises `MissingExtraError`:
    OR-tools is not installed. Raises `InputError`: the solver cannot be used, for example because it has no licence."""
    began = time.perf_counter()
    left = limits.left_seconds if seconds is None else min(limits.left_seconds, seconds)
    deadline = began + left
    form = printed if formulation == "paper" else cumulative
    variables, constraints = printed.count_variables(problem, pruning=pruning), 0
    peak = problem.peak(start)
    lowest = cut_bound(problem, start, problem.floor) if cuts else problem.floor
    least = max(lowest, floor)

    def result(order: Sequence[int], bound: int, status: Status) -> PartSolution:
        spent = time.perf_counter() - began
        now = problem.peak(order)
        proved = bound if bound > floor else lowest
        return PartSolution(list(order), now, min(proved, now), status, variables, constraints, spent)

    if peak <= least:
        return result(start, peak, "optimal")
    if variables > MAX_VARIABLES:
        return result(start, least, "memory")
    program = form.build(problem, pruning=pruning, keep_on=lambda: time.perf_counter() < deadline)
    if program is None:
        return result(start, least, "time")
    variables, constraints = program.variables, program.constraints
    model, columns = _model(program, least, peak, whole=solver == "cp_sat")
    values, bound, status = solvers.run(
        model,
        columns,
        form.hint_of(problem, program, start) | {PEAK: peak // program.unit},
        solver,
        deadline - time.perf_counter() - HANDING_OVER * (time.perf_counter() - began),
        limits,
        (peak, 0),
    )
    assert status != "infeasible", "the order to start from is a solution"
    least = max(least, ceil(bound - 1e-6) * program.unit)
    if values is None:
        return result(start, least, status)
    order = form.order_of(problem, program, values)
    return result(order if problem.peak(order) < peak else start, least, status)


def _model(
    program: OrderProgram, least: int, most: int, *, whole: bool
) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    """Hand the program to MathOpt; M counts units. `whole`: the solver knows whole numbers only."""
    model = solvers.load("method zhong").Model()
    unit = program.unit
    columns = [model.add_variable(lb=-(-least // unit), ub=most // unit, is_integer=True)]
    for number in range(1, program.variables):
        columns.append(
            model.add_variable(
                lb=float(number in program.fixed), ub=1.0, is_integer=whole or number not in program.continuous
            )
        )
    for lower, upper, row in program.rows:
        constraint = model.add_linear_constraint(
            lb=float("-inf") if lower is None else lower, ub=float("inf") if upper is None else upper
        )
        for number, coefficient in row.items():
            constraint.set_coefficient(columns[number], coefficient)
    model.minimize(columns[PEAK])
    return model, columns
