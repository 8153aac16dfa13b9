"""What ExecuTorch's arenas take: of programs as they are exported, and in the plan's order.

Each program is planned, converted to ExecuTorch as it was and as planned, each with ExecuTorch's own memory planning
and with `lowtide.executorch`, and run in ExecuTorch's runtime; the bytes are its `non_const_buffer_sizes`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import lowtide
from lowtide.errors import InputError, MissingExtraError
from lowtide_research.bench.models import measured, measured_with, model_table, versions
from lowtide_research.bench.options import listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.suite import Results, TableSuite, Watch
from lowtide_research.bench.tables import Lines, Page, row_lines
from lowtide_research.bench.torch_nets import SHAPES, export


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
class ExecutorchSuite(TableSuite[Row]):
    """Programs under ExecuTorch.

    Attributes
    ----------
    models
        `.pt2` files; the default is three small networks.
    time, search_memory
        Limits of the search for each order: seconds, memory for states. Each arena has as many seconds.
    """

    name: ClassVar[str] = "executorch"
    words: ClassVar[str] = "torch.export programs under ExecuTorch: its arenas before and after, outputs compared"
    description: ClassVar[str] = (
        "torch.export programs under ExecuTorch: its arenas before and after, by its own memory planning\n"
        "and by lowtide's, outputs compared. Needs torch and executorch."
    )
    examples: ClassVar[tuple[str, ...]] = ("-o results", "model.pt2")

    models: Sequence[str] = listed(".pt2 files (default: three small networks)", "models", "MODEL")
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Row]:
        """Check that torch and ExecuTorch are there."""
        try:
            import_module("executorch.exir")
            import_module("torch")
        except ImportError:
            raise MissingExtraError("executorch", "torch,executorch", "lowtide bench executorch") from None
        return (self._row(model) for model in self.models or SHAPES)

    def _row(self, model: str) -> Row:
        with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
            path, planned = Path(model), Path(folder) / "planned.pt2"
            if not self.models:
                path = Path(folder) / f"{model}.pt2"
                export(model, path, self.seed)
            return measured(lambda: self._measure(path, planned), lambda reason: Row(path.stem, error=reason), ".pt2")

    def _measure(self, path: Path, planned: Path) -> Row:
        plan = lowtide.plan(path, time=self.time, search_memory=self.search_memory, seed=self.seed)
        plan.apply(path, planned)
        torch = import_module("torch")
        before, after = torch.export.load(path), torch.export.load(planned)
        try:
            programs = [_converted(program, seconds) for seconds in (None, self.time) for program in (before, after)]
        except Exception as error:  # its passes raise errors of many kinds
            raise InputError(f"ExecuTorch cannot convert it: {str(error).partition(chr(10))[0]}", str(path)) from None
        torch.manual_seed(self.seed)
        args, named = before.example_inputs
        feed = [torch.randn_like(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
        own, own_planned, placed, placed_planned = (
            sum(p.executorch_program.execution_plan[0].non_const_buffer_sizes) for p in programs
        )
        outputs = "" if named else _compared([p.buffer for p in programs], feed)
        peaks = plan.own_order_peak_bytes, plan.peak_bytes
        return Row(path.stem, len(plan.order), *peaks, own, own_planned, placed, placed_planned, outputs)

    def line(self, row: Row) -> str:
        """ExecuTorch's arenas before and after."""
        return f"{row.model}: {row.error or f'{row.before_bytes:,} B to {row.after_bytes:,} B'}"

    def record(self, results: Results[Row]) -> object:
        """With the versions of both packages."""
        return {
            "machine": results.machine,
            "versions": versions("executorch", "torch"),
            "rows": results.rows,
            "complete": results.complete,
        }

    def page(self, results: Results[Row]) -> Page:
        """A line for each program, and what the columns mean."""
        packages = ", ".join(f"{name} {version}" for name, version in versions("executorch", "torch").items())
        about = f"{measured_with(results.machine, packages)}\n{_ABOUT}"
        table = model_table(_HEADS, results.rows, cells, frozenset({0, 8}))
        return Page("ExecuTorch: before and after", about, [table], bare=True)

    def lines(self, results: Results[Row]) -> Lines:
        """One line for each program, the fields of `Row`."""
        return row_lines(Row, results.rows)


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
        outputs = runtime.load_program(program).load_method("forward").execute(feed)
        results.append([bytes(t.clone().numpy().tobytes()) for t in outputs])
    return "equal" if all(r == results[0] for r in results) else "differ"


_ABOUT = """\
Repeat with `lowtide bench executorch [MODEL.pt2...] -o DIR`. Bytes.

- *peak*: under target torch, weights and inputs apart.
- *arenas*: the sum of `non_const_buffer_sizes`, inputs and outputs in it, by ExecuTorch's memory planning;
  then by `lowtide.executorch`.
- *outputs*: of all four programs, in ExecuTorch's runtime."""

_HEADS = (
    "model", "nodes", "peak: own order", "planned", "arena: as exported", "planned", "placed by lowtide: as exported",
    "planned", "outputs",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table that people read."""
    sizes = (
        row.own_peak_bytes, row.planned_peak_bytes, row.before_bytes, row.after_bytes, row.before_placed_bytes,
        row.after_placed_bytes,
    )  # fmt: skip
    return (row.model, f"{row.nodes:,}", *(f"{n:,}" for n in sizes), row.outputs)
