"""`lowtide research bench allocate`: what arenas need, by greedy rule and engine, beside the live bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from lowtide.allocate.buffers import Problem
from lowtide.allocate.csv_buffers import read_buffers
from lowtide.errors import InputError
from lowtide_research.bench.networks import files_in
from lowtide_research.bench.options import flag, listed, time_limit
from lowtide_research.bench.placing import OURS, OURS_TO_CAPACITY, Allocator, Ours, Row, allocators, measure
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import LEAST, Page, Table, machine_text, seconds_text
from lowtide_research.zoo.published import figures


@dataclass(frozen=True, kw_only=True)
class AllocateSuite(TableSuite[Row]):
    """Buffers placed by every allocator, beside the load bound."""

    name: ClassVar[str] = "allocate"
    words: ClassVar[str] = "what arenas need, by every allocator"
    description: ClassVar[str] = (
        "Buffers placed by the known greedy rules and by every engine of lowtide, beside the bytes that\n"
        "are live at once."
    )
    examples: ClassVar[tuple[str, ...]] = ("--instances DIR --allocators tflm,lowtide",)

    # Directory of ``*.csv`` as minimalloc's; a number before the ending (``A.1048576.csv``) is the capacity.
    instances: str | Path | None = field(
        default=None, metadata=flag("place the buffers of every *.csv there (minimalloc's format)", "DIR")
    )
    # Names of `lowtide_research.bench.placing.allocators`; all if empty.
    allocators: Sequence[str] = listed("greedy rules, engines (default: all)")
    time: float = time_limit(20.0, "each search")  # seconds of wall time of each search

    def rows(self, watch: Watch) -> Iterator[Row]:
        """Check the names and the directory; then file by file."""
        if self.instances is None:
            raise InputError("this needs files of buffers; give --instances their directory")
        known = allocators()
        check_names("allocator", self.allocators, known)
        return self._measured(files_in(self.instances, ".csv"), [known[name] for name in self.allocators or known])

    def _measured(self, paths: Sequence[Path], wanted: Sequence[Allocator]) -> Iterator[Row]:
        for path in paths:
            problem = Problem(read_buffers(path))
            stem = path.name.removesuffix(".csv")
            name, _, capacity = stem.rpartition(".")
            limited = bool(name) and capacity.isdigit()
            about: dict[str, Any] = {"instance": name if limited else stem}
            if limited:
                about["capacity_bytes"] = int(capacity)
            for allocator in wanted:
                yield measure(problem, allocator, self.time, about)
                if allocator.name == OURS and limited:
                    yield measure(problem, Ours(OURS_TO_CAPACITY, capacity=int(capacity)), self.time, about)

    def line(self, row: Row) -> str:
        """Height, and how much it is of the load."""
        height = row.reason or row.status if row.height_bytes is None else f"{row.height_bytes:,} B"
        ratio = "" if row.ratio is None else f", {row.ratio:.4f} of the load, {row.cpu_seconds:.3f} CPU s"
        return f"{row.instance} {row.allocator}: {height}{ratio}"

    def finish(self, rows: Sequence[Row]) -> Sequence[Row]:
        """A height is optimal if it is the best bound that any allocator proved of the same buffers."""
        best = best_bounds(rows, lambda r: r.instance, lambda r: r.lower_bound_bytes)
        return [
            row
            if row.height_bytes is None
            else replace(row, lower_bound_bytes=best[row.instance], optimal=row.height_bytes == best[row.instance])
            for row in rows
        ]

    def page(self, results: Results[Row]) -> Page:
        """Ratios and seconds, a column for each allocator; ours summed up, and beside minimalloc's times."""
        about = [
            machine_text(results.machine),
            f"Limit of each search: {self.time:g} s of wall time.",
            "Seconds are processor time of all threads, the least of up to 5 runs where below 0.5 s.",
            f"Ratios are height over load: the bytes live at the highest step. {LEAST}: proved optimal.",
        ]
        if not results.complete:
            about.append("Interrupted: these are the rows that were done.")
        errors = (r for r in results.rows if r.status == "error")
        remarks = [f"{r.instance}, {r.allocator}: error: {r.reason}" for r in errors]
        return Page(f"lowtide research bench {self.name}", "\n".join(about), _tables(results.rows), remarks)


def _tables(rows: Sequence[Row]) -> list[Table]:
    names = list(dict.fromkeys(r.allocator for r in rows))
    tables = []
    for what, show in (("height / load", _ratio), ("CPU seconds", _seconds)):
        lines: list[Sequence[str]] = [("instance", "buffers", "load", *names)]
        for name in dict.fromkeys(r.instance for r in rows):
            by_name = {r.allocator: r for r in rows if r.instance == name}
            first, load = (
                next(iter(by_name.values())),
                next((r.load_bytes for r in by_name.values() if r.load_bytes is not None), 0),
            )
            cells = [show(by_name[n]) if n in by_name else "" for n in names]
            lines.append((name, f"{first.buffers:,}", f"{load:,}", *cells))
        tables.append(Table(what, lines))
    for name in (OURS, OURS_TO_CAPACITY):
        of_name = [r for r in rows if r.allocator == name]
        if of_name:
            tables.append(_summed(f"{name}, all together", of_name))
    return [*tables, *_against_minimalloc(rows)]


def _summed(title: str, rows: Sequence[Row]) -> Table:
    """How many fit and are proved, in how long."""
    fit = f"{sum(r.fits is True for r in rows)}" if any(r.capacity_bytes for r in rows) else ""
    line = (f"{len(rows)}", fit, f"{sum(r.optimal for r in rows)}", f"{sum(r.cpu_seconds for r in rows):.2f}")
    return Table(title, [("instances", "within capacity", "proved optimal", "CPU s"), line])


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


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "" if row.status == "unsupported" else row.status
    shown = f"{row.ratio:.4f}" if row.ratio != 1 else "1"
    return shown + LEAST * row.optimal


def _seconds(row: Row) -> str:
    if row.height_bytes is None:
        return "" if row.status == "unsupported" else row.status
    return seconds_text(row.cpu_seconds)
