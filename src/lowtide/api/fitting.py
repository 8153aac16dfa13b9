"""The question whether a model fits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.api.banks import MemoryUse, memory_uses
from lowtide.api.job import NO_OPTIONS, Size
from lowtide.api.models import NO_DIMS, load
from lowtide.api.planning import plan
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import Plan, RuntimeFigure, RuntimeParts, Status, Stopped, exit_status
from lowtide.target import resolve


@dataclass(frozen=True)
class Check:
    """Whether a model fits. Sizes are bytes; `excess_bytes` is 0 if it does; `status` is that of a plan.

    `required_bytes` includes the reserve. `stopped` says why the search ended. With several memories the sizes are sums
    over them, and `memories` has each. Under tflm, `parts` says what the requirement consists of.
    `runtime_figures` is what the runtime takes by its defaults, and with the plan.
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
    memories: list[MemoryUse] | None = None
    parts: RuntimeParts | None = None
    conflict: str | None = None
    runtime_figures: list[RuntimeFigure] | None = None

    @property
    def exit_status(self) -> int:
        """0 if it fits, 3 if the best plan found needs more, 4 if no plan can fit, 6 unproved, 130 interrupted."""
        return exit_status(self.status, interrupted=self.stopped == "interrupt")


def check(model: Graph | str | Path, budget: Size | None = None, *, as_is: bool = False, **settings: Any) -> Check:
    """Say whether a model fits a budget, without writing anything; weights are not needed.

    It tries what `plan` tries, and stops at the first arena that fits.

    Parameters
    ----------
    budget
        Bytes there are, the reserve included; left out if `settings` name memories (`banks`, `board`).
    as_is
        Judge the file's own order instead of the best one; not with another method than that.
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
    return _of_plan(_as_it_stands(model, settings) if as_is else plan(model, **settings))


def _as_it_stands(model: Graph | str | Path, settings: dict[str, Any]) -> Plan:
    """A plan of the own order, with what the runtime makes of the file itself: its own offsets, or its own planner."""
    import msgspec

    from lowtide.api.checking import verify_file
    from lowtide.runtimes.registry import runtime_of

    if settings.get("method", "exact") not in ("exact", "own") or settings.get("options"):
        raise InputError("--as-is judges the file's own order; leave out --method and --set")
    graph = load(model, settings.pop("dims", NO_DIMS))
    own = plan(graph, **{**settings, "method": "own", "options": NO_OPTIONS})
    target = resolve(settings.get("target", "auto"), source=graph.source)
    runtime = runtime_of(target)
    required = runtime.as_it_stands(graph)
    if runtime.offline(graph) is not None:
        verify_file(graph, target)
    if required is None:
        return own
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
    )


def _of_plan(plan: Plan) -> Check:
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
        uses,
        plan.runtime_parts,
        conflict_text(plan),
        plan.runtime_figures,
    )
