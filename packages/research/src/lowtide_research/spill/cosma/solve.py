"""Running COSMA's program: without addresses first, then with them if what has to be there does not pack.

Without (9) to (11), but with the sum of sizes below the capacity, the program is a relaxation of the whole one, and
small. If the arena engines place its residency in the capacity, its optimum is the whole one's. If not, more room than
there is is requested (`reserved`), which gives an answer but no proof, and the whole program is solved from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import Any, Literal

from lowtide.allocate.arena import allocate_buffers
from lowtide.allocate.buffers import Problem as Buffers
from lowtide.allocate.buffers import block
from lowtide.spill.answer import Interval, SpillAnswer
from lowtide.spill.problem import SpillProblem
from lowtide.spill.traffic import moves_of, traffic_of
from lowtide.stop import Limits
from lowtide_research.solvers import linear as solvers
from lowtide_research.solvers.linear import Solver
from lowtide_research.spill.cosma import solution
from lowtide_research.spill.cosma.addresses import add_addresses, add_model_addresses
from lowtide_research.spill.cosma.program import CosmaProgram, Objective, add_capacity, add_rows, start_program
from lowtide_research.spill.cosma.tensors import Space, space_of, space_without_spilling

Addresses = Literal["late", "joint"]
Ended = Literal["optimal", "time", "memory", "interrupt", "infeasible"]

MAX_VARIABLES = 100_000  # larger programs are not built: the solvers do nothing with them in any time that one waits
HANDING_OVER = 0.5  # what MathOpt takes to hand a program to the solver, over what building it took
PACKING_SECONDS = 2.0
RESERVES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of the capacity to be left empty, in turn, until residency packs."""


@dataclass(frozen=True)
class ProgramSettings:
    """How programs are built and run; see `Cosma` for each."""

    solver: Solver = "cp_sat"
    overlap: bool = True
    cuts: bool = True
    addresses: Addresses = "late"


@dataclass(frozen=True)
class SpillSolution:
    """What came out. `bound` is traffic that no answer of the space beats; `answer` is the best there is."""

    answer: SpillAnswer
    bound: int
    ended: Ended
    counters: dict[str, Any]


def unit_of(space: Space, *more: int) -> int:
    """Greatest common divisor of everything that takes room: offsets are sums of sizes, pushed down."""
    return gcd(*(storage.size for storage in space.storages), *space.workspace, *more) or 1


def estimate(space: Space, *, addresses: bool) -> int:
    """Number of variables of a program, before it is built."""
    count = sum(last - first + 1 for first, last in zip(space.first, space.last, strict=True))
    at = [0] * space.steps
    for a in range(len(space.storages)):
        begin, end = space.begins(a)[0], space.ends(a)
        count += 3 * (end - begin + 1)
        for t in range(begin, end + 1) if addresses else ():
            at[t] += 1
    return count + sum(2 * k + k * (k - 1) for k in at)


def place(
    problem: SpillProblem, order: Sequence[int], intervals: Sequence[Interval], limits: Limits
) -> SpillAnswer | None:
    """The answer with this residency, if the arena engines place it within the capacity."""
    model = problem.model
    buffers = [
        block(str(k), v.start, v.end, model.storages[v.storage].size, model.alignment) for k, v in enumerate(intervals)
    ]
    buffers += [
        block(f"w{i}", t, t + 1, model.workspace[i], model.alignment) for t, i in enumerate(order) if model.workspace[i]
    ]
    seconds = max(0.01, min(PACKING_SECONDS, limits.left_seconds))
    allocation = allocate_buffers(
        Buffers(tuple(buffers)), problem.capacity, Limits(seconds, seed=limits.seed, enough_bytes=problem.capacity)
    )
    if allocation.height_bytes > problem.capacity:
        return None
    placed = tuple(replace(v, offset=allocation.offsets[str(k)]) for k, v in enumerate(intervals))
    workspace = {i: allocation.offsets[f"w{i}"] for i in order if model.workspace[i]}
    moves = moves_of(problem, order, placed)
    return SpillAnswer(tuple(order), placed, moves, (), workspace, traffic_of(moves))


def solve(
    problem: SpillProblem,
    start: SpillAnswer,
    limits: Limits,
    settings: ProgramSettings,
    *,
    order: Sequence[int] | None = None,
) -> SpillSolution:
    """Least traffic, over all orders or for one. `start`: an answer; the result is no worse. `order`: the only order
    allowed (16)."""
    space = space_of(problem, order=order, overlap=settings.overlap)
    run = _CosmaRun(problem, space, start, limits, settings)
    if start.traffic_bytes == 0:
        return run.result("optimal")
    if settings.addresses == "joint":
        return run.result(run.whole())
    ended = run.relaxed()
    if ended != "optimal" or run.best.traffic_bytes <= run.bound:
        return run.result(ended)
    for share in RESERVES:
        reserved = max(1, int(problem.capacity * share))
        if run.relaxed(reserved, 0.3 * limits.left_seconds) == "interrupt":
            return run.result("interrupt")
        if run.packed or limits.left_seconds <= 0:
            break
    return run.result(run.whole() if run.best.traffic_bytes > run.bound else "optimal")


class _CosmaRun:
    """The best answer and the bound so far, and the programs that were run."""

    def __init__(
        self, problem: SpillProblem, space: Space, start: SpillAnswer, limits: Limits, settings: ProgramSettings
    ) -> None:
        self.problem, self.space, self.limits, self.settings = problem, space, limits, settings
        self.best, self.bound, self.packed = start, 0, False
        self.counters: dict[str, Any] = {"programs": 0}

    def result(self, ended: Ended) -> SpillSolution:
        return SpillSolution(self.best, min(self.bound, self.best.traffic_bytes), ended, self.counters)

    def relaxed(self, reserved: int = 0, seconds: float | None = None) -> Ended:
        """Solve without addresses, place what comes out."""

        def rows(program: CosmaProgram, keep_on: Callable[[], bool]) -> bool:
            add_capacity(program, self.problem.capacity, reserved)
            return True

        self.packed = False
        values, program, ended = self._run(rows, seconds, "relaxed", proves=not reserved, addresses=False)
        if values is None or program is None:
            return ended
        order, intervals = solution.order_of(program, values), solution.intervals_of(program, values)
        answer = place(self.problem, order, intervals, self.limits)
        self.packed = answer is not None
        if answer is not None and answer.traffic_bytes < self.best.traffic_bytes:
            self.best = answer
        return ended

    def whole(self) -> Ended:
        """Solve equations (1) to (12)."""

        def rows(program: CosmaProgram, keep_on: Callable[[], bool]) -> bool:
            if self.settings.cuts:
                add_capacity(program, self.problem.capacity)
            return add_addresses(program, self.problem.capacity, keep_on)

        values, program, ended = self._run(rows, None, "whole", proves=True, addresses=True)
        if values is None or program is None:
            return ended
        order, intervals = solution.order_of(program, values), solution.intervals_of(program, values)
        moves = moves_of(self.problem, order, intervals)
        offsets = solution.workspace_offsets_of(program, values)
        answer = SpillAnswer(order, tuple(intervals), moves, (), offsets, traffic_of(moves))
        if answer.traffic_bytes < self.best.traffic_bytes:
            self.best = answer
        return ended

    def _run(
        self,
        rows: Callable[[CosmaProgram, Callable[[], bool]], bool],
        seconds: float | None,
        name: str,
        *,
        proves: bool,
        addresses: bool,
    ) -> tuple[list[float] | None, CosmaProgram | None, Ended]:
        began = time.perf_counter()
        limits, settings = self.limits, self.settings
        left = limits.left_seconds if seconds is None else min(seconds, limits.left_seconds)
        deadline = began + left
        expected = estimate(self.space, addresses=addresses)
        self.counters[f"{name}_variables"] = expected
        if expected > MAX_VARIABLES:
            return None, None, "memory"

        def keep_on() -> bool:
            return time.perf_counter() < deadline

        program = start_program(self.space, unit_of(self.space, self.problem.model.alignment))
        write_once = self.problem.semantics.write_once
        if not (
            add_rows(program, write_once=write_once, cuts=settings.cuts, keep_on=keep_on) and rows(program, keep_on)
        ):
            return None, None, "time"
        scale = gcd(*program.linear.objective.values()) or 1
        program.linear.objective = {v: c // scale for v, c in program.linear.objective.items()}
        self.counters[f"{name}_variables"] = program.variables
        self.counters[f"{name}_constraints"] = program.constraints
        self.counters["programs"] += 1
        model, columns = solvers.build(program.linear, "method cosma")
        left = deadline - time.perf_counter() - HANDING_OVER * (time.perf_counter() - began)
        if left <= 0:
            return None, program, "time"
        values, bound, ended = solvers.run(
            model,
            columns,
            solution.hint_of(program, self.best),
            settings.solver,
            left,
            limits,
            (self.best.traffic_bytes, self.bound),
        )
        proved = ceil(bound - 1e-6) * scale
        if proves and ended != "infeasible" and proved <= self.best.traffic_bytes:
            self.bound = max(self.bound, proved)  # above it is only where the start moves storages between two steps
        return values, program, ended


def least_peak(
    problem: SpillProblem, limits: Limits, settings: ProgramSettings, *, start: Sequence[int] | None = None
) -> tuple[tuple[int, ...], int, Ended, dict[str, Any]]:
    """Equations (13) to (15): the order of least peak without spilling, a bound on the peak, and how it ended. As
    everywhere without spilling, graph inputs are there from the start and graph outputs stay to the end. The
    capacity says nothing here."""
    return _without_spilling(problem, limits, settings, start, "peak")


def model_encoding(
    problem: SpillProblem, limits: Limits, settings: ProgramSettings, *, start: Sequence[int] | None = None
) -> tuple[tuple[int, ...], int, Ended, dict[str, Any]]:
    """MODeL's program: the order of the smallest arena without spilling, a bound on the arena, and how it ended."""
    return _without_spilling(problem, limits, settings, start, "arena")


def _without_spilling(
    problem: SpillProblem,
    limits: Limits,
    settings: ProgramSettings,
    start: Sequence[int] | None,
    what: Literal["peak", "arena"],
) -> tuple[tuple[int, ...], int, Ended, dict[str, Any]]:
    space = space_without_spilling(problem, overlap=settings.overlap)
    order = tuple(range(space.n)) if start is None else tuple(start)
    if not space.n:
        return (), 0, "optimal", {}
    if estimate(space, addresses=what == "arena") > MAX_VARIABLES:
        return order, 0, "memory", {}
    objective: Objective = "peak"
    program = start_program(space, unit_of(space, problem.model.alignment), objective)
    add_rows(program, cuts=settings.cuts)
    if what == "peak" or settings.cuts:
        add_capacity(program, 0)
    if what == "arena":
        add_model_addresses(program)
    counters = {f"{what}_variables": program.variables, f"{what}_constraints": program.constraints}
    model, columns = solvers.build(program.linear, "method cosma")
    step_of = {i: t for t, i in enumerate(order)}
    hint = {number: int(step_of[i] == t) for (i, t), number in program.x.items()}
    values, bound, ended = solvers.run(model, columns, hint, settings.solver, limits.left_seconds, limits, (0, 0))
    if values is not None:
        order = solution.order_of(program, values)
    return order, ceil(bound - 1e-6) * program.unit, ended, counters
