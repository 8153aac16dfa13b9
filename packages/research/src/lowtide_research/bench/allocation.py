"""`lowtide research bench allocate`: what arenas need, by greedy rule, engine and order, beside the live bytes."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from lowtide.allocate.buffers import Problem, arena_buffers
from lowtide.allocate.csv_buffers import read_buffers
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.schedule.registry import make
from lowtide.stop import Limits
from lowtide.target import Target, resolve
from lowtide_research import zoo
from lowtide_research.bench.machine import one_line
from lowtide_research.bench.networks import files_in, graph_of
from lowtide_research.bench.options import flag, listed, time_limit
from lowtide_research.bench.placing import OURS, OURS_TO_CAPACITY, Allocator, Ours, Row, allocators, measure
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import LEAST, Page, Table, machine_text, seconds_text
from lowtide_research.zoo.published import Figure, figures, printed
from lowtide_research.zoo.published.cases import HMCOS


@dataclass(frozen=True, kw_only=True)
class AllocateSuite(TableSuite[Row]):
    """Buffers placed by every allocator, beside the load bound."""

    name: ClassVar[str] = "allocate"
    words: ClassVar[str] = "what arenas need, by every allocator, and HMCOS's Table 1"
    description: ClassVar[str] = (
        "Buffers placed by the known greedy rules and by every engine of lowtide, beside the bytes that\n"
        "are live at once; the arenas of HMCOS's networks."
    )
    examples: ClassVar[tuple[str, ...]] = ("--part instances --instances DIR", "--part hmcos-1 -o results")

    # Keys of `PARTS`; all of them if empty, without ``"instances"`` where there are none.
    parts: Sequence[str] = listed("instances, hmcos-1 (default: all there is input for)", "--part")
    networks: Sequence[str] = listed("of HMCOS's (default: all)")  # of HMCOS's, by name; all of them if empty
    # Directory of ``*.csv`` as minimalloc's; a number before the ending (``A.1048576.csv``) is the capacity.
    instances: str | Path | None = field(
        default=None, metadata=flag("place the buffers of every *.csv there (minimalloc's format)", "DIR")
    )
    # Names of `lowtide_research.bench.placing.allocators`; all if empty.
    allocators: Sequence[str] = listed("greedy rules, engines (default: all)")
    time: float = time_limit(20.0, "each search")  # seconds of wall time of each search, for an order and for its arena

    def rows(self, watch: Watch) -> Iterator[Row]:
        """Check the names and directories; then part by part."""
        check_names("part", self.parts, PARTS)
        if "instances" in self.parts and self.instances is None:
            raise InputError("part instances needs files; give --instances their directory")
        for name in self._networks():
            zoo.network(name)
        known = allocators()
        check_names("allocator", self.allocators, known)
        self._instances()
        wanted = [known[name] for name in self.allocators or known]
        return self._measured(wanted)

    def _parts(self) -> Sequence[str]:
        return self.parts or [p for p in PARTS if p != "instances" or self.instances is not None]

    def _networks(self) -> Sequence[str]:
        return [n.removeprefix("zoo:") for n in self.networks] or [case.name for case in HMCOS]

    def _instances(self) -> Sequence[Path]:
        return [] if self.instances is None else files_in(self.instances, ".csv")

    def _measured(self, wanted: Sequence[Allocator]) -> Iterator[Row]:
        if "instances" in self._parts():
            yield from self._of_instances(wanted)
        if "hmcos-1" in self._parts():
            yield from self._of_hmcos()

    def _of_instances(self, wanted: Sequence[Allocator]) -> Iterator[Row]:
        for path in self._instances():
            problem = Problem(read_buffers(path))
            stem = path.name.removesuffix(".csv")
            name, _, capacity = stem.rpartition(".")
            limited = bool(name) and capacity.isdigit()
            about: dict[str, Any] = {"part": "instances", "instance": name if limited else stem}
            if limited:
                about["capacity_bytes"] = int(capacity)
            for allocator in wanted:
                yield measure(problem, allocator, self.time, about)
                if allocator.name == OURS and limited:
                    yield measure(problem, Ours(OURS_TO_CAPACITY, capacity=int(capacity)), self.time, about)

    def _of_hmcos(self) -> Iterator[Row]:
        target = replace(resolve("hmcos"), alignment=TFLITE_ALIGNMENT)
        for case in (c for c in HMCOS if c.name in self._networks()):
            graph = graph_of(case)
            yield from _orders(graph, target, case.name, self.time)
            yield plan_row(graph, target, case.name, self.time)

    def line(self, row: Row) -> str:
        """Height, and how much it is of the load."""
        rules = f"{row.target}/{row.alignment}" if row.target else ""
        words = " ".join(w for w in (row.instance, rules, row.order, row.allocator) if w)
        height = row.reason or row.status if row.height_bytes is None else f"{row.height_bytes:,} B"
        ratio = "" if row.ratio is None else f", {row.ratio:.4f} of the load, {row.cpu_seconds:.3f} CPU s"
        return f"{words}: {height}{ratio}"

    def finish(self, rows: Sequence[Row]) -> Sequence[Row]:
        """A height is optimal if it is the best bound that any allocator proved of the same buffers."""
        best = best_bounds(rows, lambda r: r.problem_key, lambda r: r.lower_bound_bytes)
        return [
            row
            if row.height_bytes is None
            else replace(
                row, lower_bound_bytes=best[row.problem_key], optimal=row.height_bytes == best[row.problem_key]
            )
            for row in rows
        ]

    def page(self, results: Results[Row]) -> Page:
        """The tables of each part that has rows."""
        return page(results, self.time, published_figures(results.rows))


def published_figures(rows: Sequence[Row]) -> tuple[Figure, ...]:
    """HMCOS's Table 1, of the networks that have rows."""
    measured = {row.instance for row in rows if row.part == "hmcos-1"}
    return tuple(
        f
        for case in HMCOS
        for method in ("rpo", "serenity", "hmcos")
        for f in printed(case.network, case.target, method)
        if f.figure in ("arena", "peak") and case.name in measured
    )


TFLITE_ALIGNMENT = 64  # of the arena of TensorFlow Lite, kDefaultTensorAlignment


def _of_order(model: MemoryModel, order: tuple[int, ...], name: str, method: str) -> tuple[Problem, dict[str, Any]]:
    """The buffers of an order, and what a row says of them."""
    steps = profile(model, order)
    problem = arena_buffers(model, order, steps.in_place, model.alignment, steps).problem
    return problem, {
        "part": "hmcos-1",
        "instance": name,
        "target": model.target.name,
        "alignment": model.alignment,
        "order": method,
        "peak_bytes": steps.peak,
    }


def _orders(graph: Graph, target: Target, name: str, seconds: float) -> Iterator[Row]:
    """The arena of each method's order, by TFLite's greedy and by our engines."""
    model = memory_model(graph, target)
    known = allocators()
    for method in ("rpo", "serenity", "hmcos"):
        schedule = make(method).schedule(model, Limits(seconds))
        if schedule.stopped == "interrupt":
            raise KeyboardInterrupt
        problem, about = _of_order(model, schedule.order, name, method)
        for allocator in (known["tflite"], Ours(thorough=False)):
            row = measure(problem, allocator, seconds, about)
            late = row.status == "ok" and schedule.stopped in ("time", "memory")
            yield replace(row, status="time") if late else row


def plan_row(graph: Graph, target: Target, name: str, seconds: float) -> Row:
    """The plan of a graph: order and arena together, checked, with every byte replayed."""
    from lowtide.api import plan
    from lowtide.verify.check.plan import verify_plan

    about: dict[str, Any] = {
        "part": "hmcos-1",
        "instance": name,
        "target": target.name,
        "alignment": target.alignment,
        "order": OURS,
        "allocator": OURS,
        "buffers": len(graph.tensors),
    }
    began = clock.process_time()
    try:
        result = plan(graph, target=target, time=seconds)
        spent = clock.process_time() - began
        if result.stopped == "interrupt":
            raise KeyboardInterrupt
        verify_plan(graph, result, target, replay_bytes=True)
    except Exception as error:  # one that fails is a row, and the others go on
        return Row(**about, status="error", reason=one_line(error))
    lost = result.figures.arena_lost
    arena = result.arena_bytes or 0
    return Row(
        **about,
        status="time" if result.stopped in ("time", "memory") else "ok",
        peak_bytes=result.peak_bytes,
        load_bytes=arena - (lost.gap_bytes if lost else 0),
        height_bytes=arena,
        lower_bound_bytes=result.arena_lower_bound_bytes,
        replayed=True,
        cpu_seconds=round(spent, 6),
        runs=1,
        lost=lost.text if lost else "",
        counters={"winner": result.method, "optimal_peak": result.optimal, **(result.search or {})},
    )


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
        f"Ratios are height over load: the bytes live at the highest step, sizes rounded up. {LEAST}: proved optimal.",
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
