"""What ExecuTorch's arenas take: of programs as they are exported, and in the plan's order.

Each program is planned, converted to ExecuTorch as it was and as planned, each with ExecuTorch's own memory planning
and with `lowtide.executorch`, and run in ExecuTorch's runtime; the bytes are its `non_const_buffer_sizes`.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import lowtide
from lowtide.bench.machine import Machine, machine
from lowtide.bench.torch_nets import SHAPES, export
from lowtide.errors import InputError, LowtideError, MissingExtraError


@dataclass(frozen=True, slots=True)
class Row:
    """One program. Bytes.

    Attributes
    ----------
    own_peak_bytes, planned_peak_bytes
        Under target torch, in the program's own order and in the plan's.
    before_bytes, after_bytes
        ExecuTorch's arenas for the program as exported and as planned, by ExecuTorch's memory planning.
    before_placed_bytes, after_placed_bytes
        The same with lowtide's memory planning.
    outputs
        ``"equal"`` bit by bit in ExecuTorch's runtime, ``"differ"``, or empty where there is no runtime.
    """

    model: str
    nodes: int = 0
    own_peak_bytes: int = 0
    planned_peak_bytes: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    before_placed_bytes: int = 0
    after_placed_bytes: int = 0
    outputs: str = ""
    error: str = ""


@dataclass(frozen=True)
class ExecutorchResults:
    """Every row, and what it was measured on."""

    machine: Machine
    versions: dict[str, str]
    rows: tuple[Row, ...]
    complete: bool = True


def executorch(
    models: Sequence[str] = (), *, time: float = 30.0, seed: int = 0, done: Callable[[Row], None] | None = None
) -> ExecutorchResults:
    """Measure programs under ExecuTorch.

    Parameters
    ----------
    models
        `.pt2` files; the default is three small networks.
    time
        Seconds of search for each order and each arena.

    Raises
    ------
    MissingExtraError
        torch or ExecuTorch is not installed.
    """
    try:
        import_module("executorch.exir")
        import_module("torch")
    except ImportError:
        raise MissingExtraError("executorch", "torch,executorch", "lowtide bench executorch") from None
    rows: list[Row] = []
    complete = True
    try:
        for model in models or SHAPES:
            with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
                path = Path(model)
                if not models:
                    path = Path(folder) / f"{model}.pt2"
                    export(model, path, seed)
                try:
                    rows.append(_measure(path, Path(folder) / "planned.pt2", time, seed))
                except LowtideError as error:
                    rows.append(Row(path.stem, error=str(error).rpartition(".pt2: ")[2]))
            if done is not None:
                done(rows[-1])
    except KeyboardInterrupt:
        complete = False
    versions = {name: metadata.version(name) for name in ("executorch", "torch")}
    return ExecutorchResults(machine(), versions, tuple(rows), complete)


def _measure(path: Path, planned: Path, time: float, seed: int) -> Row:
    plan = lowtide.plan(path, time=time, seed=seed)
    plan.apply(path, planned)
    torch = import_module("torch")
    before, after = torch.export.load(path), torch.export.load(planned)
    try:
        programs = [_converted(program, seconds) for seconds in (None, time) for program in (before, after)]
    except Exception as error:  # its passes raise errors of many kinds
        raise InputError(f"ExecuTorch cannot convert it: {str(error).partition(chr(10))[0]}", str(path)) from None
    torch.manual_seed(seed)
    args, named = before.example_inputs
    feed = [torch.randn_like(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
    was, came, was_placed, came_placed = (
        sum(p.executorch_program.execution_plan[0].non_const_buffer_sizes) for p in programs
    )
    outputs = "" if named else _compared([p.buffer for p in programs], feed)
    peaks = plan.own_order_peak_bytes, plan.peak_bytes
    return Row(path.stem, len(plan.order), *peaks, was, came, was_placed, came_placed, outputs)


def _converted(program: Any, seconds: float | None) -> Any:
    """As ExecuTorch has it, or, with seconds, placed by lowtide."""
    exir, passes = import_module("executorch.exir"), import_module("executorch.exir.passes")
    if seconds is None:
        return exir.to_edge(program).to_executorch()
    from lowtide.executorch import algorithm_suite

    planning = passes.MemoryPlanningPass(algorithm_suite(seconds))
    return exir.to_edge(program).to_executorch(exir.ExecutorchBackendConfig(memory_planning_pass=planning))


def _compared(programs: Sequence[bytes], feed: Sequence[Any]) -> str:
    """Whether all programs give the same bits."""
    try:
        runtime = import_module("executorch.runtime").Runtime.get()
    except ImportError:
        return ""
    results = []
    for program in programs:
        made = runtime.load_program(program).load_method("forward").execute(feed)
        results.append([bytes(t.clone().numpy().tobytes()) for t in made])
    return "equal" if all(r == results[0] for r in results) else "differ"


_HEADS = (
    "model", "nodes", "peak: own order", "planned", "arena: as exported", "planned", "placed by lowtide: as exported",
    "planned", "outputs",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table that people read."""
    if row.error:
        return (row.model, *[""] * (len(_HEADS) - 2), row.error)
    sizes = (
        row.own_peak_bytes, row.planned_peak_bytes, row.before_bytes, row.after_bytes, row.before_placed_bytes,
        row.after_placed_bytes,
    )  # fmt: skip
    return (row.model, f"{row.nodes:,}", *(f"{n:,}" for n in sizes), row.outputs)


def text(results: ExecutorchResults) -> str:
    """Aligned columns for a terminal."""
    from lowtide.report.text import columns

    return columns([_HEADS, *(cells(row) for row in results.rows)], right=range(1, 8))


def markdown(results: ExecutorchResults) -> str:
    """The table with what it means."""
    m = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    lines = [
        "# ExecuTorch: before and after",
        "",
        f"lowtide {m.lowtide}, commit {m.commit}; {versions}; {m.cpu}.",
        "Repeat with `lowtide bench executorch [MODEL.pt2...] -o DIR`. Bytes.",
        "",
        "- *peak*: under target torch, weights and inputs apart.",
        "- *arenas*: the sum of `non_const_buffer_sizes`, inputs and outputs in it, by ExecuTorch's memory planning;",
        "  then by `lowtide.executorch`.",
        "- *outputs*: of all four programs, in ExecuTorch's runtime.",
        "",
        "| " + " | ".join(_HEADS) + " |",
        "|" + "---|" * len(_HEADS),
    ]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in results.rows]
    return "\n".join(lines) + "\n"


def csv_text(results: ExecutorchResults) -> str:
    """One line for each program, the fields of `Row`."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [f.name for f in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in results.rows)
    return out.getvalue()
