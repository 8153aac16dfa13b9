"""Plans of training steps whose ops run in parts and run again: the best of both, within bytes or within time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide.api.answer import Answer, PlanKeys, assemble
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.api.profiles import with_profile
from lowtide.api.rewrites.bounding import bound_on_plans
from lowtide.api.rewrites.merging import merged_step
from lowtide.api.rewrites.recomputing import RecomputeCall, placed, recomputation_keys
from lowtide.api.rewrites.swapping import Host, bandwidth_of, costs_of_step, numbers
from lowtide.errors import InputError
from lowtide.fission_plan import PlanFamily, PlanFission, PlanMerge, StepFission
from lowtide.graph import Graph, Kind
from lowtide.optimize.recompute.method import Microbatch
from lowtide.rewrites import Recompute
from lowtide.stop import Limits, Progress, noting

if TYPE_CHECKING:
    from lowtide.cost.file import CostFamily
    from lowtide.cost.labelled import Families
    from lowtide.optimize.parted import Parted
    from lowtide.optimize.recompute.front import Front
    from lowtide.optimize.recompute.least_bytes import Spent
    from lowtide.transform.fission import Loop, Region

_ONCE, _ORDERS, _SEARCHED = 0.1, 0.04, 0.8
"""Shares of the time: for the step's own best order, for that of each other graph, and until which parts are sought."""

_MOST_OPS = 0.5
"""Part of the ops that the largest region has where no stretches are asked for."""

_FEW, _SMALLER, _ALIKE, _TREE = (2, 4, 8), 6, 0.95, 0.4
"""Of regions of the fission tree: numbers of parts, how many regions are tried, the part of the largest one's ops from
which on one is taken for it, and the share of the time after which no further one is tried."""

_ENDING = 0.5
"""Seconds of each order and arena after Ctrl-C."""

_PLACED, _MENDS = 6, 256
"""Times that a plan is placed, each for less room, until its arena fits the budget; and repairs tried for each."""


def solve_fissioning(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The plan of least peak within a bound on time, or of least time within the budget, with ops that run in parts.

    Raises
    ------
    InputError
        There is neither a budget nor a bound on time, the ops say nothing of rows, or something asked for does not go
        with parts of a step.
    """
    goal = job.goal
    assert isinstance(goal, OneArena), goal
    _check(job, goal, problem)
    bounded = job.costs is not None and job.costs.max_overhead is not None
    if (goal.budget is None) == (not bounded):
        words = ",".join(job.allow)
        raise InputError(f"--allow {words} needs --budget or --max-overhead, and takes one of them")
    with noting(limits.interrupt):
        return _Step(job, goal, problem, limits).solve()


def step_front(job: Job, report: Callable[[Progress], None] | None = None) -> Front:
    """Peaks of a training step in parts and again, and what each adds to its time. Raises as `solve_fissioning`."""
    from lowtide.optimize.parted import front
    from lowtide.optimize.recompute.front import Front, FrontPoint

    problem, goal = job.problem(), job.goal
    assert isinstance(goal, OneArena), goal
    _check(job, goal, problem)
    limits = job.search.limits(None, report)
    step = _Step(job, goal, problem, limits)
    found, complete = front(step.choices(), limits)
    points = [
        FrontPoint(
            choice.peak(spent),
            choice.seconds(spent) / step.uncut_seconds - 1 if step.uncut_seconds else 0.0,
            len(spent.order) - len(choice.begin.order),
            0.0,
            choice.count,
            choice.cut_ops,
        )
        for choice, spent in found
    ]
    spent_seconds = limits.seconds - limits.left_seconds
    floor = floor_bytes(problem.graph)
    own = problem.own_order_peak_bytes
    return Front(problem.graph.name, problem.target.name, own, floor, "cost", tuple(points), complete, spent_seconds)


def _check(job: Job, goal: OneArena, problem: Problem) -> None:
    if problem.graph.dialect != "labels":
        raise InputError(
            f"--allow {','.join(job.allow)} is for training steps whose ops say which rows they need: a graph JSON "
            "with `labels`, or zoo:magis_*; name recompute or fission alone",
            problem.place,
        )
    if job.target.rule or job.target.allocates_one_by_one:
        raise InputError(f"target {job.target.name} runs each op of a file once; plan under --target generic")
    if job.max_ops or goal.spread or job.exact_bits:
        raise InputError(
            "--max-ops, --spread and --exact-bits are not for training steps in parts: sums over parts are added in "
            "another order; leave them out"
        )
    if isinstance(job.repeats, Microbatch) and "swap" in job.allow:
        raise InputError(f"--method {job.repeats.name} moves nothing; leave swap out of --allow, or the method")
    if job.repeats is not None and not isinstance(job.repeats, Microbatch):
        raise InputError(f"--method {job.repeats.name} runs ops again and cuts none; use --allow recompute with it")


@dataclass(frozen=True)
class _Placed:
    """A choice with its plans: of each body, and of what stands around."""

    answer: Answer
    parts: tuple[PlanFission, ...]
    seconds: float


class _Step:
    """One call."""

    def __init__(self, job: Job, goal: OneArena, problem: Problem, limits: Limits) -> None:
        from lowtide.cost.labelled import families_of, priced

        self.job, self.goal, self.limits = job, goal, limits
        self.user = problem
        self.costs = costs_of_step(job)
        self.families: Families = families_of(self.costs.file, self.costs.place)
        self.bandwidth = bandwidth_of(self.costs) if "swap" in job.allow else None
        self.max_overhead = None if job.costs is None else job.costs.max_overhead
        self.problem = Problem.of(priced(problem.graph, self.families), problem.target)
        self.uncut_seconds = sum(op.cost or 0.0 for op in self.problem.graph.ops)
        self.merged: list[PlanMerge] = []
        if "merge" in job.allow:
            step, self.merged = merged_step(problem.graph, self.families)
            self.problem = Problem.of(priced(step, self.families), problem.target)
        began = time.perf_counter()
        self.once = self._order(self.problem, limits.seconds * _ONCE)
        self.placing_seconds = time.perf_counter() - began
        self.bound: Mapping[str, Any] = {}
        if self.bandwidth is None:  # it counts no transfers
            most = None if self.max_overhead is None else self._most_seconds()
            budget = None if self.goal.budget is None else self.goal.budget - self.goal.reserve
            floor, order = floor_bytes(self.user.graph), self.once.order
            self.bound = bound_on_plans(self.problem, order, self.families, most, budget, floor, limits)

    def _order(self, problem: Problem, seconds: float) -> Answer:
        """The best order of a graph, with its arena."""
        plain = OneArena()
        method = plain.method("exact", {}) if not self.job.search.best else self.job.search.method
        search = replace(self.job.search, method=method, require_optimal=False)
        began = time.perf_counter()
        answer = plain.solve(problem, search, self._until(seconds))
        self.limits.tally.add("orders", 1, began)
        self.limits.interrupt.seen |= answer.keys["stopped"] == "interrupt"
        return answer

    def _until(self, seconds: float) -> Limits:
        """Limits of an order, or of an arena: of few seconds after Ctrl-C."""
        seconds = min(seconds, _ENDING) if self.limits.interrupt.seen else seconds
        return Limits(seconds, self.limits.memory_bytes, self.limits.seed)

    def _positions(self, graph: Graph) -> Sequence[int]:
        before = self.limits.interrupt.seen
        order = self._order(Problem.of(graph, self.problem.target), self.limits.seconds * _ORDERS).order
        if self.limits.interrupt.seen and not before:  # the search for it ended with what it had
            raise KeyboardInterrupt
        return order

    def solve(self) -> Answer:
        """The best choice, placed."""
        budget = None if self.goal.budget is None else self.goal.budget - self.goal.reserve
        if budget is not None and self.once.keys["required_bytes"] <= budget:
            return self._answer(self._place(self._whole(), None))
        choices = self.choices()
        best: _Placed | None = None
        with self.limits.interrupt:
            best = self._sought(choices, budget)
        if best is None:  # within a bound on time nothing changed, else what comes nearest to the budget
            lowest = min(choices, key=lambda c: (c.peak(c.begin), c.count))
            best = self._place(self._whole() if budget is None else lowest, None)
        return self._answer(best)

    def _sought(self, choices: Sequence[Parted], budget: int | None) -> _Placed | None:
        """The best choice, placed again for less room until its arena fits; None if none is found."""
        best: _Placed | None = None
        room, found = budget, self._best(choices, budget)
        for _ in range(_PLACED):
            if found is None:
                break
            placed_one = self._place(*found)
            if best is None or placed_one.answer.keys["required_bytes"] < best.answer.keys["required_bytes"]:
                best = placed_one
            over = 0 if budget is None else best.answer.keys["required_bytes"] - self.goal.reserve - budget
            if room is None or over <= 0:
                break
            room -= max(over, self.problem.target.alignment)
            found = None if self.limits.interrupt.seen else self._lower(choices, *found, room)
        return best

    def _whole(self) -> Parted:
        from lowtide.optimize.parted import whole

        return whole(self.problem.graph, self.problem.target, self.once.order, self.bandwidth)

    def choices(self) -> list[Parted]:
        """The step as it stands, and its regions in parts."""
        from lowtide.optimize.step_regions import all_but_updates, step_regions, why_no_batches

        micro = self.job.repeats if isinstance(self.job.repeats, Microbatch) else None
        if micro is None:
            return self._joint()
        found = step_regions(self.problem.graph)
        regions = [r for r in found.regions if all_but_updates(self.problem.graph, r)]
        if not regions:
            why = why_no_batches(self.problem.graph, found.refused)
            raise InputError(f"method {micro.name} cannot do this: {why}", self.user.place)
        return self._parted(regions[0], self._micro_counts(micro, regions[0].rows))

    def _joint(self) -> list[Parted]:
        """The step as it stands, and regions in parts, as many as there are until Ctrl-C."""
        from lowtide.optimize.parted import part_counts
        from lowtide.optimize.step_regions import step_regions

        choices = [self._whole()]
        if self.limits.interrupt.seen:
            return choices
        with self.limits.interrupt:
            regions = step_regions(self.problem.graph).regions
            for region in regions[:1]:
                choices += self._parted(region, part_counts(region.rows))
            smaller = self._smaller(regions)
            for choice in smaller:
                at = (choice.peak(choice.begin), choice.seconds(choice.begin))
                if not any(c.peak(c.begin) <= at[0] and c.seconds(c.begin) <= at[1] for c in choices):
                    choices.append(choice)
            for count in _FEW:
                choices += self._several([choice for choice in smaller if choice.count == count])
        return choices

    def _several(self, pool: Sequence[Parted]) -> list[Parted]:
        """Several of these regions at once, in what is searched."""
        from lowtide.optimize.together import around, loops_of, together

        graph, target = self.problem.graph, self.problem.target
        found: list[Parted] = []
        began = time.perf_counter()
        for within in together(graph, target, pool, self.once.order, self._late):
            found.append(around(graph, target, within, loops_of(within), self._positions, self.bandwidth))
        self.limits.tally.add("part_graphs", len(found), began)
        return found

    def _parted(self, region: Region, counts: Sequence[int]) -> list[Parted]:
        from lowtide.optimize.parted import parted

        began, tally = time.perf_counter(), self.limits.tally
        ordering = tally.seconds.get("orders", 0.0)
        graph, target = self.problem.graph, self.problem.target
        made = parted(graph, target, region, counts, self.families, self._positions, self.bandwidth, self._late)
        tally.add("part_graphs", len(made), began + tally.seconds.get("orders", 0.0) - ordering)
        return made

    def _micro_counts(self, micro: Microbatch, rows: int) -> list[int]:
        from lowtide.optimize.parted import part_counts

        counts = [micro.parts] if micro.parts else [n for n in part_counts(rows) if n & (n - 1) == 0]
        if counts[0] > rows:
            raise InputError(f"microbatch.parts is {counts[0]}, and the step has {rows} rows")
        return counts

    def _smaller(self, regions: Sequence[Region]) -> list[Parted]:
        """Regions of the fission tree, and where sums over rows are read, stretches between, in a few parts."""
        from lowtide.optimize.fission_tree import tree_regions
        from lowtide.optimize.step_regions import stretches

        found: list[Parted] = []
        if regions and self._late():
            return found
        most = len(regions[0].axes) if regions else len(self.problem.graph.ops)
        graph, order = self.problem.graph, self.once.order
        tree = [r for r in tree_regions(graph, self.problem.memory, order) if len(r.axes) < _ALIKE * most]
        between = stretches(graph, order) if not regions or most < _MOST_OPS * len(graph.ops) else []
        for region in (*tree[:_SMALLER], *between[:_SMALLER]):
            if self._late():
                break
            found += self._parted(region, [n for n in _FEW if n <= region.rows])
        return found

    def _late(self) -> bool:
        """Whether no further region is tried."""
        return self.limits.left_seconds < (1 - _TREE) * self.limits.seconds

    def _best(self, choices: Sequence[Parted], room: int | None) -> tuple[Parted, Spent] | None:
        from lowtide.optimize.parted import least_peak, least_time

        if isinstance(self.job.repeats, Microbatch):
            return self._micro(choices, room)
        until = min(self.limits.seconds * _SEARCHED, self.limits.seconds - self.placing_seconds)
        share = replace(self.limits, seconds=until)
        if room is not None:
            best = least_time(choices, room, share)
        else:
            best = least_peak(choices, self._most_seconds(), share)
        return None if best is None else (best.parted, best.spent)

    def _lower(self, choices: Sequence[Parted], choice: Parted, spent: Spent, room: int) -> tuple[Parted, Spent] | None:
        """The same parts in less room, from the sequence that there is; of micro-batches other parts. None if there is
        nothing."""
        from lowtide.optimize.recompute.least_bytes import Spent
        from lowtide.optimize.recompute.sequence import search

        if isinstance(self.job.repeats, Microbatch):
            lower = self._micro(choices, room)
            return lower if lower is not None and lower[0].peak(lower[1]) <= room else None
        seconds, shared = max(1.0, self.limits.left_seconds / _PLACED), self.limits
        limits = Limits(seconds, seed=shared.seed, interrupt=shared.interrupt, tally=shared.tally)
        result = search(choice.sequence, spent.order, room - choice.base, limits, steps=_MENDS)
        return (choice, Spent(tuple(result.order), result.peak, result.cost)) if result.found else None

    def _most_seconds(self) -> float:
        return self.uncut_seconds * (1 + (self.max_overhead or 0.0))

    def _micro(self, choices: Sequence[Parted], room: int | None) -> tuple[Parted, Spent] | None:
        """Parts alone: the fewest within the budget, or those of least peak within the time."""
        options = [(c, c.begin) for c in choices]
        if room is not None:
            fitting = [o for o in options if o[0].peak(o[1]) <= room]
            return min(fitting or options, key=lambda o: o[0].seconds(o[1]) if fitting else o[0].peak(o[1]))
        within = [o for o in options if o[0].seconds(o[1]) <= self._most_seconds() * (1 + 1e-12)]
        return min(within, key=lambda o: o[0].peak(o[1])) if within else None

    def _place(self, choice: Parted, spent: Spent | None) -> _Placed:
        """A choice with its plans."""
        began = time.perf_counter()
        with_plans = self._plans(choice, spent)
        self.limits.tally.add("placements", 1, began)
        return with_plans

    def _plans(self, choice: Parted, spent: Spent | None) -> _Placed:
        """Plans of a choice: the body's, then that of what stands around it."""
        if choice.within:
            return self._several_placed(choice, spent)
        if choice.region is None:
            call = self._call(self.problem, choice, self.goal)
            order = choice.order if spent is None else spent.order
            answer = self._sequence(call, order)
            return _Placed(answer, (), _seconds(choice, answer))
        part, loop = self._part(choice, choice.order if spent is None else spent.order, 0)
        outer = self._around(loop)
        return _Placed(outer, (part,), sum(op.cost or 0.0 for op in outer.graph.ops))

    def _part(self, choice: Parted, order: Sequence[int], number: int) -> tuple[PlanFission, Loop]:
        """A region with its body's plan, and what the graph around it has in its place: the loop of that number."""
        from lowtide.transform.fission import Loop

        assert choice.region is not None
        assert choice.body is not None
        assert choice.fission is not None
        problem = Problem.of(choice.body.graph, self.problem.target)
        body = self._sequence(self._call(problem, choice, OneArena()), order)
        loop = Loop(choice.region, body.keys["required_bytes"], _seconds(choice, body))
        words = [(op_id, self._word(op_id, axis)) for op_id, axis in choice.region.axes]
        plan = msgspec.to_builtins(with_profile(assemble(body, self.job.rules, self.job.search.seed), body, problem))
        op = max(self.problem.graph.op_by_id) + 1 + number
        return PlanFission(op=op, ops=words, ends=list(choice.fission.ends), body=plan), loop

    def _several_placed(self, choice: Parted, spent: Spent | None) -> _Placed:
        """Several regions: each body as it begins, then what stands around them as it was searched."""
        from lowtide.optimize.together import around

        placed_ones = [self._part(inner, inner.order, k) for k, inner in enumerate(choice.within)]
        loops, graph, target = [loop for _, loop in placed_ones], self.problem.graph, self.problem.target
        outside = around(graph, target, choice.within, loops, lambda _: choice.order, self.bandwidth)
        call = self._call(Problem.of(outside.sequence.model.graph, target), outside, self.goal)
        answer = self._sequence(call, outside.order if spent is None else spent.order)
        return _Placed(answer, tuple(part for part, _ in placed_ones), _seconds(outside, answer))

    def _word(self, op_id: int, axis: int) -> str:
        from lowtide.ops.labels import word_of
        from lowtide.transform.fission import access_of

        op = self.problem.graph.op_by_id[op_id]
        return word_of(op, access_of(self.problem.graph, op), axis)

    def _call(self, problem: Problem, choice: Parted, goal: OneArena) -> RecomputeCall:
        words = ("recompute",) if self.bandwidth is None else ("recompute", "swap")
        job = replace(self.job.of_graph(problem.graph), allow=words, costs=None, repeats=None, goal=goal)
        once = replace(self.once, problem=problem, order=choice.order)
        limits = self._until(_ENDING) if self.limits.interrupt.seen else self.limits.saying("placing the parts")
        host = None
        if self.bandwidth is not None:
            host = Host(self.bandwidth, choice.sequence.costs.units, self.costs.sha256, again=True)
        return RecomputeCall(job, goal, problem, choice.sequence, once, limits, host)

    def _sequence(self, call: RecomputeCall, order: Sequence[int]) -> Answer:
        from lowtide.optimize.recompute.bound import PriceBound

        answer = placed(call, order, "complete", {})
        figures = {k: v for k, v in answer.keys.get("search", {}).items() if k != "once_peak_bytes"}
        keys: PlanKeys = {**recomputation_keys(call, answer, PriceBound(0)), "search": figures}
        return replace(answer, keys=keys)

    def _around(self, loop: Loop) -> Answer:
        from lowtide.transform.fission import outer_of

        outer = outer_of(self.problem.graph, [loop])
        problem = Problem.of(outer, self.problem.target)
        search = replace(self.job.search, require_optimal=False)
        return self.goal.solve(problem, search, self._until(max(1.0, self.limits.seconds * _ORDERS)))

    def _answer(self, best: _Placed) -> Answer:
        micro = isinstance(self.job.repeats, Microbatch)
        overhead = best.seconds / self.uncut_seconds - 1 if self.uncut_seconds else 0.0
        fission = StepFission(
            parts=list(best.parts),
            families={name: _family(family) for name, family in self.families.items()},
            cost_file=self.costs.sha256,
            device=self.costs.file.device,
            uncut_seconds=self.uncut_seconds,
            predicted_seconds=best.seconds,
            overhead=overhead,
            floor_bytes=floor_bytes(self.user.graph),
            max_overhead=self.max_overhead,
            method="microbatch" if micro else "joint",
            merged=self.merged,
            **self.bound,
        )
        interrupted = self.limits.interrupt.seen or best.answer.keys["stopped"] == "interrupt"
        answer = best.answer.under(self.job.allow)
        stopped = "interrupt" if interrupted else "time" if self.limits.over() else "complete"
        figures = {**answer.keys.get("search", {}), **self.limits.tally.figures()}
        keys: PlanKeys = {**answer.keys, "fission": fission, "stopped": stopped, "proved_over": "orders"}
        keys["search"] = figures
        keys["exactness"] = "sum" if best.parts or self.merged else "bits"
        if self.job.search.require_optimal and keys["status"] == "ok":
            keys["status"] = "unproved"
        if self.max_overhead is not None and overhead > self.max_overhead + 1e-9:
            keys["status"] = "over_budget"
        budget = self.goal.budget
        if budget is not None and fission.floor_bytes + self.goal.reserve > budget:
            keys["status"] = "impossible"
        return replace(
            answer,
            keys=keys,
            own_order_peak_bytes=self.user.own_order_peak_bytes,
            schedule_seconds=self.limits.seconds - self.limits.left_seconds,
            method="microbatch" if micro else answer.method,
        )


def _family(family: CostFamily) -> PlanFamily:
    """As a plan has it."""
    fields = ("launch_seconds", "seconds_per_flop", "seconds_per_byte", "overlapped", "by_flops", "by_bytes")
    return PlanFamily(**{name: getattr(family, name) for name in fields})


def _seconds(choice: Parted, answer: Answer) -> float:
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


def floor_bytes(graph: Graph) -> int:
    """What the step needs whatever is cut or run again: all inputs that are read when it starts, all results at the
    end."""
    sizes: dict[Any, int] = {Kind.INPUT: 0, Kind.OUTPUT: 0}
    for t in graph.tensors:
        if t.kind in sizes and (t.kind is Kind.OUTPUT or t.id in graph.consumers):
            sizes[t.kind] += t.size
    return max(sizes.values())
