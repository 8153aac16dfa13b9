"""A lower bound for small graphs: the cheapest cover of the operators by groups, every group at its own lower bound.

Any solution is a list of groups, each with the inputs that the group before kept and the tensors that it keeps. The
integer program has a variable for each such choice, whether it is made, and demands less than a solution does:

- every operator runs; every output of the graph is stored by a group that makes it;
- what a group loads is stored by some group that makes it, in whatever order;
- what a group finds in the fast memory, some group keeps for it; to keep an input costs nothing.

So its optimum, and every bound that its solver proves, is no more than any solution's total. A group that keeps nothing
and costs no less than its operators one by one is left out: in any cover these may take its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lowtide.errors import MissingExtraError
from lowtide.solvers.cp_sat import solve
from lowtide_research.contest.plan import Planner
from lowtide_research.contest.prices import Group, Steps
from lowtide_research.contest.reader import Problem

Ops = frozenset[int]
MOST_STEPS = 4_000_000
"""Granularities of a group that are tried one by one."""
UNITS = 1000
"""Units of latency in the integer program; costs are rounded down."""


def groups(problem: Problem, limit: int) -> list[Ops] | None:
    """All connected sets of operators; None if there are more than `limit`."""
    near: list[set[int]] = [set() for _ in problem.ops]
    for number, op in enumerate(problem.ops):
        for tensor in op.inputs:
            if tensor in problem.producer:
                near[number].add(problem.producer[tensor])
                near[problem.producer[tensor]].add(number)
    found = {frozenset([number]) for number in range(len(problem.ops))}
    queue = sorted(found, key=sorted)
    while queue:
        ops = queue.pop()
        for number in sorted(set().union(*(near[op] for op in ops)) - ops):
            if (grown := ops | {number}) not in found:
                if len(found) >= limit:
                    return None
                found.add(grown)
                queue.append(grown)
    return sorted(found, key=sorted)


def group_bound(group: Group, resident: frozenset[int], retained: frozenset[int], enough: float) -> float:
    """A lower bound of a group's latency over all granularities and orders, or `enough` if it is at least that.

    Pairs of a width and a height are bounded first as if every tile took the longer of all its compute and all its
    transfers; depths of the slices are tried where that is below `enough` and the price of the best known granularity.
    """
    enough = min(enough, group.best(resident, retained).latency * (1 - 1e-9))
    sides = np.meshgrid(np.arange(1, group.width + 1), np.arange(1, group.height + 1))
    width, height = (each.ravel() for each in sides)
    small = width * height <= group.problem.capacity
    width, height = width[small], height[small]
    kept = resident, retained
    full = Steps(group, width, height, np.full(width.shape, group.depth), *kept, is_lower=True)
    found = min([enough, *full.any_order()])
    thin = Steps(group, width, height, np.ones(width.shape, int), *kept, is_lower=True)
    if not group.sliced or not thin.width.size:
        return found
    thin.at_once()
    bounds = thin.any_order()
    is_open = bounds < found
    width, height, bounds = thin.width[is_open], thin.height[is_open], bounds[is_open]
    if width.size * group.depth > MOST_STEPS:
        return min([found, *bounds])
    depth = np.tile(np.arange(1, group.depth), width.size)
    width, height = np.repeat(width, group.depth - 1), np.repeat(height, group.depth - 1)
    return min([found, *Steps(group, width, height, depth, *kept, is_lower=True).any_order()])


@dataclass(frozen=True)
class _Choice:
    """A group, the inputs that the group before kept for it, the outputs that it keeps, and its lower bound."""

    group: Group
    resident: frozenset[int]
    retained: frozenset[int]
    bound: float

    @property
    def loads(self) -> frozenset[int]:
        """What it loads from the slow memory."""
        return frozenset(self.group.reads) - self.resident

    @property
    def stores(self) -> frozenset[int]:
        """What it may leave in the slow memory: what it makes, inner tensors too, but for what it keeps."""
        return frozenset(self.group.made) - self.retained


def cover_bound(problem: Problem, most_groups: int = 5000, seconds: float = 60.0) -> float:
    """The bound, or 0 if there are more groups than that."""
    sets = groups(problem, most_groups)
    if sets is None:
        return 0.0
    pricing = Planner(problem)
    single = [pricing.price(frozenset([number])).latency for number in range(len(problem.ops))]
    forms: dict[object, float] = {}
    choices: list[_Choice] = []
    for ops in sets:
        group = Group(problem, sorted(ops))
        if not group.feasible:
            continue
        enough = sum(single[op] for op in ops)
        for resident in _subsets(problem, frozenset(group.reads)):
            for retained in _subsets(problem, frozenset(group.outputs)):
                if sum(problem.size(tensor) for tensor in resident | retained) <= problem.capacity:
                    form = pricing.form(ops, resident, retained)
                    if form not in forms:
                        forms[form] = group_bound(group, resident, retained, enough)
                    if len(ops) == 1 or retained or forms[form] < enough:
                        choices.append(_Choice(group, resident, retained, forms[form]))
    return _cheapest_cover(problem, choices, seconds)


def _subsets(problem: Problem, tensors: frozenset[int]) -> Iterator[frozenset[int]]:
    """Subsets that fit in the fast memory."""
    kept = sorted(tensor for tensor in tensors if problem.size(tensor) <= problem.capacity)
    for count in range(len(kept) + 1):
        for chosen in combinations(kept, count):
            if sum(problem.size(tensor) for tensor in chosen) <= problem.capacity:
                yield frozenset(chosen)


def _cheapest_cover(problem: Problem, choices: Sequence[_Choice], seconds: float) -> float:
    """The solver's bound of the integer program."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingExtraError("ortools", "solvers", "the bound by covers") from None
    model = cp_model.CpModel()
    runs = {model.new_bool_var(""): choice for choice in choices}
    for number in range(len(problem.ops)):
        model.add(sum(x for x, c in runs.items() if number in c.group.ops) >= 1)
    for tensor, readers in problem.consumers.items():
        is_stored, is_kept = model.new_bool_var(""), model.new_bool_var("")
        model.add(sum(x for x, c in runs.items() if tensor in c.stores) >= is_stored)
        model.add(sum(x for x, c in runs.items() if tensor in c.retained or tensor in c.loads) >= is_kept)
        if tensor in problem.producer and not readers:
            model.add(is_stored == 1)
        for x, choice in runs.items():
            if tensor in choice.loads and tensor in problem.producer:
                model.add(x <= is_stored)
            if tensor in choice.resident:
                model.add(x <= is_kept)
    model.minimize(sum(int(UNITS * c.bound * (1 - 1e-9)) * x for x, c in runs.items()))
    solver = cp_model.CpSolver()
    solver.parameters.linearization_level = 2
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    solver.parameters.max_time_in_seconds = seconds
    solve(solver, model)
    return solver.best_objective_bound / UNITS
