"""Running a model in its own order and in a plan's, in the runtime that it is for."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lowtide.api.models import has_operators, load
from lowtide.api.objects import Model, is_program
from lowtide.api.optimized import planned_model
from lowtide.arguments import typed
from lowtide.errors import InputError, MissingExtraError
from lowtide.extensions import networks
from lowtide.graph import Graph
from lowtide.plan import Plan, read_plan
from lowtide.rewrites import in_parts, recomputes_ops
from lowtide.run.blocks import check_block, declared_block
from lowtide.sizes import NO_DIMS, Dims

if TYPE_CHECKING:
    from lowtide.run_reports import AnyRunReport, LoopRunReport, TfliteRunReport, TorchRunReport

_RUNTIMES = {
    "onnx": (("onnxruntime",), "onnxruntime", "run"),
    "tflite": (("tflite_micro", "ai_edge_litert"), "ai-edge-litert or tflite-micro", "tflite"),
    "pt2": (("torch",), "torch", "torch"),
}
"""What a format is run by: modules of which one has to be there, the package, and the extra that brings it."""
_INPUTS = 2  # random inputs with which a plan with loops is replayed: two show whether the outputs depend on them


@typed
def run(
    model: str | Path,
    planned: str | Path | None,
    plan: Plan | str | Path,
    *,
    dims: Dims = NO_DIMS,
    footprint_bytes: Sequence[int] = (),
    random_weights: bool = False,
    timed: bool = False,
) -> AnyRunReport:
    """Run a model and its planned form in the model's runtime on the same random inputs, and compare.

    Parameters
    ----------
    planned
        What `apply` wrote; None to write it to a temporary place.
    dims
        Sizes of free dimensions, as for `load`; without any, those that the plan says.
    footprint_bytes
        For ONNX models: the plan's footprint per step (`Report.footprint_bytes`, less workspace), to compare with what
        the runtime measures.
    random_weights
        For ONNX files: put random weights where the model's own are missing.
    timed
        Whether to run both in turn as well, for how long they take and, of ONNX models, their processes' memory.

    Raises
    ------
    InputError
        No model that can be run, or its runtime cannot run it as it is.
    MissingExtraError
        The runtime is not installed.
    VerificationError
        The planned file does not run.
    """
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    dims = plan.sizes(dims)
    if footprint_bytes and runtime_format(model) != "onnx":
        raise InputError("footprint_bytes is measured in onnxruntime alone; leave it out", str(model))
    kind = check_run(model, plan, random_weights=random_weights)
    if dims:
        fixed = {} if plan.optimized_from is None else plan.optimized_from.dims
        load(model, {**dims, **fixed})  # it says which of them the model does not have
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder, planned_model(plan, model) as source:
        shipped, model = Path(str(model)), str(source)
        if kind == "onnx":
            check_block(declared_block(Path(model)), model)
        if plan.loops:
            return _run_loops(model, plan, kind, (random_weights, dims), Path(folder))
        if kind == "tflite":
            return _run_tflite(Path(model), planned, plan, Path(folder), timed)
        if kind == "pt2":
            return _run_torch(Path(model), planned, plan, dims, Path(folder), timed)
        origin = plan.optimized_from
        if origin is not None and planned is None:
            from lowtide.api.writing import PlanFiles, write_all

            planned = Path(folder) / "planned" / "planned.onnx"
            planned.parent.mkdir()
            write_all(plan, shipped, PlanFiles(planned))
        original, planned = _onnx_files(model, planned, plan, (random_weights, dims), Path(folder))
        from lowtide.run.onnx import run_onnx

        sizes = dims if origin is None else {**dims, **origin.dims}
        default = None if origin is None else shipped
        return run_onnx(
            original, planned, plan, dims=sizes, footprint_bytes=footprint_bytes, model=default, timed=timed
        )


def check_run(model: Model, plan: Plan, *, random_weights: bool = False) -> Literal["onnx", "tflite", "pt2"]:
    """See that a model can be run, and in a plan's order, before time is spent on either; which runtime it runs in.
    Raises `InputError`: it cannot, or an argument of `run` is not for it. Raises `MissingExtraError`: its runtime is
    not installed."""
    if isinstance(model, Graph):
        raise InputError("a Graph cannot be run; give the path of its model", model.source or model.name)
    kind = "pt2" if is_program(model) else runtime_format(str(model))
    if random_weights and (kind != "onnx" or str(model).startswith("zoo:")):
        raise InputError("only an ONNX file may lack its weights; leave out --random-weights", str(model))
    if plan.loops and kind == "pt2":
        raise InputError("torch does not return all tensors of an archive; verify it without --run", str(model))
    modules, package, extra = _RUNTIMES[kind]
    if all(find_spec(module) is None for module in modules):
        raise MissingExtraError(package, extra, "lowtide verify --run")
    return kind


def runtime_format(model: str | Path) -> Literal["onnx", "tflite", "pt2"]:
    """Which runtime a model runs in. Raises `InputError` if in none."""
    name = str(model)
    if name.lower().endswith(".tflite"):
        return "tflite"
    if name.lower().endswith(".pt2"):
        return "pt2"
    if name.lower().endswith(".onnx") or (name.startswith("zoo:") and has_operators(name)):
        return "onnx"
    raise InputError("only ONNX, TFLite and .pt2 models can be run; verify it without --run", name)


def _onnx_files(
    model: str | Path, planned: str | Path | None, plan: Plan, how: tuple[bool, Dims], folder: Path
) -> tuple[Path, Path]:
    """Both files, with weights; what is missing, random weights for `how`[0], is written into the folder."""
    random_weights, dims = how
    from lowtide.run.random_weights import weighted
    from lowtide.write import write_model

    original = _original_onnx(model, plan, folder, random_weights=random_weights)
    if random_weights and planned is not None:
        planned = weighted(Path(planned), folder / "planned.onnx")
    if planned is None:
        planned = folder / "planned.onnx"
        if recomputes_ops(plan.rewrites):
            from lowtide.api.moves.repeated import write_repeated

            write_repeated(plan, original, planned, dims=dims, copy_external=True)
        elif in_parts(plan.rewrites):
            from lowtide.api.moves.decisions import write_parts

            write_parts(plan, original, planned, dims=dims, copy_external=True)
        else:
            write_model(original, plan.order, planned, copy_external=True)
    return original, Path(planned)


def _original_onnx(model: str | Path, plan: Plan, folder: Path, *, random_weights: bool) -> Path:
    """The model's file with weights; what is missing is written into the folder."""
    from lowtide.run.random_weights import check_weights, weighted

    original = Path(model)
    if str(model).startswith("zoo:"):
        original = folder / "original.onnx"
        original.write_bytes(networks(str(model)).build(str(model)[4:]).onnx(plan.seed).SerializeToString())
    elif random_weights:
        original = weighted(original, folder / "original.onnx")
    else:
        check_weights(original)
    return original


def _run_loops(model: str | Path, plan: Plan, kind: str, how: tuple[bool, Dims], folder: Path) -> LoopRunReport:
    """Replay a plan with loops, with what the model's runtime makes of every tensor."""
    from lowtide.run.tensor_values import litert_values, onnxruntime_values, replay_loops

    random_weights, dims = how
    if kind == "tflite":
        graph = load(model)
        return replay_loops(graph, plan, litert_values(graph, Path(model), plan.seed, _INPUTS), "LiteRT")
    graph = load(model, dims)
    original = _original_onnx(model, plan, folder, random_weights=random_weights)
    values = onnxruntime_values(graph, original, plan.seed, _INPUTS, dims)
    last = plan.rules is not None and plan.rules.channels_last
    return replay_loops(graph, plan, values, "onnxruntime", channels_last=last)


def _run_tflite(model: Path, planned: str | Path | None, plan: Plan, folder: Path, timed: bool) -> TfliteRunReport:
    """Run a TFLite model and its planned form in TFLM and in LiteRT."""
    from lowtide.run.tflite import run_tflite
    from lowtide.runtimes.tflm.offline import offline_offsets
    from lowtide.write import write_model

    if planned is None:
        planned = folder / "planned.tflite"
        if in_parts(plan.rewrites):
            from lowtide.api.moves.decisions import write_parts

            write_parts(plan, model, planned)
        else:
            write_model(model, plan.order, planned, offsets=offline_offsets(plan), kernels=plan.kernels)
    return run_tflite(model, Path(planned), plan, seed=plan.seed, timed=timed)


def _run_torch(
    model: Path, planned: str | Path | None, plan: Plan, dims: Dims, folder: Path, timed: bool
) -> TorchRunReport:
    """Run a torch.export archive and its planned form in eager mode."""
    from lowtide.graph import Kind
    from lowtide.run.torch import run_torch
    from lowtide.write import write_model

    shapes = [t.shape for t in load(model, dims=dims).tensors if t.kind is Kind.INPUT]
    if planned is None:
        planned = folder / "planned.pt2"
        write_model(model, plan.order, planned)
    return run_torch(model, Path(planned), plan, seed=plan.seed, shapes=shapes, timed=timed)
