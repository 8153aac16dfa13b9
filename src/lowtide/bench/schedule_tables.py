"""Results as tables for people, in a terminal or in Markdown, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

from lowtide.bench.machine import Machine
from lowtide.bench.measure import Cell
from lowtide.bench.parts import PARTS
from lowtide.bench.suite import GRAPHS, Results
from lowtide.report.text import columns
from lowtide.zoo.published import UNITS, Figure

DECIMALS = {"MiB": 3, "KiB": 1, "KB": 1}
FITS, OVER, LEAST = "✓", "×", "*"
NAMES = {"exact": "lowtide"}


@dataclass(frozen=True)
class Table:
    """Cells as text; `left` columns are flush left, the others right."""

    title: str
    rows: Sequence[Sequence[str]]
    left: frozenset[int] = frozenset({0})

    def text(self) -> str:
        """For a terminal."""
        right = [c for c in range(len(self.rows[0])) if c not in self.left]
        return f"{self.title}\n\n{columns(self.rows, right)}"

    def markdown(self) -> str:
        """For a page."""
        head, *rest = self.rows
        rule = [":--" if c in self.left else "--:" for c in range(len(head))]
        lines = ["| " + " | ".join(row) + " |" for row in (head, rule, *rest)]
        return f"### {self.title}\n\n" + "\n".join(lines)


def text(results: Results) -> str:
    """Every table, for a terminal."""
    blocks = [_about(results), *(t.text() for t in tables(results)), *_remarks(results)]
    return "\n\n".join(blocks)


def markdown(results: Results) -> str:
    """Every table, as a page."""
    blocks = [f"# lowtide bench {results.suite}", _about(results), *(t.markdown() for t in tables(results))]
    return "\n\n".join([*blocks, *_remarks(results)]) + "\n"


def machine_text(m: Machine) -> str:
    """One line on what it was measured with."""
    cores = f"{m.cores} core" + ("s" if m.cores != 1 else "")
    return f"lowtide {m.lowtide}, commit {m.commit or 'not known'}; {m.python}, {m.system}, {m.cpu}, {cores}."


def _about(results: Results) -> str:
    o = results.options
    lines = [
        machine_text(results.machine),
        f"Limits per cell: {o['time']:g} s of wall time, {o['search_memory_bytes']:,} B for states; seed {o['seed']}.",
        "Seconds are processor time of all threads for scheduling alone, the least of up to 5 runs where below 0.5 s.",
        f"{LEAST}: proved least, by some method here. In parentheses: as published, times on the papers' machines. "
        f"{FITS}, {OVER}: within the paper's constraint or not. time, memory: ended by that limit; then the bound that "
        "the method itself (zhong: the solver, for its parts) had proved, and how much of the peak lies above it.",
    ]
    if not results.complete:
        lines.append("Interrupted: these are the cells that were done.")
    return "\n".join(lines)


def _remarks(results: Results) -> list[str]:
    said = [f"{c.network}, {_label(c)}: {c.status}: {c.reason}" for c in results.cells if c.reason]
    return ["\n".join(said)] if said else []


def tables(results: Results) -> list[Table]:
    """The tables of each part that has cells."""
    found = []
    for part in dict.fromkeys(c.part for c in results.cells):
        cells = [c for c in results.cells if c.part == part]
        if part == GRAPHS and {c.method for c in cells} <= {"own", "exact"}:
            found.append(_graphs(cells))
            continue
        about = PARTS.get(part, PARTS["main"])
        title = about.title if part in PARTS else "graph files"
        across = part != "ablation"
        for name, show in zip(("peaks", "CPU seconds", "ops to order / states or variables"), SHOWS, strict=True):
            if name in about.tables:
                table = _grid(f"{title}: {name}", cells, show, across=across)
                found.append(_with_facts(table, cells, results.cells) if name == "peaks" and across else table)
    return found


def _graphs(cells: Sequence[Cell]) -> Table:
    """One row per graph."""
    rows: list[tuple[str, ...]] = [
        ("graph", "ops", "after fusion", "own order", "peak", "lower bound", "proof", "states", "CPU s")
    ]
    own = {c.network: c.peak_bytes for c in cells if c.method == "own"}
    exact = [c for c in cells if c.method == "exact"]
    for c in exact:
        proof = c.certificate if c.status == "ok" else c.status
        sizes = (own.get(c.network), c.peak_bytes, c.lower_bound_bytes)
        rows.append(
            (c.network, f"{c.ops:,}", _number(c.reduced_ops), *map(_number, sizes), proof, _number(c.states),
             f"{c.cpu_seconds:.4f}")
        )  # fmt: skip
    proven = sum(c.optimal for c in exact)
    total = sum(c.cpu_seconds for c in exact)
    rows.append((f"all {len(exact)}, {proven} proved", "", "", "", "", "", "", "", f"{total:.4f}"))
    return Table("graphs, bytes", rows, frozenset({0, 6}))


def _with_facts(table: Table, cells: Sequence[Cell], everything: Sequence[Cell]) -> Table:
    """Peaks, with what is known of each network, from all parts."""
    head, *rest = table.rows
    rows = [[head[0], "ops", "target", "unit", "limit", *head[1:], "lower bound"]]
    for row, of_network in zip(rest, _networks(cells).values(), strict=True):
        first = of_network[0]
        bound = max(c.lower_bound_bytes or 0 for c in everything if c.graph_key == first.graph_key)
        limit = _size(first, first.constraint_bytes) if first.constraint_bytes else ""
        about = [f"{first.ops:,}", first.target, first.unit, limit]
        rows.append([row[0], *about, *row[1:], _size(first, bound) + LEAST * any(c.optimal for c in of_network)])
    return Table(table.title, rows, frozenset({0, 2, 3}))


def _networks(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.network, []).append(cell)
    return found


def _grid(title: str, cells: Sequence[Cell], show: Callable[[Cell], str], *, across: bool) -> Table:
    """Networks by methods or settings, or the other way round; columns without any text are left out."""
    networks = _networks(cells)
    labels = list(dict.fromkeys(_label(c) for c in cells))
    shown = {(c.network, _label(c)): show(c) for c in cells}
    rows = [["network", *labels], *([n, *(shown.get((n, label), "") for label in labels)] for n in networks)]
    if not across:
        rows = [list(column) for column in zip(*rows, strict=True)]
        rows[0][0] = "setting"
        return Table(title, rows)
    kept = [0, *(c for c in range(1, len(rows[0])) if any(row[c] for row in rows[1:]))]
    return Table(title, [[row[c] for c in kept] for row in rows])


def _label(cell: Cell) -> str:
    return cell.setting or NAMES.get(cell.method, cell.method)


def _published(cell: Cell, figure: str) -> Figure | None:
    return next((f for f in cell.published if f.figure == figure), None)


def _peak(cell: Cell) -> str:
    if cell.peak_bytes is None:
        return cell.status
    shown = _size(cell, cell.peak_bytes) + LEAST * cell.optimal
    if cell.within_constraint is not None:
        shown += f" {FITS if cell.within_constraint else OVER}"
    printed = _published(cell, "peak")
    if printed is not None:
        tick = ""
        if cell.constraint_bytes is not None:
            tick = f" {FITS if printed.amount <= cell.constraint_bytes else OVER}"
        shown += f" ({printed.text}{tick})"
    return shown if cell.status == "ok" else f"{shown} {cell.status}{_gap(cell)}"


def _gap(cell: Cell) -> str:
    """What a method that a limit ended had proved by then: zhong's solver for the parts that it was given."""
    bound = cell.counters.get("ilp_bound_bytes") or (cell.lower_bound_bytes if cell.method == "exact" else None)
    if not isinstance(bound, int) or not cell.peak_bytes:
        return ""
    return f", bound {_size(cell, bound)}, gap {100 * (1 - bound / cell.peak_bytes):.1f} %"


def _seconds(cell: Cell) -> str:
    if cell.peak_bytes is None:
        return cell.status
    printed = _published(cell, "time")
    shown = f"{cell.cpu_seconds:.2g}" if cell.cpu_seconds < 1 else f"{cell.cpu_seconds:.1f}"
    shown += "" if cell.status == "ok" else f" {cell.status}"
    return f"{shown} ({printed.text})" if printed is not None else shown


def _work(cell: Cell) -> str:
    work = cell.variables if cell.variables is not None else cell.states
    printed = _published(cell, "variables")
    shown = " / ".join(_number(n) for n in (cell.reduced_ops, work) if n is not None)
    return f"{shown} ({printed.text})" if printed is not None else shown


SHOWS = (_peak, _seconds, _work)


def _size(cell: Cell, size: int) -> str:
    return f"{size / UNITS[cell.unit]:.{DECIMALS[cell.unit]}f}"


def _number(n: int | None) -> str:
    return "" if n is None else f"{n:,}"


SHOWN_FIGURES = ("peak", "time", "variables", "arena")


def csv_text(results: Results) -> str:
    """One line per cell: its own fields, then what is published for it (peak and arena in bytes, time in seconds)."""
    own = [f.name for f in fields(Cell) if f.name not in ("published", "counters")]
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([*own, *(f"published_{figure}" for figure in SHOWN_FIGURES), "published_in"])
    for cell in results.cells:
        printed = [_published(cell, figure) for figure in SHOWN_FIGURES]
        amounts = ["" if f is None else f"{f.relation.strip('=')}{f.amount:g}" for f in printed]
        sources = "; ".join(dict.fromkeys(f"{f.paper}, {f.table}" for f in cell.published))
        writer.writerow([*("" if (v := getattr(cell, n)) is None else v for n in own), *amounts, sources])
    return made.getvalue()
