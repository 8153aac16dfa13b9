"""Integer programs on MathOpt (OR-tools): running one on a solver of the user's choice, and reading what came out.

One thread, a fixed seed, a time limit; the caller's thread waits, reports and can be interrupted.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from lowtide.errors import InputError, MissingExtraError
from lowtide.stop import Limits, Progress

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

Solver = Literal["highs", "scip", "cp_sat", "gurobi"]
Status = Literal["optimal", "infeasible", "time", "interrupt"]

POLL_SECONDS = 0.05
LISTENING = ("cp_sat", "gurobi")
PATIENCE_SECONDS = 2.0
"""How long to wait for a solver that was told to stop. HiGHS does not listen, and with an interrupter SCIP writes an
error of its own making to stderr; both are left to their time limit."""


@dataclass
class Linear:
    """A linear program in whole numbers, to be made less."""

    # Per column its upper limit; the lower one is in `lower`, 0 if absent.
    upper: list[int] = field(default_factory=list)
    lower: dict[int, int] = field(default_factory=dict)  # columns whose lower limit is not 0
    # ``(lower, upper, {column: coefficient})``; None is no limit.
    rows: list[tuple[int | None, int | None, dict[int, int]]] = field(default_factory=list)
    objective: dict[int, int] = field(default_factory=dict)  # coefficient of each column that has one

    def column(self, upper: int = 1) -> int:
        """Add a column; its number."""
        self.upper.append(upper)
        return len(self.upper) - 1

    def at_most(self, limit: int, row: dict[int, int]) -> None:
        """Add a row."""
        self.rows.append((None, limit, row))

    def at_least(self, limit: int, row: dict[int, int]) -> None:
        """Add a row."""
        self.rows.append((limit, None, row))


def load(extra_for: str) -> Any:
    """The module, loaded when it is first needed. Raises `MissingExtraError` where OR-tools is not installed."""
    try:
        from ortools.math_opt.python import mathopt
    except ImportError:
        raise MissingExtraError("ortools", "solvers", extra_for) from None
    return mathopt


def build(program: Linear, extra_for: str) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    """Hand a program to MathOpt."""
    model = load(extra_for).Model()
    lower = program.lower
    columns = [
        model.add_variable(lb=lower.get(i, 0), ub=upper, is_integer=True) for i, upper in enumerate(program.upper)
    ]
    for low, high, row in program.rows:
        constraint = model.add_linear_constraint(
            lb=float("-inf") if low is None else low, ub=float("inf") if high is None else high
        )
        for number, coefficient in row.items():
            constraint.set_coefficient(columns[number], coefficient)
    for number, coefficient in program.objective.items():
        model.objective.set_linear_coefficient(columns[number], coefficient)
    model.objective.is_maximize = False
    return model, columns


def run(
    model: mathopt.Model,
    columns: Sequence[mathopt.Variable],
    hint: Mapping[int, int],
    solver: Solver,
    seconds: float,
    limits: Limits,
    progress: tuple[int, int],
) -> tuple[list[float] | None, float, Status]:
    """Solve on one thread beside this one, which waits, reports and can be interrupted.

    Returns the values of the columns if there are any, the bound on the objective, and how it ended; "infeasible" is
    a solver's proof. `progress` is the best and the bound to report meanwhile.

    Raises `InputError`: the solver cannot be used, for example because it has no licence.
    """
    mathopt = load("a solver")
    from ortools.util.python.solve_interrupter import SolveInterrupter

    interrupter = SolveInterrupter()
    outcome: list[Any] = []
    ended = threading.Event()  # an interrupted `join` may take the thread for ended that is not (Python 3.11)

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
        finally:
            ended.set()

    interrupted = False
    try:
        threading.Thread(target=work, daemon=True).start()
        while not ended.wait(POLL_SECONDS):
            if limits.report is not None:
                limits.report(Progress(*progress, limits.spent_seconds))
    except BaseException as error:
        interrupter.interrupt()
        ended.wait(PATIENCE_SECONDS)
        if not isinstance(error, KeyboardInterrupt):
            raise
        interrupted = True
    if not outcome:
        return None, 0.0, "interrupt"
    return _read(outcome[0], columns, solver, interrupted)


def _read(
    outcome: mathopt.SolveResult | BaseException, columns: Sequence[mathopt.Variable], solver: Solver, interrupted: bool
) -> tuple[list[float] | None, float, Status]:
    mathopt = load("a solver")
    if isinstance(outcome, BaseException):
        reason = str(outcome.__context__ or outcome)
        if solver == "gurobi" and reason == "bad_function_call":  # what OR-tools says where it finds no library
            reason = "its library is not installed"
        raise InputError(f"solver {solver} cannot be used: {reason}; use highs, scip or cp_sat") from None
    ended = outcome.termination.reason
    values = outcome.variable_values(list(columns)) if outcome.has_primal_feasible_solution() else None
    bound = outcome.best_objective_bound()
    bound = bound if isfinite(bound) else 0.0
    if ended == mathopt.TerminationReason.OPTIMAL:
        return values, bound, "optimal"
    if ended in (mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED):
        return None, bound, "infeasible"
    unfinished = (mathopt.TerminationReason.FEASIBLE, mathopt.TerminationReason.NO_SOLUTION_FOUND)
    assert ended in unfinished, f"{solver} says {outcome.termination}"
    return values, bound, "interrupt" if interrupted else "time"


def _solver_type(solver: Solver) -> mathopt.SolverType:
    types = load("a solver").SolverType
    return {"highs": types.HIGHS, "scip": types.GSCIP, "cp_sat": types.CP_SAT, "gurobi": types.GUROBI}[solver]


def _parameters(solver: Solver, seconds: float, seed: int) -> mathopt.SolveParameters:
    """One thread, the seed, the time; objectives count units, so that a gap below one is none."""
    mathopt = load("a solver")
    parameters = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=max(seconds, 0.001)), random_seed=seed % 2**31, relative_gap_tolerance=0.0
    )
    if solver == "highs":
        parameters.highs.string_options["parallel"] = "off"
    else:
        parameters.threads = 1
    return parameters
