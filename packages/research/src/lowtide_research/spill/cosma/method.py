"""Methods `cosma`, `cosma-fs` and `cosma-dnc`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

from lowtide.errors import MissingExtraError
from lowtide.plan import Stopped
from lowtide.spill.answer import NoRoomError, SpillAnswer
from lowtide.spill.online import cheapest, furthest, simulate_arena
from lowtide.spill.problem import SpillProblem, order_by, timeline
from lowtide.spill.search import Spill
from lowtide.spill.traffic import intervals_of
from lowtide.spill_plan import TrafficProof
from lowtide.stop import Limits
from lowtide_research.solvers.linear import Solver
from lowtide_research.spill.baselines import OrderName
from lowtide_research.spill.cosma.divide import break_nodes, divide, divide_at, order_parts
from lowtide_research.spill.cosma.solve import (
    Addresses,
    Ended,
    ProgramSettings,
    SpillSolution,
    least_peak,
    model_encoding,
    place,
    solve,
)
from lowtide_research.spill.cosma.tensors import space_of, why_not

STOPPED: dict[Ended, Stopped] = {
    "optimal": "proof",
    "infeasible": "complete",
    "time": "time",
    "memory": "memory",
    "interrupt": "interrupt",
}


START_SHARE = 0.15  # of the time that is left, for each search for a solution to start from


@dataclass(frozen=True)
class Cosma:
    """COSMA's integer program for order, residency and addresses (equations 1 to 12).

    It starts from a solution (`start`), handed to the solver as a hint, so that it has one whenever it is stopped. Its
    bound is the solver's word, which no certificate holds.
    """

    name: ClassVar[str] = "cosma"
    slow: ClassVar[bool] = True

    solver: Solver = "cp_sat"  # SCIP and HiGHS run to their time limit even if interrupted, in the background
    # The paper's; or MODeL's, which spills nothing and makes the arena least: where that is above the capacity the
    # answer is the one to start from.
    encoding: Literal["cosma", "model"] = "cosma"
    # ``"joint"`` solves (1) to (12) as printed; ``"late"`` without (9) to (11) first, which mostly suffices.
    addresses: Addresses = "late"
    overlap: bool = True  # whether to leave out variables by the overlap analysis (ASAP and ALAP)
    cuts: bool = True  # whether to add rows that whole numbers imply: sums of sizes, precedence over steps
    # The solution to start from. ``"replacement"``: the better of Belady's and greedy replacement, in file order and
    # that of least peak. ``"fixed"``: that, bettered by the program with each of the two orders fixed (16, 17).
    # ``"spill"``: the best of these and of what lowtide's own search finds.
    start: Literal["spill", "fixed", "replacement"] = "spill"

    @property
    def settings(self) -> ProgramSettings:
        """What the programs are built with."""
        return ProgramSettings(self.solver, self.overlap, self.cuts, self.addresses)

    def supports(self, problem: SpillProblem) -> str | None:
        """See `supports`."""
        return supports(problem)

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Solve the program."""
        start = best_start(problem, limits)
        if self.encoding == "model":
            return self._model(problem, start, limits)
        start = self._warm_start(problem, start, limits)
        if start.stopped == "interrupt":
            return start
        solved = solve(problem, start, limits, self.settings)
        proves = not any(problem.model.overwrites)
        return finish(solved, solved.bound if proves else 0, self.solver)

    def _warm_start(self, problem: SpillProblem, start: SpillAnswer, limits: Limits) -> SpillAnswer:
        """`start`, or a better solution, as the option of that name says; each search has a share of the time."""

        def fixed(name: OrderName) -> SpillAnswer:
            order = order_by(name, problem, limits)
            solved = solve(problem, start_for(problem, order), _share(limits), self.settings, order=order)
            return replace(solved.answer, stopped=STOPPED[solved.ended])

        tried: list[Callable[[], SpillAnswer]] = []
        if self.start == "spill":
            tried.append(lambda: Spill().spill(problem, _share(limits)))
        if self.start != "replacement":
            tried += [partial(fixed, "own"), partial(fixed, "exact")]
        for search in tried:
            if start.traffic_bytes == 0 or start.stopped == "interrupt":
                break
            with suppress(NoRoomError):
                found = search()
                best = min(start, found, key=lambda answer: answer.traffic_bytes)
                start = replace(best, stopped=found.stopped)
        return start

    def _model(self, problem: SpillProblem, start: SpillAnswer, limits: Limits) -> SpillAnswer:
        order, bound, ended, counters = model_encoding(problem, limits, self.settings, start=start.order)
        answer = place(problem, order, intervals_of(timeline(problem, order, ()), ()), limits)
        counters |= {"arena_bound_bytes": bound, "without_spilling": answer is not None}
        if answer is not None and answer.traffic_bytes <= start.traffic_bytes:
            start = answer
        return replace(start, stopped=STOPPED[ended], counters=counters)


@dataclass(frozen=True)
class CosmaFs:
    """COSMA with the order given (equations 16 and 17): residency and addresses are least for it.

    The bound is of that order only, and is in the counters; of all orders nothing is proved.

    `solver`, `addresses`, `overlap`, `cuts`: as for `Cosma`.
    """

    name: ClassVar[str] = "cosma-fs"
    slow: ClassVar[bool] = True

    # The file order, that of a scheduling method, or the one of least peak by COSMA's own program (13 to 15).
    order: Literal["own", "exact", "hmcos", "cosma"] = "own"
    solver: Solver = "cp_sat"
    addresses: Addresses = "late"
    cuts: bool = True

    def supports(self, problem: SpillProblem) -> str | None:
        """See `supports`."""
        return supports(problem)

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Solve the program for the order."""
        settings = ProgramSettings(self.solver, True, self.cuts, self.addresses)
        counters: dict[str, Any] = {}
        if self.order == "cosma":
            order, bound, ended, counters = least_peak(problem, limits, settings)
            counters |= {"peak_bound_bytes": bound, "peak_status": ended}
            if ended == "interrupt":
                return replace(start_for(problem, order), stopped=ended, counters=counters)
        else:
            order = order_by(self.order, problem, limits)
        solved = solve(problem, start_for(problem, order), limits, settings, order=order)
        solved = replace(solved, counters=counters | solved.counters)
        answer = finish(solved, 0, self.solver)
        return replace(answer, stopped="complete" if answer.stopped == "proof" else answer.stopped)


@dataclass(frozen=True)
class CosmaDnc:
    """COSMA's divide and conquer: parts ordered one after the other, then the program for that order. See `divide`.

    Proves nothing.
    """

    name: ClassVar[str] = "cosma-dnc"
    slow: ClassVar[bool] = True

    # Which order is cut into parts; ``"best"`` is the one that spills least with its order fixed, of the file order and
    # that of least peak.
    order: Literal["best", "own", "exact", "hmcos"] = "best"
    part_variables: int = 6000  # parts are cut so that their programs have no more variables than this, roughly
    # Break nodes, as the paper's authors picked them: names or numbers of ops, separated by commas. Each ends a part;
    # without any, the parts are chosen.
    breaks: str = ""
    # solver, addresses, cuts: as for `Cosma`.
    solver: Solver = "cp_sat"
    addresses: Addresses = "late"
    cuts: bool = True

    def supports(self, problem: SpillProblem) -> str | None:
        """See `supports`."""
        return supports(problem)

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Cut, order each part, put together. Raises `InputError`: there is no op of a name among the break nodes."""
        given = break_nodes(problem.model.graph, self.breaks)
        settings = ProgramSettings(self.solver, True, self.cuts, self.addresses)
        names: tuple[OrderName, ...] = ("own", "exact") if self.order == "best" else (self.order,)
        fixed: list[SpillSolution] = []
        for name in names:
            order = order_by(name, problem, limits)
            share = Limits(0.5 * limits.left_seconds, seed=limits.seed, report=limits.report)
            fixed.append(solve(problem, start_for(problem, order), share, settings, order=order))
            if fixed[-1].ended == "interrupt":
                return finish(fixed[-1], 0, self.solver)
        before = min(fixed, key=lambda solved: solved.answer.traffic_bytes)
        if before.answer.traffic_bytes == 0:
            return finish(before, 0, self.solver)
        space = space_of(problem)
        order, parts = before.answer.order, divide(space, before.answer.order, self.part_variables)
        if given:
            order, parts = divide_at(space, order, given)
        share = Limits(0.6 * limits.left_seconds, seed=limits.seed, report=limits.report)
        try:
            ordered = order_parts(problem, space, order, parts, share, settings)
        except KeyboardInterrupt:
            return finish(replace(before, ended="interrupt"), 0, self.solver)
        solved = solve(problem, start_for(problem, ordered.order), limits, settings, order=ordered.order)
        if before.answer.traffic_bytes < solved.answer.traffic_bytes:
            solved = replace(before, ended=solved.ended)
        if ordered.solved < len(parts.stretches) and solved.ended == "optimal":
            solved = replace(solved, ended="time")
        counters = solved.counters | {
            "parts": len(parts.stretches),
            "parts_solved": ordered.solved,
            "part_programs": ordered.programs,
            "part_variables": ordered.variables,
            "largest_part_ops": max(end - begin for begin, end in parts.stretches),
            "crossing_tensors": list(parts.crossing),
        }
        answer = finish(replace(solved, counters=counters), 0, self.solver)
        return replace(answer, stopped="complete" if answer.stopped == "proof" else answer.stopped)


def _share(limits: Limits) -> Limits:
    return Limits(START_SHARE * limits.left_seconds, seed=limits.seed, report=limits.report)


def supports(problem: SpillProblem) -> str | None:
    """None if OR-tools is installed and COSMA has equations for the problem, else why not."""
    if find_spec("ortools") is None:
        return str(MissingExtraError("ortools", "solvers", "method cosma"))
    return why_not(problem)


def start_for(problem: SpillProblem, order: tuple[int, ...]) -> SpillAnswer:
    """The better of Belady's and greedy replacement, or no spilling at all where the arena engines see to it."""
    line = timeline(problem, order, ())
    kept = place(problem, order, intervals_of(line, ()), Limits())
    if kept is not None and kept.traffic_bytes == 0:
        return kept
    answers = [simulate_arena(problem, order, policy) for policy in (furthest, cheapest)]
    return min(answers, key=lambda answer: answer.traffic_bytes)


def best_start(problem: SpillProblem, limits: Limits) -> SpillAnswer:
    """The best of `start_for` over the file order and the one of least peak."""
    orders: tuple[OrderName, ...] = ("own", "exact")
    answers = []
    for name in orders:
        answers.append(start_for(problem, order_by(name, problem, limits)))
        if answers[-1].traffic_bytes == 0:
            break
    return min(answers, key=lambda answer: answer.traffic_bytes)


def finish(solved: SpillSolution, bound: int, solver: Solver) -> SpillAnswer:
    """The answer with what is known of it."""
    answer = solved.answer
    counters = {
        **solved.counters,
        "ilp_status": solved.ended,
        "ilp_bound_bytes": solved.bound,
        "ilp_gap_bytes": answer.traffic_bytes - solved.bound,
    }
    proof = TrafficProof(kind="solver" if bound else "none")
    return replace(
        answer, traffic_lower_bound_bytes=bound, proof=proof, stopped=STOPPED[solved.ended], counters=counters
    )
