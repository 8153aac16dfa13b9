"""`lowtide research bench allocate`: what arenas need, by greedy rule, engine and order, beside the live bytes."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

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
from lowtide_research.bench import arena_tables
from lowtide_research.bench.arena_tables import PARTS
from lowtide_research.bench.networks import files_in, graph_of
from lowtide_research.bench.options import flag, listed, time_limit
from lowtide_research.bench.placing import OURS, OURS_TO_CAPACITY, Allocator, Ours, Row, allocators, measure
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import Page
from lowtide_research.bench.timing import one_line
from lowtide_research.zoo.published import Figure, printed
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
        target = replace(resolve("hmcos"), alignment=64)
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
        return arena_tables.page(results, self.time, published_figures(results.rows))


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
