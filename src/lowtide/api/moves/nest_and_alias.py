"""Two moves of the search over plans of one arena: nested tiling, and aliasing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals import OneArena
from lowtide.api.job import Job
from lowtide.api.problem import Problem
from lowtide.rewrites import TensorAlias
from lowtide.search.driver import Move
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.api.moves.cut_search import CutSearch
    from lowtide.transform.alias import Aliases

_NESTED = frozenset({"tile", "recompute-halos"})  # what tiles may do of a graph that is tiled already


@dataclass
class NestTiles(Move[Answer]):
    """Tiles the lowered graph of a plan: a level on top of those that it has."""

    user: CutSearch  # the search for tiles of the user's own graph
    transformations: frozenset[str] = _NESTED

    def find(self, search: CutSearch) -> Answer | None:
        """The best plan with regions along the order."""
        return search.best_cut()

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The best plan with one more level of tiles."""
        from lowtide.api.moves.cut_search import CutSearch

        job, user = self.user.job, self.user
        if base.parts is None:
            return None
        job = replace(job, allow=tuple(word for word in job.allow if word in self.transformations))
        search = CutSearch(job, user.goal, base.problem, base, limits, user=user, first=base.parts)
        found = self.find(search)
        if search.interrupted:
            raise KeyboardInterrupt
        return None if found is None else found.under(user.job.allow)


@dataclass
class TilePeak(NestTiles):
    """Tiles the lowered graph of a plan where it is highest: a few operators, and no others."""

    transformations: frozenset[str] = frozenset({"tile"})

    def find(self, search: CutSearch) -> Answer | None:
        """The best plan with short regions at the peak."""
        return search.best_at_peak()


@dataclass
class Alias(Move[Answer]):
    """Places tensors in others, so that slices are not copied."""

    job: Job
    goal: OneArena
    tried: int = 0  # choices that were ordered
    least: bool = False  # whether no choice of the last plan that was looked at needs less
    is_terminal: bool = True

    @property
    def figures(self) -> dict[str, int]:
        """What was tried, and whether it was the least, if anything was."""
        return {"aliases_tried": self.tried, "aliases_least": self.least} if self.tried else {}

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The best plan with tensors in others, for the graph of a plan without; where the first choice within a budget
        has an arena above it, of the best choice."""
        from lowtide.optimize.aliases import best_aliases

        best: Answer | None = None
        graph, target = base.problem.graph, base.problem.target
        for enough in dict.fromkeys((self.goal.arena_budget(base.problem) or 0, 0)):
            look = limits.share(_LOOK)
            found = best_aliases(graph, target, base.order, look, enough=enough, seed=self.job.search.seed)
            self.tried, self.least = found.tried, found.least
            if found.interrupted:
                raise KeyboardInterrupt
            if found.aliases:
                placed = self.placed(base, found.aliases, limits)
                best = placed if best is None else min(best, placed, key=_required)
            if best is not None and self.goal.budget is not None and _required(best) <= self.goal.budget:
                break
        return best

    def placed(self, base: Answer, aliases: Aliases, limits: Limits) -> Answer:
        """The plan of a choice, for the graph of a plan without."""
        from lowtide.transform.alias import apply

        before, target = base.problem, base.problem.target
        aliased = Problem.of(apply(before.graph, target, aliases).graph, target)
        answer = self.goal.solve(aliased, self.job.search, limits)
        keys: PlanKeys = {
            **answer.keys,
            "rewrites": [*(base.keys.get("rewrites") or ()), *as_rewrites(aliased, aliases)],
            "proved_over": "orders",
            "exactness": base.keys.get("exactness") or "bits",
            "search": {
                **base.keys.get("search", {}),
                **answer.keys.get("search", {}),
                "unaliased_peak_bytes": base.keys["peak_bytes"],
            },
        }
        if "cost" in base.keys:
            keys["cost"] = base.keys["cost"]
        if "halos" in base.keys:
            keys["halos"] = base.keys["halos"]
        if "recomputation" in base.keys:
            keys["recomputation"] = base.keys["recomputation"]
        own = base.own_order_peak_bytes
        own = before.own_order_peak_bytes if own is None else own
        return replace(answer, keys=keys, own_order_peak_bytes=own, parts=base.parts).under(self.job.allow)


_LOOK = 0.7
"""Share of a turn after which the choice of aliases ends, where a clock has to stop it: the rest is for its plan."""


def _required(answer: Answer) -> int:
    return answer.keys["required_bytes"]


def as_rewrites(problem: Problem, aliases: Aliases) -> list[TensorAlias]:
    """What a plan says of tensors that lie in others."""
    rewrites: list[TensorAlias] = []
    for alias in aliases:
        by_rows = alias.run < problem.graph.tensor_by_id[alias.tensor].size
        rows = (alias.run, alias.pitch) if by_rows else (None, None)
        entry = TensorAlias(
            tensor=alias.tensor, of=alias.of, op=alias.op, offset=alias.first, run=rows[0], pitch=rows[1]
        )
        rewrites.append(entry)
    return rewrites
