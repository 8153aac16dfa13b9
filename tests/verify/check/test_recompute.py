"""Floors of sequences in which ops run again, against brute force: ops in place, views, several results."""

from __future__ import annotations

from random import Random

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.bound import peak_bound, price_bound
from lowtide.optimize.recompute.sequence import least_possible, sequenced
from lowtide.target import resolve
from lowtide.verify.check.bound import least_in_sequences, saved_in_sequences
from lowtide.verify.check.memory import work_out
from support.again_brute import drawn_graph, least_costs

GENERIC = resolve("generic,alignment=1")


def check(seed: int) -> list[str]:
    """What is said of a drawn graph, by the planner or the checker, and is above what some sequence needs."""
    rng = Random(seed)
    graph = drawn_graph(rng)
    target = GENERIC if rng.random() < 0.7 else resolve("generic,alignment=1,overwrite_inputs=true")
    least = least_costs(graph, target)
    low, high = 0, sum(t.size for t in graph.tensors) + sum(op.workspace for op in graph.ops)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if least(middle) is not None else (middle + 1, high)
    memory, checked = memory_model(graph, target), work_out(graph, target)
    problem = sequenced(memory, range(len(graph.ops)))
    ops = range(len(graph.ops))
    floor, _ = least_possible(problem)
    found = []
    if floor > low:
        found.append(f"least_possible {floor}, reached {low}")
    if (proved := least_in_sequences(graph, checked, saved_in_sequences(graph, target))) > low:
        found.append(f"least_in_sequences {proved}, reached {low}")
    scale = problem.costs.scale
    for budget in (low, low + rng.randint(0, 10)):
        cost = (problem.costs.total + price_bound(problem, budget, ops).units) / scale
        if cost > (least(budget) or 0.0):
            found.append(f"a cost of {cost} within {budget}, reached {least(budget)}")
    extra = int(rng.choice((0, 0.1, 0.5, 2)) * problem.costs.total)
    peak = peak_bound(problem, extra, floor, ops).bytes
    below = least(peak - 1)
    if below is not None and below <= (problem.costs.total + extra) / scale:
        found.append(f"a peak of {peak} within {extra} more, reached with {below}")
    plan = (
        lowtide.research.plan(graph, target=target, allow="recompute", budget=max(low, 1), time=0.05)
        if not seed % 4
        else None
    )
    if plan is not None and plan.status == "impossible":
        found.append(f"impossible within {low}")
    return found


def test_no_floor_of_sequences_is_above_what_is_reached() -> None:
    """Nor a bound on the cost or the peak; and `plan` does not say that is impossible which is reached."""
    assert [(seed, found) for seed in range(200) if (found := check(seed))] == []


def test_over_a_copy_of_a_result_an_op_may_write() -> None:
    """`r` is a result of 10 bytes, and `t` is written over a copy of it: 11 bytes beside what `r` is made of."""
    tensors = (
        Tensor(0, 1, Kind.INPUT),
        Tensor(1, 10, Kind.OUTPUT),
        Tensor(2, 10, Kind.ACTIVATION),
        Tensor(3, 1, Kind.OUTPUT),
    )
    ops = (
        Op(0, (0,), (1,), type="Conv", cost=1.0),
        Op(1, (1,), (2,), type="Relu", cost=1.0),
        Op(2, (2,), (3,), type="Conv", cost=1.0),
    )
    graph = Graph("copy", tensors, ops)
    assert least_in_sequences(graph, work_out(graph, GENERIC), saved_in_sequences(graph, GENERIC)) == 11
    once = lowtide.research.plan(graph, target=GENERIC, budget=12)
    assert (once.status, once.lower_bound_bytes) == ("impossible", 21)
    plan = lowtide.research.plan(graph, target=GENERIC, allow="recompute", budget=12)
    assert (plan.status, plan.peak_bytes) == ("ok", 12)
