"""Curves as tables: peaks, and the ops, or the time, that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lowtide.report.columns import change, columns
from lowtide.rewrites import COUNTED
from lowtide.sizes import format_size

if TYPE_CHECKING:
    from lowtide.optimize.curve import Curve, CurvePoint, Front

AGAINST = "against file order"  # what per cent of bytes are of, wherever plans of one model stand below each other


def _arena(curve: Curve, point: CurvePoint) -> tuple[str, ...]:
    """All that the runtime needs, where that is more than the peak, against what it needs for the file order."""
    first = curve.points[0]
    if first.arena_bytes is None or point.arena_bytes is None:
        return ()
    own = curve.own_order_peak_bytes + first.arena_bytes - first.peak_bytes
    return (format_size(point.arena_bytes), change(own, point.arena_bytes))


def curve_text(curve: Curve) -> str:
    """A row for each peak, against that of the model's own order."""
    first = curve.points[0]
    head = [
        ("model", f"{curve.graph}, {first.ops:,} ops"),
        ("target", curve.target),
        ("file order peak", format_size(curve.own_order_peak_bytes)),
    ]
    kept, timed = first.arena_bytes is not None, first.nanoseconds is not None
    rows: list[tuple[str, ...]] = [
        ("peak", AGAINST, "ops", "", "regions", *(("arena", AGAINST) if kept else ()),
         *(("predicted", "against untiled") if timed else ()))
    ]  # fmt: skip
    for point in curve.points:
        against = change(curve.own_order_peak_bytes, point.peak_bytes)
        times = f"x{point.ops / max(1, first.ops):.2f}"
        row = (format_size(point.peak_bytes), against, f"{point.ops:,}", times, f"{point.regions:,}")
        rows.append((*row, *_arena(curve, point), *(_time(first, point) if timed else ())))
    right = [0, 2, 3, 4, *range(5, len(rows[0]))]
    lines = [columns(head), "", columns(rows, right=right), "", "the first row is the best order, untiled", ""]
    if kept:
        lines += ["arena: the peak and the runtime's own data for each op and tensor", ""]
    if len(curve.points) == 1:
        lines.append(
            "no tiling along this order needs less"
            if curve.complete
            else "the time limit was reached; nothing was tiled"
        )
    else:
        option = "--cost C.json --max-overhead 10%" if timed else "--max-ops N"
        lines.append(f"lowtide research plan --allow tile {option}, or --budget SIZE, takes one of these")
        if not curve.complete:
            lines.append("the time limit was reached: lower peaks may exist (--time)")
    return "\n".join(lines)


def _time(first: CurvePoint, point: CurvePoint) -> tuple[str, str]:
    """Predicted milliseconds, and compared with the uncut model."""
    before, after = first.nanoseconds or 0, point.nanoseconds or 0
    return f"{after / 1e6:,.2f} ms", f"{100 * (after / max(1, before) - 1):+.1f} %" if point is not first else ""


def front_text(front: Front) -> str:
    """A row for each peak, against that of the model's own order."""
    first = front.points[0]
    head = [
        ("model", front.graph),
        ("target", front.target),
        ("file order peak", format_size(front.own_order_peak_bytes)),
        ("a single op", f"{format_size(front.floor_bytes)}: no plan needs less"),
    ]
    if any(point.parts > 1 for point in front.points):
        return _step_text(front)
    away = front.counted == "nanoseconds"
    rows: list[tuple[str, ...]] = [("peak", AGAINST, "added", "at least", "recomputed", *(["stored"] if away else []))]
    for point in front.points:
        against = change(front.own_order_peak_bytes, point.peak_bytes)
        added = "" if point is first else f"{100 * point.overhead:.3f} %"
        least = "" if point is first else f"{100 * point.least_overhead:.3f} %"
        stored = [format_size(point.stored_bytes)] if away else []
        rows.append((format_size(point.peak_bytes), against, added, least, f"{point.runs_again:,}", *stored))
    lines = [columns(head), "", columns(rows, right=[0, 2, 3, 4, *([5] if away else [])]), ""]
    lines.append("the first row is the best order, in which each op runs once")
    lines += [f"added: {COUNTED[front.counted]}; at least: what no plan of that peak adds less than", ""]
    if len(front.points) == 1:
        what = "nothing that is allowed needs less" if away else "recomputation needs no less"
        lines.append(what if front.complete else "the time limit was reached; nothing was found")
    else:
        allow = "with the same --allow and --cost," if away else "--allow recompute"
        lines.append(f"lowtide research plan {allow} --budget SIZE, or --max-overhead 10%, takes these or better")
        if not front.complete:
            lines.append("the time limit was reached: lower peaks may exist (--time)")
    return "\n".join(lines)


def _step_text(front: Front) -> str:
    """A row for each peak of a training step, against its own order."""
    own = front.own_order_peak_bytes
    head = [
        ("model", front.graph),
        ("target", front.target),
        ("file order peak", format_size(own)),
        ("with any tiling", f"{format_size(front.floor_bytes)}: no plan needs less"),
    ]
    rows: list[tuple[str, ...]] = [("peak", AGAINST, "added", "tiles", "ops tiled", "recomputed")]
    for point in front.points:
        ops = f"{point.ops_in_parts:,}" if point.ops_in_parts else ""
        row = (format_size(point.peak_bytes), change(own, point.peak_bytes), f"{100 * point.overhead:.2f} %")
        rows.append((*row, f"{point.parts:,}", ops, f"{point.runs_again:,}"))
    lines = [columns(head), "", columns(rows, right=[0, 2, 3, 4, 5]), ""]
    lines += ["added: to the predicted time; recomputed: in each tile", ""]
    command = "lowtide research plan --allow recompute,tile"
    lines.append(f"{command} --budget SIZE, or --max-overhead 10%, takes one of these")
    if not front.complete:
        lines.append("the time limit was reached: lower peaks may exist (--time)")
    return "\n".join(lines)


def sweep_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row; what all of them have in common, and what none has, is left out."""
    shown = {
        "model": "model", "target": "target", "budget_bytes": "budget", "options": "options", "ops": "ops",
        "own_order_peak_bytes": "file order", "peak_bytes": "peak", "lower_bound_bytes": "lower bound",
        "required_bytes": "required", "status": "", "error": "",
    }  # fmt: skip
    kept = [name for name in shown if any(row[name] not in (None, "") for row in rows)]
    right = [i for i, name in enumerate(kept) if name.endswith("_bytes") or name == "ops"]
    lines = [
        ["" if v is None else f"{v:,}" if isinstance(v, int) else str(v) for v in map(row.get, kept)] for row in rows
    ]
    return columns([[shown[name] for name in kept], *lines], right=tuple(right))
