"""What an untiled step reaches by recomputation alone, transfers alone, both, and as POFO has it.
A search by all words begins there, so that it is above none of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.api.moves.recomputing import RecomputeCall, repeated
from lowtide.api.moves.swapping import Host, numbers
from lowtide.optimize.recompute.method import shares_storages
from lowtide.optimize.recompute.pofo import Pofo

if TYPE_CHECKING:
    from lowtide.api.costs import Costs
    from lowtide.api.moves.step_plans import StepPlans
    from lowtide.optimize.parted import Found, Parted
    from lowtide.optimize.recompute.method import RecomputeMethod

Way = tuple[tuple[str, ...], "RecomputeMethod | None", float]  # words, a published method, and the share of the time

_STILL: tuple[Way, ...] = ((("recompute",), None, 0.1),)
_MOVED: tuple[Way, ...] = ((("recompute", "offload"), Pofo(), 0.15), (("recompute", "offload"), None, 0.1))
_LOWEST: tuple[Way, ...] = (
    (("recompute",), None, 0.06), (("offload",), None, 0.04), (("recompute", "offload"), None, 0.1)
)  # fmt: skip
"""Without transfers; with them within a budget, where the third tries transfers and runs again alone, too; and within a
bound on time."""


def reached(plans: StepPlans, whole: Parted, costs: Costs) -> list[Found]:
    """Sequences of the untiled step within the budget, or within the bound on time in `costs`. Once one of them adds no
    time none is asked further."""
    found: list[Found] = []
    budget = plans.goal.budget
    for words, method, part in _STILL if plans.bandwidth is None else _LOWEST if budget is None else _MOVED:
        if plans.limits.over():
            break
        call = _call(plans, whole, replace(costs, given=False), words, method, part)
        if method is not None and shares_storages(call.sequence) is not None:
            continue
        answer = repeated(call)
        ids = [answer.graph.ops[i].id for i in answer.order]
        spent = whole.spent(numbers(whole.sequence, answer.keys.get("rewrites") or (), ids))
        if budget is None or spent.peak <= budget - plans.goal.reserve:
            found.append((whole, spent))
        fits = budget is not None and answer.keys["required_bytes"] <= budget
        if fits and whole.seconds(spent) <= whole.seconds(whole.begin):
            break
    return found


def _call(
    plans: StepPlans, whole: Parted, costs: Costs, words: tuple[str, ...], method: RecomputeMethod | None, part: float
) -> RecomputeCall:
    from lowtide.optimize.parted import share

    job = replace(
        plans.job.of_graph(plans.problem.graph), allow=words, costs=costs, repeats=method, goal=plans.goal
    )  # fmt: skip
    host = None
    sequence = whole.still.sequence
    if plans.bandwidth is not None and "offload" in words:
        host = Host(plans.bandwidth, whole.sequence.costs.units, plans.cost_file, recomputes="recompute" in words)
        sequence = host.problem(sequence)
    phase = f"trying {' and '.join(words)} alone"
    limits = share(plans.limits, plans.limits.seconds * part, phase)
    return RecomputeCall(job, plans.goal, plans.problem, sequence, plans.once, limits, host)
