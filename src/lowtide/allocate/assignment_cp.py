"""The temporal knapsack for CP-SAT: a boolean per buffer and memory, and a sum per memory and section.

Only sections count in which something is live that is not all live in a neighbour: the others follow from those.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.allocate.assignment import Assignment, Demand, Loads, Section, cost_of
from lowtide.stop import Limits

MOST_BUFFERS = 6000
"""Above that the solver is not asked."""

DETERMINISTIC_SECONDS = 8.0
"""What the solver may use, in its own deterministic time, so that the same instance gives the same answer."""


def improve(
    loads: Loads, demands: Sequence[Demand], capacities: Sequence[int], limits: Limits, known: Assignment
) -> Assignment:
    """A better assignment or bound than `known`, if ortools is installed and finds one; else `known`.

    What pairs may share is left out, so that an instance with pairs gets no bound from here.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return known
    if loads.count > MOST_BUFFERS or limits.left_seconds <= 0 or loads.shared:
        return known
    model = cp_model.CpModel()
    inside = [{k: model.new_bool_var("") for k in d.allowed} for d in demands]
    for row in inside:
        model.add_exactly_one(row.values())
    for section in _hardest(loads.sections):
        for k, capacity in enumerate(capacities):
            terms = [(inside[i][k], size) for i, size in section.live.items() if size and k in inside[i]]
            if sum(size for _, size in terms) > capacity:
                model.add(sum(x * size for x, size in terms) <= capacity)
    cost = sum(
        x * (d.bytes * d.allowed.index(k)) for d, row in zip(demands, inside, strict=True) for k, x in row.items()
    )
    model.minimize(cost)
    if known.bank_of is not None:
        for row, at in zip(inside, known.bank_of, strict=True):
            for k, x in row.items():
                model.add_hint(x, k == at)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed % 2**31
    solver.parameters.max_deterministic_time = DETERMINISTIC_SECONDS
    solver.parameters.max_time_in_seconds = limits.left_seconds
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Assignment(None, known.lower_bound, True, known.states)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return known
    found = tuple(next(k for k, x in row.items() if solver.boolean_value(x)) for row in inside)
    bound = max(known.lower_bound, round(solver.best_objective_bound))
    if known.bank_of is not None and cost_of(demands, known.bank_of) <= cost_of(demands, found):
        found = known.bank_of
    return Assignment(found, bound, cost_of(demands, found) == bound, known.states)


def _hardest(sections: Sequence[Section]) -> list[Section]:
    """Those that no neighbour implies. Of two alike the first is kept, so that the way from one to what implies it
    never turns back."""
    kept = []
    for s, section in enumerate(sections):
        before = s > 0 and _within(section, sections[s - 1])
        after = s + 1 < len(sections) and _within(section, sections[s + 1])
        if not before and not (after and not _within(sections[s + 1], section)):
            kept.append(section)
    return kept


def _within(one: Section, other: Section) -> bool:
    return all(other.live.get(i, 0) >= size for i, size in one.live.items())
