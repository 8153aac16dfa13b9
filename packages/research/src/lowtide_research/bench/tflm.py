"""TFLite models under TFLM: the arena before and after, predicted and measured, and whether outputs are equal.

The plan is written to a file before a runtime is started, and the runtimes run in processes of their own. Beside the
MLPerf Tiny models stand published figures of TinyTS, in its own accounting: it splits rows and runs them by its own
kernels; here nothing but the order and the offsets changes, and TFLM's own kernels run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import lowtide
from lowtide.errors import InputError, MissingExtraError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide_research.bench.models import measured, model_table, versions
from lowtide_research.bench.options import flag, memory_limit, random_seed, time_limit
from lowtide_research.bench.suite import Results, TableSuite, Watch
from lowtide_research.bench.tables import Lines, Page, row_lines
from lowtide_research.bench.tflite_rows import OverlapRow, overlap_table

if TYPE_CHECKING:
    from lowtide.run_reports import TfliteRunReport

PUBLISHED = {
    "mlperf_tiny_resnet_int8": 14272,
    "mlperf_tiny_kws_int8": 9920,
    "mlperf_tiny_vww96_int8": 29568,
}
"""TinyTS (HPCA 2024), arena bytes of its generated code, depth first with one row per split (`ctx.h` of its models)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model; sizes are bytes.

    Attributes
    ----------
    own_head_bytes, own_arena_bytes
        Head and smallest arena that TFLM needs for the file as it stands, measured.
    planned_head_bytes, head_bytes
        Head of the planned file: as the plan says, and as TFLM measures.
    planned_arena_bytes, arena_bytes
        The same for the smallest arena, by bisection.
    lower_bound_bytes
        No order and no offsets have a smaller head.
    proof
        ``"all orders"`` if the head is proved least over all orders and offsets; ``"this order"`` if over all offsets
        of this order; else empty.
    in_place_head_bytes
        Head with outputs exactly over inputs of equal size, and no partial overlap.
    pinned_head_bytes, kept_head_bytes
        Head if no output may lie over a graph input; if inputs stay to the end.
    outputs
        For each runtime ``"equal"`` bit by bit to the original's, ``"differ"``, or why it does not run it.
    published_bytes
        TinyTS; None where it has no figure.
    """

    model: str
    ops: int = 0
    own_head_bytes: int = 0
    own_arena_bytes: int = 0
    planned_head_bytes: int = 0
    head_bytes: int = 0
    planned_arena_bytes: int = 0
    arena_bytes: int = 0
    lower_bound_bytes: int = 0
    proof: str = ""
    in_place_head_bytes: int = 0
    pinned_head_bytes: int = 0
    kept_head_bytes: int = 0
    outputs: str = ""
    published_bytes: int | None = None
    error: str = ""


Rows: TypeAlias = OverlapRow | Row
"""Kinds of operators, if they are asked for; then models."""


@dataclass(frozen=True)
class TfliteSuite(TableSuite[Rows]):
    """TFLite models under TFLM, every one of a directory; and single operators, at the distances of the rule.

    Attributes
    ----------
    models
        Directory of ``*.tflite``.
    overlap
        Random shapes to try for each kind of operator.
    time, search_memory
        Limits of each search: seconds, memory for states.
    """

    name: ClassVar[str] = "tflite"
    words: ClassVar[str] = (
        "TFLite models under TFLM: the arena before and after, predicted and measured, outputs compared"
    )
    description: ClassVar[str] = (
        "TFLite models under TFLM: the arena before and after, predicted and measured, outputs compared.\n"
        "With --overlap: single operators of random shape at the rule's distance, and a row and an element nearer."
    )
    examples: ClassVar[tuple[str, ...]] = ("--models DIR -o results", "--overlap 100")

    models: str | Path | None = field(default=None, metadata=flag("every .tflite file there", "DIR"))
    overlap: int = field(default=0, metadata=flag("try each kind of operator on N random shapes", "N"))
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Rows]:
        """Check that there is something to measure, and the runtimes."""
        if not self.models and self.overlap < 1:
            raise InputError("say what to measure: --models DIR, or --overlap N with N of 1 or more")
        files = sorted(Path(self.models).glob("*.tflite")) if self.models else []
        if self.models and not files:
            raise InputError("there is no .tflite file here; name a directory with some", str(self.models))
        return self._rows(_kinds(self.overlap, self.seed), files)

    def _rows(self, operators: Iterator[OverlapRow], files: Sequence[Path]) -> Iterator[Rows]:
        yield from operators
        for path in files:
            yield measured(lambda p=path: self._measure(p), lambda e, p=path: Row(p.stem, error=e), ".tflite")

    def _measure(self, path: Path) -> Row:
        from lowtide.run.tflite import run_tflite

        graph = lowtide.load(path)
        target = lowtide.target("tflm,kernels=reference")
        search: dict[str, Any] = {"time": self.time, "search_memory": self.search_memory, "seed": self.seed}
        planned = lowtide.plan(graph, target=target, **search)
        exact = lowtide.plan(graph, target=replace(target, overlap="in_place"), **search)
        pinned = lowtide.plan(graph, target=target, pin_inputs=True, **search)
        kept = lowtide.plan(graph, target=replace(target, keep_inputs=True, overwrite_inputs=False), **search)
        with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
            out, written = Path(folder) / "planned.tflite", Path(folder) / "plan.json"
            planned.apply(path, out)
            planned.save(written)
            seen = run_tflite(path, out, planned, seed=self.seed)
        before, after = (None, None) if seen.tflm is None else (seen.tflm.original, seen.tflm.planned)
        return Row(
            path.stem,
            len(graph.ops),
            before.head_bytes if before else 0,
            before.smallest_arena_bytes if before else 0,
            planned.arena_bytes or 0,
            after.head_bytes if after else 0,
            planned.runtime_arena_bytes or 0,
            after.smallest_arena_bytes if after else 0,
            _bound(planned, graph),
            _proof(planned, graph),
            exact.arena_bytes or 0,
            pinned.arena_bytes or 0,
            kept.arena_bytes or 0,
            _outputs(seen),
            PUBLISHED.get(path.stem),
        )

    def line(self, row: Rows) -> str:
        """Of a model, heads before and after; of an operator, its name."""
        if isinstance(row, OverlapRow):
            return f"{row.kind} {row.dtype}"
        return f"{row.model}: {row.error or f'{row.own_head_bytes:,} B to {row.head_bytes:,} B'}"

    def record(self, results: Results[Rows]) -> object:
        """The operators alone, if nothing else is asked for."""
        operators, models = _apart(results)
        if not self.models:
            return operators
        of_models = {
            "machine": results.machine,
            "runtimes": _runtimes(),
            "rows": models,
            "complete": results.complete,
        }
        return of_models | ({"overlap": operators} if operators else {})

    def page(self, results: Results[Rows]) -> Page:
        """A line for each model, with what it was measured on."""
        m = results.machine
        runtimes = ", ".join(f"{name} {version}" for name, version in _runtimes().items())
        about = f"lowtide {m.lowtide}, commit {m.commit}, {m.cpu}, {m.python}; {runtimes}\n\n{_ABOUT}"
        table = model_table(_HEADS, _apart(results)[1], cells, frozenset(range(len(_HEADS))))
        return Page("TFLite models under TFLM", about, [table], bare=True)

    def lines(self, results: Results[Rows]) -> Lines:
        """One line for each model."""
        return row_lines(Row, _apart(results)[1])

    def text(self, results: Results[Rows]) -> str:
        """The table of operators, as Markdown, above that of models."""
        operators = _apart(results)[0]
        shown = [overlap_table(operators).markdown()] if operators else []
        return "\n".join([*shown, *([super().text(results)] if self.models else [])])

    def files(self, results: Results[Rows], stem: str) -> dict[str, str]:
        """Those of models, and a page of operators."""
        operators = _apart(results)[0]
        shown = {"tflite-overlap.md": overlap_table(operators).markdown() + "\n"} if operators else {}
        return shown | (super().files(results, stem) if self.models else {})


def _runtimes() -> dict[str, str]:
    """Their versions."""
    return versions("tflite-micro", "ai-edge-litert")


def _apart(results: Results[Rows]) -> tuple[list[OverlapRow], list[Row]]:
    """Operators and models."""
    operators = [row for row in results.rows if isinstance(row, OverlapRow)]
    return operators, [row for row in results.rows if isinstance(row, Row)]


def _kinds(shapes: int, seed: int) -> Iterator[OverlapRow]:
    """Every kind of operator. Raises `MissingExtraError` where a runtime is missing."""
    if shapes < 1:
        return iter(())
    try:
        import tflite_micro  # noqa: F401

        from lowtide_research.bench.tflite_overlap import overlap_rows
    except ImportError:
        raise MissingExtraError("tflite-micro and ai-edge-litert", "tflite", "lowtide bench tflite --overlap") from None
    return overlap_rows(shapes, seed)


def _outputs(report: TfliteRunReport) -> str:
    """What each runtime says of the outputs."""
    words = []
    for r in report.runtimes:
        equal = "equal" if all(o.equal for o in r.outputs) else "differ"
        refused = f"refuses the original ({r.refused.partition('.')[0]})" if r.refused else ""
        words.append(f"{r.runtime} {refused or (equal if r.deterministic else 'not deterministic')}")
    return ", ".join(words)


def _bound(plan: Plan, graph: Graph) -> int:
    """Least head over all orders: the scheduler's bound, rounded up; that of the only order, if there is just one."""
    up = -(-plan.lower_bound_bytes // plan.alignment) * plan.alignment
    return max(up, plan.arena_lower_bound_bytes or 0) if _one_order(graph) else up


def _one_order(graph: Graph) -> bool:
    """Whether each op needs the one before it, directly or not."""
    return all(i - 1 in graph.predecessors[i] for i in range(1, len(graph.ops)))


def _proof(plan: Plan, graph: Graph) -> str:
    if plan.arena_bytes == _bound(plan, graph):
        return "all orders"
    return "this order" if plan.arena_optimal else ""


_ABOUT = (
    "Bytes. The head is the non-persistent part of TFLM's arena; the arena is the smallest with which it starts, "
    "by bisection. Outputs: 20 random inputs, each runtime against itself. TinyTS: its own figures, arena of "
    "generated code that splits rows (HPCA 2024), not TFLM's kernels."
)

_HEADS = (
    "model", "ops", "TFLM's own head", "planned head", "measured", "proved least over", "in place only",
    "inputs pinned", "inputs kept", "own arena", "planned arena", "measured", "outputs", "TinyTS",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table that people read."""
    heads = (row.own_head_bytes, row.planned_head_bytes, row.head_bytes)
    others = (row.in_place_head_bytes, row.pinned_head_bytes, row.kept_head_bytes)
    arenas = (row.own_arena_bytes, row.planned_arena_bytes, row.arena_bytes)
    return (
        row.model,
        f"{row.ops:,}",
        *(f"{n:,}" for n in heads),
        row.proof or f"bound {row.lower_bound_bytes:,}",
        *(f"{n:,}" for n in (*others, *arenas)),
        row.outputs,
        "" if row.published_bytes is None else f"{row.published_bytes:,}",
    )
