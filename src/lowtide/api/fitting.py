"""The question whether a model fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from lowtide.api.answer import PlanKeys
from lowtide.api.banks import MemoryUse, memory_uses, uses_of
from lowtide.api.goals import OneArena, SeveralMemories
from lowtide.api.job import NO_OPTIONS
from lowtide.api.models import load
from lowtide.api.objects import Model, is_program
from lowtide.api.planning import plan
from lowtide.arguments import typed
from lowtide.certificates import NoCertificate
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.names import brief
from lowtide.plan import Plan, RuntimeArenas, RuntimeFigure, RuntimeParts, Status, Stopped, Sure, exit_status
from lowtide.report.columns import CUT_SHORT
from lowtide.sizes import NO_DIMS, Size, parse_size
from lowtide.target import Target, resolve

if TYPE_CHECKING:
    from lowtide.api.answer import PlanKeys
    from lowtide.graph import Graph


@dataclass(frozen=True, repr=False)
class Check:
    """Whether a model fits. Sizes are bytes; `excess_bytes` is 0 if it does; `status` is that of a plan.

    `required_bytes` includes the reserve. It is what `plan` prints where `sure` is ``"exact"``, and no less than that
    where it is ``"at most"``: it fits, and the search stopped once that was known. `least_bytes` are proved to be
    needed by any plan. `stopped` says why the search ended. `model` is its path, or the graph's name.
    With several memories the sizes are sums over them, and `memories` has each. Under tflm, `parts` says what the
    requirement consists of, and with several memories `arenas` where these lie. `runtime_figures` is what the runtime
    takes by its defaults, and with the plan.
    `own_plan`: what was checked is the plan that the file holds, as with ``as_is``; no other can be made for it.
    With `runtime_unknown` `sure` is ``"at least"``: it is not known what the kernels of these op types take.
    `conflict` names tensors that cannot share what there is, where it does not fit and the reason was found.
    """

    required_bytes: int
    available_bytes: int
    excess_bytes: int
    lower_bound_bytes: int
    optimal: bool
    target: str
    status: Status
    stopped: Stopped
    sure: Sure = "exact"
    least_bytes: int = 0
    model: str = ""
    memories: list[MemoryUse] | None = None
    parts: RuntimeParts | None = None
    arenas: RuntimeArenas | None = None
    conflict: str | None = None
    own_plan: bool | None = None
    runtime_figures: list[RuntimeFigure] | None = None
    runtime_unknown: list[str] | None = None

    def __repr__(self) -> str:
        return brief(
            self,
            "status required_bytes sure available_bytes excess_bytes lower_bound_bytes optimal target stopped",
        )

    @property
    def exit_status(self) -> int:
        """0 if it fits, 3 if the best plan found needs more, 4 if no plan can fit, 6 unproved, 130 interrupted."""
        return exit_status(self.status, interrupted=self.stopped == "interrupt")


@typed
def check(model: Model, budget: Size | None = None, *, as_is: bool = False, **settings: Any) -> Check:
    """Say whether a model fits a budget, without writing anything; weights are not needed.

    It tries what `plan` tries, and stops at the first arena that fits. Where none does it is the plan of `plan`, so
    that what is missing is what `plan` says is.

    Parameters
    ----------
    budget
        Bytes there are, the reserve included; left out if `settings` name memories (`banks`, `board`).
    as_is
        Judge the file order instead of the best one; not with another method than that.
    settings
        Those of `plan`.

    Raises
    ------
    InputError
        As `plan`.
    """
    if budget is None and not (settings.get("banks") or settings.get("board")):
        raise InputError("say what there is: --budget SIZE, or memories with --bank NAME=SIZE or --board NAME")
    settings = {"quick": True, **settings, "budget": budget}
    if is_program(model):
        model = load(model, settings.pop("dims", NO_DIMS))
    named = (model.source or model.name) if isinstance(model, Graph) else str(model)
    if not isinstance(model, Graph) and str(model).lower().endswith(".tflite"):
        model = load(model, settings.pop("dims", NO_DIMS))
    own = file_plan(model, settings) if isinstance(model, Graph) else None
    if own is not None:
        return replace(_of_file(own), model=named)
    if as_is:
        return _of_plan(_without_plan(_unmodified(model, settings)), "exact", named)
    best = plan(model, **settings)
    short = best.status == "over_budget" or (best.status == "impossible" and not _is_least(best))
    if settings["quick"] and short and best.stopped not in CUT_SHORT:
        settings["quick"] = False
        best = plan(model, **settings)
    return _of_plan(best, _sure(best, quick=bool(settings["quick"])), named)


def _sure(best: Plan, *, quick: bool) -> Sure:
    """Whether a plan needs what the best one does, or that much at most."""
    whole = not quick or (best.memories is not None and best.status != "impossible")
    return "exact" if _is_least(best) or (whole and best.stopped not in CUT_SHORT) else "at most"


def _is_least(best: Plan) -> bool:
    return best.required_bytes == _least_bytes(best)


def _least_bytes(best: Plan) -> int:
    return best.least_required_bytes + (best.reserve_bytes or 0)


def _unmodified(model: Model, settings: dict[str, Any]) -> Plan:
    """A plan of the file order, with what the runtime makes of the file itself: its own offsets, or its own planner."""
    import msgspec

    from lowtide.api.checking import verify_file
    from lowtide.runtimes.registry import runtime_of

    if settings.get("method", "exact") not in ("exact", "own") or settings.get("options"):
        raise InputError("--as-is judges the file order; leave out --method and --set")
    graph = load(model, settings.pop("dims", NO_DIMS))
    own = plan(graph, **(settings | {"method": "own", "options": NO_OPTIONS}))
    goal = memories_of(settings)
    target = rules_of(settings, graph.source, goal)
    runtime = runtime_of(target)
    required = runtime.of_unmodified(graph)
    if runtime.offline(graph) is not None:
        verify_file(graph, target)
    if required is None:
        return own
    if goal is not None:
        keys = goal.for_arenas.keys(runtime, graph, graph.own_order, required, _keys_of(own))
        return msgspec.structs.replace(own, **{**keys, "arena_bytes": required.planned_bytes, "conflict": None})
    bytes_needed = required.required_bytes + (own.reserve_bytes or 0)
    status = own.status
    if own.budget_bytes is not None and bytes_needed > own.budget_bytes:
        status = "impossible" if status == "impossible" else "over_budget"
    elif status != "unproved":
        status = "ok"
    return msgspec.structs.replace(
        own,
        arena_bytes=required.planned_bytes,
        required_bytes=bytes_needed,
        runtime_arena_bytes=required.required_bytes,
        runtime_parts=required.parts,
        status=status,
        conflict=None if status in ("ok", "unproved") else own.conflict,
    )


def _without_plan(own: Plan) -> Plan:
    """The runtime's figures for the file alone: nothing was planned."""
    import msgspec

    figures = [msgspec.structs.replace(f, planned_bytes=None) for f in own.runtime_figures or ()]
    return msgspec.structs.replace(own, runtime_figures=figures or None)


def _keys_of(plan: Plan) -> PlanKeys:
    import msgspec

    return cast("PlanKeys", msgspec.structs.asdict(plan))


def _of_file(own: FilePlan) -> Check:
    """A file whose own plan cannot be replaced: nothing is known of a better one."""
    excess = max(0, own.required_bytes - own.available_bytes)
    if own.uses is not None:
        excess = sum(m.excess_bytes for m in own.uses)
    return Check(
        own.required_bytes,
        own.available_bytes,
        excess,
        0,
        optimal=False,
        target=own.target,
        status=own.status,
        stopped="complete",
        memories=own.uses,
        parts=own.parts,
        arenas=own.arenas,
        own_plan=True,
    )


def _of_plan(plan: Plan, sure: Sure, named: str) -> Check:
    from lowtide.report.conflict import conflict_text

    uses = memory_uses(plan) or None
    if uses is not None:
        available, excess = sum(m.available_bytes for m in uses), sum(m.excess_bytes for m in uses)
    else:
        available = plan.budget_bytes or 0
        excess = max(0, plan.required_bytes - available)
    return Check(
        plan.required_bytes,
        available,
        excess,
        plan.lower_bound_bytes,
        plan.optimal,
        plan.target,
        plan.status,
        plan.stopped,
        "at least" if plan.runtime_unknown else sure,
        _least_bytes(plan),
        named,
        uses,
        plan.runtime_parts,
        plan.runtime_arenas,
        conflict_text(plan),
        runtime_figures=_at_most(plan.runtime_figures) if sure == "at most" else plan.runtime_figures,
        runtime_unknown=plan.runtime_unknown,
    )


def _at_most(figures: list[RuntimeFigure] | None) -> list[RuntimeFigure] | None:
    """The same of a plan that is not the best one: what is exact needs that much at most."""
    import msgspec

    if figures is None:
        return None
    return [msgspec.structs.replace(f, sure="at most") if f.sure == "exact" else f for f in figures]


@dataclass(frozen=True)
class FilePlan:
    """A file with the offline plan that it holds, held against what there is; sizes are bytes, the reserve included."""

    target: str
    required_bytes: int
    available_bytes: int
    status: Status
    parts: RuntimeParts
    uses: list[MemoryUse] | None = None
    arenas: RuntimeArenas | None = None


def memories_of(settings: Mapping[str, Any]) -> SeveralMemories | None:
    """The goal of a call that names memories; None for one arena. Raises `InputError` if one is wrong."""
    several = (settings.get("banks"), settings.get("board"), settings.get("places") or {})
    return SeveralMemories.of(_arena(settings), *several) if any(several) else None


def rules_of(settings: Mapping[str, Any], source: str, goal: SeveralMemories | None) -> Target:
    """The target of a call."""
    target = resolve(settings.get("target", "auto"), source=source)
    return target if goal is None else goal.under(target)


def file_plan(graph: Graph, settings: Mapping[str, Any]) -> FilePlan | None:
    """The unmodified file, if no other plan can be made for it; None if one can. Raises `InputError`: a setting is
    wrong. Raises `VerificationError`: the offline plan that it holds computes wrong results."""
    from lowtide.api.checking import verify_file
    from lowtide.runtimes.registry import runtime_of

    goal = memories_of(settings)
    target = rules_of(settings, graph.source, goal)
    runtime = runtime_of(target)
    required = runtime.of_unmodified(graph) if runtime.keeps_own_plan(graph) else None
    if required is None:
        return None
    if runtime.offline(graph) is not None:
        verify_file(graph, target)
    arena = _arena(settings)
    if goal is None:
        needed, room = required.required_bytes + arena.reserve, arena.budget or 0
        return FilePlan(target.name, needed, room, "ok" if needed <= room else "over_budget", required.parts)
    keys = goal.for_arenas.keys(runtime, graph, graph.own_order, required, _nothing_known())
    memories = keys.get("memories", [])
    room = sum(m.capacity_bytes for m in memories)
    parts = keys.get("runtime_parts") or required.parts
    uses = uses_of(memories, target.alignment)
    return FilePlan(target.name, keys["required_bytes"], room, keys["status"], parts, uses, keys.get("runtime_arenas"))


def _arena(settings: Mapping[str, Any]) -> OneArena:
    budget, reserve = settings.get("budget"), settings.get("reserve")
    return OneArena(
        None if budget is None else parse_size(budget, "budget"),
        0 if reserve is None else parse_size(reserve, "reserve", least=0),
    )


def _nothing_known() -> PlanKeys:
    """Of a plan for one arena, of which no bound is known."""
    return PlanKeys(
        status="ok", stopped="complete", peak_bytes=0, lower_bound_bytes=0, optimal=False,
        certificate=NoCertificate(), in_place=[], required_bytes=0,
    )  # fmt: skip
