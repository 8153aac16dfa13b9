"""Files whose own plan cannot be replaced: Vela's commands hold addresses in the arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.api.answer import PlanKeys
from lowtide.api.banks import MemoryUse, uses_of
from lowtide.api.goals import OneArena, SeveralMemories
from lowtide.certificates import NoCertificate
from lowtide.plan import RuntimeArenas, RuntimeParts, Status
from lowtide.sizes import parse_size
from lowtide.target import Target, resolve

if TYPE_CHECKING:
    from lowtide.graph import Graph


@dataclass(frozen=True)
class Judged:
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


def judged(graph: Graph, settings: Mapping[str, Any]) -> Judged | None:
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
        return Judged(target.name, needed, room, "ok" if needed <= room else "over_budget", required.parts)
    keys = goal.for_arenas.keys(runtime, graph, graph.own_order, required, _nothing_known())
    memories = keys.get("memories", [])
    room = sum(m.capacity_bytes for m in memories)
    parts = keys.get("runtime_parts") or required.parts
    uses = uses_of(memories, target.alignment)
    return Judged(target.name, keys["required_bytes"], room, keys["status"], parts, uses, keys.get("runtime_arenas"))


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
