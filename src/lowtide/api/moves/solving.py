"""Plans that change the graph: the plan that changes nothing, then a search over the moves of one family.

What the call allows decides the family (`_opening_and_moves`; a table is in `docs/architecture.md`). Families do not
mix: a plan has row streaming, or a training step in tiles, or recomputation without tiles, or levels of tiles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import FastMemory, OneArena
from lowtide.api.job import Job, check_unlimited
from lowtide.api.moves.cut_spilling import traffic_moves
from lowtide.api.moves.cutting import ORDER, tile_moves
from lowtide.api.moves.fissioning import step_moves
from lowtide.api.moves.looping import loop_moves
from lowtide.api.moves.nest_and_alias import Alias
from lowtide.api.moves.objective import objective_of
from lowtide.api.moves.recomputing import recompute_moves
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.rewrites import ALL
from lowtide.schedule.order import Fixed
from lowtide.search.driver import Incumbent, Move, search
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.transform.decision import Decision
    from lowtide.transform.parts import PartGraph


def solve_by_moves(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best plan whose changes are those that the job allows. Raises `InputError`: the model's format has none of
    these changes, or something is asked for that they have nothing to do with."""
    objective = objective_of(job)
    limits = limits.over_choices()
    check_aliases(job, problem)
    starts = _starts(job, problem, limits)
    best = min(starts, key=objective.key, default=None)
    if best is not None and objective.is_enough(best):
        return best
    opening, moves = _opening_and_moves(job, problem, limits)
    incumbent = Incumbent(objective, opening)
    for k, start in enumerate(starts):
        incumbent.offer(start, is_terminal=k > 0)
    interrupted = opening.keys["stopped"] == "interrupt" or search(incumbent, moves, limits)
    best = incumbent.best
    keys: PlanKeys = {**best.keys}
    figures = {name: figure for move in moves for name, figure in move.figures.items()}
    if figures:
        keys["search"] = {**keys.get("search", {}), **figures}
    if best is opening and keys["stopped"] in ("proof", "complete") and any(move.unfinished for move in moves):
        keys["stopped"] = "time"
    if interrupted:
        keys["stopped"] = "interrupt"
        keys["status"] = "over_budget" if keys["status"] == "impossible" else keys["status"]
    return replace(best, keys=keys)


def _opening_and_moves(job: Job, problem: Problem, limits: Limits) -> tuple[Answer, list[Move[Answer]]]:
    """The best plan that changes nothing, and the moves that a job allows, in the order of their first turns."""
    words, goal = set(job.allow), job.goal
    if isinstance(goal, FastMemory):
        return traffic_moves(job, problem, limits)
    assert isinstance(goal, OneArena), goal
    untiled = "recompute" in words and "tile" not in words
    if untiled or {"row-streaming", "offload"} & words or problem.graph.dialect == "labels":
        check_unlimited(problem.target)
    if "row-streaming" in words:
        return loop_moves(job, goal, problem, limits)
    of_step = problem.graph.dialect == "labels" or not {"offload", "merge"}.isdisjoint(words)
    if {"recompute", "tile"} <= words and of_step:
        return step_moves(job, goal, problem, limits)
    if "offload" in words or ("recompute" in words and "tile" not in words):
        return recompute_moves(job, goal, problem, limits)
    moves: list[Move[Answer]] = []
    if words == {"alias"}:
        opening = goal.solve(problem, job.search, limits.until(ORDER)).under(job.allow)
    else:
        opening, moves = tile_moves(job, goal, problem, limits)
    return opening, [*moves, *([Alias(job, goal)] if "alias" in words else [])]


def solve_order(job: Job, problem: Problem, limits: Limits) -> Answer:
    """The best order, from that of the plan that the search begins with."""
    own = problem.own_order_peak_bytes
    started = _warm(job, problem)[1]
    answer = job.goal.solve(Problem.of(started.graph, problem.target), job.search, limits)
    return replace(answer, own_order_peak_bytes=own)


def check_warm_start(job: Job) -> None:
    """Raise `InputError` if the search cannot begin with the plan that a job names."""
    plan = job.warm_start
    if plan is None:
        return
    others = {"recompute", "offload", "row-streaming", "merge"} & set(job.allow)
    if not isinstance(job.goal, OneArena) or others or job.costs is not None or plan.memories is not None:
        raise InputError(
            "warm_start is for plans of one arena, of orders, tiles and tensors in others; leave out warm_start, or "
            "memories, banks, cost, max_overhead, recompute, offload and row-streaming"
        )
    more = set(plan.allow or ()) - set(job.allow)
    if plan.rewrites and more and job.allow != (ALL,):
        raise InputError(f"the plan in warm_start may do more than this call; allow {', '.join(sorted(more))} too")


def _warm(job: Job, problem: Problem) -> tuple[Decision, PartGraph]:
    """What the plan decided that the search begins with, and its lowered graph in its order, tensors apart."""
    from lowtide.api.moves.decisions import decision_of
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


def _starts(job: Job, problem: Problem, limits: Limits) -> list[Answer]:
    """The plan that the search begins with, rebuilt without aliases, then with them; empty: there is none."""
    from lowtide.api.moves.decisions import as_rewrites

    plan = job.warm_start
    if plan is None:
        return []
    assert isinstance(job.goal, OneArena), job.goal
    decision, parts = _warm(job, problem)
    own = Problem.of(parts.graph, problem.target)
    answer = job.goal.solve(own, replace(job.search, method=Fixed()), limits)
    if decision.levels:
        keys: PlanKeys = {**answer.keys, "rewrites": [*as_rewrites(parts)], "exactness": plan.exactness}
        keys["proved_over"] = "orders"
        if plan.halos is not None:
            keys["halos"] = plan.halos
        answer = replace(answer, keys=keys, parts=parts)
    answer = replace(answer, own_order_peak_bytes=problem.own_order_peak_bytes).under(job.allow)
    return [answer, *([Alias(job, job.goal).placed(answer, decision.aliases, limits)] if decision.aliases else [])]


def check_aliases(job: Job, problem: Problem) -> None:
    """Raise `InputError` if tensors are to lie in others, and nothing is known of which may."""
    if "alias" not in job.allow:
        return
    if problem.graph.dialect not in ("onnx", "tflite"):
        raise InputError(
            "which tensors can be allocated in others is known only of ONNX and TFLite models", problem.place
        )
    if job.allow == ("alias",) and (job.max_ops or job.exact_bits or job.costs is not None):
        raise InputError(
            "--allow alias changes no op and no bit; leave out --max-ops, --exact-bits, --cost and --max-overhead"
        )
