"""Method `zhong`: fusion, partition, integer programs (Zhong et al., ICCAD 2023, Algorithm 2)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import MissingExtraError
from lowtide.plan import Stopped
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import Rpo
from lowtide.schedule.zhong.fusion import Fusion, fuse
from lowtide.schedule.zhong.ilp import Formulation, Solved, Solver, solve
from lowtide.schedule.zhong.partition import Partition, partition
from lowtide.schedule.zhong.problem import Problem, as_printed, problem_of
from lowtide.stop import Limits, Progress

MAX_OPS = 20_000
"""Ancestors are kept as bits, so that memory grows with the square of the ops."""


@dataclass(frozen=True)
class Run:
    """What one call did. `schedule` is the result; the rest is for tables.

    Attributes
    ----------
    fused
        The graph after fusion.
    algorithm_peak_bytes
        Peak of Algorithm 2's own order, which `schedule` leaves for the own order or RPO if one of those is better.
    solved
        The integer programs that were built, in the order in which they were solved.
    fusion_seconds, partition_seconds, solver_seconds, seconds
        Wall time of each stage, and of all.
    """

    schedule: Schedule
    fused: Problem
    algorithm_peak_bytes: int
    solved: tuple[Solved, ...]
    fusion_seconds: float
    partition_seconds: float
    solver_seconds: float
    seconds: float


@dataclass(frozen=True)
class Zhong:
    """Fuse what an optimal order may keep together, divide the rest into parts, order the parts by integer programs.

    Proves nothing to lowtide: a solver's bound has no certificate. Where the order is optimal as far as the solver can
    tell (one part, solved to the end), the counter `ilp_optimal` says so.

    Attributes
    ----------
    solver
        Which solver orders the parts. SCIP and HiGHS run to their time limit even if interrupted, in the background.
    formulation
        The paper's variables (op i runs at step t, equations 1 to 10), or cumulative ones (op i has run by step t),
        which have the same optimum and which every solver is faster with.
    fusion
        Which theorems fuse: ``monotonic`` is IV.1, ``general`` is IV.2.
    bound
        Largest sub-graph that Theorem IV.2 is tried on, in nodes (the paper's M, which it does not state).
    every_order
        Whether Theorem IV.2 must hold for every order of the sub-graph. The printed condition, for its best order
        only, loses the optimum on some graphs.
    pruning
        Whether to leave out variables by (7) to (10).
    partition
        How to divide: not at all, by the number of tensors cut, or by their bytes.
    parts
        Number of parts; 0 takes as many as keep the mean at `part_nodes` or below.
    part_nodes
        See `parts`.
    imbalance
        How much a part may differ from the mean size, as a fraction of it.
    printed_outputs
        Whether to read (1) to (6) as printed: unread outputs weigh nothing, graph outputs need not stay.
    ilp_seconds
        Time limit of each integer program, in seconds; 0 shares the method's time among those that are left.
    """

    name: ClassVar[str] = "zhong"

    solver: Solver = "cp_sat"
    formulation: Formulation = "cumulative"
    fusion: Fusion = "both"
    bound: int = 20
    every_order: bool = True
    pruning: bool = True
    partition: Partition = "heuristic"
    parts: int = 0
    part_nodes: int = 32
    imbalance: float = 0.25
    printed_outputs: bool = False
    ilp_seconds: float = 0.0

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph of up to 20,000 ops, if OR-tools is installed."""
        if find_spec("ortools") is None:
            return str(MissingExtraError("ortools", "solvers", "method zhong"))
        n = len(model.graph.ops)
        return f"{n} ops, more than {MAX_OPS}" if n > MAX_OPS else None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Algorithm 2; the best of its order, reverse post-order and the own order."""
        return self.run(model, limits).schedule

    def run(self, model: MemoryModel, limits: Limits) -> Run:
        """As `schedule`, with the reduced graph, the integer programs and the seconds."""
        began = time.perf_counter()
        whole = problem_of(model)
        if self.printed_outputs:
            whole = as_printed(whole)
        rpo = Rpo().schedule(model, limits).order
        own = tuple(range(whole.n))
        fused = fuse(whole, limits, fusion=self.fusion, bound=self.bound, every_order=self.every_order)
        fused_at = time.perf_counter()
        start = fused.lift(rpo)
        parts = self._parts(fused, [start, fused.lift(own)])
        divided_at = time.perf_counter()
        order, solved, stopped = self._solve_parts(fused, parts, start, limits)
        found = fused.expand(order)
        peaks = [profile(model, o).peak for o in (found, rpo, own)]
        best = (found, rpo, own)[peaks.index(min(peaks))]
        bound = max((s.bound for s in solved), default=0)
        peak = fused.peak(order)
        optimal = all(s.status == "optimal" for s in solved)
        counters: dict[str, Any] = {
            "ops_before": whole.n,
            "ops_after": fused.n,
            "parts": len(parts),
            "parts_solved": len(solved),
            "variables": sum(s.variables for s in solved),
            "constraints": sum(s.constraints for s in solved),
            "algorithm_peak_bytes": peaks[0],
            "ilp_bound_bytes": max(bound, fused.floor),
            "ilp_status": stopped if not optimal else "optimal",
            "ilp_gap": round(1 - max(bound, fused.floor) / peak, 6) if peak and not optimal else 0.0,
            "ilp_optimal": optimal and len(parts) == 1 and self.every_order and not self.printed_outputs,
        }
        now = time.perf_counter()
        return Run(
            Schedule(best, stopped=stopped, counters=counters),
            fused,
            peaks[0],
            tuple(solved),
            fused_at - began,
            divided_at - fused_at,
            sum(s.seconds for s in solved),
            now - began,
        )

    def _parts(self, fused: Problem, orders: list[list[int]]) -> list[list[int]]:
        number = self.parts or -(-fused.n // max(1, self.part_nodes))
        if self.partition == "none" or number <= 1:
            return [list(range(fused.n))]
        return partition(fused, number, orders, by_bytes=self.partition == "heuristic", imbalance=self.imbalance)

    def _solve_parts(
        self, fused: Problem, parts: list[list[int]], start: list[int], limits: Limits
    ) -> tuple[list[int], list[Solved], Stopped]:
        """Order the parts that can still raise the peak by integer programs, the worst first; the others keep RPO.

        "Potential peak operators" (section IV-C) are those whose footprint in RPO is above what some part needs for
        certain: the largest single node, and the parts that are done.
        """
        part_of = [0] * fused.n
        for p, nodes in enumerate(parts):
            for v in nodes:
                part_of[v] = p
        orders = [[v for v in start if part_of[v] == p] for p in range(len(parts))]
        problems = fused.split(part_of, len(parts))
        new = [{v: i for i, v in enumerate(nodes)} for nodes in parts]
        peaks = [problems[p].peak([new[p][v] for v in orders[p]]) for p in range(len(parts))]
        floor = max((p.floor for p in problems), default=0)
        solved, stopped = [], "complete"
        waiting = sorted(range(len(parts)), key=lambda p: (-peaks[p], p))
        while waiting and peaks[waiting[0]] > floor:
            p = waiting.pop(0)
            sharing = 1 + sum(peaks[q] > floor for q in waiting)
            seconds = self.ilp_seconds or limits.left_seconds / sharing
            result = solve(
                problems[p],
                [new[p][v] for v in orders[p]],
                limits,
                solver=self.solver,
                formulation=self.formulation,
                pruning=self.pruning,
                floor=floor,
                seconds=seconds,
            )
            solved.append(result)
            orders[p] = [parts[p][i] for i in result.order]
            floor = max(floor, result.peak)
            if limits.report is not None and result.status != "interrupt":
                try:
                    best = max([floor, *(peaks[q] for q in waiting)])
                    limits.report(Progress(best, 0, limits.seconds - limits.left_seconds))
                except KeyboardInterrupt:
                    return [v for part in orders for v in part], solved, "interrupt"
            if result.status == "interrupt":
                stopped = "interrupt"
                break
            if result.status != "optimal":
                stopped = result.status
        return [v for part in orders for v in part], solved, stopped
