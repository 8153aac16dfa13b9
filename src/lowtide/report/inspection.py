"""Why the peak is what it is, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lowtide.report.columns import CUT_SHORT, above_text, change, columns, labels
from lowtide.report.figures import figures_rows
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.analyse.inspect import Inspection, Live, OpName, StepDetail

_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS = " .:-=+*#@"
MOST_LIVE = 12  # storages listed at the peak; the rest is summed up in a line


def sparkline(values: Sequence[int], width: int, *, plain: bool = False) -> str:
    """Bars of the largest value in each of at most `width` equal stretches; `plain` uses ASCII only.

    >>> sparkline([0, 4, 8], 3)
    ' ▄█'
    """
    bars = _PLAIN_BARS if plain else _BARS
    most = max(values, default=0)
    if most == 0:
        return bars[0] * min(width, len(values))
    count = min(width, len(values))
    edges = [k * len(values) // count for k in range(count + 1)]
    highest = (max(values[a:b]) for a, b in pairwise(edges))
    return "".join(bars[-(-h * (len(bars) - 1) // most)] for h in highest)


def inspection_text(
    inspection: Inspection, *, width: int = 72, plain: bool = False, cut: int | None = None, room: int | None = None
) -> str:
    """Why the peak is what it is: the step, who is live there, what would help; and a small profile. Names are
    complete, or of about `cut` letters. Where lines have `room` for so many letters, and the table of who is live
    needs more, its shapes are left out."""
    label = labels(_names(inspection), cut)
    best = f"{format_size(inspection.peak_bytes)}, {change(inspection.own_order_peak_bytes, inspection.peak_bytes)}"
    if inspection.optimal:
        best += ", proved optimal"
    if inspection.stopped in CUT_SHORT:
        best += f", {CUT_SHORT[inspection.stopped]}"
    head = [("model", f"{inspection.graph}, {format_count(inspection.ops, 'op')}"), ("target", inspection.target)]
    lines = [columns(head), "", *figures_rows(inspection.runtime_figures, inspection.target)]
    head = [
        ("file order peak", format_size(inspection.own_order_peak_bytes)),
        ("best known peak", best),
        ("lower bound", format_size(inspection.lower_bound_bytes)),
        (
            "arena",
            f"{format_size(inspection.arena_bytes)}, {above_text(inspection.arena_bytes, inspection.peak_bytes)}",
        ),
    ]
    if inspection.bodies:
        head.append(("bodies", inspection.bodies))
    if inspection.arena_lost is not None:
        head.append(("bytes lost", inspection.arena_lost.text))
    if inspection.fission is not None:
        head.append(("with tiling", _fission_text(inspection, label)))
    lines.append(columns(head))
    peak = inspection.peak
    if peak is None:
        return "\n".join(lines)
    bars = sparkline(inspection.footprint_bytes, width, plain=plain)
    at = next(k for k in range(len(bars)) if (k + 1) * len(inspection.footprint_bytes) // len(bars) > peak.step)
    lines += ["", "live bytes at each step, in file order:", f"|{bars}|", " " * (at + 1) + "^"]
    several = inspection.steps_at_peak > 1
    many = f"{inspection.steps_at_peak:,} steps reach the peak, the first is" if several else "the peak is at"
    lines.append(f"{many} step {peak.step:,}: {_op_text(peak.op, label)}")
    lines += ["", _live_table(peak, label, room)]
    if peak.live and all(entry.peak_if_gone_bytes == inspection.own_order_peak_bytes for entry in peak.live):
        lines += ["", "removing one of them does not lower the peak: other steps reach it too"]
    if inspection.runners_up:
        highest = inspection.runners_up
        rows_up = [(f"{r.footprint_bytes:,} B", f"step {r.step:,}", _op_text(r.op, label)) for r in highest]
        lines += ["", "next highest steps:", columns(rows_up, right=[0])]
    if any(text != name for name, text in label.items()):
        lines += ["", "long names are shortened; --json has the full names"]
    lines += _ladder(inspection)
    return "\n".join(lines)


def _ladder(inspection: Inspection) -> list[str]:
    """Sizes in which the model fits too, and what was not looked at."""
    rungs = inspection.ladder
    if not rungs:
        return []
    kept = rungs[0].arena_bytes is not None
    rows = [("bytes", "arena, about", "with", "ops run", "slow memory")]
    for rung in rungs:
        moved = "" if rung.traffic_bytes is None else f"about {format_size(rung.traffic_bytes)} moved"
        under = f" ({rung.target})" if rung.target and rung.target != inspection.target else ""
        arena = "" if rung.arena_bytes is None else f"{rung.arena_bytes:,}"
        rows.append((f"{rung.bytes:,}", arena, f"{rung.how}{under}", f"{rung.ops:,}", moved))
    spent = f"{inspection.ladder_seconds:.1f} s"
    left = "complete" if inspection.ladder_complete else "stopped by the time limit, which --ladder SECONDS raises"
    note = (
        f"searched for {spent}, {left}; `lowtide research plan --allow tile`, with --budget or --memory, "
        "searches longer"
    )
    if kept:
        table = columns(rows, right=[0, 1, 3])
        return ["", "fits in (live bytes; arena: with the runtime's own data for each op):", table, note]
    table = columns([row[:1] + row[2:] for row in rows], right=[0, 2])
    return ["", "fits in (live bytes):", table, note]


def _live_table(peak: StepDetail, label: Mapping[str, str], room: int | None) -> str:
    rows: list[tuple[str, ...]] = [
        ("bytes", "%", "live at the peak", "shape", "made by", "kept live by", "peak if halved", "if gone")
    ]
    for entry in peak.live[:MOST_LIVE]:
        who = (_live_text(entry, label), _shape_text(entry), _maker_text(entry, label), _kept_text(entry, label))
        rows.append(
            (
                f"{entry.counted_bytes:,}", f"{entry.percent:.1f}", *who,
                f"{entry.peak_if_halved_bytes:,}", f"{entry.peak_if_gone_bytes:,}",
            )
        )  # fmt: skip
    if peak.workspace_bytes:
        share = 100 * peak.workspace_bytes / peak.footprint_bytes
        rows.append((f"{peak.workspace_bytes:,}", f"{share:.1f}", "workspace", "", "", "used by this op"))
    rest = peak.live[MOST_LIVE:]
    if rest:
        counted = sum(entry.counted_bytes for entry in rest)
        share = 100 * counted / peak.footprint_bytes if peak.footprint_bytes else 0.0
        rows.append((f"{counted:,}", f"{share:.1f}", f"{len(rest):,} more"))
    table = columns(rows, right=[0, 1, 6, 7])
    known = any(entry.shape is not None or entry.dtype for entry in peak.live[:MOST_LIVE])
    if known and (room is None or max(map(len, table.splitlines())) <= room):
        return table
    return columns([row[:3] + row[4:] for row in rows], right=[0, 1, 5, 6])


def _shape_text(entry: Live) -> str:
    """As in ``1x48x48x16 int8``."""
    shape = "" if entry.shape is None else "x".join(map(str, entry.shape)) or "scalar"
    return " ".join(filter(None, (shape, entry.dtype)))


def _maker_text(entry: Live, label: Mapping[str, str]) -> str:
    """The op; its type is enough where it has the tensor's own name."""
    maker = entry.made_by
    if maker is None:
        return "graph input"
    return maker.type if maker.type and _op_name(maker) == entry.name else _op_text(maker, label)


def _fission_text(inspection: Inspection, label: Mapping[str, str]) -> str:
    """The lower bound of any cut compared with the best peak, and what prevents cuts at the peak."""
    bound = inspection.fission
    assert bound is not None
    where = "the graph's own inputs or outputs" if bound.floor_op is None else _op_text(bound.floor_op, label)
    gain = "no gain"
    if bound.floor_bytes < inspection.peak_bytes:
        gain = f"at best {change(inspection.peak_bytes, bound.floor_bytes)}"
    text = f"{gain}: no tiling needs less than {format_size(bound.floor_bytes)}, because of {where}"
    for op, reason in bound.opaque[:1]:
        more = f" (and {len(bound.opaque) - 1:,} more)" if len(bound.opaque) > 1 else ""
        text += f"; no tiling passes {_op_text(op, label)} at the peak{more}: {reason}"
    return text


def _names(inspection: Inspection) -> list[str]:
    """Every name that is shown."""
    live = () if inspection.peak is None else inspection.peak.live[:MOST_LIVE]
    ops = [r.op for r in inspection.runners_up]
    ops += [op for entry in live for op in (entry.made_by, *entry.kept_by[-1:]) if op is not None]
    ops += [] if inspection.peak is None else [inspection.peak.op]
    if inspection.fission is not None:
        ops += [op for op, _ in inspection.fission.opaque[:1]]
        ops += [] if inspection.fission.floor_op is None else [inspection.fission.floor_op]
    return [_op_name(op) for op in ops] + [n for e in live for n in (e.name, e.over) if n is not None]


def _op_name(op: OpName) -> str:
    return op.name or f"op {op.op}"


def _op_text(op: OpName, label: Mapping[str, str]) -> str:
    name = label[_op_name(op)]
    return (f"{name} ({op.type})" if op.type else name).replace("\n", "\\n")


def _live_text(entry: Live, label: Mapping[str, str]) -> str:
    name = label[entry.name]
    if entry.shares:
        name += f" and {format_count(len(entry.shares), 'alias')}".replace("aliass", "aliases")
    return f"{name} over {label[entry.over]}" if entry.over else name


def _kept_text(entry: Live, label: Mapping[str, str]) -> str:
    if entry.graph_output:
        return "graph output"
    if not entry.kept_by:
        return "used by this op" if entry.in_use else "kept to the end"
    name = label[_op_name(entry.kept_by[-1])]
    return name if len(entry.kept_by) == 1 else f"{name}, last of {len(entry.kept_by)}"
