"""What cuts would cost and give: peaks below the best order's, each with the fewest ops."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.costs import Costs, find_costs
from lowtide.api.goals import OneArena
from lowtide.api.job import NO_OPTIONS, Job, Search
from lowtide.api.moves.cut_search import arena_bytes
from lowtide.api.moves.cutting import check_format
from lowtide.api.objects import Model
from lowtide.api.problem import Rules
from lowtide.arguments import typed
from lowtide.cost.file import CostFile
from lowtide.optimize.curve import Curve, CurvePoint
from lowtide.sizes import NO_DIMS, Dims
from lowtide.stop import Progress
from lowtide.target import Target

if TYPE_CHECKING:
    from lowtide.cost.model import CostModel
    from lowtide.optimize.regions import Way


@typed
def curve(
    model: Model,
    *,
    target: str | Target = "auto",
    time: float = 30.0,
    dims: Dims = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    exact_bits: bool = False,
    cost: CostFile | str | Path | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Curve:
    """Peaks that cuts reach, and how many ops each takes: for `max_ops` of `plan`, or a budget; with a cost
    file, how long each takes, for `max_overhead`. Parameters are those of `plan`.

    Raises
    ------
    InputError
        The model or an argument is wrong, or in a format whose ops cannot be cut.
    """
    from lowtide.optimize.regions import front_ways
    from lowtide.transform.cut import Cutter

    began = clock.perf_counter()
    goal = OneArena()
    search = Search(goal.method("exact", NO_OPTIONS), time)
    job = Job(model, dims, Rules(target, overwrite_inputs, pin_inputs), goal, search)
    problem = job.problem()
    check_format(problem)
    limits = search.limits(None, report)
    order = goal.find_order(problem, search, limits).order
    cutter, costs = Cutter(problem.graph, exact_bits=exact_bits), find_costs(cost)
    times = None if costs is None else costs.model(cutter)
    ways = front_ways(cutter, problem.memory, order, limits, times)
    points = [
        CurvePoint(
            way.peak,
            way.ops,
            len(way.regions),
            arena_bytes(problem, cutter, way),
            None if costs is None or times is None else _nanoseconds(costs, times, way),
        )
        for way in ways
    ]
    return Curve(
        problem.graph.name,
        problem.target.name,
        problem.own_order_peak_bytes,
        tuple(points),
        ways[-1].complete,
        clock.perf_counter() - began,
    )


def _nanoseconds(costs: Costs, times: CostModel, way: Way) -> int:
    """What a way takes, as trials have shown."""
    return costs.expected(times.untiled(), way.nanoseconds) if way.regions else way.nanoseconds
