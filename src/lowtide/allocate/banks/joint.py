"""Memory and offset at once, by CP-SAT: for the few small instances whose loads fit and whose placements do not.

Source of the model: two-dimensional strip packing with optional rectangles (ortools, NoOverlap2D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from lowtide.allocate.banks.bank import Bank, Demand
from lowtide.allocate.buffers import Buffer, Problem
from lowtide.solvers.cp_sat import solve
from lowtide.stop import Limits

MOST_BUFFERS = 120  # above that the solver is not asked

DETERMINISTIC_SECONDS = 8.0


@dataclass(frozen=True)
class Joint:
    """The memory and the offset of each buffer, None if none was found; `impossible` if there is none."""

    bank_of: tuple[int, ...] | None
    offsets: tuple[int, ...]
    lower_bound: int
    impossible: bool


def place_jointly(problem: Problem, banks: Sequence[Bank], demands: Sequence[Demand], limits: Limits) -> Joint | None:
    """Solve, if ortools is there, the instance is small, and it has no pairs and none kept apart; else None. Raises
    `KeyboardInterrupt`: Ctrl-C ended the solver."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    buffers = problem.buffers
    if len(buffers) > MOST_BUFFERS or problem.pairs or problem.apart or limits.left_seconds <= 0:
        return None
    model = cp_model.CpModel()
    inside = [{k: model.new_bool_var("") for k in d.allowed} for d in demands]
    rectangles: list[list[tuple[Any, Any]]] = [[] for _ in banks]
    offsets = [
        {k: at for k, x in row.items() if (at := _offset(model, b, banks[k], x, rectangles[k])) is not None}
        for b, row in zip(buffers, inside, strict=True)
    ]
    for row in inside:
        model.add_exactly_one(row.values())
    for pairs in rectangles:
        model.add_no_overlap_2d([a for a, _ in pairs], [u for _, u in pairs])
    model.minimize(
        sum(x * (d.bytes * d.allowed.index(k)) for d, row in zip(demands, inside, strict=True) for k, x in row.items())
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed % 2**31
    solver.parameters.max_deterministic_time = DETERMINISTIC_SECONDS
    solver.parameters.max_time_in_seconds = limits.left_seconds
    solver.parameters.catch_sigint_signal = False  # it would leave Ctrl-C to end the process
    status = solve(solver, model)
    if status == cp_model.INFEASIBLE:
        return Joint(None, (), 0, True)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Joint(None, (), 0, False)
    bank_of = tuple(next(k for k, x in row.items() if solver.boolean_value(x)) for row in inside)
    chosen = [at[k] for at, k in zip(offsets, bank_of, strict=True)]
    return Joint(
        bank_of,
        tuple(solver.value(y) * unit for y, unit in chosen),
        round(solver.best_objective_bound),
        False,
    )


def _offset(
    model: Any, buffer: Buffer, bank: Bank, inside: Any, rectangles: list[tuple[Any, Any]]
) -> tuple[Any, int] | None:
    """Variable and unit of a buffer's offset in a memory; None, and `inside` is false, if it cannot be there.

    Adds the rectangles that the buffer has in that memory where `inside` is true.
    """
    unit = lcm(buffer.alignment, bank.alignment)
    most = bank.capacity - buffer.size
    if not buffer.rectangles:
        return model.new_constant(0), unit
    if most < 0 or (buffer.offset is not None and (buffer.offset > most or buffer.offset % unit)):
        model.add(inside == 0)
        return None
    low, high = (0, most // unit) if buffer.offset is None else (buffer.offset // unit,) * 2
    y = model.new_int_var(low, high, "")
    for p in buffer.rectangles:
        across = model.new_optional_fixed_size_interval_var(p.start, p.end - p.start, inside, "")
        up = model.new_optional_fixed_size_interval_var(y * unit + p.low, p.size, inside, "")
        rectangles.append((across, up))
    return y, unit
