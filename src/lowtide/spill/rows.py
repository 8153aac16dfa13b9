"""Partial residency: of a tensor that does not fit, some rows stay and the others leave. For one order, no addresses.

The gap model of `lowtide.spill.problem.timeline` with a fraction for each gap instead of yes or no is a linear program
(one variable for each gap, one for each write, one row for each step). Its optimum bounds what any partial residency of
the order moves; rounded up to full rows, its fractions are one. Plans do not use it: an op that reads a tensor of
which rows were away reads all of it, so the rows that left have to come back to where they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from lowtide.errors import MissingExtraError
from lowtide.spill.problem import Gap, SpillProblem, Timeline, timeline

ROWS = 64  # rows of a tensor whose shape is not known


@dataclass(frozen=True)
class ByRows:
    """Which part of each gap's storage leaves, in full rows, and the bytes this moves; no fractions move fewer than
    `bound_bytes`."""

    leaving: tuple[tuple[Gap, Fraction], ...]
    traffic_bytes: int
    bound_bytes: int


def by_rows(problem: SpillProblem, order: Sequence[int]) -> ByRows | None:
    """The best partial residency of an order; None if even the ops alone do not fit. Raises `MissingExtraError`:
    OR-tools is not installed."""
    try:
        from ortools.linear_solver import pywraplp
    except ImportError:
        raise MissingExtraError("OR-tools", "solvers", "partial residency by rows") from None
    line = timeline(problem, order)
    if max(line.forced, default=0) > problem.capacity:
        return None
    solver = pywraplp.Solver.CreateSolver("GLOP")
    out = [solver.NumVar(0.0, 1.0, "") for _ in line.gaps]
    cost = solver.Sum([gap.read_bytes * v for gap, v in zip(line.gaps, out, strict=True)])
    written = {}
    for gap, v in zip(line.gaps, out, strict=True):
        if gap.write_bytes and problem.semantics.write_once:
            key = (gap.storage, gap.epoch)
            if key not in written:
                written[key] = solver.NumVar(0.0, 1.0, "")
                cost += gap.write_bytes * written[key]
            solver.Add(written[key] >= v)
        elif gap.write_bytes:
            cost += gap.write_bytes * v
    for step, forced in enumerate(line.forced):
        across = [(g, v) for g, v in zip(line.gaps, out, strict=True) if g.start <= step < g.end]
        room = sum(problem.model.storages[g.storage].size for g, _ in across)
        if across and forced + room > problem.capacity:
            leaving = solver.Sum([problem.model.storages[g.storage].size * v for g, v in across])
            solver.Add(leaving >= forced + room - problem.capacity)
    solver.Minimize(cost)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    values = [v.solution_value() for v in out]
    leaving = _in_rows(problem, line, values, 1e-6)
    if not fits(problem, line, leaving):
        leaving = _in_rows(problem, line, values, -1e-6)
    return ByRows(leaving, traffic_by_rows(problem, leaving), ceil(solver.Objective().Value() - 1e-6))


def rows_of(problem: SpillProblem, storage: int) -> int:
    """Into how many equal parts a storage is cut: the longest side of its tensor, or `ROWS`."""
    tensor = problem.model.graph.tensor_by_id[problem.model.storages[storage].tensors[0]]
    rows = max(tensor.shape or (ROWS,), default=ROWS)
    return rows if rows > 0 and problem.traffic_bytes[storage] % rows == 0 else ROWS


def traffic_by_rows(problem: SpillProblem, leaving: Sequence[tuple[Gap, Fraction]]) -> int:
    """Bytes that such a residency moves: rows out for the longest stretch are written, each row out is read."""
    total = Fraction(0)
    written: dict[tuple[int, int, int], Fraction] = {}
    for gap, part in leaving:
        total += gap.read_bytes * part
        if gap.write_bytes:
            once = 0 if problem.semantics.write_once else gap.start + 1
            key = (gap.storage, gap.epoch, once)
            written[key] = max(written.get(key, Fraction(0)), part)
    total += sum(problem.traffic_bytes[s] * part for (s, _, _), part in written.items())
    return ceil(total)


def fits(problem: SpillProblem, line: Timeline, leaving: Sequence[tuple[Gap, Fraction]]) -> bool:
    """Whether what stays is within the capacity at every step."""
    away = dict(leaving)
    for step, forced in enumerate(line.forced):
        kept = sum(
            problem.model.storages[g.storage].size * (1 - away.get(g, Fraction(0)))
            for g in line.gaps
            if g.start <= step < g.end
        )
        if forced + kept > problem.capacity:
            return False
    return True


def _in_rows(
    problem: SpillProblem, line: Timeline, values: Sequence[float], slack: float
) -> tuple[tuple[Gap, Fraction], ...]:
    """The solver's fractions in full rows, rounded up; `slack` of a row is taken for rounding of the solver's."""
    leaving = []
    for gap, value in zip(line.gaps, values, strict=True):
        rows = rows_of(problem, gap.storage)
        count = min(rows, max(0, ceil(value * rows - slack)))
        if count and value > 1e-12:
            leaving.append((gap, Fraction(count, rows)))
    return tuple(leaving)
