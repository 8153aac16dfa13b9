"""The Pareto front of peak and time of recomputation and offload."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.costs import find_costs
from lowtide.api.goals import OneArena
from lowtide.api.job import NO_OPTIONS, Job, Search
from lowtide.api.moves.cutting import allowed
from lowtide.api.moves.fissioning import step_front
from lowtide.api.moves.swapping import Host, host_of, moved_tensors
from lowtide.api.objects import Model
from lowtide.api.problem import Problem, Rules
from lowtide.arguments import typed
from lowtide.cost.file import CostFile
from lowtide.errors import InputError
from lowtide.optimize.curve import Front, FrontPoint
from lowtide.sizes import NO_DIMS, Dims
from lowtide.stop import Limits, Progress
from lowtide.target import Target

if TYPE_CHECKING:
    from lowtide.optimize.recompute.least_bytes import Spent
    from lowtide.optimize.recompute.sequence import Sequenced

_BUDGETS = 24  # of a sweep, evenly from the best order's peak to what a single op needs

_ORDER, _SWEEP = 0.2, 0.85
"""Shares of the time after which the best order and the sweep are over; the rest is for the bounds."""

_MOST_ASKED = 16  # ops at which the bound of a point is asked for: those with the most live in the best order


@typed
def front(
    model: Model,
    *,
    target: str | Target = "auto",
    time: float = 30.0,
    dims: Dims = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    seed: int = 0,
    allow: str | Sequence[str] = "recompute",
    cost: CostFile | str | Path | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Front:
    """Peaks that recomputation reaches, and what each adds to the time: for a budget of `plan` with `allow`
    ``"recompute"``, or its `max_overhead`. One sweep of ever lower budgets. Parameters are those of `plan`; `allow` may
    be ``"recompute,offload"`` or ``"offload"``, for tensors that leave memory, or ``"recompute,tile"``, with
    ``offload`` and ``merge`` or without, for a training step, one sweep for each number of parts; `cost` is for these.

    Raises
    ------
    InputError
        The model or an argument is wrong, or the target's runtime has an arena of its own.
    """
    from lowtide.optimize.curve import Front
    from lowtide.optimize.recompute.least_bytes import sweep
    from lowtide.optimize.recompute.sequence import least_possible, sequenced

    began, goal, words = clock.perf_counter(), OneArena(), allowed(allow)
    search = Search(goal.method("exact", NO_OPTIONS), time, seed=seed)
    rules = Rules(target, overwrite_inputs, pin_inputs)
    if {"recompute", "tile"} <= set(words):
        costs = find_costs(cost, 0.0 if cost is None else None)
        return step_front(Job(model, dims, rules, goal, search, words, costs=costs), report)
    if words[-1:] not in (("recompute",), ("offload",)) or ("offload" not in words and cost is not None):
        raise InputError(
            "a Pareto front needs --allow recompute or, with --cost, offload, recompute,offload, recompute,tile"
        )
    job = Job(model, dims, rules, goal, search, words, costs=find_costs(cost))
    if job.target.rule:
        raise InputError(
            f"target {job.target.name} runs each operator of the file once; name another, as --target generic"
        )
    problem, limits = job.problem(), search.limits(None, report)
    host = host_of(job, problem.graph)
    order = goal.find_order(problem, search, limits.until(_ORDER)).order
    sequence = sequenced(problem.memory, order)
    sequence = sequence if host is None else host.problem(sequence)
    least, _ = least_possible(sequence)
    highest = max(sequence.core(problem.memory.alignment).footprints(sequence.without_views(order)), default=0)
    budgets = [highest - (highest - least) * k // _BUDGETS for k in range(1, _BUDGETS + 1)]
    found, stopped = sweep(sequence, order, budgets, limits.until(_SWEEP))
    return Front(
        problem.graph.name,
        problem.target.name,
        problem.own_order_peak_bytes,
        least,
        sequence.costs.counted,
        tuple(_points(problem, sequence, order, found, limits, host)),
        stopped == "complete",
        clock.perf_counter() - began,
    )


def _points(
    problem: Problem,
    sequence: Sequenced,
    order: tuple[int, ...],
    sequences: list[Spent],
    limits: Limits,
    host: Host | None,
) -> list[FrontPoint]:
    """With real peaks, which writing in place may lower, and bounds; a point that another one is as good as is left
    out."""
    from lowtide.analyse.liveness import profile
    from lowtide.optimize.curve import FrontPoint

    footprint = profile(problem.memory, order).footprint
    steps = sorted(range(len(order)), key=lambda step: -footprint[step])[:_MOST_ASKED]
    total, once = max(1, sequence.costs.total), max(footprint, default=0)
    points, fewest = [FrontPoint(once, 0.0, 0, 0.0)], len(sequence.without_views(order))
    for number, spent in enumerate(sequences):
        changes = len(spent.order) - fewest
        peak, units = _real(problem, sequence, spent, changes) if changes else (once, sequence.costs.total)
        if peak >= points[-1].peak_bytes or not changes:
            continue
        share = Limits(limits.left_seconds / (len(sequences) - number))
        ops = [order[s] for s in steps if footprint[s] > peak]
        least = _least(sequence, peak, ops, host, share)
        moves = [sequence.transfer_of(i) for i in spent.order if i >= len(sequence.ops)]
        stored = sum(sequence.values[row.value].size for row, load in moves if not load)
        points.append(FrontPoint(peak, units / total - 1, changes - len(moves), least / total, stored_bytes=stored))
    return points


def _least(sequence: Sequenced, peak: int, ops: Sequence[int], host: Host | None, limits: Limits) -> int:
    """Units that no sequence within a peak adds less than."""
    from lowtide.optimize.recompute.bound import price_bound
    from lowtide.optimize.recompute.swap_bound import swap_time_bound

    if host is None:
        return price_bound(sequence, peak, ops, lambda: not limits.over()).units
    return swap_time_bound(sequence, peak, ops, host.bandwidth, lambda: not limits.over()).units


def _real(problem: Problem, sequence: Sequenced, spent: Spent, changes: int) -> tuple[int, int]:
    """Peak in bytes and units of cost of a sequence as a plan would have it."""
    from lowtide.analyse.liveness import profile
    from lowtide.transform.runs import apply

    units = spent.units + sequence.unmoved_units
    if not changes or not any(problem.memory.overwrites):
        return spent.peak, units
    runs = apply(problem.graph, sequence.with_views(spent.order), moved_tensors(sequence))
    at = runs.graph.index_of
    return profile(Problem.of(runs.graph, problem.target).memory, [at[v] for v in runs.order]).peak, units
