"""Tables of `lowtide research bench spill`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from lowtide_research.bench.spill_cells import SpillCell
from lowtide_research.bench.suite import Results
from lowtide_research.bench.tables import (
    LEAST,
    Page,
    Table,
    machine_text,
    seconds_text,
)

SAME = "="
FAMILIES = {"human": "human-designed networks", "nas": "NAS networks", "wide": "wide graphs"}
SETTINGS = {"activations": "activations only", "parameters": "with parameters"}
NETWORKS = """Networks: those of COSMA's paper from the zoo, one op per graph node, nothing fused; DenseNet-121 beside
FC-DenseNet. Wide graphs are of no study of spilling: many of their tensors of one size are live at once. All data of 8
bits. Target strict: COSMA's memory rules. A parameter is read by one op only (section V-B): a constant that several ops
read counts once for each."""


def page(results: Results[SpillCell], limits: str) -> Page:
    """Traffic and seconds, by setting and family; `limits`: those of each cell, in words."""
    cells = results.rows
    about = [
        machine_text(results.machine),
        limits,
        "Seconds are processor time of all threads, finding the order included. Every answer is replayed.",
        f"{LEAST}: proved optimal over all orders, by some scheme here. {SAME}: M_R is M_P. "
        "time, memory: ended by that limit (a program above 100,000 variables is not built), the best found is given. "
        "In parentheses: as published, on the paper's machine.",
        NETWORKS.replace("\n", " "),
    ]
    if not results.complete:
        about.append("Interrupted: these are the cells that were done.")
    tables: list[Table] = []
    for setting, words in SETTINGS.items():
        for family, name in FAMILIES.items():
            some = [c for c in cells if (c.setting, c.family) == (setting, family)]
            tables += _grids(f"{name}, {words}", some) if some else []
    return Page(f"lowtide research bench {results.suite.name}", "\n".join(about), tables, _remarks(cells))


def _remarks(cells: Sequence[SpillCell]) -> list[str]:
    """Reasons, and what a second search says of the bounds."""
    remarks = [f"{_name(c)}: {c.status}: {c.reason}" for c in cells if c.reason]
    again = [c for c in cells if c.proved_again is not None]
    if again:
        counts = Counter(str(c.proved_again) for c in again)
        results = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
        remarks.append(f"Bounds above nothing: {len(again)}. What verify --prove says of them: {results}.")
    return [*remarks, *(f"{_name(c)}: not re-proved" for c in again if c.proved_again == "not re-proved")]


def _name(cell: SpillCell) -> str:
    return f"{cell.label}, {SETTINGS[cell.setting]}, {cell.budget}, {cell.scheme}"


def _grids(title: str, cells: Sequence[SpillCell]) -> list[Table]:
    return [
        _grid(f"{title}: non-compulsory traffic, KiB", cells, _traffic, bounds=True),
        _grid(f"{title}: CPU seconds", cells, _seconds, bounds=False),
    ]


def _rows(cells: Sequence[SpillCell]) -> Iterator[tuple[SpillCell, dict[str, SpillCell]]]:
    """Of each network and budget, one cell for the facts, and the cells by scheme."""
    by_row: dict[tuple[str, str, str], dict[str, SpillCell]] = {}
    for c in cells:
        by_row.setdefault(c.problem_key, {})[c.scheme] = c
    for row in by_row.values():
        yield next(iter(row.values())), row


def _grid(title: str, cells: Sequence[SpillCell], show: Callable[[SpillCell], str], *, bounds: bool) -> Table:
    schemes = list(dict.fromkeys(c.scheme for c in cells))
    head = ["network", "ops", "budget", "KiB", *schemes]
    rows = [[*head, "bound"] if bounds else head]
    for first, row in _rows(cells):
        budget = first.budget + (f" {SAME}" if first.same else "") + ("" if first.peak_proved else " ?")
        shown = [show(row[s]) if s in row else "" for s in schemes]
        line = [first.label, f"{first.ops:,}", budget, _kib(first.capacity_bytes), *shown]
        if bounds:
            line.append(_kib(max(c.lower_bound_bytes for c in row.values())))
        rows.append(line)
    return Table(title, rows, frozenset({0, 2}))


def _kib(size: int) -> str:
    return "0" if not size else f"{size / 1024:.1f}"


def _traffic(cell: SpillCell) -> str:
    if cell.traffic_bytes is None:
        return cell.status
    shown = _kib(cell.traffic_bytes) + LEAST * cell.optimal
    return shown if cell.status == "ok" else f"{shown} {cell.status}"


def _seconds(cell: SpillCell) -> str:
    if cell.traffic_bytes is None:
        return cell.status
    shown = seconds_text(cell.cpu_seconds) + ("" if cell.status == "ok" else f" {cell.status}")
    return f"{shown} ({cell.published[0].text})" if cell.published else shown
