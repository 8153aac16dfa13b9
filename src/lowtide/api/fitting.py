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
from lowtide.plan import Plan, RuntimeFigure, RuntimeParts, Status, Stopped, Sure, exit_status
from lowtide.report.columns import CUT_SHORT
from lowtide.target import resolve


@dataclass(frozen=True)
class Check:
    """Whether a model fits. Sizes are bytes; `excess_bytes` is 0 if it does; `status` is that of a plan.

    `required_bytes` includes the reserve. It is what `plan` prints where `sure` is ``"exact"``, and no less than that
    where it is ``"at most"``: the search stopped once it was known whether it fits. `least_bytes` are proved to be
    needed by any plan. `stopped` says why the search ended. With several memories the sizes are sums over them, and
    `memories` has each. Under tflm, `parts` says what the requirement consists of. `runtime_figures` is what the
    runtime takes by its defaults, and with the plan. `conflict` names tensors that cannot share what there is, where it
    does not fit and the reason was found. `model` is its path, or the graph's name.
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
    conflict: str | None = None
    runtime_figures: list[RuntimeFigure] | None = None

    @property
    def exit_status(self) -> int:
        """0 if it fits, 3 if the best plan found needs more, 4 if no plan can fit, 6 unproved, 130 interrupted."""
        return exit_status(self.status, interrupted=self.stopped == "interrupt")


def check(model: Graph | str | Path, budget: Size | None = None, *, as_is: bool = False, **settings: Any) -> Check:
    """Say whether a model fits a budget, without writing anything; weights are not needed.

    It tries what `plan` tries, and stops at the first arena that fits, or once it is proved that none does. Where
    nothing fits and nothing is proved, it is the plan that `plan` gives.

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
    if as_is:
        return _of_plan(_as_it_stands(model, settings), "exact", model)
    best = plan(model, **settings)
    if settings["quick"] and best.status == "over_budget" and best.stopped not in CUT_SHORT:
        settings["quick"] = False
        best = plan(model, **settings)
    return _of_plan(best, _sure(best, quick=bool(settings["quick"])), model)


def _sure(best: Plan, *, quick: bool) -> Sure:
    """Whether a plan needs what the best one does, or that much at most."""
    whole = not quick or (best.memories is not None and best.status != "impossible")
    least = best.required_bytes == _least_bytes(best)
    return "exact" if least or (whole and best.stopped not in CUT_SHORT) else "at most"


def _least_bytes(best: Plan) -> int:
    return best.least_required_bytes + (best.reserve_bytes or 0)


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


def _of_plan(plan: Plan, sure: Sure, model: Graph | str | Path) -> Check:
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
        sure,
        _least_bytes(plan),
        (model.source or model.name) if isinstance(model, Graph) else str(model),
        uses,
        plan.runtime_parts,
        conflict_text(plan),
        _at_most(plan.runtime_figures) if sure == "at most" else plan.runtime_figures,
    )


def _at_most(figures: list[RuntimeFigure] | None) -> list[RuntimeFigure] | None:
    """The same of a plan that is not the best one: what is exact needs that much at most."""
    import msgspec

    if figures is None:
        return None
    return [msgspec.structs.replace(f, sure="at most") if f.sure == "exact" else f for f in figures]
