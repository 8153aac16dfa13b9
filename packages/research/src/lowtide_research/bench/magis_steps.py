"""MAGIS's seven training steps (Chen et al., ASPLOS 2024, table 2): a plan of a kind within a bound, as a cell."""

from __future__ import annotations

from typing import Any

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.api.moves.merging import merged_step
from lowtide.api.moves.swapping import numbers
from lowtide.api.problem import Problem
from lowtide.cost.file import CostFile, read_cost, stand_in
from lowtide.cost.labelled import estimated, priced
from lowtide.graph import Graph
from lowtide.optimize.parted import parted
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.optimize.step_regions import step_regions
from lowtide.plan import Plan
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.fission import body_of
from lowtide_research import zoo

PARTS = {"pofo8": 8, "pofo16": 16, "pofo32": 32}
"""POFO on a micro-batch (figure 12)."""


class Workload:
    """One workload: its graph, with the times of a cost file, and with sibling products as one."""

    def __init__(self, name: str, cost: str | None, seconds: float) -> None:
        self.name, self.cost, self.seconds = name, cost, seconds
        self.file: CostFile = stand_in("rtx3090.json")[0] if cost is None else read_cost(cost)[0]
        self.graph = zoo.build(name).graph()
        self.priced: Graph = priced(self.graph, self.file.families)
        self.merged: Graph = priced(merged_step(self.graph, self.file.families)[0], self.file.families)

    def cell(self, kind: str, bound: str) -> dict[str, Any]:
        """A plan of a kind within a bound, ``t10`` or ``p40``."""
        if kind in PARTS:
            return self.of_parts(PARTS[kind], int(bound[1:]))
        how: dict[str, Any] = {"max_overhead" if bound[0] == "t" else "budget": f"{bound[1:]}%", "time": self.seconds}
        if kind in ("joint", "moved", "micro", "magis"):
            moves = kind == "moved" or (kind == "magis" and self.file.bandwidth is not None)
            allow = "recompute,tile" + ",offload" * moves
            how |= {"method": methods[kind]} if kind in (methods := {"micro": "microbatch", "magis": "magis"}) else {}
            return figures(lowtide.research.plan(self.graph, allow=allow, cost=self.cost, **how))
        how |= {} if kind == "again" else {"method": kind}
        allow = "recompute,offload" if kind == "pofo" else "recompute"
        return figures(lowtide.research.plan(self.priced, allow=allow, **how))

    def of_parts(self, count: int, share: int) -> dict[str, Any]:
        """POFO on one of so many micro-batches, by the times of that part; ops around the parts are unmodified."""
        target, region = BUILT_IN["generic"], step_regions(self.priced).regions[0]

        def order(graph: Graph) -> tuple[int, ...]:
            return Exact().schedule(memory_model(graph, target), Limits(self.seconds / 4)).order

        families, bandwidth = self.file.families, self.file.bandwidth
        assert bandwidth is not None
        there = Bandwidth(bandwidth.to_host, bandwidth.from_host)
        (choice,) = parted(self.priced, target, region, [count], families, order, there)
        assert choice.fission is not None
        assert choice.clock is not None
        part = body_of(self.priced, region, choice.fission.searched, estimated(families)).graph
        peak = Problem.of(self.priced, target).own_order_peak_bytes
        room = peak * share // 100
        if choice.rest > room or choice.base >= room:
            return {"status": "over_budget", "share": 1.0, "overhead": 0.0, "parts": count}
        plan = lowtide.research.plan(
            part, allow="recompute,offload", method="pofo", budget=room - choice.base, time=self.seconds
        )  # fmt: skip
        ran = choice.clock.seconds(numbers(choice.sequence, plan.rewrites or (), plan.order))
        uncut = sum(op.cost or 0.0 for op in self.priced.ops)
        return {
            "status": plan.status, "share": (choice.base + plan.required_bytes) / peak, "parts": count,
            "overhead": (choice.outside_seconds + ran) / uncut - 1,
        }  # fmt: skip


def figures(plan: Plan) -> dict[str, Any]:
    """What a plan says of itself: its status, its share of the peak in file order, its added time, its parts."""
    found = plan.fission or plan.recomputation
    assert found is not None, plan.graph
    result: dict[str, Any] = {
        "status": plan.status, "overhead": found.overhead,
        "share": plan.required_bytes / plan.own_order_peak_bytes,
    }  # fmt: skip
    if plan.fission is not None and plan.fission.parts:
        result["parts"] = len(plan.fission.parts[0].ends)
    return result
