"""TFLite models under TFLM: the arena before and after, predicted and measured, and whether outputs are equal.

The plan is written to a file before a runtime is started, and the runtimes run in processes of their own. Beside the
MLPerf Tiny models stand published figures of TinyTS, in its own accounting: it splits rows and runs them by its own
kernels; here nothing but the order and the offsets changes, and TFLM's own kernels run.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import lowtide
from lowtide.bench.machine import Machine, machine
from lowtide.errors import InputError, LowtideError
from lowtide.graph import Graph
from lowtide.plan import Plan

if TYPE_CHECKING:
    from lowtide.bench.tflite_overlap import OverlapRow

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


@dataclass(frozen=True)
class TfliteResults:
    """Every row, and what it was measured on."""

    machine: Machine
    runtimes: dict[str, str]
    rows: tuple[Row, ...]
    complete: bool = True


def tflite(
    directory: str | Path, *, time: float = 30.0, seed: int = 0, done: Callable[[Row], None] | None = None
) -> TfliteResults:
    """Plan and run every .tflite file of a directory.

    Raises
    ------
    InputError
        No such directory, or no .tflite file in it.
    """
    files = sorted(Path(directory).glob("*.tflite"))
    if not files:
        raise InputError("there is no .tflite file here; name a directory with some", str(directory))
    rows: list[Row] = []
    complete = True
    try:
        for path in files:
            try:
                rows.append(_measure(path, time, seed))
            except LowtideError as error:
                rows.append(Row(path.stem, error=str(error).rpartition(".tflite: ")[2]))
            if done is not None:
                done(rows[-1])
    except KeyboardInterrupt:
        complete = False
    versions = {name: _version(name) for name in ("tflite-micro", "ai-edge-litert")}
    return TfliteResults(machine(), versions, tuple(rows), complete)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _measure(path: Path, time: float, seed: int) -> Row:
    from dataclasses import replace

    from lowtide.run.tflite import run_tflite

    graph = lowtide.load(path)
    target = lowtide.target("tflm")
    made = lowtide.plan(graph, target=target, time=time, seed=seed)
    exact = lowtide.plan(graph, target=replace(target, overlap="in_place"), time=time, seed=seed)
    pinned = lowtide.plan(graph, target=target, pin_inputs=True, time=time, seed=seed)
    kept = lowtide.plan(graph, target=replace(target, keep_inputs=True, overwrite_inputs=False), time=time, seed=seed)
    with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
        out, written = Path(folder) / "planned.tflite", Path(folder) / "plan.json"
        made.apply(path, out)
        made.save(written)
        seen = run_tflite(path, out, made, seed=seed)
    tflm = seen.tflm
    was, came = (None, None) if tflm is None else (tflm.original, tflm.planned)
    said = []
    for r in seen.runtimes:
        equal = "equal" if all(o.equal for o in r.outputs) else "differ"
        refused = f"refuses the original ({r.refused.partition('.')[0]})" if r.refused else ""
        said.append(f"{r.runtime} {refused or (equal if r.deterministic else 'not deterministic')}")
    return Row(
        path.stem,
        len(graph.ops),
        was.head_bytes if was else 0,
        was.smallest_arena_bytes if was else 0,
        made.arena_bytes or 0,
        came.head_bytes if came else 0,
        made.runtime_arena_bytes or 0,
        came.smallest_arena_bytes if came else 0,
        _bound(made, graph),
        _proof(made, graph),
        exact.arena_bytes or 0,
        pinned.arena_bytes or 0,
        kept.arena_bytes or 0,
        ", ".join(said),
        PUBLISHED.get(path.stem),
    )


def _bound(made: Plan, graph: Graph) -> int:
    """Least head over all orders: the scheduler's bound, rounded up; that of the only order, if there is just one."""
    up = -(-made.lower_bound_bytes // made.alignment) * made.alignment
    return max(up, made.arena_lower_bound_bytes or 0) if _one_order(graph) else up


def _one_order(graph: Graph) -> bool:
    """Whether each op needs the one before it, directly or not."""
    return all(i - 1 in graph.predecessors[i] for i in range(1, len(graph.ops)))


def _proof(made: Plan, graph: Graph) -> str:
    if made.arena_bytes == _bound(made, graph):
        return "all orders"
    return "this order" if made.arena_optimal else ""


_HEADS = (
    "model", "ops", "TFLM's own head", "planned head", "measured", "proved least over", "in place only",
    "inputs pinned", "inputs kept", "own arena", "planned arena", "measured", "outputs", "TinyTS",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table that people read."""
    if row.error:
        return (row.model, *[""] * (len(_HEADS) - 2), row.error)
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


def text(results: TfliteResults) -> str:
    """Aligned columns for a terminal."""
    table = [_HEADS, *(cells(row) for row in results.rows)]
    widths = [max(len(line[k]) for line in table) for k in range(len(_HEADS))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)


def markdown(results: TfliteResults) -> str:
    """The table with what it was measured on."""
    m = results.machine
    lines = [
        "# TFLite models under TFLM",
        "",
        f"lowtide {m.lowtide}, commit {m.commit}, {m.cpu}, {m.python}; "
        + ", ".join(f"{name} {version}" for name, version in results.runtimes.items()),
        "",
        "Bytes. The head is the non-persistent part of TFLM's arena; the arena is the smallest with which it starts, "
        "by bisection. Outputs: 20 random inputs, each runtime against itself. TinyTS: its own figures, arena of "
        "generated code that splits rows (HPCA 2024), not TFLM's kernels.",
        "",
        "| " + " | ".join(_HEADS) + " |",
        "|" + "---|" * len(_HEADS),
        *("| " + " | ".join(cells(row)) + " |" for row in results.rows),
        "",
    ]
    return "\n".join(lines)


def csv_text(results: TfliteResults) -> str:
    """One line for each model."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [f.name for f in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in results.rows)
    return out.getvalue()


def overlap(shapes: int, seed: int, report: Callable[[str], None] | None = None) -> list[OverlapRow]:
    """Rows of `tflite_overlap`. Raises `MissingExtraError` where a runtime is missing."""
    from lowtide.errors import MissingExtraError

    try:
        import tflite_micro  # noqa: F401

        from lowtide.bench.tflite_overlap import overlap_rows
    except ImportError:
        raise MissingExtraError("tflite-micro and ai-edge-litert", "tflite", "lowtide bench tflite --overlap") from None
    return overlap_rows(shapes, seed, report)
