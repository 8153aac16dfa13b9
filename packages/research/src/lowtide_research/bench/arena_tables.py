"""Tables of `lowtide research bench allocate`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from types import MappingProxyType
from typing import TypeVar

from lowtide_research.bench.placing import OURS, OURS_TO_CAPACITY, Row
from lowtide_research.bench.suite import Results
from lowtide_research.bench.tables import LEAST, Page, Table, machine_text, seconds_text
from lowtide_research.zoo.published import Figure, figures

PARTS = MappingProxyType(
    {
        "instances": "buffers from files",
        "hmcos-1": "HMCOS's networks, target hmcos, alignment 64",
    }
)
"""What is run, in this order, and the titles of its tables."""

Key = TypeVar("Key", bound=Hashable)

MIB = 1024**2


def page(results: Results[Row], seconds: float, published: Sequence[Figure]) -> Page:
    """The tables of each part that has rows; `seconds` is the limit of each search."""
    about = [
        machine_text(results.machine),
        f"Limit of each search: {seconds:g} s of wall time, for an order and for its arena.",
        "Seconds are processor time of all threads, the least of up to 5 runs where below 0.5 s.",
        f"Ratios are height over load: the bytes live at the highest step, sizes rounded up. {LEAST}: proved least.",
    ]
    if not results.complete:
        about.append("Interrupted: these are the rows that were done.")
    remarks = [
        f"{r.instance}, {' '.join(w for w in (r.target, r.order, r.allocator) if w)}: {r.status}: {r.reason}"
        for r in results.rows
        if r.status == "error"
    ]
    tables: list[Table] = []
    for part in dict.fromkeys(r.part for r in results.rows):
        tables += _tables(part, [r for r in results.rows if r.part == part], published)
    return Page(f"lowtide research bench {results.suite.name}", "\n".join(about), tables, remarks)


def _tables(part: str, rows: Sequence[Row], published: Sequence[Figure]) -> list[Table]:
    """Those of a part."""
    return _by_allocator(part, rows) if part == "instances" else [_hmcos(rows, published)]


def _by_allocator(part: str, rows: Sequence[Row]) -> list[Table]:
    """Ratios and seconds, a column for each allocator; ours summed up, and beside minimalloc's times."""
    names = list(dict.fromkeys(r.allocator for r in rows))
    tables = []
    for what, show in (("height / load", _ratio), ("CPU seconds", _seconds)):
        lines: list[Sequence[str]] = [("instance", "buffers", "load", *names)]
        for (name,), of in _groups(rows, lambda r: (r.instance,)).items():
            by_name = {r.allocator: r for r in of}
            load = next((r.load_bytes for r in of if r.load_bytes is not None), 0)
            cells = [show(by_name[n]) if n in by_name else "" for n in names]
            lines.append((name, f"{of[0].buffers:,}", f"{load:,}", *cells))
        tables.append(Table(f"{PARTS[part]}: {what}", lines))
    for name in (OURS, OURS_TO_CAPACITY):
        of_name = [r for r in rows if r.allocator == name]
        if of_name:
            tables.append(_summed(f"{PARTS[part]}: {name}, all together", of_name))
    return [*tables, *_against_minimalloc(rows)]


def _summed(title: str, rows: Sequence[Row]) -> Table:
    """How many fit and are proved, in how long."""
    fit = f"{sum(r.fits is True for r in rows)}" if any(r.capacity_bytes for r in rows) else ""
    line = (f"{len(rows)}", fit, f"{sum(r.optimal for r in rows)}", f"{sum(r.cpu_seconds for r in rows):.2f}")
    return Table(title, [("instances", "within capacity", "proved least", "CPU s"), line])


def _against_minimalloc(rows: Sequence[Row]) -> list[Table]:
    """Seconds to fit the capacity, where minimalloc's are there."""
    reference = {f.network: f for f in figures("allocate") if f.method == "minimalloc" and f.figure == "time"}
    fitting = [r for r in rows if r.allocator == OURS_TO_CAPACITY and r.instance in reference]
    if not fitting:
        return []
    lines: list[Sequence[str]] = [("instance", "capacity", "height", "lowtide", "minimalloc")]
    for r in fitting:
        sizes = (f"{r.capacity_bytes or 0:,}", f"{r.height_bytes or 0:,}")
        lines.append((r.instance, *sizes, _seconds(r), reference[r.instance].text))
    return [Table("CPU seconds to fit the capacity; minimalloc's were measured at another time", lines)]


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


def _groups(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "" if row.status == "unsupported" else row.status
    shown = f"{row.ratio:.4f}" if row.ratio != 1 else "1"
    return shown + LEAST * row.optimal


def _seconds(row: Row) -> str:
    if row.height_bytes is None:
        return "" if row.status == "unsupported" else row.status
    return seconds_text(row.cpu_seconds)


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.3f}"
