"""Plans of one arena whose ops are tiled, or whose tensors lie in others: the opening, then the search over moves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.api.rewrites.cutting import solve_cut
from lowtide.api.rewrites.moves import Alias, TileAgain
from lowtide.errors import InputError
from lowtide.search.driver import Incumbent, Key, Move, search
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.api.rewrites.cut_search import CutSearch

_OPENING = 0.5
"""Share of the time after which the opening ends, where a clock has to stop it, and other moves wait."""


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
    limits = limits.over_choices()
    waiting = {"rounds", "alias"} & set(job.allow)
    first = replace(limits, seconds=limits.seconds * _OPENING) if waiting else limits
    aliases, moves = Alias(job, goal), list[Move[Answer]]()
    if job.allow == ("alias",):
        opening = goal.solve(problem, job.search, first).under(job.allow)
    else:
        opening, tiles = solve_cut(job, problem, first)
        moves += [TileAgain(tiles)] if "rounds" in job.allow else []
    moves += [aliases] if "alias" in job.allow else []
    if opening.keys["stopped"] == "interrupt":
        return opening
    best, interrupted = best_by_moves(goal, opening, moves, limits)
    best = best.under(job.allow, interrupted=interrupted)
    if aliases.tried:
        figures = {"aliases_tried": aliases.tried, "aliases_least": aliases.least}
        best.keys["search"] = {**best.keys.get("search", {}), **figures}
    return best


def best_by_moves(goal: OneArena, opening: Answer, moves: list[Move[Answer]], limits: Limits) -> tuple[Answer, bool]:
    """The best plan that some moves lead to, and whether Ctrl-C ended the search."""

    def key(answer: Answer) -> Key:
        return (answer.keys["required_bytes"], len(answer.graph.ops))

    def is_enough(answer: Answer) -> bool:
        return goal.budget is not None and answer.keys["required_bytes"] <= goal.budget

    incumbent = Incumbent(key, opening)
    interrupted = search(incumbent, moves, limits, is_enough)
    return incumbent.best, interrupted


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
