"""What onnxruntime takes for a model: by its defaults, in the optimised file's order, and as planned, beside the plan.

Each model is given random weights where its own are missing, optimised by onnxruntime beforehand, planned, and only
then run: the figures of the plan are there before the runtime measures its own.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import lowtide
from lowtide.api.models import NO_DIMS
from lowtide.bench.machine import Machine, machine
from lowtide.errors import InputError, LowtideError

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
class OrtResults:
    """Every row, and what it was measured on."""

    machine: Machine
    onnxruntime: str
    level: str
    rows: tuple[Row, ...]
    complete: bool = True


def onnxruntime(
    models: Sequence[str] = (),
    *,
    level: str = "extended",
    dims: Mapping[str, int] = NO_DIMS,
    time: float = 30.0,
    seed: int = 0,
    done: Callable[[Row], None] | None = None,
) -> OrtResults:
    """Measure models under onnxruntime.

    Parameters
    ----------
    models
        ONNX files and ``zoo:NAME``; the default is the zoo's networks and the light models of the onnx package.
    level
        Of onnxruntime's optimiser: ``"extended"`` or ``"all"``.
    dims
        Sizes of free dimensions by name; those that a model does not have are left out.
    time
        Seconds of search for each model.

    Raises
    ------
    MissingExtraError
        onnxruntime is not installed.
    InputError
        A file that is not there. What a file is refused for later is in its row.
    """
    from lowtide.run.ort_session import runtime

    for model in models:
        if not model.startswith("zoo:") and not Path(model).is_file():
            raise InputError(f"{model}: there is no such file; name ONNX files or zoo:NAME")
    version = runtime().__version__
    rows: list[Row] = []
    complete = True
    try:
        for model in models or (*(f"zoo:{name}" for name in ZOO), *map(str, light_models())):
            name = model.removeprefix("zoo:") if model.startswith("zoo:") else Path(model).stem
            try:
                rows.append(_measure(name, model, level, dims, time, seed))
            except LowtideError as error:
                rows.append(Row(name, error=str(error).rpartition(".onnx: ")[2]))
            if done is not None:
                done(rows[-1])
    except KeyboardInterrupt:
        complete = False
    return OrtResults(machine(), version, level, tuple(rows), complete)


def light_models() -> list[Path]:
    """The models that the onnx package brings for its own tests."""
    import onnx

    return sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("light_*.onnx"))


def _measure(name: str, model: str, level: str, dims: Mapping[str, int], time: float, seed: int) -> Row:
    from lowtide import zoo
    from lowtide.api.writing import apply
    from lowtide.run.onnx import run_onnx
    from lowtide.run.random_weights import with_random_weights
    from lowtide.verify.check.plan import verify_plan
    from lowtide.verify.check.runtime_arena import tensor_bytes

    target = lowtide.target("onnxruntime")
    with tempfile.TemporaryDirectory(prefix="lowtide-bench-") as folder:
        given, optimised, planned = (Path(folder) / f"{stem}.onnx" for stem in ("given", "optimised", "planned"))
        if model.startswith("zoo:"):
            given.write_bytes(zoo.build(model[4:]).onnx(seed).SerializeToString(deterministic=True))
        else:
            with_random_weights(Path(model), given, seed, fillers=True)
        lowtide.runtime_optimized(given, optimised, level=level, dims=dims)
        graph = target.as_seen(lowtide.load(optimised))
        plan = lowtide.plan(graph, target=target, time=time, seed=seed)
        report = verify_plan(graph, plan, target, replay_bytes=False)
        apply(plan, optimised, planned)
        tensors = tensor_bytes(graph, plan, target)
        seen = run_onnx(optimised, planned, plan, seed=seed, dims=dims, footprint_bytes=tensors, model=given)
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


_HEADS = (
    "model", "ops", "defaults", "file order", "planned", "measured", "as planned at", "with workspace: planned",
    "measured", "arena: defaults", "planned", "measured", "outputs",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table that people read."""
    if row.error:
        return (row.model, *[""] * (len(_HEADS) - 2), row.error)
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


def text(results: OrtResults) -> str:
    """Aligned columns for a terminal."""
    from lowtide.report.text import columns

    return columns([_HEADS, *(cells(row) for row in results.rows)], right=[1, 2, 3, 4, 5, 7, 8, 9, 10, 11])


def markdown(results: OrtResults) -> str:
    """The table with what it means."""
    m = results.machine
    lines = [
        "# onnxruntime: before, planned, measured",
        "",
        f"lowtide {m.lowtide}, commit {m.commit}; onnxruntime {results.onnxruntime}, CPU, one thread; {m.cpu}.",
        f"Repeat with `lowtide bench onnxruntime [MODEL...] --level {results.level} -o DIR`.",
        "Bytes, without graph inputs and weights.",
        "",
        "- *defaults*: all optimisations, onnxruntime's own order, memory reuse and growing arena.",
        f"- *file order*: the file that its optimiser (level {results.level}) leaves, in that file's order, each",
        "  tensor freed at its last use.",
        "- *planned*, *measured*: the same graph in lowtide's order; at how many ops the bytes in use are the plan's.",
        "- *with workspace*: the kernels' own memory too, in steps of 256.",
        "- *arena*: taken from the system in two runs; *planned* is one block for onnxruntime's own best fit.",
        "",
        "| " + " | ".join(_HEADS) + " |",
        "|" + "---|" * len(_HEADS),
    ]
    for row in results.rows:
        lines.append("| " + " | ".join(cells(row)) + " |")
    return "\n".join(lines) + "\n"


def csv_text(results: OrtResults) -> str:
    """One line for each model, the fields of `Row`."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [f.name for f in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in results.rows)
    return out.getvalue()
