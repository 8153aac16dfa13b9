"""Plans in which tensors lie in others: the best order first, then which pieces lie in their wholes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.api.rewrites.cutting import solve_cut
from lowtide.errors import InputError
from lowtide.rewrites import LiesIn
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.transform.alias import Aliases

_UNCHANGED, _SEARCH = 0.2, 0.7
"""Shares of the time after which the search for an order without aliases, and that for aliases end."""
_CUT, _BEHIND_CUTS = 0.8, 0.9
"""The same where ops are cut, which takes most of it."""


def solve_aliased(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best plan with tensors in others, or without if that needs no more.

    What is proved of budgets is about orders of one choice of aliases, so that none is impossible here.

    Raises
    ------
    InputError
        What the model's ops read and make is not known, or something is asked for that aliases have nothing to do with.
    """
    goal = job.goal
    assert isinstance(goal, OneArena), goal
    _check(job, problem)
    limits = limits.over_choices()
    cuts = replace(limits, seconds=limits.seconds * _CUT)
    plain = replace(limits, seconds=limits.seconds * _UNCHANGED)
    alone = job.allow == ("alias",)
    without = goal.solve(problem, job.search, plain) if alone else solve_cut(job, problem, cuts)
    within = goal.budget is not None and without.keys["required_bytes"] <= goal.budget
    if within or without.keys["stopped"] == "interrupt":
        return _with_keys(job, without, {})
    return _best(job, goal, problem, without, limits)


def _best(job: Job, goal: OneArena, problem: Problem, without: Answer, limits: Limits) -> Answer:
    """The best plan; where the first choice within a budget has an arena above it, of the best choice."""
    from lowtide.optimize.aliases import best_aliases

    until = _SEARCH if job.allow == ("alias",) else _BEHIND_CUTS
    best, share = without, replace(limits, seconds=limits.seconds * until)
    graph = without.problem.graph
    for enough in dict.fromkeys((goal.room(problem) or 0, 0)):
        found = best_aliases(graph, problem.target, without.order, share, enough=enough, seed=job.search.seed)
        figures: dict[str, int | bool] = {"aliases_tried": found.tried, "aliases_least": found.least}
        if found.interrupted:
            return _with_keys(job, best, figures, interrupted=True)
        if found.aliases:
            best = min(best, _placed(job, goal, without, found.aliases, limits), key=_required)
        if best is not without:
            figures["unaliased_peak_bytes"] = without.keys["peak_bytes"]
        best = _with_keys(job, best, figures)
        if goal.budget is not None and _required(best) <= goal.budget:
            break
    return best


def _required(answer: Answer) -> int:
    return answer.keys["required_bytes"]


def _placed(job: Job, goal: OneArena, without: Answer, aliases: Aliases, limits: Limits) -> Answer:
    """The plan of a choice, for the graph of the plan without."""
    from lowtide.transform.alias import apply

    before, target = without.problem, without.problem.target
    aliased = Problem.of(apply(before.graph, target, aliases).graph, target)
    answer = goal.solve(aliased, job.search, limits)
    keys: PlanKeys = {
        **answer.keys,
        "rewrites": [*(without.keys.get("rewrites") or ()), *as_rewrites(aliased, aliases)],
        "proved_over": "orders",
        "exactness": without.keys.get("exactness") or "bits",
        "search": {**without.keys.get("search", {}), **answer.keys.get("search", {})},
    }
    if "cost" in without.keys:
        keys["cost"] = without.keys["cost"]
    own = without.own_order_peak_bytes
    own = before.own_order_peak_bytes if own is None else own
    return replace(answer, keys=keys, own_order_peak_bytes=own, parts=without.parts)


def _with_keys(job: Job, answer: Answer, figures: dict[str, int | bool], *, interrupted: bool = False) -> Answer:
    answer = answer.under(job.allow, interrupted=interrupted)
    answer.keys["search"] = {**answer.keys.get("search", {}), **figures}
    return answer


def _check(job: Job, problem: Problem) -> None:
    if problem.graph.dialect not in ("onnx", "tflite"):
        raise InputError("only of ONNX and TFLite models is known which bytes are pieces of which", problem.place)
    if job.allow == ("alias",) and (job.max_ops or job.exact_bits or job.costs is not None):
        raise InputError(
            "--allow alias changes no op and no bit; leave out --max-ops, --exact-bits, --cost and --max-overhead"
        )


def as_rewrites(problem: Problem, aliases: Aliases) -> list[LiesIn]:
    """What a plan says was decided."""
    rewrites: list[LiesIn] = []
    for alias in aliases:
        by_rows = alias.run < problem.graph.tensor_by_id[alias.tensor].size
        rows = (alias.run, alias.pitch) if by_rows else (None, None)
        entry = LiesIn(tensor=alias.tensor, of=alias.of, op=alias.op, offset=alias.first, run=rows[0], pitch=rows[1])
        rewrites.append(entry)
    return rewrites
