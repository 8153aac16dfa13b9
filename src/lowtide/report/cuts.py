"""What a plan changes in the graph, in words: tiles, parts of steps, aliases, row streaming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lowtide.fission_plan import PlanFission, StepFission
from lowtide.names import shorten
from lowtide.plan import Plan, PlanOp, PlanTensor
from lowtide.report.columns import columns
from lowtide.rewrites import ConcatElimination, CutRegion, PlanLineBuffer, PlanLoop, Sections, TensorAlias
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.run_reports import LoopRunReport

EXACTNESS = {
    "bits": "bit for bit the same",
    "kernel": "as other kernels round for other shapes",
    "sum": "equal up to rounding, as sums run in another order",
}
"""What outputs of a changed graph may differ by."""


def not_cut_text(plan: Plan) -> str | None:
    """Why a plan that may cut does not, where cuts were found; None otherwise."""
    search = plan.search or {}
    if "cut_required_bytes" not in search:
        return None
    live, required = (format_size(search[key]) for key in ("cut_peak_bytes", "cut_required_bytes"))
    return f"the best tiling found has {live} live at once, but needs {required} in total"


def _halos_text(plan: Plan) -> str:
    """How many regions recompute rows, and what that adds."""
    cut = [r for r in plan.all_rewrites if isinstance(r, CutRegion)]
    recomputed = sum(any(c.begins is not None for c in r.ops) for r in cut)
    added = 100 * plan.halos.overhead if plan.halos is not None else 0.0
    return f"recomputed halos in {format_count(recomputed, 'region')}, {added:.1f} % more multiplications"


def cut_text(plan: Plan) -> str:
    """What is cut, what runs for it, and what the outputs may differ by."""
    rounds = [*(plan.rounds or ()), plan]
    rewrites = [r for one in rounds for r in one.rewrites or ()]
    regions = [r for r in rewrites if isinstance(r, CutRegion)]
    at_concats = sum(len(r.ops) for r in rewrites if isinstance(r, ConcatElimination))
    cut = sum(len(r.ops) for r in regions) + at_concats
    by_sections = [r for r in rewrites if isinstance(r, Sections)]
    of_first = sum(len(r.ops) for r in rounds[0].rewrites or () if isinstance(r, CutRegion | ConcatElimination))
    uncut = sum(op.part is None for op in rounds[0].ops) - len(plan.folded)
    own = uncut + of_first + sum(len(r.gone) - len(r.ops) for r in by_sections)
    without = (plan.search or {}).get("uncut_peak_bytes")
    best = "" if without is None else f"; the best order without: {format_size(without)}"
    where = [f"{format_count(cut - at_concats, 'op')} in {format_count(len(regions), 'region')}"] if regions else []
    where += [f"{format_count(len(by_sections), 'product')} by sections"] if by_sections else []
    where += [f"{format_count(at_concats, 'op')} by concat elimination"] if at_concats else []
    where += [_halos_text(plan)] if plan.halos is not None else []
    often = f", in {len(rounds)} passes" if len(rounds) > 1 else ""
    return (
        f"{', '.join(where)}{often}: {len(plan.order):,} ops run instead of "
        f"{own:,}; outputs {EXACTNESS[plan.exactness or 'bits']}{best}"
    )


def fission_rows(plan: Plan) -> list[tuple[str, str]]:
    """What runs in parts, and what the step takes."""
    claim = plan.fission
    if claim is None:
        return []
    parts = [("in tiles", _part_text(part)) for part in claim.parts] or [("in tiles", "no op")]
    if claim.merged:
        count = sum(len(merge.products) for merge in claim.merged)
        text = f"{format_count(count, 'product')} that read the same run as {len(claim.merged)}, gradients likewise"
        parts.insert(0, ("merged", text))
    exact = EXACTNESS[plan.exactness or "bits"]
    bound = "" if claim.max_overhead is None else f", {100 * claim.max_overhead:g} % allowed"
    time = (
        f"{1e3 * claim.predicted_seconds:,.2f} ms predicted on {claim.device or 'the cost file'}, "
        f"{100 * claim.overhead:+.2f} % compared with the unmodified step{bound}{_least(claim)}; results {exact}"
    )
    return [*parts, ("time", time)]


def _least(claim: StepFission) -> str:
    """What no plan within the budget takes less than, where that is more than the unmodified step."""
    added = 0.0 if claim.least_seconds is None else claim.least_seconds / claim.uncut_seconds - 1
    return f"; {100 * added:+.2f} % at least within the budget" if added > 1e-5 else ""


def _part_text(part: PlanFission) -> str:
    recomputed = sum(1 for r in part.body.get("rewrites") or () if r["kind"] == "recompute")
    body, swapping = format_size(int(part.body["required_bytes"])), part.body.get("swapping")
    return (
        f"{format_count(len(part.ops), 'op')} in {len(part.ends)} tiles, {body} each; "
        f"{recomputed:,} recomputed in each" + ("" if swapping is None else _moved_text(part, swapping))
    )


def _moved_text(part: PlanFission, swapping: Mapping[str, Any]) -> str:
    """What leaves memory while a part runs."""
    moved = sum(1 for r in part.body.get("rewrites") or () if r["kind"] == "swap")
    out, back = format_size(int(swapping["stored_bytes"])), format_size(int(swapping["loaded_bytes"]))
    waiting = swapping["waiting_nanoseconds"] / 1e6
    return f"; {format_count(moved, 'tensor')} leave memory, {out} out and {back} in, {waiting:,.2f} ms waiting"


MOST_NAMED = 3  # tensors that are named, the largest; `-v` names all
_WIDTH = 32


def aliases_of(plan: Plan) -> list[TensorAlias]:
    """What a plan has in others."""
    return [r for r in plan.rewrites or () if isinstance(r, TensorAlias)]


def alias_rows(plan: Plan, *, verbose: bool) -> list[tuple[str, str]]:
    """How many tensors lie in others, which, where, and what the best order needs without; none without aliases."""
    aliases = aliases_of(plan)
    if not aliases:
        return []
    without = plan.figures.unaliased_peak_bytes
    best = "" if without is None else f"; the best order without: {format_size(without)}"
    strided = sum(r.pitch is not None for r in aliases)
    rows = f", {strided:,} row by row" if strided else ""
    least = "; no choice of them needs less" if plan.figures.aliases_least else ""
    tensors, ops = {t.id: t for t in plan.tensors}, {op.id: op for op in plan.ops}
    largest = sorted(aliases, key=lambda r: (-tensors[r.tensor].size, r.tensor))
    shown = largest if verbose else largest[:MOST_NAMED]
    named = [("", _alias_text(r, tensors[r.tensor], tensors[r.of], ops[r.op])) for r in shown]
    more = len(aliases) - len(shown)
    named += [("", f"and {more:,} smaller (-v names them all)")] if more else []
    return [("aliases", f"{format_count(len(aliases), 'tensor')} in the memory of others{rows}{best}{least}"), *named]


def _alias_text(alias: TensorAlias, tensor: PlanTensor, of: PlanTensor, op: PlanOp) -> str:
    """One of them, in the model's own names."""
    pitch = "" if alias.pitch is None else f", rows {alias.pitch:,} B apart"
    return (
        f"{shorten(tensor.name, _WIDTH)} ({format_size(tensor.size)}) in {shorten(of.name, _WIDTH)} "
        f"from byte {alias.offset:,}{pitch}: {op.type or 'op'} {shorten(op.name, _WIDTH)}"
    )


_NAME = 60  # characters of a name on the screen
_SHOWN = 6  # line buffers of a loop that are listed, the largest; `--json` and the plan file have all


def loop_rows(plan: Plan) -> list[tuple[str, str]]:
    """Rows for the end of a plan's screen."""
    if not plan.loops:
        met = plan.budget_bytes is not None and plan.required_bytes <= plan.budget_bytes
        none = "none: it fits the budget without" if met else "none lowers the peak"
        return [("loops", none)] if "row-streaming" in (plan.allow or ()) else []
    ops = sum(len(loop.ops) for loop in plan.loops)
    without = (plan.search or {}).get("without_loops_peak_bytes")
    best = "" if without is None else f"; the best order without: {format_size(without)}"
    exact = EXACTNESS[plan.exactness or "bits"]
    rows = [("loops", f"{format_count(ops, 'op')} in {format_count(len(plan.loops), 'loop')}; outputs {exact}{best}")]
    search = plan.search or {}
    path = search.get("loops_path_complete")
    if path is not None:
        apart = " with line buffers side by side" if any(loop.kept_bytes is not None for loop in plan.loops) else ""
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
    streamed = ", streamed" if tensor in loop.streamed else ""
    name = shorten(lines.name, _NAME) if lines.name else f"tensor {tensor}"
    return (f"  {name}", f"{lines.slots:,}", f"of dimension {dims}{streamed}", f"{lines.slots * lines.bytes:,} B")


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
                f"{run.compared_bytes:,} B read from it, all as {run.runtime} made them; {n} complete{vacuous}",
            ),
            (
                "",
                "tensor values are the runtime's; ops were not run in tiles (`lowtide research probe` does that)",
            ),
        ]
    )
