"""The integer programs on MathOpt (OR-tools), with a choice of solver.

One thread, a fixed seed, M in units of the greatest common divisor of all sizes, from the order in hand.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any, Literal

from lowtide.errors import InputError, MissingExtraError
from lowtide.schedule.zhong import cumulative
from lowtide.schedule.zhong import program as printed
from lowtide.schedule.zhong.problem import Problem
from lowtide.schedule.zhong.program import PEAK, Program
from lowtide.stop import Limits, Progress

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

Solver = Literal["highs", "scip", "cp_sat", "gurobi"]
Formulation = Literal["paper", "cumulative"]
Status = Literal["optimal", "time", "memory", "interrupt"]

MAX_VARIABLES = 100_000
"""Larger programs are not built: the solvers do nothing with them in any time that one waits."""

POLL_SECONDS = 0.05
HANDING_OVER = 0.5
"""What MathOpt takes to hand a program to the solver, and the solver to read it, over what building it took."""
LISTENING = ("cp_sat", "gurobi")
PATIENCE_SECONDS = 2.0
"""How long to wait for a solver that was told to stop. HiGHS does not listen, and with an interrupter SCIP writes an
error of its own making to stderr; both are left to their time limit."""


@dataclass(frozen=True, slots=True)
class Solved:
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
    problem: Problem,
    start: Sequence[int],
    limits: Limits,
    *,
    solver: Solver = "highs",
    formulation: Formulation = "paper",
    pruning: bool = True,
    floor: int = 0,
    seconds: float | None = None,
) -> Solved:
    """Find the order of least peak.

    Parameters
    ----------
    start
        An order of the nodes; the result is no worse.
    floor
        Bytes below which the peak need not go.
    seconds
        Wall time for the solver, if less than what `limits` leave.

    Raises
    ------
    MissingExtraError
        OR-tools is not installed.
    InputError
        The solver cannot be used, for example because it has no licence.
    """
    began = time.perf_counter()
    left = limits.left_seconds if seconds is None else min(limits.left_seconds, seconds)
    deadline = began + left
    form = printed if formulation == "paper" else cumulative
    variables, constraints = printed.count_variables(problem, pruning=pruning), 0
    peak = problem.peak(start)
    least = max(problem.floor, floor)

    def result(order: Sequence[int], bound: int, status: Status) -> Solved:
        spent = time.perf_counter() - began
        now = problem.peak(order)
        proved = bound if bound > floor else problem.floor
        return Solved(list(order), now, min(proved, now), status, variables, constraints, spent)

    if peak <= least:
        return result(start, peak, "optimal")
    if variables > MAX_VARIABLES:
        return result(start, least, "memory")
    program = form.build(problem, pruning=pruning, keep_on=lambda: time.perf_counter() < deadline)
    if program is None:
        return result(start, least, "time")
    variables, constraints = program.variables, program.constraints
    model, columns = _model(program, least, peak, whole=solver == "cp_sat")
    found, bound, status = _run(
        model,
        columns,
        form.hint_of(problem, program, start) | {PEAK: peak // program.unit},
        solver,
        deadline - time.perf_counter() - HANDING_OVER * (time.perf_counter() - began),
        limits,
        (peak, 0),
    )
    least = max(least, ceil(bound - 1e-6) * program.unit)
    if found is None:
        return result(start, least, status)
    order = form.order_of(problem, program, found)
    return result(order if problem.peak(order) < peak else start, least, status)


def _model(program: Program, least: int, most: int, *, whole: bool) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    """Hand the program to MathOpt; M counts units. `whole`: the solver knows whole numbers only."""
    mathopt = _mathopt()
    model = mathopt.Model()
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


def _mathopt() -> Any:
    """The module, loaded when it is first needed."""
    try:
        from ortools.math_opt.python import mathopt
    except ImportError:
        raise MissingExtraError("ortools", "solvers", "method zhong") from None
    return mathopt


def _run(
    model: mathopt.Model,
    columns: list[mathopt.Variable],
    hint: dict[int, int],
    solver: Solver,
    seconds: float,
    limits: Limits,
    progress: tuple[int, int],
) -> tuple[list[float] | None, float, Status]:
    """Solve on one thread beside this one, which waits, reports and can be interrupted.

    Returns the values of the columns if there are any, the bound on M, and how it ended. `progress` is the peak and
    the bound to report meanwhile.
    """
    mathopt = _mathopt()
    from ortools.util.python.solve_interrupter import SolveInterrupter

    interrupter = SolveInterrupter()
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(
                mathopt.solve(
                    model,
                    _solver_type(solver),
                    params=_parameters(solver, seconds, limits.seed),
                    model_params=mathopt.ModelSolveParameters(
                        solution_hints=[
                            mathopt.SolutionHint(variable_values={columns[i]: float(v) for i, v in hint.items()})
                        ]
                    ),
                    interrupter=interrupter if solver in LISTENING else None,
                )
            )
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    interrupted = False
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if limits.report is not None:
                limits.report(Progress(*progress, limits.seconds - limits.left_seconds))
    except BaseException as error:
        interrupter.interrupt()
        thread.join(PATIENCE_SECONDS)
        if not isinstance(error, KeyboardInterrupt):
            raise
        interrupted = True
    if not outcome:
        return None, 0.0, "interrupt"
    return _read(outcome[0], columns, solver, interrupted)


def _read(
    outcome: mathopt.SolveResult | BaseException, columns: list[mathopt.Variable], solver: Solver, interrupted: bool
) -> tuple[list[float] | None, float, Status]:
    mathopt = _mathopt()
    if isinstance(outcome, BaseException):
        reason = str(outcome.__context__ or outcome)
        raise InputError(f"solver {solver} cannot be used: {reason}; use highs, scip or cp_sat") from None
    ended = outcome.termination.reason
    values = outcome.variable_values(columns) if outcome.has_primal_feasible_solution() else None
    bound = outcome.best_objective_bound()
    bound = bound if isfinite(bound) else 0.0
    if ended == mathopt.TerminationReason.OPTIMAL:
        return values, bound, "optimal"
    unfinished = (mathopt.TerminationReason.FEASIBLE, mathopt.TerminationReason.NO_SOLUTION_FOUND)
    assert ended in unfinished, f"the order to start from is a solution, but {solver} says {outcome.termination}"
    return values, bound, "interrupt" if interrupted else "time"


def _solver_type(solver: Solver) -> mathopt.SolverType:
    types = _mathopt().SolverType
    return {"highs": types.HIGHS, "scip": types.GSCIP, "cp_sat": types.CP_SAT, "gurobi": types.GUROBI}[solver]


def _parameters(solver: Solver, seconds: float, seed: int) -> mathopt.SolveParameters:
    """One thread, the seed, the time; M counts units, so that a gap below one is none."""
    mathopt = _mathopt()
    parameters = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=max(seconds, 0.001)), random_seed=seed % 2**31, relative_gap_tolerance=0.0
    )
    if solver == "highs":
        parameters.highs.string_options["parallel"] = "off"
    else:
        parameters.threads = 1
    return parameters
