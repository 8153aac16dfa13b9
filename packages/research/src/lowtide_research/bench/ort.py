"""What onnxruntime takes for a model: by its defaults, in the optimised file's order, and as planned, beside the plan.

Each model is given random weights where its own are missing, optimised by onnxruntime beforehand, planned, and only
then run: the figures of the plan are there before the runtime measures its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import lowtide
from lowtide.errors import InputError
from lowtide_research.bench.models import measured, measured_with, model_table
from lowtide_research.bench.options import flag, listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.suite import Results, TableSuite, Watch
from lowtide_research.bench.tables import Page

ZOO = (
    "nasnet_a_cifar", "nasnet_a_imagenet", "amoebanet_a_cifar", "amoebanet_a_imagenet", "darts_cifar", "darts_imagenet",
    "pnasnet_5_cifar", "pnasnet_5_imagenet", "randwire_ws", "randwire_er", "randwire_ba", "swiftnet",
    "hrnet_w18_small_v2", "unet", "unet_plus_plus", "transformer",
)  # fmt: skip
"""Networks of the zoo that run in seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model. Bytes, without graph inputs and weights.

    Attributes
    ----------
    default_peak_bytes, default_held_bytes
        Tensors in use at once, and what the arena took from the system, with onnxruntime's defaults (all
        optimisations, its own order, its memory reuse and growing arena; the memory pattern off, so that it tells).
    file_peak_bytes
        Tensors in use at once in the order of the optimised file.
    planned_peak_bytes, measured_peak_bytes
        The same in the plan's order: what the plan says, and what is measured.
    ops_equal
        At how many of the ops the bytes in use are those of the plan.
    planned_mark_bytes, measured_mark_bytes
        With the kernels' workspace, each size rounded up to 256.
    planned_arena_bytes, measured_arena_bytes
        One block for onnxruntime's own best fit: what the plan says it needs, and what was taken.
    outputs
        ``"equal"`` bit by bit to those of the optimised file in its own order, ``"vacuous"`` if they are but do not
        depend on the inputs, else ``"differ"``.
    """

    model: str
    ops: int = 0
    default_peak_bytes: int = 0
    file_peak_bytes: int = 0
    planned_peak_bytes: int = 0
    measured_peak_bytes: int = 0
    ops_equal: int = 0
    planned_mark_bytes: int = 0
    measured_mark_bytes: int = 0
    default_held_bytes: int = 0
    planned_arena_bytes: int = 0
    measured_arena_bytes: int = 0
    optimal: bool = False
    outputs: str = ""
    error: str = ""


@dataclass(frozen=True)
class OnnxruntimeSuite(TableSuite[Row]):
    """Models under onnxruntime.

    Attributes
    ----------
    models
        ONNX files and ``zoo:NAME``; the default is the zoo's networks and the light models of the onnx package.
    dims
        Sizes of free dimensions by name; those that a model does not have are left out.
    level
        Of onnxruntime's optimiser: ``"extended"`` or ``"all"``.
    time, search_memory
        Limits of the search for each model: seconds, memory for states.
    """

    name: ClassVar[str] = "onnxruntime"
    words: ClassVar[str] = (
        "what onnxruntime takes: by its defaults, and in the plan's order beside the plan's own figures"
    )
    description: ClassVar[str] = (
        "What onnxruntime takes for models: by its defaults, and in the plan's order beside the plan's\n"
        "own figures. Models without weights get random ones."
    )
    examples: ClassVar[tuple[str, ...]] = ("-o results", "model.onnx zoo:nasnet_a_cifar")

    models: Sequence[str] = listed("(default: networks of the zoo, and onnx's light models)", "models", "MODEL")
    dims: Mapping[str, int] = field(default_factory=dict, metadata=flag("of free ones", "NAME=SIZE", "--dim"))
    level: str = field(default="extended", metadata=flag("of its optimiser: extended (default) or all", "LEVEL"))
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Row]:
        """Check that the files and the runtime are there. What a file is refused for later is in its row."""
        from lowtide.run.ort_session import runtime

        for model in self.models:
            if not model.startswith("zoo:") and not Path(model).is_file():
                raise InputError(f"{model}: there is no such file; name ONNX files or zoo:NAME")
        runtime()
        models = self.models or (*(f"zoo:{name}" for name in ZOO), *map(str, light_models()))
        return (self._row(model) for model in models)

    def _row(self, model: str) -> Row:
        name = model.removeprefix("zoo:") if model.startswith("zoo:") else Path(model).stem
        return measured(lambda: self._measure(name, model), lambda reason: Row(name, error=reason), ".onnx")

    def _measure(self, name: str, model: str) -> Row:
        from lowtide.api.writing import apply
        from lowtide.run.onnx import run_onnx
        from lowtide.run.random_weights import with_random_weights
        from lowtide.verify.check.plan import verify_plan
        from lowtide.verify.check.runtime_arena import tensor_bytes
        from lowtide_research import zoo

        target = lowtide.research.target("onnxruntime")
        with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
            given, optimised, planned = (Path(folder) / f"{stem}.onnx" for stem in ("given", "optimised", "planned"))
            if model.startswith("zoo:"):
                given.write_bytes(zoo.build(model[4:]).onnx(self.seed).SerializeToString(deterministic=True))
            else:
                with_random_weights(Path(model), given, self.seed, fillers=True)
            lowtide.research.runtime_optimized(given, optimised, level=self.level, dims=self.dims)
            graph = target.as_seen(lowtide.load(optimised))
            plan = lowtide.research.plan(
                graph, target=target, time=self.time, search_memory=self.search_memory, seed=self.seed
            )
            report = verify_plan(graph, plan, target, replay_bytes=False)
            apply(plan, optimised, planned)
            tensors = tensor_bytes(graph, plan, target)
            seen = run_onnx(optimised, planned, plan, dims=self.dims, footprint_bytes=tensors, model=given)
        exact = seen.exact
        assert exact is not None, "the target has an arena of the runtime's own"
        return Row(
            name,
            len(plan.order),
            seen.shipped.peak_bytes,
            seen.original.peak_bytes,
            max(tensors, default=0),
            seen.planned.peak_bytes,
            sum(n.in_use_bytes == n.planned_bytes for n in seen.planned.nodes),
            report.numbers["arena_load_bytes"],
            exact.mark_bytes,
            seen.shipped.held_bytes,
            plan.runtime_arena_bytes or 0,
            exact.held_bytes,
            plan.optimal,
            "differ" if not seen.equal else "vacuous" if seen.vacuous else "equal",
        )

    def line(self, row: Row) -> str:
        """The peak as planned and as measured."""
        sizes = f"planned {row.planned_peak_bytes:,} B, measured {row.measured_peak_bytes:,} B"
        return f"{row.model}: {row.error or sizes}"

    def page(self, results: Results[Row]) -> Page:
        """A line for each model, and what the columns mean."""
        about = measured_with(results.machine, f"onnxruntime {_version()}, CPU, one thread")
        table = model_table(_HEADS, results.rows, cells, frozenset({0, 6, 12}))
        return Page(
            "onnxruntime: before, planned, measured", f"{about}\n{_ABOUT.format(level=self.level)}", [table], bare=True
        )


def _version() -> str:
    from lowtide.run.ort_session import runtime

    return runtime().__version__


def light_models() -> list[Path]:
    """The models that the onnx package brings for its own tests."""
    import onnx

    return sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("light_*.onnx"))


_ABOUT = """\
Repeat with `lowtide research bench onnxruntime [MODEL...] --level {level} -o DIR`.
Bytes, without graph inputs and weights.

- *defaults*: all optimisations, onnxruntime's own order, memory reuse and growing arena.
- *file order*: the file that its optimiser (level {level}) leaves, in that file's order, each
  tensor freed at its last use.
- *planned*, *measured*: the same graph in lowtide's order; at how many ops the bytes in use are the plan's.
- *with workspace*: the kernels' own memory too, in steps of 256.
- *arena*: taken from the system in two runs; *planned* is one block for onnxruntime's own best fit."""

_HEADS = (
    "model", "ops", "defaults", "file order", "planned", "measured", "as planned at", "with workspace: planned",
    "measured", "arena: defaults", "planned", "measured", "outputs",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table that people read."""
    figures = (
        row.default_peak_bytes, row.file_peak_bytes, row.planned_peak_bytes, row.measured_peak_bytes
    )  # fmt: skip
    marks = (row.planned_mark_bytes, row.measured_mark_bytes)
    arenas = (row.default_held_bytes, row.planned_arena_bytes, row.measured_arena_bytes)
    return (
        row.model,
        f"{row.ops:,}",
        *(f"{n:,}" for n in figures),
        f"{row.ops_equal:,} ops" + ("" if row.optimal else ", not proved least"),
        *(f"{n:,}" for n in (*marks, *arenas)),
        row.outputs,
    )
