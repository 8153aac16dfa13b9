"""The search for tiles: from the best order to concat elimination and regions, and orders of the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from lowtide.analyse.liveness import largest_single_op
from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.moves.cut_orders import PartOrders, Proposal
from lowtide.api.moves.decisions import as_rewrites, exactness, looser
from lowtide.api.moves.peak_rounds import PeakTiles
from lowtide.api.problem import Problem
from lowtide.graph import MAX_BYTES, Graph
from lowtide.rewrites import Exactness, PlanHalos, Sections
from lowtide.stop import PATIENCE_SECONDS, Limits
from lowtide.transform.decision import Level

if TYPE_CHECKING:
    from lowtide.cost.model import CostModel
    from lowtide.optimize.regions import Way
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import PartGraph
    from lowtide.transform.seams import Elimination
    from lowtide.transform.sections import Sectioned

_SEARCH = 0.6  # share of the time after which the search for regions is over
_MATERIALISED = 0.3
"""The same where regions may hand on what they make, for which the rest of `_SEARCH` is; and until when the search for
regions that join it has to be through for that, where it is not asked for by name."""
_SEAMS, _BOTH = 0.75, 0.85  # the same for concat elimination, and for regions in what it left untiled
_FIRST = 0.7  # share of the time that is left for the first of several part graphs
_LATE = 0.25  # share of what time is left that a search for regions or concat elimination has at the least
_LAST = 0.5  # time for the last order of a part graph and its arena, for each second that all before took
_NESTED = 0.6  # share of a later round's time that the search for its regions has
_ONCE = 0.5
"""Share of the time of a search that rows may run again in which is left when that for rows that are kept is over."""
_TRIED = 6  # ways to cut that are planned to the end where more than the peak counts


@dataclass
class CutSearch:
    """Searches for the cuts that a job allows."""

    job: Job
    goal: OneArena
    problem: Problem
    uncut: Answer  # the best plan without cuts
    limits: Limits
    interrupted: bool = False  # whether Ctrl-C ended a search
    # What the problem's graph is of the user's own, if products of it run by sections.
    sectioned: Sectioned | None = None
    user: CutSearch | None = None  # the search for cuts of the user's own graph, if it is not this one
    # The search for cuts of the same graph with its products by sections, if there is one; its plans count, too.
    by_sections: CutSearch | None = None
    first: PartGraph | None = None  # what was cut before, if the problem's graph is in parts already
    unfinished: bool = False  # whether time ended the search for regions or for concats to eliminate
    joins: bool = True  # whether regions that join what others read could need less than the best order
    least: int = 0  # bytes that no cuts go below

    @cached_property
    def cutter(self) -> Cutter:
        """What the graph's ops mean."""
        from lowtide.transform.cut import Cutter

        graph = self.problem.graph
        overlap = self.first is not None and any(op.overwrites is not None for op in graph.ops)
        only = {op.id for op in graph.ops if op.overwrites is None} if overlap else None
        return Cutter(graph, exact_bits=self.job.exact_bits, only=only, recompute="recompute-halos" in self.job.allow)

    @cached_property
    def _costs(self) -> CostModel | None:
        """What ops take, where the job says so."""
        return None if self.job.costs is None else self.job.costs.model(self.cutter)

    @cached_property
    def _most_nanoseconds(self) -> int:
        """What a plan may take by the costs; 0: any time."""
        if self.job.costs is None or self._of_user._costs is None:
            return 0
        return self.job.costs.most_nanoseconds(self._of_user._costs.untiled())

    @property
    def _of_user(self) -> CutSearch:
        """The search for cuts of the user's own graph."""
        return self if self.user is None else self.user

    def _in_time(self, parts: PartGraph) -> bool:
        """Whether parts are predicted to keep within the time that they may take."""
        most = self._most_nanoseconds
        return self._costs is None or not most or self._costs.parts(parts).nanoseconds <= most

    @cached_property
    def keeps(self) -> bool:
        """Whether the runtime keeps bytes for each op in addition to what is planned."""
        return bool(self._kept(self.problem.graph))

    @property
    def _few_ops(self) -> bool:
        """Whether the peak counts alone, within a number of ops that bounds what the runtime keeps for them."""
        return bool(self.job.max_ops) and not self.job.op_bytes

    def _kept(self, graph: Graph) -> int:
        """Bytes for a graph's ops in addition to what is planned."""
        return runtime_bytes(self.problem, graph) + self.job.op_bytes * len(graph.ops)

    def _required(self, answer: Answer) -> int:
        """Bytes that a plan requires, those of its ops among them."""
        return answer.keys["required_bytes"] + self.job.op_bytes * len(answer.graph.ops)

    def _rank(self, answer: Answer) -> tuple[int, int, int]:
        """Less is better: bytes of a tensor above its limit; then bytes in all; within so many ops, where the runtime
        keeps bytes for each, the peak, as long as all of it is below what is needed without cuts."""
        required, above = self._required(answer), answer.above_limit
        if not self._few_ops or self.goal.budget is not None or not self.keeps:
            return (above, required, 0)
        return (above, int(required >= self._required(self.uncut)), answer.keys.get("arena_bytes") or 0)

    def _pruned(self, proposal: Proposal, best: Answer) -> bool:
        """Whether no order of some parts gives a better plan than there is: one op alone needs as much."""
        if not self.keeps or best.above_limit:
            return False
        if proposal.above_limit:
            return True
        least = largest_single_op(proposal.problem.memory)
        if self._few_ops:
            return least >= (best.keys.get("arena_bytes") or 0)
        return least + proposal.runtime_bytes >= self._required(best)

    def seams(self) -> list[PartGraph]:
        """The best concat elimination, if there is one, and if regions are allowed too, those of the rest."""
        seamed = self._seams()
        if seamed is None:
            return []
        regions = self._regions(seamed) if "tile" in self.job.allow and not self.interrupted else []
        return [proposal.parts for proposal in (seamed, *regions)]

    def best_cut(self) -> Answer | None:
        """The best plan with cuts, the most promising tried first; None once Ctrl-C has ended a search."""
        proposals = self._all_proposals()
        if self.interrupted:
            return None
        best: Answer | None = None
        for k, (search, proposal) in enumerate(proposals):
            if k and self.limits.over():
                break
            if best is not None and self._pruned(proposal, best):
                continue
            share = 1.0 if k + 1 == len(proposals) else 1.0 / (len(proposals) - k) if self.keeps else _FIRST
            answer = search._answer(proposal, self.limits.share(share))
            best = answer if best is None else min(best, answer, key=self._rank)
            if self.goal.budget is not None and answer.keys["status"] == "ok":
                break
        return best

    def _all_proposals(self) -> list[tuple[CutSearch, Proposal]]:
        """Cuts of this search and of the other, the most promising first; where either will do, those of this one."""
        other = self.by_sections
        others = [] if other is None else [(other, p) for p in other.sections_alone() + other._proposals()]
        if other is not None:
            self.interrupted = other.interrupted
            self.unfinished = other.unfinished
        proposals: list[tuple[CutSearch, Proposal]] = []
        if not self.interrupted:
            proposals = [(self, p) for p in self._proposals()]
        if not others:
            return proposals
        room = self.goal.arena_budget(self.problem) or 0
        return sorted(
            [*proposals, *others],
            key=lambda each: (each[1].above_limit, max(room, each[1].required if self.keeps else each[1].peak)),
        )

    def sections_alone(self) -> list[Proposal]:
        """Products by sections and no cuts, if that alone is less than the user's own graph needs."""
        from lowtide.transform.parts import apply

        fewer = self.uncut.keys["peak_bytes"] < self._of_user.uncut.keys["peak_bytes"]
        if not fewer or 0 < self.job.max_ops < len(self.problem.graph.ops):
            return []
        return [self._proposal(apply(self.cutter, ()), self.uncut.keys["peak_bytes"], {})]

    def _proposals(self) -> list[Proposal]:
        """Concat elimination, regions, and both, the most promising first.

        Where the runtime keeps bytes for each op, those that need the fewest bytes in all; within a number of ops that
        was asked for, those of the lowest peak that need fewer than without cuts; within a budget those of fewest ops.
        """
        before, left = self.unfinished, self.limits.left_seconds
        self.unfinished = False
        proposals = self._regions(None) if "tile" in self.job.allow and self.joins else []
        soon = not self.unfinished and left - self.limits.left_seconds <= _MATERIALISED * self.limits.all_seconds
        self.unfinished = self.unfinished or before
        if self._forwards(proposals, soon=soon):
            peaks = [
                (self.uncut.keys["peak_bytes"], self.uncut.above_limit),
                *((p.peak, p.above_limit) for p in proposals),
            ]
            proposals += self._forwarded(min(peak + MAX_BYTES * above for peak, above in peaks))
        seamed = self._seams() if "concat" in self.job.allow and not self.interrupted else None
        if seamed is not None:
            proposals.append(seamed)
            proposals += self._regions(seamed) if "tile" in self.job.allow and not self.interrupted else []
        proposals = [p for p in proposals if self._in_time(p.parts)]
        if not self.keeps:
            return sorted(proposals, key=lambda p: (p.above_limit, p.peak))
        room = None if self.goal.budget is None else self.goal.budget - self.goal.reserve
        less = [p for p in proposals if p.required < self._required(self.uncut)]
        less = proposals if self.uncut.above_limit or not less else less

        def promise(proposal: Proposal) -> tuple[int, int, int]:
            above = proposal.above_limit
            if room is not None and proposal.required <= room:
                return (above, 0, proposal.ops)
            return (above, proposal.peak if self._few_ops and room is None else proposal.required, proposal.ops)

        return sorted(less, key=promise)[:_TRIED]

    def _proposal(self, parts: PartGraph, peak: int, figures: dict[str, int]) -> Proposal:
        problem = Problem.of(parts.graph, self.problem.target)
        if self.keeps:  # the peak in turn, an order that is there without a search
            peak = problem.own_order_peak_bytes
        return Proposal(parts, problem, peak, self._kept(parts.graph), figures)

    def _seams(self) -> Proposal | None:
        """The best concat elimination; None: none lowers the peak."""
        from lowtide.optimize.seams import best_elimination

        search = self._until(_SEAMS)
        best = best_elimination(
            self.cutter,
            self.problem.memory,
            self.uncut.order,
            search,
            accumulate="accumulate" in self.job.allow or self.problem.target.rule == "onnxruntime",
            enough=self.goal.arena_budget(self.problem) or 0,
            most_ops=self.job.max_ops,
        )
        self.interrupted = self.interrupted or best.interrupted
        self.unfinished = self.unfinished or search.over()
        if best.parts is None:
            return None
        return replace(self._proposal(best.parts, best.peak, {"seams_tried": best.tried}), order=best.order)

    def _forwards(self, others: Sequence[Proposal], *, soon: bool) -> bool:
        """Whether to look for regions that forward slices, which takes longer: when the other search is soon through,
        and a budget is not met by its regions; with `unmaterialised` when there is time; wherever a tensor is above its
        limit."""
        job, graph = self.job, self.problem.graph
        too_large = min([self.uncut.above_limit, *(p.above_limit for p in others)]) > 0
        if self.interrupted or "tile" not in job.allow or self.first is not None:
            return False
        kept = self.problem.target.rule == "tflm" if too_large else self.keeps
        if graph.dialect != "onnx" or kept or (job.costs is not None and job.costs.timed):
            return False
        room = self.goal.arena_budget(self.problem)
        met = self.goal.budget is not None and room is not None and any(p.peak <= room for p in others)
        return "unmaterialised" in job.allow or too_large or (soon and not met)

    def _forwarded(self, below: int) -> list[Proposal]:
        """The best regions along the best order that forward slices to others, if they need less than some bytes."""
        from lowtide.optimize.handed import best_forwarded
        from lowtide.optimize.regions import Bounds

        search = self._until(_SEARCH)
        bounds = Bounds(self.goal.arena_budget(self.problem) or 0, self.job.max_ops, self._most_nanoseconds)
        best, interrupted = best_forwarded(self.cutter, self.problem.memory, self.uncut.order, search, below, bounds)
        self.interrupted = self.interrupted or interrupted
        if best is None or interrupted or (0 < self.job.max_ops < len(best.parts.graph.ops)):
            return []
        return [self._proposal(best.parts, best.peak, {"regions": best.evaluated})]

    def _regions(self, seamed: Proposal | None) -> list[Proposal]:
        """The best regions along the best order, of what concat elimination left if there is one."""
        from lowtide.transform.cut import Cutter
        from lowtide.transform.seams import NO_ELIMINATION

        problem, cutter = self.problem, self.cutter
        order, seams, origins = self.uncut.order, NO_ELIMINATION, [op.id for op in problem.graph.ops]
        if seamed is not None:
            seams, problem = seamed.parts.elimination, seamed.problem
            whole = {op.id for op in problem.graph.ops} - seamed.parts.parts.keys()
            cutter = Cutter(problem.graph, exact_bits=self.job.exact_bits, only=whole, recompute=cutter.recompute)
            order = tuple(problem.graph.index_of[o] for o in seamed.order)
            of = seamed.parts.parts
            origins = [op.id if op.id not in of else of[op.id].of for op in problem.graph.ops]
        alone = _MATERIALISED if "unmaterialised" in self.job.allow else _SEARCH
        search = self._until(alone if seamed is None else _BOTH)
        ways = self._ways(cutter, problem, order, search)
        complete = all(way.complete for way in ways)
        self.interrupted = self.interrupted or (not complete and not search.over())
        self.unfinished = self.unfinished or not complete
        if self.interrupted:
            return []

        def listed(way: Way) -> list[int]:
            ids = dict.fromkeys(origins[i] for i in reversed(way.order))
            return [o for o in reversed(ids) if o is not None]

        before = {} if seamed is None else seamed.figures
        return [
            self._proposal(
                _applied(self.cutter, way, seams, listed(way)), way.peak, {**before, "regions": way.evaluated}
            )
            for way in ways
            if way.regions and (not self.keeps or not self.job.max_ops or way.ops <= self.job.max_ops)
        ]

    def _ways(self, cutter: Cutter, problem: Problem, order: Sequence[int], limits: Limits) -> list[Way]:
        from lowtide.optimize.regions import Bounds, best_regions, front_ways

        cost = self._costs
        if self.job.costs is not None and cutter is not self.cutter:
            cost = self.job.costs.model(cutter)
        once = cutter.without_recompute() if cutter.recompute else None
        if self.keeps:
            cost = None if self.job.op_bytes else cost  # what takes too long is left out later
            ways = front_ways(cutter, problem.memory, order, limits, cost)
            if once is not None:  # rows that are kept may need fewer bytes for each op; they add no operations
                timed = self.job.costs is not None and self.job.costs.timed
                ways += front_ways(once, problem.memory, order, limits, cost if timed else None)
            if problem.target.overlap != "never":  # the core takes what may lie over what it reads for one op with that
                apart = Problem.of(problem.graph, replace(problem.target, overlap="never"))
                ways += front_ways(cutter, apart.memory, order, limits, cost)
            return list({way.regions: way for way in ways}.values())
        bounds = Bounds(self.goal.arena_budget(self.problem) or 0, self.job.max_ops, self._most_nanoseconds)
        ways = []
        if once is not None:  # nothing is recomputed where that gains nothing, or time is short
            half = limits.share(1 - _ONCE)
            timed = self.job.costs is not None and self.job.costs.timed
            free = bounds if timed else replace(bounds, most_nanoseconds=0)  # kept rows add no operations
            kept = best_regions(once, problem.memory, order, half, free, cost if timed else None)
            ways.append(replace(kept, complete=kept.complete or half.over()))
        return [*ways, best_regions(cutter, problem.memory, order, limits, bounds, cost)]

    def _until(self, share: float) -> Limits:
        """Limits of a search that is over after a share of the time, or of what is left where little of it is."""
        late = self.limits.share(_LATE if self.first is None else _NESTED)
        return max(self.limits.until(share), late, key=lambda limits: limits.all_seconds)

    def best_at_peak(self) -> Answer | None:
        """The best plan with tiles where the order of `uncut` is highest; None: there is none, or Ctrl-C came first."""
        enough = max(self._of_user.least, self.goal.arena_budget(self.problem) or 0)
        tiles = PeakTiles(self.cutter, self.problem, self.uncut.order, enough, self.job.max_ops)
        proposal = tiles.lowest(self.limits)
        self.interrupted = self.interrupted or tiles.interrupted
        return None if proposal is None or self.interrupted else self._planned(proposal, self.limits)

    def _answer(self, proposal: Proposal, limits: Limits) -> Answer:
        """The best plan of a part graph."""
        if not self.keeps:
            orders = PartOrders(self.job, self.goal, self.cutter, self.problem.memory, self._in_time, self.least)
            proposal = orders.improved(proposal, limits)
            self.interrupted = self.interrupted or orders.interrupted
        return self._planned(proposal, limits)

    def _planned(self, proposal: Proposal, limits: Limits) -> Answer:
        """The plan of a part graph."""
        parts, exact = self._of_all_levels(proposal.parts)
        regions = proposal.parts.regions
        patient = self.goal.budget is None
        if patient:
            limits = limits.at_most(max(PATIENCE_SECONDS, _LAST * limits.spent_seconds))
        from lowtide.transform.halos import halos_of

        answer, user = self.goal.solve(proposal.problem, self.job.search, limits), self._of_user
        search_keys = {"uncut_peak_bytes": user.uncut.keys["peak_bytes"], **proposal.figures}
        keys: PlanKeys = {
            **answer.keys,
            "rewrites": [*as_rewrites(parts)],
            "exactness": exact,
            "proved_over": "orders",
            "search": {**answer.keys.get("search", {}), **search_keys},
        }
        if "recomputation" in self.uncut.keys:
            keys["recomputation"] = self.uncut.keys["recomputation"]
        halos = self._halos(halos_of(self.cutter, regions))
        if halos is not None:
            keys["halos"] = halos
        if self.job.costs is not None and self.job.costs.timed and self._costs is not None and user._costs is not None:
            keys["cost"] = self.job.costs.of_plan(user._costs.untiled(), self._costs.parts(parts))
        if patient and keys["stopped"] == "time" and not self.limits.over():
            keys["stopped"] = "stalled"
        before, own = user.uncut.keys.get("runtime_parts"), keys.get("runtime_parts")
        if before is not None and own is not None:
            keys["runtime_parts"] = msgspec.structs.replace(own, own_planned=before.own_planned)
        return replace(answer, keys=keys, parts=parts, own_order_peak_bytes=user.problem.own_order_peak_bytes)

    def _halos(self, own: PlanHalos | None) -> PlanHalos | None:
        """What recomputed halos add, in this level of tiles and in those before, of what the first one tiles."""
        before = self.uncut.keys.get("halos")
        if self.first is None or (own is None and before is None):
            return own
        from lowtide.transform.cut import Cutter
        from lowtide.transform.halos import macs_of
        from lowtide.transform.lower import base_of

        extra = (0 if own is None else own.extra_macs) + (0 if before is None else before.extra_macs)
        if before is not None:
            return PlanHalos(macs=before.macs, extra_macs=extra)
        bottom = (self.first.earlier or (self.first,))[0]
        sections = tuple(r.op for r in bottom.before if isinstance(r, Sections))
        base = base_of(self._of_user.problem.graph, Level(products=sections))
        return PlanHalos(macs=macs_of(Cutter(base.graph)), extra_macs=extra)

    def _of_all_levels(self, parts: PartGraph) -> tuple[PartGraph, Exactness | None]:
        """Parts with the levels before them, and what outputs may differ by."""
        from lowtide.transform.rounds import nested
        from lowtide.transform.sections import of_user

        if self.sectioned is not None:
            parts = of_user(parts, self.sectioned)
        exact = exactness(self.cutter, parts)
        if self.first is None:
            return parts, exact
        return nested(self.first, parts), looser(exact, self.uncut.keys.get("exactness"))


def _applied(cutter: Cutter, way: Way, seams: Elimination, order: Sequence[int]) -> PartGraph:
    from lowtide.transform.seam_parts import apply_with_elimination
    from lowtide.transform.tflite_file import with_file

    return with_file(apply_with_elimination(cutter, way.regions, seams, order))


def runtime_bytes(problem: Problem, graph: Graph) -> int:
    """Bytes that the runtime keeps for a graph's ops in addition to what is planned."""
    from lowtide.runtimes.registry import runtime_of

    return MAX_BYTES - runtime_of(problem.target).arena_budget(graph, MAX_BYTES)


def arena_bytes(problem: Problem, cutter: Cutter, way: Way) -> int | None:
    """Bytes of the arena for a way to cut an order, with what the runtime keeps for each op, before the parts are
    reordered; None where it keeps nothing."""
    from lowtide.transform.seams import NO_ELIMINATION

    if not runtime_bytes(problem, problem.graph):
        return None
    ids = [problem.graph.ops[i].id for i in way.order]
    graph = _applied(cutter, way, NO_ELIMINATION, ids).graph if way.regions else problem.graph
    return way.peak + runtime_bytes(problem, graph)
