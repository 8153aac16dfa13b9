"""Plans of training steps that tile and recompute: the best of both, within bytes or within time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.moves.bounding import bound_on_plans
from lowtide.api.moves.merging import merged_step
from lowtide.api.moves.objective import objective_of
from lowtide.api.moves.step_plans import ORDERS, Placed, StepPlans, until
from lowtide.api.moves.subsets import reached
from lowtide.api.moves.swapping import bandwidth_of, costs_of_step
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.fission_plan import PlanFamily, PlanMerge, StepFission
from lowtide.graph import Graph, Kind
from lowtide.optimize.recompute.method import Microbatch
from lowtide.optimize.step_search import StepProblem, StepSearch
from lowtide.search.driver import Move
from lowtide.stop import Limits, Progress, noting

if TYPE_CHECKING:
    from lowtide.analyse.model import MemoryModel
    from lowtide.cost.file import CostFamily
    from lowtide.cost.labelled import Families
    from lowtide.optimize.curve import Front
    from lowtide.optimize.parted import Found, Parted
    from lowtide.optimize.recompute.least_bytes import Spent
    from lowtide.transform.fission import Region

_ONCE, _SEARCHED = 0.1, 0.8
"""Shares of the time: for the step's own best order, and until which parts are sought within a bound on time."""

_MOST_OPS = 0.5  # part of the ops that the largest region has where no stretches are asked for

_FEW, _SMALLER, _ALIKE, _TREE = (2, 4, 8), 6, 0.95, 0.4
"""Of regions of the fission tree: numbers of parts, how many regions are tried, the part of the largest one's ops from
which on one is taken for it, and the share of the time after which no further one is tried."""

_SOUGHT, _PLACED = 0.55, 8
"""Within a budget: the share of the time until which parts are sought, the rest is for what fits with its arena; and
plans that are placed for that."""

_APART = 0.3  # part of the time in which a step whose siblings may be one is planned unchanged

_LATE, _AT_LEAST = 3, 1.0  # searches for what fits when the time is up, and seconds of each

_LOWEST = 3  # plans that are placed for the least arena within a bound on time


def step_moves(job: Job, goal: OneArena, problem: Problem, limits: Limits) -> tuple[Answer, list[Move[Answer]]]:
    """The step's best order, and the move to tiles and recomputation; where siblings may be one, that of the unmerged
    step in a part of the time, too. Raises `InputError`: there is neither a budget nor a bound on time, the ops say
    nothing of rows, or something asked for does not go with parts of a step."""
    from lowtide.optimize.parted import share

    _check(job, goal, problem)
    bounded = job.costs is not None and job.costs.max_overhead is not None
    if (goal.budget is None) == (not bounded):
        words = ",".join(job.allow)
        raise InputError(f"--allow {words} needs --budget or --max-overhead, and takes one of them")
    with noting(limits.interrupt):
        steps = [_Step(job, goal, problem, limits)]
        if steps[0].merged:
            apart = replace(job, allow=tuple(word for word in job.allow if word != "merge"))
            steps.append(_Step(apart, goal, problem, share(limits, limits.left_seconds * _APART)))
        moves = [TileStep(step, job.allow) for step in steps]
        opening = steps[-1].unchanged()
        fits = goal.budget is not None and opening.keys["required_bytes"] <= goal.budget
        if job.repeats is not None and not fits:  # a published method's plan is what it makes
            plans = [plan for plan in (move.propose(opening, limits) for move in moves) if plan is not None]
            return min(plans, key=objective_of(job).key, default=opening), []
    opening.keys["allow"] = list(job.allow)
    return opening, [*moves]


@dataclass
class TileStep(Move[Answer]):
    """Tiles and recomputes operators of a training step."""

    step: _Step
    allow: tuple[str, ...]
    is_terminal: bool = True

    @property
    def figures(self) -> Mapping[str, float]:
        """What was tried, and the seconds of each kind."""
        return self.step.limits.tally.figures()

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The plan of least peak within a bound on time, or of least time within the budget."""
        with noting(limits.interrupt):
            found = self.step.changed()
        self.unfinished = limits.over()
        return None if found is None else replace(found, keys={**found.keys, "allow": list(self.allow)})


def step_front(job: Job, report: Callable[[Progress], None] | None = None) -> Front:
    """Peaks of a tiled and recomputed training step, and what each adds to its time. Raises as `step_moves`."""
    from lowtide.optimize.curve import Front, FrontPoint
    from lowtide.optimize.parted import pareto_front

    problem, goal = job.problem(), job.goal
    assert isinstance(goal, OneArena), goal
    _check(job, goal, problem)
    limits = job.search.limits(None, report)
    step = _Step(job, goal, problem, limits)
    found, complete = pareto_front(step.choices(), limits)
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
    spent_seconds = limits.spent_seconds
    floor = floor_bytes(problem.memory)
    own = problem.own_order_peak_bytes
    return Front(problem.graph.name, problem.target.name, own, floor, "cost", tuple(points), complete, spent_seconds)


def _check(job: Job, goal: OneArena, problem: Problem) -> None:
    if problem.graph.dialect != "labels":
        raise InputError(
            f"--allow {','.join(job.allow)} is for training steps whose operators have labels: a graph JSON "
            "with `labels`, or zoo:magis_*; name recompute or tile alone",
            problem.place,
        )
    others = [word for word in job.allow if word not in ("recompute", "tile", "offload", "merge")]
    if others:
        raise InputError(f"--allow {others[0]} is for models, not for training steps; leave it out", problem.place)
    if job.target.rule or job.target.allocates_one_by_one:
        raise InputError(f"target {job.target.name} runs each operator of a file once; plan under --target generic")
    if job.max_ops or goal.spread or job.exact_bits:
        raise InputError(
            "--max-ops, --spread and --exact-bits are not for tiled training steps: sums over tiles are added in "
            "another order; leave them out"
        )
    if isinstance(job.repeats, Microbatch) and "offload" in job.allow:
        raise InputError(f"--method {job.repeats.name} moves nothing; leave offload out of --allow, or the method")
    if job.repeats is not None and not isinstance(job.repeats, Microbatch | StepSearch):
        raise InputError(
            f"--method {job.repeats.name} recomputes operators and tiles none; use --allow recompute with it"
        )


class _Step:
    """One call."""

    def __init__(self, job: Job, goal: OneArena, problem: Problem, limits: Limits) -> None:
        from lowtide.cost.labelled import families_of, priced

        self.job, self.goal, self.limits = job, goal, limits
        self.user = problem
        self.costs = costs_of_step(job)
        self.families: Families = families_of(self.costs.file, self.costs.place)
        self.bandwidth = bandwidth_of(self.costs) if "offload" in job.allow else None
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
        self.plans = StepPlans(job, goal, self.problem, self.once, self.bandwidth, self.costs.sha256, limits)
        self.bound: Mapping[str, Any] = {}
        if self.bandwidth is None:  # it counts no transfers
            most = None if self.max_overhead is None else self._most_seconds()
            budget = None if self.goal.budget is None else self.goal.budget - self.goal.reserve
            floor, order = floor_bytes(self.user.memory), self.once.order
            self.bound = bound_on_plans(self.problem, order, self.families, most, budget, floor, limits)

    def _order(self, problem: Problem, seconds: float) -> Answer:
        """The best order of a graph, with its arena."""
        plain = OneArena()
        method = plain.method("exact", {}) if not self.job.search.best else self.job.search.method
        search = replace(self.job.search, method=method, require_optimal=False)
        began = time.perf_counter()
        answer = plain.solve(problem, search, until(self.limits, seconds))
        self.limits.tally.add("orders", 1, began)
        self.limits.interrupt.seen |= answer.keys["stopped"] == "interrupt"
        return answer

    def _positions(self, graph: Graph) -> Sequence[int]:
        before = self.limits.interrupt.seen
        order = self._order(Problem.of(graph, self.problem.target), self.limits.seconds * ORDERS).order
        if self.limits.interrupt.seen and not before:  # the search for it ended with what it had
            raise KeyboardInterrupt
        return order

    def unchanged(self) -> Answer:
        """The unchanged step, placed."""
        return self._answer(self.plans.place(self._whole(), None))

    def changed(self) -> Answer | None:
        """The best choice, placed; within a budget what comes nearest to it. None: nothing is found within the time."""
        budget = None if self.goal.budget is None else self.goal.budget - self.goal.reserve
        begun: Sequence[Found] = ()
        whole = self._whole()
        if self.job.repeats is None:
            with self.limits.interrupt:
                begun = reached(self.plans, whole, replace(self.costs, max_overhead=self._most_added()))
        enough = budget is not None and any(whole.seconds(s) <= whole.seconds(whole.begin) for _, s in begun)
        choices = [whole] if enough or isinstance(self.job.repeats, StepSearch) else self.choices(whole)
        best: Placed | None = None
        with self.limits.interrupt:
            found = begun if enough else self._ranked(choices, budget, begun)
            best = self._lowest(found) if budget is None else self._fastest(found, budget)
        if best is None and budget is not None:
            best = self.plans.place(min(choices, key=lambda c: (c.peak(c.begin), c.count)), None)
        if best is None:
            return self.unchanged() if self.merged else None
        return self._answer(best)

    def _lowest(self, entries: Sequence[Found]) -> Placed | None:
        """Of the first few that of the smallest arena."""
        best: Placed | None = None
        for choice, spent in entries[:_LOWEST]:
            if best is not None and (choice.peak(spent) >= _room_of(best) or self.limits.over()):
                break
            placed = self.plans.place(choice, spent)
            best = placed if best is None or _room_of(placed) < _room_of(best) else best
        return best

    def _fastest(self, entries: Sequence[Found], budget: int) -> Placed | None:
        """The fastest whose arena fits: what does not fit is sought in less room, what does goes on for less time. If
        none fits, what comes nearest."""
        waiting = [(choice.seconds(spent), n, choice, spent, budget) for n, (choice, spent) in enumerate(entries)]
        best: Placed | None = None
        over, number, late = 0, len(waiting), 0
        while waiting and number < len(entries) + _PLACED:
            seconds, _, choice, spent, room = heappop(waiting)
            if best is not None and over <= 0 and seconds >= best.seconds:
                break
            began = time.perf_counter()
            placed, number = self.plans.place(choice, spent), number + 1
            self.placing_seconds = max(self.placing_seconds, time.perf_counter() - began)
            lost = _room_of(placed) - self.goal.reserve - budget
            if best is None or (max(0, lost), placed.seconds) < (max(0, over), best.seconds):
                best, over = placed, lost
            if lost > 0:  # the further below the budget, the more often it was not enough
                room -= max(lost * 3 // 2, self.problem.target.alignment, budget - room)
            else:
                room = min(budget, room - lost * 2 // 3)
            left = self.limits.left_seconds - self.placing_seconds
            late += left <= 0
            if left <= 0 and (over <= 0 or late > _LATE):
                continue
            again = self._again(choice, spent, room, max(left / 2, _AT_LEAST))
            if again is not None and (lost > 0 or choice.seconds(again) < seconds):
                heappush(waiting, (choice.seconds(again), number, choice, again, room))
        return best

    def _whole(self) -> Parted:
        from lowtide.optimize.parted import unmodified

        return unmodified(self.problem.graph, self.problem.target, self.once.order, self.bandwidth)

    def choices(self, whole: Parted | None = None) -> list[Parted]:
        """The unmodified step, and its tiled regions."""
        from lowtide.optimize.step_regions import all_but_updates, step_regions, why_no_batches

        micro = self.job.repeats if isinstance(self.job.repeats, Microbatch) else None
        if micro is None:
            return self._joint(whole or self._whole())
        found = step_regions(self.problem.graph)
        regions = [r for r in found.regions if all_but_updates(self.problem.graph, r)]
        if not regions:
            why = why_no_batches(self.problem.graph, found.refused)
            raise InputError(f"method {micro.name} cannot do this: {why}", self.user.place)
        return self._parted(regions[0], self._micro_counts(micro, regions[0].rows))

    def _joint(self, whole: Parted) -> list[Parted]:
        """The unmodified step, and tiled regions, as many as there are until Ctrl-C."""
        from lowtide.optimize.parted import part_counts
        from lowtide.optimize.step_regions import step_regions

        choices = [whole]
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
        return self.limits.until(_TREE).over()

    def _ranked(self, choices: Sequence[Parted], room: int | None, begun: Sequence[Found]) -> list[Found]:
        """What is within the budget, the fastest first; or within the time, the lowest first."""
        from lowtide.optimize.parted import least_peak, least_time

        if isinstance(self.job.repeats, Microbatch):
            return self._micro(choices, room)
        share = _SEARCHED if room is None or self.job.repeats is not None else _SOUGHT
        until = min(self.limits.seconds * share, self.limits.seconds - self.placing_seconds)
        limits = replace(self.limits, seconds=until)
        if isinstance(self.job.repeats, StepSearch):
            return list(self.job.repeats.search_step(self._step_problem(room), limits))
        if room is None:
            best = least_peak(choices, self._most_seconds(), limits, begun)
        else:
            best = least_time(choices, room, limits, begun)
        found = [*([] if best is None else best.ranked), *begun]
        return list({(id(choice), spent.order): (choice, spent) for choice, spent in found}.values())

    def _step_problem(self, room: int | None) -> StepProblem:
        graph, target, order = self.problem.graph, self.problem.target, self.once.order
        most = None if room is not None else self._most_seconds()
        return StepProblem(graph, target, order, self.families, self.bandwidth, room, most)

    def _again(self, choice: Parted, spent: Spent, room: int, seconds: float) -> Spent | None:
        """The same parts within so much room, from the sequence that there is; None if there is nothing."""
        from lowtide.optimize.recompute.least_bytes import Spent
        from lowtide.optimize.recompute.sequence import search

        shared = self.limits
        if self.job.repeats is not None or shared.interrupt.seen or room <= max(choice.rest, choice.base):
            return None
        limits = Limits(seconds, seed=shared.seed, interrupt=shared.interrupt, tally=shared.tally)
        result = search(choice.sequence, spent.order, room - choice.base, limits)
        return Spent(tuple(result.order), result.peak, result.cost) if result.found else None

    def _most_added(self) -> float | None:
        """What the step that is searched may take more, as a part of its time."""
        whole = sum(op.cost or 0.0 for op in self.problem.graph.ops)
        if self.max_overhead is None:
            return None
        return self._most_seconds() / whole - 1 if whole else 0.0

    def _most_seconds(self) -> float:
        return self.uncut_seconds * (1 + (self.max_overhead or 0.0))

    def _micro(self, choices: Sequence[Parted], room: int | None) -> list[Found]:
        """Parts alone: the fewest within the budget first, or those of least peak within the time."""
        options = [(c, c.begin) for c in choices]
        if room is None:
            within = [o for o in options if o[0].seconds(o[1]) <= self._most_seconds() * (1 + 1e-12)]
            return sorted(within, key=lambda o: o[0].peak(o[1]))
        lowest = sorted(options, key=lambda o: o[0].peak(o[1]))
        fitting = [o for o in lowest if o[0].peak(o[1]) <= room]
        return sorted(fitting, key=lambda o: o[0].seconds(o[1])) or lowest[:1]

    def _answer(self, best: Placed) -> Answer:
        method = None if self.job.repeats is None else self.job.repeats.name
        overhead = best.seconds / self.uncut_seconds - 1 if self.uncut_seconds else 0.0
        fission = StepFission(
            parts=list(best.parts),
            families={name: _family(family) for name, family in self.families.items()},
            cost_file=self.costs.sha256,
            device=self.costs.file.device,
            uncut_seconds=self.uncut_seconds,
            predicted_seconds=best.seconds,
            overhead=overhead,
            floor_bytes=floor_bytes(self.user.memory),
            max_overhead=self.max_overhead,
            method=method or "joint",
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
        if budget is not None and fission.floor_bytes + self.goal.reserve > budget and not interrupted:
            keys["status"] = "impossible"
        return replace(
            answer,
            keys=keys,
            own_order_peak_bytes=self.user.own_order_peak_bytes,
            schedule_seconds=self.limits.spent_seconds,
            method=method or answer.method,
        )


def _family(family: CostFamily) -> PlanFamily:
    """As a plan has it."""
    fields = ("launch_seconds", "seconds_per_flop", "seconds_per_byte", "overlapped", "by_flops", "by_bytes")
    return PlanFamily(**{name: getattr(family, name) for name in fields})


def _room_of(placed: Placed) -> int:
    return placed.answer.keys["required_bytes"]


def floor_bytes(memory: MemoryModel) -> int:
    """What the step needs whatever is tiled or recomputed: all inputs that are read when it starts, all results at the
    end; of those that share memory the largest."""
    held: dict[Kind, dict[int, int]] = {Kind.INPUT: {}, Kind.OUTPUT: {}}
    for t in memory.graph.tensors:
        storage = memory.storage_of.get(t.id)
        if t.kind in held and storage is not None:
            held[t.kind][storage] = max(t.size, held[t.kind].get(storage, 0))
    return max(sum(sizes.values()) for sizes in held.values())
