"""Writing models and plans: together or not at all, and never over the input."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lowtide.api.exports import NO_EXPORTS, Exports, layout_of
from lowtide.api.models import NO_DIMS, user_function
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.stop import Progress
from lowtide.target import Target


def apply(made: Plan, model: str | Path, out: str | Path, *, copy_external: bool = False) -> None:
    """Write the model with its ops in the plan's order; every byte that need not change stays as it was.

    Raises
    ------
    InputError
        The plan is for another model, or the output cannot be written (`docs/contract.md`, Files).
    """
    write_all(made, model, out=out, copy_external=copy_external)


def write_all(
    made: Plan,
    model: str | Path,
    *,
    out: str | Path | None = None,
    plan_file: str | Path | None = None,
    log_file: str | Path | None = None,
    snippet: str | Path | None = None,
    buffer_plan: str | Path | None = None,
    trace: Sequence[Progress] = (),
    copy_external: bool = False,
    exports: Exports = NO_EXPORTS,
    commands: str | Path | None = None,
    target: str | Target = "auto",
    dims: Mapping[str, int] = NO_DIMS,
) -> None:
    """Write the model, the plan, the anytime log, the layout: together or not at all, and never over the input.

    The log is a CSV with a line for each improvement in `trace`: seconds, best peak and lower bound in bytes. The
    snippet is Python that opens the written model as an onnxruntime session of the plan's order and arena. The
    buffer plan is the layout as TFLM's struct. `commands` is what a driver runs in a plan with spilling, as JSON if the
    name ends so. `target` and `dims`, as the plan was made with, are for `exports` only.

    Raises
    ------
    InputError
        As `apply`.
    """
    from lowtide.outputs import Outputs

    if made.moves and any(path is not None for path in exports.paths):
        raise InputError("tensors move in this plan, so they have no one place; write --commands instead")
    source = _file_of(model)
    layout = layout_of(made, model, target, dims) if any(path is not None for path in exports.paths) else None
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder, Outputs([source] if source else []) as outputs:
        if out is not None:
            from lowtide.write import write_model

            if made.rewrites:
                raise InputError("ops run again in this plan, and the model has them once; write the plan alone")

            if source is None:
                source = _made_file(model, made.seed, Path(folder), out)
            else:
                _same_model(made, source)
            write_model(source, made.order, out, copy_external, outputs, offline_offsets(made))
        if plan_file is not None:
            outputs.write(plan_file, made.to_json())
        if snippet is not None:
            from lowtide.write.onnxruntime_snippet import onnxruntime_snippet

            outputs.write(snippet, onnxruntime_snippet(made, str(model if out is None else out)))
        if buffer_plan is not None:
            from lowtide.api.tflm import buffer_plan_of

            outputs.write(buffer_plan, buffer_plan_of(made, model))
        if log_file is not None:
            lines = [f"{p.seconds:.6f},{p.best_bytes},{p.bound_bytes}" for p in trace]
            outputs.write(log_file, "\n".join(["seconds,best_bytes,bound_bytes", *lines, ""]).encode())
        if commands is not None:
            from lowtide.write.command_stream import commands_json, commands_text

            if made.moves is None:
                raise InputError("commands are for a plan with spilling; name the memories with --memory")
            outputs.write(commands, (commands_json if str(commands).endswith(".json") else commands_text)(made))
        if layout is not None:
            exports.write(layout, outputs)


def offline_offsets(made: Plan) -> dict[int, int] | None:
    """Offsets that go into the model file: those for a runtime that takes them from there."""
    return {int(t): at for t, at in (made.offsets or {}).items()} if made.runtime_parts is not None else None


def check_outputs(model: str | Path, out: str | Path | None, *others: str | Path | None) -> None:
    """See that outputs can be written, before any time is spent on planning; leaves nothing behind.

    Raises
    ------
    InputError
        An output is the input, a directory, cannot be written, has another format than the model; two outputs are one
        file; or there is no model file to write back.
    """
    from lowtide.outputs import Outputs

    if out is not None:
        _ending(model, out)
    source = _file_of(model)
    outputs = Outputs([source] if source else [])
    try:
        for path in (out, *others):
            if path is not None:
                with outputs.create(path):
                    pass
    finally:
        outputs.discard()


def write_zoo(name: str, out: str | Path, seed: int = 0) -> None:
    """Write a network of the zoo as `.onnx`, with random weights from `seed`, or as `.graph.json`.

    Raises
    ------
    InputError
        No such network or parameter, another ending, or the output cannot be written.
    """
    from lowtide import zoo
    from lowtide.outputs import Outputs

    _ending(f"zoo:{name}", out)
    net = zoo.build(name)
    with Outputs() as outputs:
        if str(out).lower().endswith(".onnx"):
            outputs.write(out, net.onnx(seed).SerializeToString(deterministic=True))
        else:
            from lowtide.write.graph_json import graph_json_bytes

            outputs.write(out, graph_json_bytes(net.graph()))


def _file_of(model: str | Path) -> Path | None:
    """The model's own file; None if it comes from the zoo or a function."""
    return None if str(model).startswith("zoo:") or user_function(model) is not None else Path(model)


def _ending(model: str | Path, out: str | Path) -> None:
    if user_function(model) is not None:
        raise InputError("a model that a function makes has no file to write back; save it first", str(model))
    name = str(model).lower()
    if name.startswith("zoo:"):
        if not str(out).lower().endswith((".onnx", ".graph.json")):
            raise InputError("the name must end in .onnx or .graph.json", str(out))
    elif name.endswith((".onnx", ".pt2", ".json")):
        ending = name[name.rindex(".") :]
        if not str(out).lower().endswith(ending):
            raise InputError(f"the output has the model's own format; its name must end in {ending}", str(out))


def _made_file(model: str | Path, seed: int, folder: Path, out: str | Path) -> Path:
    """A zoo network as a file, in the format of the output."""
    _ending(model, out)
    source = folder / ("model.onnx" if str(out).lower().endswith(".onnx") else "model.graph.json")
    write_zoo(str(model)[4:], source, seed)
    return source


def _same_model(made: Plan, source: Path) -> None:
    import hashlib

    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", str(source)) from None
    if digest != made.model_sha256:
        raise InputError("the plan is for another model, or the file has changed; plan it again", str(source))
