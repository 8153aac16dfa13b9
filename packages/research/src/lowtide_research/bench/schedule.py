"""`lowtide research bench schedule`: every method on the papers' networks, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from lowtide.schedule.registry import make
from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide_research.bench.measure import Cell, make_subject, measure
from lowtide_research.bench.networks import SUFFIX, files_in, graph_of
from lowtide_research.bench.options import flag, listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.parts import FIGURES, GRAPHS, METHODS, PARTS, Part, by_method
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import (
    LEAST,
    Page,
    Table,
    limits_text,
    machine_text,
    number,
    seconds_text,
)
from lowtide_research.zoo.published import UNITS, Figure, printed
from lowtide_research.zoo.published.cases import FILE, Case, case_of

GRAPH_METHODS = ("own", "exact")


@dataclass(frozen=True, kw_only=True)
class ScheduleSuite(TableSuite[Cell]):
    """Methods on networks, each figure under its paper's own memory rules."""

    name: ClassVar[str] = "schedule"
    words: ClassVar[str] = "every method on the papers' networks, beside the published figures"
    description: ClassVar[str] = "Every method on the papers' networks, each under its paper's own memory rules."
    examples: ClassVar[tuple[str, ...]] = (
        "--networks nasnet_a_cifar --methods hmcos,exact",
        "--part hmcos-3 -o results",
        "--graphs graphs -o results --label mine",
    )

    # Names of the zoo; the papers' own if empty. With `parts`, only these of the parts' networks.
    networks: Sequence[str] = listed("of the zoo (default: the papers')")
    # Directory of ``*.graph.json``, all of them planned, as they are, under `target`; without `networks` or `parts`
    # nothing else is. Parts take from it what the zoo does not hold.
    graphs: str | Path | None = field(
        default=None, metadata=flag("plan every *.graph.json there; parts take from it what they lack", "DIR")
    )
    # Names; the papers' if empty, for `graphs` the file order and the exact one.
    methods: Sequence[str] = listed("(default: the papers'; for --graphs own,exact)")
    # Keys of `PARTS`, or ``"all"``; ``"main"`` if empty.
    parts: Sequence[str] = listed(
        "main, hmcos-3, serenity-2, zhong-4, zhong-5, zhong-6, zhong-9, zhong-solvers, ablation, or all", "--part"
    )
    # Memory rules of networks that no paper measured.
    target: str = field(default="strict", metadata=flag("for networks without a paper (default: strict)", "NAME"))
    # time, search_memory: limits of each cell: seconds of wall time, memory for states. A cell that they end says so.
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Cell]:
        """Check the names; then run each method that each part asks for on each of its networks."""
        from lowtide.api.job import check_time

        check_time(self.time)
        for name in self.methods:
            make(name)
        limits = partial(Limits, self.time, parse_size(self.search_memory, "search memory"), self.seed)
        return self._cells(self._chosen(), limits, watch)

    def _files(self) -> list[str]:
        """Names of the graphs in the directory, the smallest first."""
        files = [] if self.graphs is None else files_in(self.graphs, SUFFIX)
        return [path.name.removesuffix(SUFFIX) for path in files]

    def _chosen(self) -> dict[str, Part]:
        """The parts to run, each with the networks to run it on."""
        check_names("part", (p for p in self.parts if p != "all"), PARTS, " or all")
        files = self._files()
        parts = list(PARTS) if "all" in self.parts else list(self.parts)
        names = [name.removeprefix("zoo:") for name in self.networks]
        chosen: dict[str, Part] = {}
        if self.graphs is not None and not parts:
            cases = tuple(Case(f"{FILE}{name}", target=self.target) for name in files)
            chosen[GRAPHS] = Part("graph files", cases, by_method)
        if not parts and (names or self.graphs is None):
            parts = ["main"]
        for name in parts:
            part = PARTS[name]
            of_part = {case.name: case for case in part.cases}
            cases = tuple(of_part.get(n) or case_of(n) or Case(n, target=self.target) for n in names) or part.cases
            chosen[name] = replace(part, cases=cases)
        return chosen

    def _cells(self, chosen: dict[str, Part], limits: partial[Limits], watch: Watch) -> Iterator[Cell]:
        directory = None if self.graphs is None else Path(self.graphs)
        for name, part in chosen.items():
            methods = self.methods or (GRAPH_METHODS if name == GRAPHS else METHODS)
            for case in part.cases:
                subject = make_subject(name, case, graph_of(case, directory))
                for run in part.runs(case, subject.model, methods):
                    label = " ".join(word for word in (case.name, run.method.name, run.setting) if word)
                    figures = printed(case.network, case.target, run.method.name, run.printed)
                    yield measure(
                        subject,
                        run.method,
                        partial(limits, report=watch.named(label)),
                        setting=run.setting,
                        published=figures if name != GRAPHS else (),
                        own_result=part.own_result,
                    )

    def line(self, row: Cell) -> str:
        """Peak, seconds, and what ended it."""
        peak = row.status if row.peak_bytes is None else f"{row.peak_bytes:,} B"
        limit = f", ended by {row.status}" if row.status in ("time", "memory") else ""
        words = " ".join(w for w in (row.network, row.method, row.setting) if w)
        return f"{words}: {peak}, {row.cpu_seconds:.3f} CPU s{limit}"

    def finish(self, rows: Sequence[Cell]) -> Sequence[Cell]:
        """A peak is optimal if it is the best bound that any method proved on that graph."""
        best = best_bounds(rows, lambda c: c.graph_key, lambda c: c.lower_bound_bytes)
        return [replace(c, optimal=c.peak_bytes == best[c.graph_key]) for c in rows]

    def page(self, results: Results[Cell]) -> Page:
        """A table of peaks, one of seconds, one of ops for each part."""
        return page(results, limits_text(self.time, self.search_memory, self.seed))


DECIMALS = {"MiB": 3, "KiB": 1, "KB": 1}
FITS, OVER = "✓", "×"
NAMES = {"exact": "lowtide"}


def page(results: Results[Cell], limits: str) -> Page:
    """Every table; `limits` is what was said of them."""
    about = [
        machine_text(results.machine),
        limits,
        "Seconds are processor time of all threads for scheduling alone, the least of up to 5 runs where below 0.5 s.",
        f"{LEAST}: proved optimal, by some method here. In parentheses: as published, times on the papers' machines. "
        f"{FITS}, {OVER}: within the paper's constraint or not. time, memory: ended by that limit; then the bound that "
        "the method itself (zhong: the solver, for its parts) had proved, and how much of the peak lies above it.",
    ]
    if not results.complete:
        about.append("Interrupted: these are the cells that were done.")
    remarks = [f"{c.network}, {_label(c)}: {c.status}: {c.reason}" for c in results.rows if c.reason]
    return Page(f"lowtide research bench {results.suite.name}", "\n".join(about), tables(results.rows), remarks)


def tables(everything: Sequence[Cell]) -> list[Table]:
    """The tables of each part that has cells."""
    shown: list[Table] = []
    for part in dict.fromkeys(c.part for c in everything):
        cells = [c for c in everything if c.part == part]
        if part == GRAPHS and {c.method for c in cells} <= {"own", "exact"}:
            shown.append(_graphs(cells))
            continue
        about = PARTS.get(part, PARTS["main"])
        title = about.title if part in PARTS else "graph files"
        across = part != "ablation"
        for name, show in zip(FIGURES, SHOWS, strict=True):
            if name in about.tables:
                table = _grid(f"{title}: {name}", cells, show, across=across)
                shown.append(_with_facts(table, cells, everything) if name == "peaks" and across else table)
    return shown


def _graphs(cells: Sequence[Cell]) -> Table:
    """One row per graph."""
    rows: list[tuple[str, ...]] = [
        ("graph", "ops", "after fusion", "file order", "peak", "lower bound", "proof", "states", "CPU s")
    ]
    own = {c.network: c.peak_bytes for c in cells if c.method == "own"}
    exact = [c for c in cells if c.method == "exact"]
    for c in exact:
        proof = c.certificate if c.status == "ok" else c.status
        sizes = (own.get(c.network), c.peak_bytes, c.lower_bound_bytes)
        rows.append(
            (c.network, f"{c.ops:,}", number(c.reduced_ops), *map(number, sizes), proof, number(c.states),
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
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.network, []).append(cell)
    return groups


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


def _published(cell: Cell, kind: str) -> Figure | None:
    return next((f for f in cell.published if f.figure == kind), None)


def _peak(cell: Cell) -> str:
    if cell.peak_bytes is None:
        return cell.status
    shown = _size(cell, cell.peak_bytes) + LEAST * cell.optimal
    if cell.within_constraint is not None:
        shown += f" {FITS if cell.within_constraint else OVER}"
    figure = _published(cell, "peak")
    if figure is not None:
        tick = ""
        if cell.constraint_bytes is not None:
            tick = f" {FITS if figure.amount <= cell.constraint_bytes else OVER}"
        shown += f" ({figure.text}{tick})"
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
    figure = _published(cell, "time")
    shown = seconds_text(cell.cpu_seconds) + ("" if cell.status == "ok" else f" {cell.status}")
    return f"{shown} ({figure.text})" if figure is not None else shown


def _work(cell: Cell) -> str:
    work = cell.variables if cell.variables is not None else cell.states
    figure = _published(cell, "variables")
    shown = " / ".join(number(n) for n in (cell.reduced_ops, work) if n is not None)
    return f"{shown} ({figure.text})" if figure is not None else shown


SHOWS = (_peak, _seconds, _work)


def _size(cell: Cell, size: int) -> str:
    return f"{size / UNITS[cell.unit]:.{DECIMALS[cell.unit]}f}"
