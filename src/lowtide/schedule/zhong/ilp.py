"""The integer program (Zhong et al., section IV-A, equations 1 to 10) on MathOpt, with a choice of solver.

Binary variables: ``x[v, t]``, node v runs at step t; ``y[b, t]``, block b is in memory at step t. A block is the
paper's tensor; its makers are the nodes that may touch it first (the paper: its only producer). In steps 0 .. n-1::

    (1) sum_v x[v,t] = 1            (2) sum_t x[v,t] = 1
    (3) x[v,t] <= y[b,t]            for the blocks b that v reads
    (4) y[b,t] <= y[b,t-1] + x[m,t] for the maker m (sum over the makers)
    (5) y[b,-1] = 0                 unless b is there at the start
    (6) sum_b size_b y[b,t] + sum_v extra_v x[v,t] <= M, least M

Pruning, by the numbers of ancestors and descendants, leaves out the variables that are 0: (7) x before, (9) x after
the steps in which v can run; (8) y before its makers, (10) y after its last readers can run.

Not in the paper: (3) also for the maker of a block that nobody reads, and y = 1 at the last step for blocks that
stay (as printed an unread output weighs nothing and an output may vanish; `problem.as_printed` gives that reading);
precedence that no block implies; blocks with several makers (aliases); in-place writing, w[v,b,t] <= x[v,t] and
w[v,b,t] <= 1 - y[b,t+1]; M between the largest single node and the peak of the order to start from.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, gcd, isfinite
from typing import TYPE_CHECKING, Any, Literal

from lowtide.errors import InputError, MissingExtraError
from lowtide.schedule.zhong.problem import Problem
from lowtide.stop import Limits, Progress

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

Solver = Literal["highs", "scip", "cp_sat", "gurobi"]
Status = Literal["optimal", "time", "interrupt"]

POLL_SECONDS = 0.05
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


@dataclass(frozen=True)
class Program:
    """The integer program as plain numbers, before any solver sees it.

    Attributes
    ----------
    x, y, w
        Variable number by (node, step), (block, step), (node, entry of its overwrites, step).
    rows
        ``(lower, upper, {variable: coefficient})``; None is no limit.
    fixed
        Variables that are 1.
    unit
        What the sizes are divided by.
    """

    x: dict[tuple[int, int], int] = field(default_factory=dict)
    y: dict[tuple[int, int], int] = field(default_factory=dict)
    w: dict[tuple[int, int, int], int] = field(default_factory=dict)
    rows: list[tuple[float | None, float | None, dict[int, int]]] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    unit: int = 1

    @property
    def variables(self) -> int:
        """Number of variables, M among them."""
        return len(self.x) + len(self.y) + len(self.w) + 1

    @property
    def constraints(self) -> int:
        """Number of rows; variables left out by pruning have none."""
        return len(self.rows)


PEAK = 0
"""Number of the variable M."""


def build(problem: Problem, *, pruning: bool = True) -> Program:
    """Write down equations (1) to (6), and (7) to (10) if `pruning`."""
    n = problem.n
    sizes = [b.size for b in problem.blocks]
    savings = [s for row in problem.overwrites for _, s in row]
    program = Program(unit=gcd(*sizes, *problem.extra, *savings) or 1)
    x, y, w, rows, unit = program.x, program.y, program.w, program.rows, program.unit
    count = 1
    first = [m.bit_count() if pruning else 0 for m in problem.ancestors]
    last = [n - 1 - m.bit_count() if pruning else n - 1 for m in problem.descendants]
    for v in range(n):
        for t in range(first[v], last[v] + 1):
            x[v, t], count = count, count + 1
    for b, block in enumerate(problem.blocks):
        if not block.touchers:
            continue
        begin = 0 if block.at_start else min(first[v] for v in block.touchers)
        end = n - 1 if block.at_end else max(last[v] for v in block.touchers)
        for t in range(begin, end + 1):
            y[b, t], count = count, count + 1
        if block.at_end:
            program.fixed.add(y[b, n - 1])
    for v in range(n):
        for e in range(len(problem.overwrites[v])):
            for t in range(first[v], last[v] + 1):
                w[v, e, t], count = count, count + 1

    for t in range(n):
        rows.append((1, 1, {x[v, t]: 1 for v in range(n) if (v, t) in x}))  # (1)
    for v in range(n):
        rows.append((1, 1, {x[v, t]: 1 for t in range(first[v], last[v] + 1)}))  # (2)
    for b in range(len(problem.blocks)):
        _block_rows(problem, program, b, first, last)
    _precedence_rows(problem, program)
    for v, entries in enumerate(problem.overwrites):
        for t in range(first[v], last[v] + 1) if entries else ():
            rows.append((None, 0, {x[v, t]: -1, **{w[v, e, t]: 1 for e in range(len(entries))}}))
            for e, (b, _) in enumerate(entries):
                if (b, t + 1) in y:
                    rows.append((None, 1, {w[v, e, t]: 1, y[b, t + 1]: 1}))
    always = sum(block.size for block in problem.blocks if not block.touchers)
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


def _block_rows(problem: Problem, program: Program, b: int, first: list[int], last: list[int]) -> None:
    """Equations (3) to (5) for one block."""
    block, n = problem.blocks[b], problem.n
    x, y, rows = program.x, program.y, program.rows
    touchers = sum(1 << v for v in block.touchers)
    makers = [v for v in block.touchers if not problem.ancestors[v] & touchers and not block.at_start]
    ends = [v for v in block.touchers if not problem.descendants[v] & touchers]
    for v in block.touchers:
        if len(makers) == 1 and v == makers[0] and (len(block.touchers) > 1 or block.at_end):
            continue  # what (4) and a later use imply
        for t in range(first[v], last[v] + 1):
            rows.append((None, 0, {x[v, t]: 1, y[b, t]: -1}))  # (3)
    for t in range(n):
        if (b, t) not in y or (block.at_start and t == 0):
            continue
        row = {y[b, t]: 1}
        if (b, t - 1) in y:
            row[y[b, t - 1]] = -1
        row.update({x[m, t]: -1 for m in makers if (m, t) in x})
        rows.append((None, 0, row))  # (4), (5)
    if len(makers) > 1:  # no gap between the first touch of one and the last touch of another
        for m in makers:
            for end in [None] if block.at_end else [v for v in ends if v != m]:
                for t in range(n):
                    if (b, t) in y:
                        row = {y[b, t]: -1, **{x[m, s]: 1 for s in range(t + 1) if (m, s) in x}}
                        if end is not None:
                            row.update({x[end, s]: -1 for s in range(t) if (end, s) in x})
                        rows.append((None, 0, row))


def _precedence_rows(problem: Problem, program: Program) -> None:
    """Precedence that no block implies: ``after``, and aliases with several makers."""
    n, x = problem.n, program.x
    implied: set[tuple[int, int]] = set()
    for block in problem.blocks:
        if block.at_start or not block.touchers:
            continue
        touchers = sum(1 << v for v in block.touchers)
        makers = [v for v in block.touchers if not problem.ancestors[v] & touchers]
        if len(makers) == 1:
            implied.update((makers[0], v) for v in block.touchers)
    for v, before in enumerate(problem.preds):
        for u in before:
            if (u, v) in implied:
                continue
            for t in range(n):
                row = {x[v, s]: 1 for s in range(t + 1) if (v, s) in x}
                if row and (v, t) in x:
                    row.update({x[u, s]: -1 for s in range(t) if (u, s) in x})
                    program.rows.append((None, 0, row))


def hint_of(problem: Problem, program: Program, order: Sequence[int]) -> dict[int, int]:
    """Value of every variable but M for an order of the nodes."""
    n = problem.n
    step = {v: t for t, v in enumerate(order)}
    values = {number: int(step[v] == t) for (v, t), number in program.x.items()}
    last: list[int] = []
    for b, block in enumerate(problem.blocks):
        steps = [step[v] for v in block.touchers]
        begin = 0 if block.at_start else min(steps)
        last.append(n - 1 if block.at_end else max(steps))
        values |= {program.y[b, t]: int(begin <= t <= last[b]) for t in range(n) if (b, t) in program.y}
    for v, entries in enumerate(problem.overwrites):
        dies = [s if last[b] == step[v] else -1 for b, s in entries]
        chosen = dies.index(max(dies)) if entries and max(dies) >= 0 else None
        values |= {program.w[v, e, t]: int(e == chosen) for e in range(len(entries)) for t in (step[v],)}
    values |= {number: 0 for number in program.w.values() if number not in values}
    return values


def solve(
    problem: Problem,
    start: Sequence[int],
    limits: Limits,
    *,
    solver: Solver = "highs",
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
    program = build(problem, pruning=pruning)
    peak = problem.peak(start)
    least = max(problem.floor, floor)

    def result(order: Sequence[int], bound: int, status: Status) -> Solved:
        spent = time.perf_counter() - began
        now = min(peak, problem.peak(order))
        return Solved(list(order), now, min(bound, now), status, program.variables, program.constraints, spent)

    if peak <= least:
        return result(start, peak, "optimal")
    if deadline - time.perf_counter() <= 0:
        return result(start, least, "time")
    model, columns = _model(problem, program, least, peak)
    found, bound, status = _run(
        model,
        columns,
        hint_of(problem, program, start) | {PEAK: peak // program.unit},
        solver,
        deadline - time.perf_counter(),
        limits,
        (peak, least),
    )
    least = max(least, ceil(bound - 1e-6) * program.unit)
    if found is None:
        return result(start, least, status)
    at = {v: t for (v, t), number in program.x.items() if found[number] > 0.5}
    order = sorted(range(problem.n), key=lambda v: at[v])
    return result(order if problem.peak(order) < peak else start, least, status)


def _model(problem: Problem, program: Program, least: int, most: int) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    """Hand the program to MathOpt; M counts units."""
    mathopt = _mathopt()
    model = mathopt.Model()
    unit = program.unit
    columns = [model.add_variable(lb=-(-least // unit), ub=most // unit, is_integer=True)]
    for number in range(1, program.variables):
        columns.append(model.add_variable(lb=float(number in program.fixed), ub=1.0, is_integer=True))
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
