"""Loops of a plan as text: their ops, their axes, and what they keep of each tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.names import shorten
from lowtide.plan import Plan
from lowtide.report.columns import columns
from lowtide.report.cuts import EXACTNESS
from lowtide.rewrites import PlanLineBuffer, PlanLoop
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.run_reports import LoopRunReport

_NAME = 60  # characters of a name on the screen
_SHOWN = 6  # line buffers of a loop that are listed, the largest; `--json` and the plan file have all


def loop_rows(plan: Plan) -> list[tuple[str, str]]:
    """Rows for the end of a plan's screen."""
    if not plan.loops:
        met = plan.budget_bytes is not None and plan.required_bytes <= plan.budget_bytes
        none = "none: it fits the budget without" if met else "none lowers the peak"
        return [("loops", none)] if "loops" in (plan.allow or ()) else []
    ops = sum(len(loop.ops) for loop in plan.loops)
    without = (plan.search or {}).get("without_loops_peak_bytes")
    best = "" if without is None else f"; the best order without: {format_size(without)}"
    exact = EXACTNESS[plan.exactness or "bits"]
    rows = [("loops", f"{format_count(ops, 'op')} in {format_count(len(plan.loops), 'loop')}; outputs {exact}{best}")]
    search = plan.search or {}
    path = search.get("loops_path_complete")
    if path is not None:
        apart = " whose rings lie side by side" if any(loop.kept_bytes is not None for loop in plan.loops) else ""
        paths = f"all paths of loops along the order{apart}"
        least = f"least over {paths}" if path else "the search for loops was stopped"
        if path and search["loops_least_path_bytes"] < search["loops_path_bytes"]:
            least = f"{paths} need at least {search['loops_least_path_bytes']:,} B"
        if moved := search.get("loops_reordered"):
            least = f"ops made neighbours by data flow {format_count(moved, 'time')}: no bound on other loops"
        rows.append(("", f"{least}; order and arena: of the loops as they are"))
    labels = {op.id: op.name for op in plan.ops}
    for k, loop in enumerate(plan.loops, 1):
        rows += [(f"loop {k}" if j == 0 else "", line) for j, line in enumerate(_loop_lines(loop, labels[loop.op]))]
    return rows


def _loop_lines(loop: PlanLoop, label: str) -> list[str]:
    """A loop: what it is, then its largest line buffers."""
    own = {t: r for t, r in loop.keep.items() if r.over is None}
    kept = sum(r.slots * r.bytes for r in own.values()) + sum(s.bytes for s in loop.sums.values())
    shared = "" if loop.kept_bytes is None else f" in {loop.kept_bytes:,} B, as some share memory"
    way = "pixels" if any(len(axes) == 2 for axes in loop.along.values()) else "rows"
    what = label.removeprefix("loop of ")
    if len(loop.ops) == 1:  # the name says the first and the last op
        what = what.partition(" to op ")[0]
    lines = [f"{format_count(len(loop.ops), 'op')}, {what}: {loop.parts:,} {way}, {kept:,} B{shared}"]
    shown = sorted(own.items(), key=lambda pair: (-pair[1].slots * pair[1].bytes, int(pair[0])))
    cells = [_line_buffer_cells(loop, t, r) for t, r in shown[:_SHOWN]]
    lines += columns(cells, right=(1, 3)).splitlines() if cells else []
    if len(shown) > _SHOWN:
        rest = sum(r.slots * r.bytes for _, r in shown[_SHOWN:])
        lines.append(f"  and {len(shown) - _SHOWN} more: {rest:,} B")
    lines += [f"  sums of tensor {t}: {s.bytes:,} B" for t, s in loop.sums.items()]
    return lines


def _line_buffer_cells(loop: PlanLoop, tensor: str, lines: PlanLineBuffer) -> tuple[str, ...]:
    """Name, how many positions of which dimension, their bytes."""
    dims = ", ".join(str(d) for d in loop.axis[tensor])
    streamed = ", handed over" if tensor in loop.streamed else ""
    name = shorten(lines.name, _NAME) if lines.name else f"tensor {tensor}"
    return (
        f"  {name}",
        f"{lines.slots:,}",
        f"of dimension {dims}{streamed}",
        f"{lines.slots * lines.bytes:,} B",
    )


def loop_run_text(run: LoopRunReport) -> str:
    """What replaying the plan showed, and what it does not show."""
    n = format_count(len(run.outputs), "output")
    vacuous = "; vacuous: no output depends on the inputs" if run.vacuous else ""
    return columns(
        [
            (
                "simulation",
                f"{run.positions:,} positions in an array of {run.arena_bytes:,} B, {run.runs} random inputs",
            ),
            (
                "",
                f"{run.compared_bytes:,} B read from it, all as {run.runtime} made them; {n} there at the end{vacuous}",
            ),
            ("", "tensors are the runtime's own, ops were not computed in parts; `lowtide research probe` does that"),
        ]
    )
