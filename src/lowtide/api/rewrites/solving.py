"""Plans of one arena whose ops are tiled, or whose tensors lie in others: the opening, then the search over moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.api.rewrites.cutting import solve_cut
from lowtide.api.rewrites.moves import Alias, TileAgain
from lowtide.api.rewrites.multi_pass import MultiPass, check_multi_pass
from lowtide.errors import InputError
from lowtide.rewrites import ALL
from lowtide.schedule.order import Fixed
from lowtide.search.driver import Incumbent, Key, Move, search
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.api.rewrites.cut_search import CutSearch
    from lowtide.transform.decision import Decision
    from lowtide.transform.parts import PartGraph

_OPENING, _BEFORE_PASSES = 0.5, 0.3
"""Share of the time after which the opening ends, where a clock has to stop it, and other moves wait; recomputation is
one of them."""


def solve_by_moves(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best plan whose changes are those that the job allows.

    What is proved of budgets is about orders of one graph, so that none is impossible here.

    Raises
    ------
    InputError
        The model's format has none of these changes, or something is asked for that they have nothing to do with.
    """
    goal = job.goal
    assert isinstance(goal, OneArena), goal
    check_aliases(job, problem)
    recomputes = "recompute" in job.allow
    if recomputes:
        check_multi_pass(job, goal, problem)
        job = replace(job, costs=None if job.costs is None else job.costs.of_operations(problem.graph.dialect))
    limits = limits.over_choices()
    waiting = {"rounds", "alias", "recompute"} & set(job.allow)
    share = _BEFORE_PASSES if recomputes else _OPENING if waiting else 1.0
    first = replace(limits, seconds=limits.seconds * share)
    aliases, moves = Alias(job, goal), list[Move[Answer]]()
    starts = _starts(job, problem, aliases, limits)
    if goal.budget is not None and any(_required(start) <= goal.budget for start in starts):
        return min(starts, key=_required)
    if job.allow == ("alias",):
        opening = goal.solve(problem, job.search, first).under(job.allow)
    else:
        opening, tiles = solve_cut(job, problem, first)
        passes = MultiPass(tiles)
        moves += [passes] if recomputes else []
        moves += [TileAgain(tiles)] if "rounds" in job.allow else []
    moves += [aliases] if "alias" in job.allow else []
    if opening.keys["stopped"] == "interrupt":
        return min([opening, *starts], key=_required).under(job.allow, interrupted=True)
    best, interrupted = best_by_moves(goal, opening, moves, limits, starts)
    if best.parts is None and any(m.unfinished for m in moves if isinstance(m, MultiPass)):
        best = replace(best, keys={**best.keys, "stopped": "time"})
    best = best.under(job.allow, interrupted=interrupted)
    if aliases.tried:
        figures = {"aliases_tried": aliases.tried, "aliases_least": aliases.least}
        best.keys["search"] = {**best.keys.get("search", {}), **figures}
    return best


def best_by_moves(
    goal: OneArena, opening: Answer, moves: list[Move[Answer]], limits: Limits, starts: Sequence[Answer] = ()
) -> tuple[Answer, bool]:
    """The best plan that some moves lead to, and whether Ctrl-C ended the search.

    Parameters
    ----------
    starts
        Plans that there are beside the opening; the first can be built on.
    """

    def key(answer: Answer) -> Key:
        return (answer.keys["required_bytes"], len(answer.graph.ops))

    def is_enough(answer: Answer) -> bool:
        return goal.budget is not None and answer.keys["required_bytes"] <= goal.budget

    incumbent = Incumbent(key, opening)
    for k, start in enumerate(starts):
        incumbent.offer(start, closes=k > 0)
    interrupted = search(incumbent, moves, limits, is_enough)
    return incumbent.best, interrupted


def _required(answer: Answer) -> int:
    return answer.keys["required_bytes"]


def solve_order(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best order, from that of the plan that the search begins with."""
    own = problem.own_order_peak_bytes
    started = _begun(job, problem)[1]
    answer = job.goal.solve(Problem.of(started.graph, problem.target), job.search, limits)
    return replace(answer, own_order_peak_bytes=own)


def check_warm_start(job: Job) -> None:
    """Raise `InputError` if the search cannot begin with the plan that a job names."""
    plan = job.warm_start
    if plan is None:
        return
    others = {"recompute", "swap", "loops", "merge"} & set(job.allow)
    if not isinstance(job.goal, OneArena) or others or job.costs is not None or plan.memories is not None:
        raise InputError(
            "warm_start is for plans of one arena, of orders, tiles and tensors in others; leave out warm_start, or "
            "memories, banks, cost, max_overhead, recompute, swap and loops"
        )
    more = set(plan.allow or ()) - set(job.allow)
    if plan.rewrites and more and job.allow != (ALL,):
        raise InputError(f"the plan in warm_start may do more than this call; allow {', '.join(sorted(more))} too")


def _begun(job: Job, problem: Problem) -> tuple[Decision, PartGraph]:
    """What the plan decided that the search begins with, and its lowered graph in its order, tensors apart."""
    from lowtide.api.rewrites.decisions import decision_of
    from lowtide.transform.lower import lower

    plan, graph = job.warm_start, problem.graph
    assert plan is not None
    if plan.model_sha256 != graph.sha256:
        raise InputError("the plan in warm_start is of another model", problem.place)
    decision = decision_of(plan, graph, problem.target)
    try:
        return decision, lower(graph, replace(decision, aliases=()))
    except ValueError as error:
        raise InputError(f"the plan in warm_start is of another model: {error}", problem.place) from None


def _starts(job: Job, problem: Problem, aliases: Alias, limits: Limits) -> list[Answer]:
    """The plan that the search begins with, made again: without tensors in others, then with them; empty: there is
    none."""
    from lowtide.api.rewrites.decisions import as_rewrites

    plan = job.warm_start
    if plan is None:
        return []
    decision, parts = _begun(job, problem)
    own = Problem.of(parts.graph, problem.target)
    answer = aliases.goal.solve(own, replace(job.search, method=Fixed()), limits)
    if decision.levels:
        keys: PlanKeys = {**answer.keys, "rewrites": [*as_rewrites(parts)], "exactness": plan.exactness}
        keys["proved_over"] = "orders"
        if plan.halos is not None:
            keys["halos"] = plan.halos
        answer = replace(answer, keys=keys, parts=parts)
    answer = replace(answer, own_order_peak_bytes=problem.own_order_peak_bytes).under(job.allow)
    return [answer, *([aliases.placed(answer, decision.aliases, limits)] if decision.aliases else [])]


def tiled_again(search: CutSearch, limits: Limits) -> Answer | None:
    """The best plan of a search for tiles, its tiles tiled again; None: there is none, or Ctrl-C came first."""
    search.limits = replace(limits, seconds=limits.seconds * _OPENING)
    opening = search.best_cut()
    if opening is None:
        return None
    best, search.interrupted = best_by_moves(search.goal, opening, [TileAgain(search)], limits)
    return best


def check_aliases(job: Job, problem: Problem) -> None:
    """Raise `InputError` if tensors are to lie in others, and nothing is known of which may."""
    if "alias" not in job.allow:
        return
    if problem.graph.dialect not in ("onnx", "tflite"):
        raise InputError("only of ONNX and TFLite models is known which bytes are pieces of which", problem.place)
    if job.allow == ("alias",) and (job.max_ops or job.exact_bits or job.costs is not None):
        raise InputError(
            "--allow alias changes no op and no bit; leave out --max-ops, --exact-bits, --cost and --max-overhead"
        )
