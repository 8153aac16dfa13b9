"""Method `cosma-peak`: the order of least peak by COSMA's program, nothing spilled (equations 13 to 15)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import MissingExtraError
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import Rpo
from lowtide.spill.problem import Memory, spill_problem
from lowtide.stop import Limits
from lowtide_research.solvers.linear import Solver
from lowtide_research.spill.cosma.solve import ProgramSettings, least_peak

ROOM = (Memory("fast", 2**62),)  # the capacity says nothing here


@dataclass(frozen=True)
class CosmaPeak:
    """Least peak over all orders as an integer program; the paper's M_P (section III-E1).

    It starts from the better of the file order and reverse post-order. In-place ops have no equation: where the target
    has some, the program orders the graph without them. Proves nothing to lowtide, as a solver's bound has no
    certificate; the counter `ilp_bound_bytes` has it.
    """

    name: ClassVar[str] = "cosma-peak"
    slow: ClassVar[bool] = True

    solver: Solver = "cp_sat"
    overlap: bool = True  # whether to leave out variables by the overlap analysis (ASAP and ALAP)
    cuts: bool = True  # whether to add rows that whole numbers imply: precedence over steps

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph, if OR-tools is installed; larger programs than the solvers can do are not built."""
        if find_spec("ortools") is None:
            return str(MissingExtraError("ortools", "solvers", "method cosma-peak"))
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Solve the program."""
        problem = spill_problem(model.graph, model.target, ROOM)
        orders = [tuple(range(problem.steps)), Rpo().schedule(model, limits).order]
        start = min(orders, key=lambda order: profile(model, order).peak)
        settings = ProgramSettings(self.solver, self.overlap, self.cuts)
        order, bound, ended, counters = least_peak(problem, limits, settings, start=start)
        best = min((order, start), key=lambda order: profile(model, order).peak)
        found = {"ilp_status": ended, "ilp_bound_bytes": bound, **counters}
        return Schedule(best, stopped="complete" if ended in ("optimal", "infeasible") else ended, counters=found)
