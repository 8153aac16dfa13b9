"""Arenas as tables for people, in a terminal or in Markdown, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields
from typing import TypeVar

from lowtide.bench.allocation import PARTS, Arenas
from lowtide.bench.placing import OURS, OURS_TO_CAPACITY, Row
from lowtide.bench.tables import Table, machine_text
from lowtide.zoo.published import Figure, figures

Key = TypeVar("Key", bound=Hashable)

LEAST = "*"
MIB = 1024**2


def text(found: Arenas) -> str:
    """Every table, for a terminal."""
    return "\n\n".join([_about(found), *(t.text() for t in tables(found)), *_remarks(found)])


def markdown(found: Arenas) -> str:
    """Every table, as a page."""
    blocks = ["# lowtide bench allocate", _about(found), *(t.markdown() for t in tables(found)), *_remarks(found)]
    return "\n\n".join(blocks) + "\n"


def _about(found: Arenas) -> str:
    lines = [
        machine_text(found.machine),
        f"Limit of each search: {found.options['time']:g} s of wall time, for an order and for its arena.",
        "Seconds are processor time of all threads, the least of up to 5 runs where below 0.5 s.",
        f"Ratios are height over load: the bytes live at the highest step, sizes rounded up. {LEAST}: proved least.",
    ]
    if not found.complete:
        lines.append("Interrupted: these are the rows that were done.")
    return "\n".join(lines)


def _remarks(found: Arenas) -> list[str]:
    said = [
        f"{r.instance}, {' '.join(w for w in (r.target, r.order, r.allocator) if w)}: {r.status}: {r.reason}"
        for r in found.rows
        if r.status == "error"
    ]
    return ["\n".join(said)] if said else []


def tables(found: Arenas) -> list[Table]:
    """The tables of each part that has rows."""
    made: list[Table] = []
    for part in dict.fromkeys(r.part for r in found.rows):
        rows = [r for r in found.rows if r.part == part]
        if part in ("instances", "training"):
            made += _by_allocator(part, rows)
        elif part == "hmcos-1":
            made.append(_hmcos(rows, found.published))
        elif part == "orders":
            made += _by_method(rows)
        else:
            made += _layouts(rows)
    return made


def _by_allocator(part: str, rows: Sequence[Row]) -> list[Table]:
    """Ratios and seconds, a column for each allocator."""
    names = list(dict.fromkeys(r.allocator for r in rows))
    groups = _groups(rows, lambda r: (r.instance, r.target))
    made = []
    for what, show in (("height / load", _ratio), ("CPU seconds", _seconds)):
        lines: list[Sequence[str]] = [("instance", "buffers", "load", *names)]
        for (instance, target), of in groups.items():
            by_name = {r.allocator: r for r in of}
            load = next((r.load_bytes for r in of if r.load_bytes is not None), 0)
            name = f"{instance} {target}" if target else instance
            cells = [show(by_name[n]) if n in by_name else "" for n in names]
            lines.append((name, f"{of[0].buffers:,}", f"{load:,}", *cells))
        made.append(Table(f"{PARTS[part]}: {what}", lines))
    for name in (OURS, OURS_TO_CAPACITY):
        of_name = [r for r in rows if r.allocator == name]
        if of_name:
            summed: list[Sequence[str]] = [("instances", "within capacity", "proved least", "CPU s")]
            fit = sum(r.fits is True for r in of_name)
            proved, total = sum(r.optimal for r in of_name), sum(r.cpu_seconds for r in of_name)
            summed.append(
                (
                    f"{len(of_name)}",
                    f"{fit}" if any(r.capacity_bytes for r in of_name) else "",
                    f"{proved}",
                    f"{total:.2f}",
                )
            )
            made.append(Table(f"{PARTS[part]}: {name}, all together", summed))
    reference = {f.network: f for f in figures("allocate") if f.method == "minimalloc" and f.figure == "time"}
    fitting = [r for r in rows if r.allocator == OURS_TO_CAPACITY and r.instance in reference]
    if fitting:
        lines = [("instance", "capacity", "height", "lowtide", "minimalloc")]
        for r in fitting:
            sizes = (f"{r.capacity_bytes or 0:,}", f"{r.height_bytes or 0:,}")
            lines.append((r.instance, *sizes, _seconds(r), reference[r.instance].text))
        made.append(Table("CPU seconds to fit the capacity; minimalloc's were measured at another time", lines))
    return made


def _hmcos(rows: Sequence[Row], published: Sequence[Figure]) -> Table:
    """HMCOS's Table 1: its arenas as printed and by its code, beside ours and beside the peaks."""
    head = (
        "network, MiB", "HMCOS peak", "printed", "HMCOS arena printed", "its code", "HMCOS order, TFLite greedy",
        "HMCOS order, lowtide", "lowtide peak", "lowtide arena", "arena / peak", "below HMCOS printed",
    )  # fmt: skip
    lines: list[Sequence[str]] = [head]
    for (network,), of in _groups(rows, lambda r: (r.instance,)).items():
        by = {(r.order, r.allocator): r for r in of}
        theirs, again, ours = by.get(("hmcos", "tflite")), by.get(("hmcos", OURS)), by.get((OURS, OURS))
        printed = {f.figure: f for f in published if f.network == network and f.method == "hmcos"}
        code = [f.text for f in figures("allocate") if (f.network, f.method, f.figure) == (network, "hmcos", "arena")]
        over, less = "", ""
        if ours is not None and ours.height_bytes and ours.peak_bytes:
            over = f"{ours.height_bytes / ours.peak_bytes:.4f}"
            if "arena" in printed:
                less = f"{100 * (1 - ours.height_bytes / printed['arena'].amount):.1f} %"
        lines.append(
            (
                network,
                _mib(theirs and theirs.peak_bytes),
                *(printed[k].text if k in printed else "" for k in ("peak", "arena")),
                ", ".join(code),
                _mib(theirs and theirs.height_bytes),
                _mib(again and again.height_bytes),
                _mib(ours and ours.peak_bytes),
                _mib(ours and ours.height_bytes),
                over,
                less,
            )
        )
    return Table(PARTS["hmcos-1"], lines)


def _by_method(rows: Sequence[Row]) -> list[Table]:
    """Peaks, and arenas over loads, a column for each method's order."""
    methods = list(dict.fromkeys(r.order for r in rows))
    made = []
    for title, allocator, show in (
        ("exact peak, KiB", OURS, lambda r: "" if r.peak_bytes is None else f"{r.peak_bytes / 1024:.1f}"),
        ("arena / load by TFLite's greedy", "tflite", _ratio),
        ("arena / load by lowtide's engines", OURS, _ratio),
    ):
        lines: list[Sequence[str]] = [("network", *methods)]
        for (network,), of in _groups(rows, lambda r: (r.instance,)).items():
            shown = {
                r.order: (show(r) if r.status in ("ok", "time") else r.status) for r in of if r.allocator == allocator
            }
            lines.append((network, *(shown.get(m, "") for m in methods)))
        made.append(Table(f"{PARTS['orders']}: {title}", lines))
    return made


def _layouts(rows: Sequence[Row]) -> list[Table]:
    """How many arenas are the load, by target and alignment; and every one that is not."""
    lines: list[Sequence[str]] = [
        ("target", "alignment", "networks", "arena = load", "arena = exact peak", "bytes replayed", "CPU s")
    ]
    for (target, alignment), of in _groups(rows, lambda r: (r.target, r.alignment)).items():
        done = [r for r in of if r.height_bytes is not None]
        lines.append(
            (
                target, str(alignment), str(len(of)), str(sum(r.height_bytes == r.load_bytes for r in done)),
                str(sum(r.height_bytes == r.peak_bytes for r in done)), str(sum(r.replayed for r in done)),
                f"{sum(r.cpu_seconds for r in of):.1f}",
            )
        )  # fmt: skip
    made = [Table(PARTS["layout"], lines, frozenset({0}))]
    above = [r for r in rows if r.height_bytes is not None and r.height_bytes != r.load_bytes]
    if above:
        lines = [("network", "target", "alignment", "peak", "load", "arena", "above", "this order needs", "where")]
        lines += [
            (
                r.instance, r.target, str(r.alignment), f"{r.peak_bytes or 0:,}", f"{r.load_bytes or 0:,}",
                f"{r.height_bytes or 0:,}", f"{100 * ((r.ratio or 1) - 1):.2f} %",
                f"{r.lower_bound_bytes or 0:,}{LEAST * r.optimal}", r.lost,
            )
            for r in above
        ]  # fmt: skip
        made.append(Table("arenas above their load", lines, frozenset({0, 1, 8})))
    return made


def _groups(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "" if row.status == "unsupported" else row.status
    shown = f"{row.ratio:.4f}" if row.ratio != 1 else "1"
    return shown + LEAST * row.optimal


def _seconds(row: Row) -> str:
    if row.height_bytes is None:
        return "" if row.status == "unsupported" else row.status
    return f"{row.cpu_seconds:.2g}" if row.cpu_seconds < 1 else f"{row.cpu_seconds:.1f}"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.3f}"


def csv_text(found: Arenas) -> str:
    """One line per row."""
    names = [f.name for f in fields(Row) if f.name != "counters"]
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(names)
    for row in found.rows:
        writer.writerow(["" if (v := getattr(row, n)) is None else v for n in names])
    return made.getvalue()
