"""A choice of tiles as plans: that of each body, and that of what is around it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from lowtide.api.answer import Answer, PlanKeys, assemble
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.moves.recomputing import RecomputeCall, placed, recomputation_keys
from lowtide.api.moves.swapping import Host, numbers
from lowtide.api.problem import Problem
from lowtide.api.profiles import with_profile
from lowtide.fission_plan import PlanFission
from lowtide.rewrites import Recompute
from lowtide.stop import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.optimize.parted import Parted
    from lowtide.optimize.recompute.least_bytes import Spent
    from lowtide.optimize.recompute.swaps import Bandwidth
    from lowtide.transform.fission import Loop

ORDERS = 0.04  # share of the time for the best order of each graph but the step's own

_ENDING = 0.5  # seconds of each order and arena after Ctrl-C


@dataclass(frozen=True)
class Placed:
    """A choice with its plans: of each body, and of what is around."""

    answer: Answer
    parts: tuple[PlanFission, ...]
    seconds: float


@dataclass(frozen=True)
class StepPlans:
    """A training step whose choices are placed."""

    job: Job
    goal: OneArena
    problem: Problem
    once: Answer  # the step's own best order
    # bandwidth, cost_file: to the host, None if nothing moves; and the sha256 of the file that says so.
    bandwidth: Bandwidth | None
    cost_file: str
    limits: Limits

    def place(self, choice: Parted, spent: Spent | None) -> Placed:
        """A choice with its plans."""
        began = time.perf_counter()
        with_plans = self._plans(choice, spent)
        self.limits.tally.add("placements", 1, began)
        return with_plans

    def _plans(self, choice: Parted, spent: Spent | None) -> Placed:
        """Plans of a choice: the body's, then that of what is around it."""
        if choice.within:
            return self._several_placed(choice, spent)
        if choice.region is None:
            call = self._call(self.problem, choice, self.goal)
            order = choice.order if spent is None else spent.order
            answer = self._sequence(call, order, keep_order=spent is None)
            return Placed(answer, (), planned_seconds(choice, answer))
        part, loop = self._part(choice, choice.order if spent is None else spent.order, 0)
        outer = self._around(loop)
        return Placed(outer, (part,), sum(op.cost or 0.0 for op in outer.graph.ops))

    def _part(self, choice: Parted, order: Sequence[int], number: int) -> tuple[PlanFission, Loop]:
        """A region with its body's plan, and what the graph around it has in its place: the loop of that number."""
        from lowtide.transform.fission import Loop

        assert choice.region is not None
        assert choice.body is not None
        assert choice.fission is not None
        problem = Problem.of(choice.body.graph, self.problem.target)
        body = self._sequence(self._call(problem, choice, OneArena()), order)
        loop = Loop(choice.region, body.keys["required_bytes"], planned_seconds(choice, body))
        words = [(op_id, self._word(op_id, axis)) for op_id, axis in choice.region.axes]
        plan = msgspec.to_builtins(with_profile(assemble(body, self.job.rules, self.job.search.seed), body, problem))
        op = max(self.problem.graph.op_by_id) + 1 + number
        return PlanFission(op=op, ops=words, ends=list(choice.fission.ends), body=plan), loop

    def _several_placed(self, choice: Parted, spent: Spent | None) -> Placed:
        """Several regions: each body as it begins, then what is around them as it was searched."""
        from lowtide.optimize.together import around

        placed_ones = [self._part(inner, inner.order, k) for k, inner in enumerate(choice.within)]
        loops, graph, target = [loop for _, loop in placed_ones], self.problem.graph, self.problem.target
        outside = around(graph, target, choice.within, loops, lambda _: choice.order, self.bandwidth)
        call = self._call(Problem.of(outside.sequence.model.graph, target), outside, self.goal)
        answer = self._sequence(call, outside.order if spent is None else spent.order)
        return Placed(answer, tuple(part for part, _ in placed_ones), planned_seconds(outside, answer))

    def _word(self, op_id: int, axis: int) -> str:
        from lowtide.ops.labels import word_of
        from lowtide.transform.fission import access_of

        op = self.problem.graph.op_by_id[op_id]
        return word_of(op, access_of(self.problem.graph, op), axis)

    def _call(self, problem: Problem, choice: Parted, goal: OneArena) -> RecomputeCall:
        words = ("recompute",) if self.bandwidth is None else ("recompute", "offload")
        job = replace(self.job.of_graph(problem.graph), allow=words, costs=None, repeats=None, goal=goal)
        once = replace(self.once, problem=problem, order=choice.order)
        limits = until(self.limits, _ENDING) if self.limits.interrupt.seen else self.limits.saying("placing the parts")
        host = None
        if self.bandwidth is not None:
            host = Host(self.bandwidth, choice.sequence.costs.units, self.cost_file, recomputes=True)
        return RecomputeCall(job, goal, problem, choice.sequence, once, limits, host)

    def _sequence(self, call: RecomputeCall, order: Sequence[int], *, keep_order: bool = False) -> Answer:
        from lowtide.optimize.recompute.bound import PriceBound

        answer = placed(call, order, "complete", {}, keep_order=keep_order)
        figures = {k: v for k, v in answer.keys.get("search", {}).items() if k != "once_peak_bytes"}
        keys: PlanKeys = {**recomputation_keys(call, answer, PriceBound(0)), "search": figures}
        return replace(answer, keys=keys)

    def _around(self, loop: Loop) -> Answer:
        from lowtide.transform.fission import outer_of

        outer = outer_of(self.problem.graph, [loop])
        problem = Problem.of(outer, self.problem.target)
        search = replace(self.job.search, require_optimal=False)
        return self.goal.solve(problem, search, until(self.limits, max(1.0, self.limits.seconds * ORDERS)))


def until(limits: Limits, seconds: float) -> Limits:
    """Limits of an order, or of an arena: of few seconds after Ctrl-C."""
    seconds = min(seconds, _ENDING) if limits.interrupt.seen else seconds
    return Limits(seconds, limits.memory_bytes, limits.seed)


def planned_seconds(choice: Parted, answer: Answer) -> float:
    """What the runs of a choice take, as they are placed, in the order in which they run."""
    if choice.clock is not None:
        ids = [answer.graph.ops[i].id for i in answer.order]
        return choice.clock.seconds(numbers(choice.sequence, answer.keys.get("rewrites") or (), ids))
    of = {r.op: r.of for r in answer.keys.get("rewrites") or () if isinstance(r, Recompute)}
    cost: Mapping[int, float] = {op.id: op.cost or 0.0 for op in answer.graph.ops if op.id not in of}
    return sum(cost[_origin(answer.graph.ops[i].id, of)] for i in answer.order)


def _origin(op: int, of: Mapping[int, int]) -> int:
    while op in of:
        op = of[op]
    return op
