"""Placement by OR-tools CP-SAT, searching in a fixed order.

`NoOverlap2D` keeps the rectangles apart, and the search always places the buffer of the least
possible offset at that offset, equal ones by a static order. So it goes the way of our own exact search, but learns
from its failures, and solves instances on which that one loses its way. One worker, a fixed search, limits in CP-SAT's
deterministic time: the result does not depend on the clock. Needs the extra `solvers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from lowtide import _core
from lowtide.allocate.buffers import Buffer, Problem, height_of, load_bound
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.errors import install_command
from lowtide.solvers.cp_sat import solve
from lowtide.stop import Limits, count

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

KEYS = ("duration", "contention", "area", "contention-area")
"""The orders that decide among equals, in turn; minimalloc's WAT, the first, is where our own search is weakest."""

SLICES = (0.05,)
"""Deterministic seconds of CP-SAT that each order gets, one round after the other; one is about ten of CPU time."""

MOST_RECTANGLES = 3_000  # above that `NoOverlap2D` is too slow to be of use


@dataclass(frozen=True)
class CpSat:
    """Engine that asks CP-SAT for a placement at the lower bound, order after order."""

    name: ClassVar[str] = "cp-sat"
    keys: tuple[str, ...] = KEYS  # orders that decide among equals
    slices: tuple[float, ...] = SLICES  # deterministic seconds for each of them, round by round

    def supports(self, problem: Problem) -> str | None:
        """Buffers, rigid groups, alignments and fixed offsets, where OR-tools is installed."""
        if problem.pairs or problem.apart:
            return "pairs, or buffers kept apart"
        if sum(len(b.rectangles) for b in problem.buffers) > MOST_RECTANGLES:
            return "too many buffers"
        return None if find_spec("ortools") is not None else f"needs OR-tools: {install_command('solvers')}"

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack from the best of the greedies."""
        return self.improve(problem, limits, Portfolio().pack(problem, limits))

    def improve(self, problem: Problem, limits: Limits, best: Packing) -> Packing:
        """Pack at the lower bound, stretch by stretch, or raise it by proof; else what is known is returned."""
        offsets = list(best.offsets)
        bound, calls, interrupted = best.lower_bound_bytes, 0, False
        try:
            for members in problem.core.split():
                part = Problem(tuple(problem.buffers[i] for i in members))
                question = _Question(part, load_bound(part))
                while height_of(part, [offsets[i] for i in members]) > bound:
                    answer, offsets_of_part = self._ask(question, bound, limits)
                    calls += question.calls
                    question.calls = 0
                    if answer is None:
                        break
                    if answer:
                        for i, offset in zip(members, offsets_of_part, strict=True):
                            offsets[i] = offset
                    else:
                        bound = (bound // question.unit + 1) * question.unit
                    limits.tell("", max(bound, height_of(problem, offsets)), bound)
        except KeyboardInterrupt:
            interrupted = True
        height = max(bound, height_of(problem, offsets))
        winner = self.name if height < best.height_bytes else best.engine
        return Packing(tuple(offsets), height, bound, winner, {"cp-sat calls": calls}, interrupted)

    def _ask(self, question: _Question, height: int, limits: Limits) -> tuple[bool | None, Sequence[int]]:
        for seconds in self.slices:
            for key in self.keys:
                if limits.left_seconds <= 0:
                    return None, ()
                answer, offsets = question.solve(height, key, seconds, limits)
                if answer is not None:
                    return answer, offsets
        return None, ()


class _Question:
    """Buffers of one stretch, and how often CP-SAT was called for them. All lengths are divided by `unit`."""

    def __init__(self, problem: Problem, bound: int) -> None:
        self.problem, self.bound, self.calls = problem, bound, 0
        self.core = problem.core
        self.unit = _core.Exact(self.core).part(0).unit

    def solve(self, height: int, key: str, seconds: float, limits: Limits) -> tuple[bool | None, Sequence[int]]:
        """Whether they fit under `height` bytes: yes with offsets, proved not to, or None."""
        from ortools.sat.python import cp_model

        self.calls += 1
        buffers = self.problem.buffers
        model = cp_model.CpModel()
        top = height // self.unit
        if any((b.offset or 0) + b.size > height for b in buffers):
            return False, ()
        steps = [_steps(model, b, top, self.unit) for b in buffers]
        times: list[cp_model.IntervalVar] = []
        places: list[cp_model.IntervalVar] = []
        for b, step in zip(buffers, steps, strict=True):
            for p in b.rectangles:
                low = step * _stride(b, self.unit) + p.low // self.unit
                times.append(model.new_fixed_size_interval_var(p.start, p.end - p.start, ""))
                places.append(model.new_fixed_size_interval_var(low, p.size // self.unit, ""))
        model.add_no_overlap_2d(times, places)
        order = [steps[i] for i in self.core.order(key)]
        model.add_decision_strategy(order, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = limits.seed
        solver.parameters.search_branching = cp_model.FIXED_SEARCH
        solver.parameters.max_deterministic_time = seconds
        solver.parameters.max_time_in_seconds = max(limits.clock_seconds, 0.001)
        solver.parameters.catch_sigint_signal = False  # it would leave Ctrl-C to end the process
        status = solve(solver, model)
        count(int(1e9 * solver.response_proto.deterministic_time))
        if status == cp_model.INFEASIBLE:
            return False, ()
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, ()
        return True, [
            solver.value(step) * _stride(b, self.unit) * self.unit for b, step in zip(buffers, steps, strict=True)
        ]


def _stride(b: Buffer, unit: int) -> int:
    """The alignment in units; a unit that is a multiple of it keeps it by itself."""
    return max(b.alignment // unit, 1)


def _steps(model: cp_model.CpModel, b: Buffer, top: int, unit: int) -> cp_model.IntVar:
    """A buffer's offset in strides."""
    if b.offset is not None:
        return model.new_constant(b.offset // unit // _stride(b, unit))
    return model.new_int_var(0, (top - b.size // unit) // _stride(b, unit), "")
