"""Residency and addresses of one order at once, by CP-SAT: where the intervals of the best residency cannot be packed.

Exactly the gaps of `lowtide.spill.problem.timeline`, with one offset for each touch and a rectangle for each touch and
for each gap that is kept; a kept gap ties the offsets of the touches at both its ends (COSMA's equations 9 to 11 with
rectangles instead of one variable for each pair and step).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowtide.analyse.storage import Overwrite
from lowtide.errors import MissingExtraError
from lowtide.spill.problem import Gap, SpillProblem, Timeline
from lowtide.stop import Limits, count

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

DETERMINISTIC_SECONDS = 10.0
MOST_TOUCHES = 4000
"""Above that the solver is not run."""


def joint(
    problem: SpillProblem, line: Timeline, in_place: Sequence[Overwrite], order: Sequence[int], limits: Limits
) -> tuple[tuple[Gap, ...], bool] | None:
    """The gaps to drop so that everything has an address, and whether no others cost less; None if none were found.
    Raises `MissingExtraError`: OR-tools is not installed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingExtraError("OR-tools", "solvers", "joint placement of what is spilled") from None
    if sum(map(len, line.touches)) > MOST_TOUCHES or limits.left_seconds <= 0:
        return None
    builder = _Model(cp_model.CpModel(), problem, line, order)
    builder.build(in_place)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed
    solver.parameters.max_deterministic_time = DETERMINISTIC_SECONDS
    solver.parameters.max_time_in_seconds = limits.clock_seconds
    solver.parameters.catch_sigint_signal = False  # it would leave Ctrl-C to end the process
    status = solver.solve(builder.model)
    count(int(1e9 * solver.response_proto.deterministic_time))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    dropped = tuple(gap for gap, out in zip(line.gaps, builder.out, strict=True) if solver.boolean_value(out))
    return dropped, status == cp_model.OPTIMAL


class _Model:
    def __init__(self, model: cp_model.CpModel, problem: SpillProblem, line: Timeline, order: Sequence[int]) -> None:
        self.model, self.problem, self.line = model, problem, line
        self.out = [model.new_bool_var(f"out {g.storage} {g.start}") for g in line.gaps]
        self.gap_at = {(g.storage, g.start): (g, v) for g, v in zip(line.gaps, self.out, strict=True)}
        self.step_of = {i: t for t, i in enumerate(order)}
        self.times: list[Any] = []
        self.rows: list[Any] = []
        self.offset: dict[tuple[int, int], Any] = {}

    def build(self, in_place: Sequence[Overwrite]) -> None:
        """Rectangles, ties, costs."""
        storages, unit = self.problem.model.storages, self.problem.model.alignment
        begins_over = {(self.problem.model.storage_of[o.output], self.step_of[o.op]) for o in in_place}
        for s, touches in enumerate(self.line.touches):
            room = self.problem.capacity - storages[s].size
            at = None
            for k, t in enumerate(touches):
                new = self.model.new_int_var(0, room // unit, f"offset {s} {t}")
                self.offset[s, t] = new
                if k and at is not None:
                    gap = self.gap_at.get((s, touches[k - 1] + 1))
                    if gap is None:
                        self.model.add(new == at)
                    else:
                        self.model.add(new == at).only_enforce_if(~gap[1])
                        self._rectangle(s, gap[0].start, gap[0].end, at, ~gap[1])
                if (s, t) not in begins_over:
                    self._rectangle(s, t, t + 1, new, None)
                at = new
            if touches and (s, touches[-1] + 1) in self.gap_at:
                gap = self.gap_at[s, touches[-1] + 1]
                self._rectangle(s, gap[0].start, gap[0].end, at, ~gap[1])
        for i, size in enumerate(self.problem.model.workspace):
            if size:
                low = self.model.new_int_var(0, (self.problem.capacity - size) // unit, f"workspace {i}")
                self._place(self.step_of[i], self.step_of[i] + 1, low, size, None)
        for o in in_place:
            t = self.step_of[o.op]
            above = self.problem.model.displacement[o.input] // unit
            self.model.add(self.offset[self.problem.model.storage_of[o.output], t] == self.offset[o.storage, t] + above)
        self.model.add_no_overlap_2d(self.times, self.rows)
        self._costs()

    def _rectangle(self, s: int, start: int, end: int, low: Any, present: Any) -> None:
        self._place(start, end, low, self.problem.model.storages[s].size, present)

    def _place(self, start: int, end: int, low: Any, size: int, present: Any) -> None:
        unit = self.problem.model.alignment
        length = -(-size // unit)
        if present is None:
            self.times.append(self.model.new_fixed_size_interval_var(start, end - start, ""))
            self.rows.append(self.model.new_fixed_size_interval_var(low, length, ""))
        else:
            self.times.append(self.model.new_optional_fixed_size_interval_var(start, end - start, present, ""))
            self.rows.append(self.model.new_optional_fixed_size_interval_var(low, length, present, ""))

    def _costs(self) -> None:
        terms: list[Any] = []
        written: dict[tuple[int, int], Any] = {}
        for gap, out in zip(self.line.gaps, self.out, strict=True):
            terms.append(gap.read_bytes * out)
            if not gap.write_bytes:
                continue
            if not self.problem.semantics.write_once:
                terms.append(gap.write_bytes * out)
                continue
            key = (gap.storage, gap.epoch)
            if key not in written:
                written[key] = self.model.new_bool_var(f"written {key}")
                terms.append(gap.write_bytes * written[key])
            self.model.add_implication(out, written[key])
        self.model.minimize(sum(terms))
