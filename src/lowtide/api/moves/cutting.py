"""Plans that tile: what may be changed, and the moves to tiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.moves.multi_pass import MultiPass, check_multi_pass
from lowtide.api.moves.nest_and_alias import NestTiles, TilePeak
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.rewrites import ALL, ALLOWED, RENAMED, RegionBound
from lowtide.search.driver import Move
from lowtide.stop import Limits
from lowtide.target import Target

if TYPE_CHECKING:
    from lowtide.api.moves.cut_search import CutSearch

ORDER, _BOUND, _SECTIONS = 0.2, 0.1, 0.5
"""Shares of the time after which the search for the uncut graph's order is over, that of each bound over all cuts, and
that for cuts with products by sections."""


def allowed(words: str | Iterable[str]) -> tuple[str, ...]:
    """What may be changed, as a user says it: ``"tile"``, several with commas between, or a list. Raises
    `InputError`: a word is none of `ALLOWED` nor `ALL`, or two do not go together."""
    listed = words.split(",") if isinstance(words, str) else list(words)
    known = (ALL, *ALLOWED)
    for word in listed:
        if word in RENAMED:
            raise InputError(f"--allow {word} is called --allow {RENAMED[word]} now")
        if word and word not in known:
            raise InputError(
                f"--allow does not know {word[:40]!r}; it may be {', '.join(known)}{did_you_mean(word, known)}"
            )
    if ALL in listed and set(listed) - {"", ALL}:
        raise InputError("--allow all means all of the others; name it alone")
    if "accumulate" in listed and "concat" not in listed:
        raise InputError(
            "accumulate says how sums are added up where a concat is eliminated; write --allow concat,accumulate"
        )
    for word in ("recompute-halos", "unmaterialised", "nest-tiles"):
        if word in listed and "tile" not in listed:
            raise InputError(f"{word} says how operators are tiled; write --allow tile,{word}")
    if "merge" in listed and not {"recompute", "tile"} < set(listed):
        raise InputError("merge is for products in a tiled training step; write --allow recompute,tile,merge")
    words = {word for word in listed if word}
    pairs = ({"recompute", "tile"}, {"recompute", "offload"}, {"recompute", "tile", "offload"})
    tiled = {"recompute", "tile"} <= words and not {"offload", "row-streaming"} & words
    for alone in ("recompute", "offload", "row-streaming"):
        if alone in words and not (tiled or words == {alone} or words - {"merge"} in pairs):
            raise InputError(
                f"--allow {alone} does not go with such changes in one plan yet; name it alone"
                + (", with tile or with offload" if alone == "recompute" else "")
            )
    return tuple(dict.fromkeys(word for word in listed if word))


def tile_moves(job: Job, goal: OneArena, problem: Problem, limits: Limits) -> tuple[Answer, list[Move[Answer]]]:
    """The best order, and the moves to tiles of the user's graph and of tiled graphs.

    What is proved of budgets is about orders of one graph, so that none is impossible here.

    Raises `InputError`: the model is in a format whose ops cannot be cut.
    """
    from lowtide.api.moves.cut_search import CutSearch
    from lowtide.transform.statistics import statistics

    recomputes = "recompute" in job.allow
    if recomputes:
        check_multi_pass(job, goal, problem)
        job = replace(job, costs=None if job.costs is None else job.costs.of_operations(problem.graph.dialect))
    check_format(problem, job.allow)
    timed = job.costs is not None and job.costs.timed
    if "unmaterialised" in job.allow and timed:
        raise InputError(
            "time is predicted for tiles that are concatenated; leave out unmaterialised, or --cost and --max-overhead"
        )
    if "nest-tiles" in job.allow and timed:
        raise InputError("tiles of tiles were never measured; leave out nest-tiles, or --cost and --max-overhead")
    uncut = goal.solve(problem, job.search, limits.until(ORDER))
    open_ended = uncut.keys["stopped"] == "interrupt" or uncut.above_limit  # which no bound of the peak speaks of
    bounds = [] if open_ended else _region_bounds(job, problem, uncut, limits)
    search = CutSearch(job, goal, problem, uncut, limits)
    search.joins = all(bound.bytes < uncut.keys["peak_bytes"] for bound in bounds)
    search.least = min((bound.bytes for bound in bounds), default=0)
    opening = uncut.under(job.allow)
    if job.costs is not None and timed:
        opening.keys["cost"] = job.costs.of_plan(job.costs.model(search.cutter).untiled())
    _say_bound(opening.keys, bounds)
    moves: list[Move[Answer]] = [Tile(search, bounds)]
    moves += [TilePeak(search), NestTiles(search)] if "nest-tiles" in job.allow else []
    if recomputes:  # first where norms keep operators from being tiled; within a budget tiles alone may be enough
        turn = 0 if goal.budget is None else 1
        norms = any(s.groups for s in statistics(problem.graph))
        moves.insert(turn if norms else len(moves), MultiPass(search))
    return opening, moves


@dataclass
class Tile(Move[Answer]):
    """Tiles the user's graph: its first level."""

    search: CutSearch
    bounds: Sequence[RegionBound]  # what all plans with one level need
    rejected: Answer | None = None  # the best plan with tiles, if it requires no less than the best order
    done: bool = False

    @property
    def figures(self) -> dict[str, int]:
        """Bytes of the best plan with tiles, if that is no better than the best order."""
        if self.rejected is None:
            return {}
        keys = self.rejected.keys
        return {"cut_peak_bytes": keys["peak_bytes"], "cut_required_bytes": keys["required_bytes"]}

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The best plan with one level of tiles. It builds on no other plan, and has nothing to add once it ended."""
        if self.done:
            return None
        search, peak = self.search, self.search.uncut.keys["peak_bytes"]
        search.limits = limits
        least = any(bound.bytes == peak and not bound.joined for bound in self.bounds)
        search.by_sections = _by_sections(search, least=least)
        if least and search.by_sections is None:
            self.done = True
            return None
        best = search.best_cut()
        self.unfinished, self.done = search.unfinished, not search.unfinished
        limits.interrupt.seen |= search.interrupted
        if best is None:
            return None
        before, after = ((a.above_limit, a.keys["required_bytes"]) for a in (search.uncut, best))
        if after >= before:
            self.rejected = best
            return None
        best = best.under(search.job.allow)
        if best.parts is not None and not (best.parts.earlier or best.parts.before):
            _say_bound(best.keys, self.bounds)
        return best


def _say_bound(keys: PlanKeys, bounds: Sequence[RegionBound]) -> None:
    """Say the first bound that the peak meets, else the first; what speaks of all plans comes before what speaks only
    of those whose regions join what others read."""
    met = [bound for bound in bounds if bound.bytes == keys["peak_bytes"]]
    if bounds:
        assert bounds[0].bytes <= keys["peak_bytes"], bounds
        keys["region_bound"] = (*met, bounds[0])[0]
    if met:
        keys["proved_over"] = "orders_and_joined_regions" if met[0].joined else "orders_and_regions"


def _by_sections(search: CutSearch, *, least: bool) -> CutSearch | None:
    """The search for cuts of the same graph with its products by sections; None where that is not allowed, no product
    has any, or it could not gain anything.

    It is about another graph, and comes first: it has half of the time.

    `least`: whether no cuts of the unmodified graph need less than its best order.
    """
    from lowtide.api.moves.cut_search import CutSearch
    from lowtide.transform.sections import by_sections, products

    job, problem, limits = search.job, search.problem, search.limits
    chosen = () if job.exact_bits else products(problem.graph)
    if not chosen or (search.keeps and not job.op_bytes):
        return None
    sectioned = by_sections(problem.graph, chosen)
    own = Problem.of(sectioned.graph, problem.target)
    half = limits.until(_SECTIONS)
    uncut = search.goal.solve(own, job.search, half.at_most(limits.all_seconds * ORDER))
    bounds = _region_bounds(job, own, uncut, limits) if least else []
    if any(bound.bytes >= search.uncut.keys["peak_bytes"] and not bound.joined for bound in bounds):
        return None
    return CutSearch(job, search.goal, own, uncut, half, sectioned=sectioned, user=search)


def _region_bounds(job: Job, problem: Problem, uncut: Answer, limits: Limits) -> list[RegionBound]:
    """What is needed whatever is cut, in regions of any kind, not only those that the call allows; and, where that may
    be more, in such as join what others read. None if it may do more."""
    from lowtide.analyse.liveness import profile
    from lowtide.optimize.region_bound import region_bound
    from lowtide.transform.cut import Cutter

    known = job.allow in (("tile",), ("tile", "unmaterialised"))
    if not known or problem.graph.dialect != "onnx" or partly_over(problem.target):
        return []
    footprint = [0] * len(uncut.order)
    for at, size in zip(uncut.order, profile(problem.memory, uncut.order).footprint, strict=True):
        footprint[at] = size
    bounds = []
    for joined in (False, True):
        search = limits.at_most(limits.all_seconds * _BOUND)
        cutter, goal = Cutter(problem.graph), uncut.keys["peak_bytes"]
        bounds.append(region_bound(cutter, problem.memory, footprint, goal, search, materialised=joined))
        if bounds[-1].bytes >= goal:
            break
    return bounds


def partly_over(target: Target) -> bool:
    """Whether parts of any op may lie over a part of what they read, of which the bound over regions knows nothing."""
    return target.overlap != "never" and not target.rule


def check_format(problem: Problem, allow: Sequence[str] = ()) -> None:
    """Raise `InputError` if there is nothing that spells parts in the model's format, or none that may be allowed."""
    from lowtide.ops.part import adapter

    if adapter(problem.graph) is None:
        fix = "plan it without --allow tile" if allow else "name a file of one of these formats"
        if problem.graph.dialect == "labels":
            fix = "say `--allow recompute,tile --budget 40%` for a training step whose ops have labels"
        raise InputError(f"only ONNX and TFLite models are tiled; {fix}", problem.place)
    if "concat" in allow and problem.graph.dialect != "onnx":
        raise InputError("concats are eliminated only in ONNX models; leave concat out of --allow", problem.place)
    if "unmaterialised" in allow and (problem.graph.dialect != "onnx" or problem.target.rule == "tflm"):
        raise InputError(
            "tensors stay unmaterialised only in ONNX models, and not for TFLM; leave unmaterialised out of --allow",
            problem.place,
        )
    if "nest-tiles" in allow and problem.target.rule == "tflm":
        raise InputError("tiles are not nested for TFLM; leave nest-tiles out of --allow", problem.place)
