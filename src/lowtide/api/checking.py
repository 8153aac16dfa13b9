"""Checking plans: verify, prove again, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.models import NO_DIMS, load
from lowtide.api.planning import check_time
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.target import NONE_FIXED, Target, resolve

if TYPE_CHECKING:
    from lowtide.run.onnx import RunReport
    from lowtide.run.tflite import TfliteRunReport
    from lowtide.run.torch import TorchRunReport
    from lowtide.verify.prove.search import Proof
    from lowtide.verify.report import Report


def verify(
    model: Graph | str | Path,
    made: Plan | str | Path | None = None,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int] = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    run: bool = False,
    random_weights: bool = False,
    prove: bool = False,
    time: float = 60.0,
) -> Report:
    """Check a plan with code that shares no algorithm with the planners.

    Parameters
    ----------
    made
        The plan; None for a .tflite file: check the offline plan that it holds, whoever wrote it.
    target, overwrite_inputs, pin_inputs
        As the plan was made with; ``"auto"`` takes the built-in target that the plan names.
    dims
        Sizes of free dimensions, as for `load`.
    run
        Also run the model in its own and in the plan's order, as `lowtide.run` does, and compare the outputs.
    random_weights
        For `run`: put random weights where the model's own are missing.
    prove
        Also prove the bound again, as `lowtide.prove` does, in at most `time` seconds.

    Returns
    -------
    Report
        What held; `Report.proof` and `Report.run` if asked for.

    Raises
    ------
    InputError
        The plan is for another model or cannot be read; or as `lowtide.run`.
    VerificationError
        What does not hold, by name; ``"outputs"`` if the outputs differ.
    """
    from lowtide.verify.check.plan import verify_plan
    from lowtide.verify.prove.search import prove as search_again

    check_time(time)
    if made is None:
        from lowtide.api.tflm import verify_file

        if run or prove:
            raise InputError("--run and --prove are about a plan; name its file", str(model))
        return verify_file(model, target)
    graph, plan, rules = _to_check(model, made, target, dims, overwrite_inputs, pin_inputs)
    report = verify_plan(graph, plan, rules)
    if prove:
        report = replace(report, proof=search_again(graph, plan, rules, seconds=time))
    if run:
        if isinstance(model, Graph):
            raise InputError("a Graph cannot be run; give the path of its model", model.source or model.name)
        from lowtide.verify.check.runtime_arena import tensor_bytes

        tensors = tensor_bytes(graph, plan, rules)
        ran = _run(model, None, plan, dims=dims, footprint_bytes=tensors, random_weights=random_weights)
        _equal_outputs(ran)
        report = replace(report, run=ran)
    return report


def _equal_outputs(ran: RunReport | TfliteRunReport | TorchRunReport) -> None:
    differ = [o for o in ran.outputs if not o.equal]
    if differ and ran.deterministic:
        names = ", ".join(f"{o.name} (by up to {o.max_abs_difference})" for o in differ[:5])
        more = f" and {len(differ) - 5} more" if len(differ) > 5 else ""
        raise VerificationError("outputs", f"{len(differ)} of {len(ran.outputs)} outputs differ: {names}{more}")


def prove(
    model: Graph | str | Path,
    made: Plan | str | Path,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int] = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    time: float = 60.0,
) -> Proof:
    """Prove a plan's bound again, with a second, plain search where it was proved by one. Raises as `verify`."""
    from lowtide.verify.prove.search import prove as search_again

    check_time(time)
    graph, made, rules = _to_check(model, made, target, dims, overwrite_inputs, pin_inputs)
    return search_again(graph, made, rules, seconds=time)


def _to_check(
    model: Graph | str | Path,
    made: Plan | str | Path,
    target: str | Target,
    dims: Mapping[str, int],
    overwrite_inputs: bool,
    pin_inputs: bool,
) -> tuple[Graph, Plan, Target]:
    from lowtide.plan import read_plan
    from lowtide.target import BUILT_IN

    if not isinstance(made, Plan):
        made = read_plan(made)
    if target == "auto":
        if made.target.partition(",")[0] not in BUILT_IN:
            raise InputError(f"the plan is for target {made.target!r}; name its file with --target")
        target = made.target
    rules = resolve(
        target,
        overwrite_inputs=overwrite_inputs or bool(made.overwrite_inputs),
        pin_inputs=pin_inputs or bool(made.pin_inputs),
        persistent=made.persistent or (),
        double_buffered=made.double_buffered or (),
        fixed=made.fixed or NONE_FIXED,
    )
    graph = rules.as_seen(model if isinstance(model, Graph) else load(model, dims))
    return graph, made, rules


def run(
    model: str | Path,
    planned: str | Path | None,
    made: Plan | str | Path,
    *,
    dims: Mapping[str, int] = NO_DIMS,
    footprint_bytes: Sequence[int] = (),
    random_weights: bool = False,
) -> RunReport | TfliteRunReport | TorchRunReport:
    """Run a model and its planned form in onnxruntime on the same random inputs, and compare.

    Parameters
    ----------
    planned
        What `apply` wrote; None to write it to a temporary place.
    footprint_bytes
        The plan's footprint per step (`Report.footprint_bytes`, less workspace), to stand beside what the runtime
        measures.
    random_weights
        Put random weights where the model's own are missing.

    Raises
    ------
    InputError
        Not an ONNX model, or onnxruntime cannot run it as it is.
    MissingExtraError
        onnxruntime is not installed.
    VerificationError
        The planned file does not run.
    """
    import tempfile

    from lowtide.plan import read_plan
    from lowtide.run.onnx import run_onnx
    from lowtide.run.random_weights import check_weights

    if not isinstance(made, Plan):
        made = read_plan(made)
    name = str(model)
    if name.lower().endswith(".tflite"):
        return _run_tflite(Path(model), planned, made)
    if name.lower().endswith(".pt2"):
        return _run_torch(Path(model), planned, made, dims)
    if not (name.startswith("zoo:") or name.lower().endswith(".onnx")):
        raise InputError("only ONNX, TFLite and .pt2 models can be run; verify it without --run", name)
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        original = Path(model)
        if name.startswith("zoo:"):
            from lowtide import zoo

            original = Path(folder) / "original.onnx"
            original.write_bytes(zoo.build(name[4:]).onnx(made.seed).SerializeToString())
        elif random_weights:
            original = _with_weights(original, Path(folder) / "original.onnx")
            planned = None if planned is None else _with_weights(Path(planned), Path(folder) / "planned.onnx")
        else:
            check_weights(original)
        if planned is None:
            from lowtide.write import write_model

            target = Path(folder) / "planned.onnx"
            write_model(original, made.order, target, copy_external=True)
            planned = target
        return run_onnx(original, Path(planned), made, seed=made.seed, dims=dims, footprint_bytes=footprint_bytes)


def _run_tflite(model: Path, planned: str | Path | None, made: Plan) -> TfliteRunReport:
    """Run a TFLite model and its planned form in TFLM and in LiteRT."""
    import tempfile

    from lowtide.run.tflite import run_tflite

    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        if planned is None:
            from lowtide.api.writing import offline_offsets
            from lowtide.write import write_model

            planned = Path(folder) / "planned.tflite"
            write_model(model, made.order, planned, offsets=offline_offsets(made), kernels=made.kernels)
        return run_tflite(model, Path(planned), made, seed=made.seed)


def _run_torch(model: Path, planned: str | Path | None, made: Plan, dims: Mapping[str, int]) -> TorchRunReport:
    """Run a torch.export archive and its planned form in eager mode."""
    import tempfile

    from lowtide.graph import Kind
    from lowtide.run.torch import run_torch

    shapes = [t.shape for t in load(model, dims=dims).tensors if t.kind is Kind.INPUT]

    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        if planned is None:
            from lowtide.write import write_model

            planned = Path(folder) / "planned.pt2"
            write_model(model, made.order, planned)
        return run_torch(model, Path(planned), made, seed=made.seed, shapes=shapes)


def _with_weights(model: Path, out: Path) -> Path:
    from lowtide.run.random_weights import missing_weights, with_random_weights

    if not missing_weights(model):
        return model
    with_random_weights(model, out)
    return out


_run = run  # `verify` has a parameter of that name
