"""Method `zhong`: fusion, partition, integer programs (Zhong et al., ICCAD 2023, Algorithm 2)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from math import inf
from typing import Any, ClassVar

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import InputError, MissingExtraError
from lowtide.plan import Stopped
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import Rpo
from lowtide.stop import Limits, Progress
from lowtide_research.schedule.zhong.cut import cut_bound
from lowtide_research.schedule.zhong.fusion import Fusion, fuse
from lowtide_research.schedule.zhong.ilp import Formulation, PartSolution, Solver, Status, solve
from lowtide_research.schedule.zhong.partition import Partition, partition
from lowtide_research.schedule.zhong.problem import ReducedProblem, as_printed, problem_of
from lowtide_research.schedule.zhong.program import count_variables

MAX_OPS = 20_000  # ancestors are kept as bits, so that memory grows with the square of the ops
AGAIN_SECONDS = 0.1  # If more is left when all parts had their share, the part that has the peak gets it


@dataclass(frozen=True)
class ZhongRun:
    """What one call did. `schedule` is the result; the rest is for tables."""

    schedule: Schedule
    fused: ReducedProblem  # the graph after fusion
    # Peak of Algorithm 2's own order, which `schedule` leaves for the file order or RPO if one of those is better.
    algorithm_peak_bytes: int
    solved: tuple[PartSolution, ...]  # the integer programs that were built, in the order in which they were solved
    # fusion_seconds, partition_seconds, solver_seconds, seconds: wall time of each stage, and of all.
    fusion_seconds: float
    partition_seconds: float
    solver_seconds: float
    seconds: float


@dataclass
class _OrderedPart:
    """Nodes that run together, in the order in hand, which numbers them anew."""

    nodes: list[int]
    problem: ReducedProblem
    order: list[int] = field(default_factory=list)
    solved: PartSolution | None = None

    @property
    def peak(self) -> int:
        return self.problem.peak(self.order)


@dataclass
class _BestOrder:
    """The best order of the fused nodes so far, and what was done. `last` are the programs of the last round."""

    order: list[int]
    bound: int
    rounds: int = 0
    parts: int = 0
    stopped: Stopped = "complete"
    last: list[PartSolution] = field(default_factory=list)
    solved: list[PartSolution] = field(default_factory=list)
    partition_seconds: float = 0.0


@dataclass(frozen=True)
class Zhong:
    """Fuse what an optimal order may keep together, divide the rest into parts, order the parts by integer programs.

    Proves nothing to lowtide: a solver's bound has no certificate. Where the order is optimal as far as the solver can
    tell (one part, solved to the end), or meets the bound by cuts, the counter `ilp_optimal` says so.
    """

    name: ClassVar[str] = "zhong"
    slow: ClassVar[bool] = True
    left_counter: ClassVar[str] = "ops_after"

    # Which solver orders the parts. SCIP and HiGHS run to their time limit even if interrupted, in the background.
    solver: Solver = "cp_sat"
    # The paper's variables (op i runs at step t, equations 1 to 10), or cumulative ones (op i has run by step t), which
    # have the same optimum and which every solver is faster with.
    formulation: Formulation = "cumulative"
    fusion: Fusion = "both"  # which theorems fuse: ``monotonic`` is IV.1, ``general`` is IV.2
    # Largest sub-graph that Theorem IV.2 is tried on, in nodes (the paper's M, which it does not state).
    bound: int = 20
    # Whether Theorem IV.2 must hold for every order of the sub-graph. The printed condition, for its best order only,
    # loses the optimum on some graphs.
    every_order: bool = True
    pruning: bool = True  # whether to leave out variables by (7) to (10)
    # How to divide: not at all; by the number of tensors cut; by their bytes; by those on a coarsened graph (as dagP).
    partition: Partition = "heuristic"
    cuts: bool = True  # whether bounds by minimum cuts (`cut`, not the paper's) say what need not be asked of a solver
    # Number of parts. 0 begins with as many as keep the mean at `part_nodes` or below, and halves their number while
    # the peak is above the bound by cuts and the part that has it is a program of `part_variables` or fewer.
    parts: int = 0
    # part_nodes, part_variables: see `parts`.
    part_nodes: int = 16
    part_variables: int = 4000
    imbalance: float = 0.25  # how much a part may differ from the mean size, as a fraction of it
    # Whether to read (1) to (6) as printed: unread outputs weigh nothing, graph outputs need not stay.
    printed_outputs: bool = False
    # Time limit of each integer program, in seconds; 0 shares the method's time among those that are left.
    ilp_seconds: float = 0.0

    def __post_init__(self) -> None:
        least = {"bound": 1, "parts": 0, "part_nodes": 1, "part_variables": 0, "imbalance": 0, "ilp_seconds": 0}
        for option, smallest in least.items():
            value = getattr(self, option)
            if not smallest <= value < inf:
                raise InputError(f"zhong.{option} is {value}; take {smallest} or more")

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph of up to 20,000 ops, if OR-tools is installed."""
        if find_spec("ortools") is None:
            return str(MissingExtraError("ortools", "solvers", "method zhong"))
        n = len(model.graph.ops)
        return f"{n} ops, more than {MAX_OPS}" if n > MAX_OPS else None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Algorithm 2; the best of its order, reverse post-order and the file order."""
        return self.run(model, limits).schedule

    def run(self, model: MemoryModel, limits: Limits) -> ZhongRun:
        """As `schedule`, with the reduced graph, the integer programs and the seconds."""
        began = time.perf_counter()
        whole = problem_of(model)
        if self.printed_outputs:
            whole = as_printed(whole)
        rpo = Rpo().schedule(model, limits).order
        own = tuple(range(whole.n))
        fused = fuse(whole, limits, fusion=self.fusion, bound=self.bound, every_order=self.every_order)
        fused_at = time.perf_counter()
        reached = self._rounds(fused, [fused.lift(rpo), fused.lift(own)], limits)
        solved, peak = reached.solved, fused.peak(reached.order)
        orders = (fused.expand(reached.order), rpo, own)
        peaks = [profile(model, o).peak for o in orders]
        best = orders[peaks.index(min(peaks))]
        bound = max([reached.bound, *(s.bound for s in reached.last)])
        proved = peak <= reached.bound or (reached.parts == 1 and reached.stopped == "complete")
        counters: dict[str, Any] = {
            "ops_before": whole.n,
            "ops_after": fused.n,
            "rounds": reached.rounds,
            "parts": reached.parts,
            "parts_solved": len(solved),
            "variables": sum(s.variables for s in solved),
            "constraints": sum(s.constraints for s in solved),
            "algorithm_peak_bytes": peaks[0],
            "ilp_bound_bytes": min(bound, peak),
            "ilp_status": "optimal" if reached.stopped == "complete" else reached.stopped,
            "ilp_gap": round(1 - bound / peak, 6) if peak > bound and reached.stopped != "complete" else 0.0,
            "ilp_optimal": proved and self.every_order and not self.printed_outputs,
        }
        now = time.perf_counter()
        return ZhongRun(
            Schedule(best, stopped=reached.stopped, counters=counters),
            fused,
            peaks[0],
            tuple(solved),
            fused_at - began,
            reached.partition_seconds,
            sum(s.seconds for s in solved),
            now - began,
        )

    def _rounds(self, fused: ReducedProblem, orders: list[list[int]], limits: Limits) -> _BestOrder:
        """Divide and solve; with ``parts=0`` again with half the parts, from the best order so far."""
        bound = cut_bound(fused, orders[0], fused.floor) if self.cuts else fused.floor
        best = _BestOrder(orders[0], bound)
        number = self.parts or -(-fused.n // max(1, self.part_nodes))
        divided = self._divide(fused, number, orders, best)
        while True:
            order, best.last, best.stopped = self._solve_parts(divided, limits)
            best.rounds, best.parts = best.rounds + 1, len(divided)
            best.solved += best.last
            if best.rounds == 1 or fused.peak(order) < fused.peak(best.order):
                best.order = order
            done = self.parts or len(divided) == 1 or best.stopped != "complete"
            if done or fused.peak(best.order) <= bound:
                return best
            number = min(number, len(divided)) // 2
            divided = self._divide(fused, number, [best.order], best)
            worst = max(divided, key=lambda part: part.peak)
            if count_variables(worst.problem, pruning=self.pruning) > self.part_variables:
                return best

    def _divide(
        self, fused: ReducedProblem, number: int, orders: list[list[int]], best: _BestOrder
    ) -> list[_OrderedPart]:
        """Parts, each with the order of its nodes in the first of some orders."""
        began = time.perf_counter()
        if self.partition == "none" or number <= 1:
            parts = [list(range(fused.n))]
        else:
            parts = partition(
                fused,
                number,
                orders,
                by_bytes=self.partition != "naive",
                multilevel=self.partition == "multilevel",
                imbalance=self.imbalance,
            )
        part_of = [0] * fused.n
        for p, nodes in enumerate(parts):
            for v in nodes:
                part_of[v] = p
        divided = [
            _OrderedPart(nodes, problem) for nodes, problem in zip(parts, fused.split(part_of, len(parts)), strict=True)
        ]
        new = {v: i for nodes in parts for i, v in enumerate(nodes)}
        for v in orders[0]:
            divided[part_of[v]].order.append(new[v])
        best.partition_seconds += time.perf_counter() - began
        return divided

    def _solve_parts(self, parts: list[_OrderedPart], limits: Limits) -> tuple[list[int], list[PartSolution], Stopped]:
        """Order the parts that can still raise the peak by integer programs, the worst first; the others keep
        theirs. "Potential peak operators" (section IV-C) are those whose footprint in RPO is above what some part
        needs for certain: the largest single node, and the parts that are done."""
        floor = max((part.problem.floor for part in parts), default=0)
        solving: list[_OrderedPart] = []
        late: list[_OrderedPart] = []
        stopped: Stopped = "complete"
        waiting = sorted(parts, key=lambda part: -part.peak)
        while waiting and waiting[0].peak > floor:
            part = waiting.pop(0)
            solving.append(part)
            sharing = 1 + sum(other.peak > floor for other in waiting)
            status = self._solve(part, floor, limits.left_seconds / sharing, limits)
            floor = max(floor, part.peak)
            if limits.report is not None and status != "interrupt":
                try:
                    best = max([floor, *(other.peak for other in waiting)])
                    limits.report(Progress(best, 0, limits.spent_seconds))
                except KeyboardInterrupt:
                    status = "interrupt"
            if status != "optimal":
                stopped = status
                late.append(part)
            if status == "interrupt":
                break
        worst = max(late, key=lambda part: part.peak, default=None)
        if worst is not None and stopped == "time" and not self.ilp_seconds and limits.left_seconds > AGAIN_SECONDS:
            floor = max((other.peak for other in parts if other is not worst), default=0)
            if worst.peak > floor:
                status = self._solve(worst, floor, limits.left_seconds, limits)
                stopped = "complete" if status == "optimal" and len(late) == 1 else stopped
        solved = [part.solved for part in solving if part.solved is not None]
        return [part.nodes[i] for part in parts for i in part.order], solved, stopped

    def _solve(self, part: _OrderedPart, floor: int, seconds: float, limits: Limits) -> Status:
        result = solve(
            part.problem,
            part.order,
            limits,
            solver=self.solver,
            formulation=self.formulation,
            pruning=self.pruning,
            cuts=self.cuts,
            floor=floor,
            seconds=self.ilp_seconds or seconds,
        )
        spent = part.solved.seconds if part.solved is not None else 0.0
        part.order, part.solved = result.order, replace(result, seconds=spent + result.seconds)
        return result.status


def printed(**options: Any) -> Zhong:
    """Algorithm 2 as the paper prints it: its variables, Theorem IV.2 for the best order only, one partition, and no
    bound by minimum cuts. The number of parts, which the paper does not state, keeps the mean at `part_nodes`."""
    settings: dict[str, Any] = {"formulation": "paper", "every_order": False, "cuts": False, "part_variables": 0}
    return Zhong(**settings | options)
