"""A move: tiles and recomputed operators, with statistics over tiled rows in passes of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.rewrites import Recomputation, Recompute
from lowtide.schedule.order import Fixed
from lowtide.search.driver import Move
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.api.moves.cut_search import CutSearch
    from lowtide.optimize.checkpoints import Checkpoints, Run
    from lowtide.transform.passed import Passed

_PLAN = 0.3  # share of a turn that is left for the plan once the search for passes has to end
_LARGE = 5000  # parts above which their own order is kept, which runs one stripe after another
_ROOM = (1.0, 0.99, 0.97, 0.94)
"""Parts of a budget that the bytes live at once may take, until the arena is within it, too."""


@dataclass
class MultiPass(Move[Answer]):
    """Recomputes operators, and statistics over tiled rows in passes of their own: a level of the user's graph.

    Nothing of the plan that it is to better is kept, since such a level changes the graph before it is tiled.
    """

    tiles: CutSearch  # the search for tiles of the user's graph

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """What is known of the segments of the best order, from turn to turn."""
        from lowtide.optimize.checkpoints import Checkpoints

        problem = self.tiles.problem
        order = tuple(problem.graph.ops[i].id for i in self.tiles.uncut.order)
        return Checkpoints(problem.memory, order, self.tiles.limits)

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The plan of least work within the budget, or the lowest within the bound on the work."""
        job, goal, checkpoints = self.tiles.job, self.tiles.goal, self.checkpoints
        checkpoints.limits, checkpoints.cut_short = limits.share(1 - _PLAN), False
        bound = most_overhead(job)
        most = None if bound is None else int(Fraction(str(bound)) * checkpoints.flops)
        best = _passed(job, goal, checkpoints, base, most, limits)
        self.unfinished = checkpoints.cut_short
        if best is base:
            return None
        figures = {
            **best.keys.get("search", {}),
            "segments_tried": checkpoints.tried,
            "uncut_peak_bytes": self.tiles.uncut.keys["peak_bytes"],
        }
        keys: PlanKeys = {**best.keys, "search": figures, "recomputation": _work(self.tiles, best)}
        return replace(best, keys=keys).under(job.allow)


def most_overhead(job: Job) -> float | None:
    """The part of the model's operations that may be recomputed; None: any."""
    return None if job.costs is None else job.costs.max_overhead


def _passed(
    job: Job, goal: OneArena, checkpoints: Checkpoints, best: Answer, most: int | None, limits: Limits
) -> Answer:
    """The best plan with passes, or the one that there is."""
    from lowtide.optimize.checkpoints import least

    room = goal.arena_budget(best.problem) if goal.budget is not None else None
    for budget in () if room is None else (int(room * share) for share in _ROOM):
        runs = checkpoints.way(budget, most)
        if runs is None:
            break
        answer = _answer(job, goal, checkpoints, runs, limits)
        best = min(best, answer, key=lambda a: a.keys["required_bytes"])
        if best.keys["status"] == "ok":
            return best
    if room is None or best.keys["status"] != "ok":  # as low as it gets
        runs = least(checkpoints, best.keys["peak_bytes"], most)
        if runs is not None:
            best = min(best, _answer(job, goal, checkpoints, runs, limits), key=lambda a: a.keys["required_bytes"])
    return best


def _answer(job: Job, goal: OneArena, checkpoints: Checkpoints, runs: list[Run], limits: Limits) -> Answer:
    """The plan of some segments."""
    from lowtide.api.moves.decisions import as_rewrites, exactness
    from lowtide.transform.cut import Cutter

    user = checkpoints.memory.graph
    passed: Passed = checkpoints.applied(runs)
    problem = Problem.of(passed.parts.graph, checkpoints.memory.target)
    search = job.search
    if len(passed.parts.graph.ops) > _LARGE:
        search = replace(search, method=Fixed())
    answer = goal.solve(problem, search, limits)
    cutter = Cutter(passed.runs.graph)
    keys: PlanKeys = {
        **answer.keys,
        "rewrites": [*as_rewrites(passed.parts)],
        "exactness": exactness(cutter, passed.parts),
        "proved_over": "orders",
    }
    own = Problem.of(user, checkpoints.memory.target).own_order_peak_bytes
    return replace(answer, keys=keys, parts=passed.parts, own_order_peak_bytes=own)


def _work(tiles: CutSearch, answer: Answer) -> Recomputation:
    """What the recomputed operators cost."""
    graph = tiles.problem.graph
    of = {r.op: r.of for r in answer.keys.get("rewrites") or () if isinstance(r, Recompute)}
    once = sum(op.flops or 0 for op in graph.ops)
    more = 0
    for op in of:
        root = op
        while root in of:
            root = of[root]
        own = graph.op_by_id.get(root)
        more += 0 if own is None else own.flops or 0
    return Recomputation(
        counted="flops", once=once, planned=once + more, lower_bound=once, max_overhead=most_overhead(tiles.job)
    )


def check_multi_pass(job: Job, goal: OneArena, problem: Problem) -> None:
    """Raise `InputError` if operators cannot be recomputed with tiles, or nothing bounds work or memory."""
    bounded = job.costs is not None and job.costs.max_overhead is not None
    if goal.budget is None and not bounded:
        raise InputError(
            "--allow tile,recompute trades work for memory within a budget, or memory for work within a bound; name "
            "one, as with --budget 20% or --max-overhead 200%"
        )
    if problem.graph.dialect != "onnx":
        what = "ONNX models, and training steps whose ops have labels (zoo:magis_*),"
        raise InputError(f"only {what} can be tiled with recomputation; name recompute or tile alone", problem.place)
    if job.exact_bits:
        raise InputError("--allow tile,recompute adds up in another order; leave out --exact-bits, or recompute")
    if job.max_ops or goal.spread or job.repeats is not None or (job.costs is not None and job.costs.given):
        raise InputError(
            "--max-ops, --spread, --cost and published methods are not for --allow tile,recompute; leave them out"
        )
