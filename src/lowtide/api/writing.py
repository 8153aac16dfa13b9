"""Writing models and plans: together or not at all, and never over the input."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowtide.api.exported import as_file
from lowtide.api.exports import NO_EXPORTS, Exports, buffer_plan_of, layout_of
from lowtide.api.models import external_locations, files_read, user_function
from lowtide.api.objects import Exported
from lowtide.api.optimized import planned_model
from lowtide.api.reporting import NO_PICTURES, Pictures
from lowtide.arguments import typed
from lowtide.errors import InputError, VerificationError
from lowtide.extensions import networks
from lowtide.files import open_bytes
from lowtide.outputs import Outputs
from lowtide.plan import Plan
from lowtide.rewrites import Swap, in_parts, recomputes_ops
from lowtide.run.opening import onnx_refusal, tflite_refusals
from lowtide.sizes import NO_DIMS, Dims
from lowtide.stop import Progress
from lowtide.target import BUILT_IN, Target
from lowtide.write.lean import make_lean


@dataclass(frozen=True)
class PlanFiles:
    """Files to write of a plan, each or none, together or not at all."""

    out: str | Path | None = None  # the model with its ops in the plan's order
    plan: str | Path | None = None  # the plan
    # CSV with a line for each improvement of the search: seconds, best peak and lower bound in bytes.
    log: str | Path | None = None
    # Python that opens the written model as an onnxruntime session of the plan's order and arena. A model that
    # onnxruntime's optimiser made is then written without what such a session does not need.
    snippet: str | Path | None = None
    buffer_plan: str | Path | None = None  # the layout as TFLM's struct
    commands: str | Path | None = None  # what a driver runs in a plan with spilling, as JSON if the name ends so
    exports: Exports = NO_EXPORTS  # the layout for compilers and firmware
    # Whether external data is copied to where `out` is, if elsewhere; None: it goes to a file of its own there.
    copy_external: bool | None = False
    pictures: Pictures = NO_PICTURES  # the report and what else is drawn
    texts: Mapping[Path, str] = field(default_factory=dict)  # further files by their paths, whose text is there already
    # What `snippet` is, in C++ and JavaScript: for names that end in ``.h`` and ``.js``.
    sessions: tuple[str | Path, ...] = ()

    def __post_init__(self) -> None:
        if self.copy_external and self.out is None:
            raise InputError("--copy-external is for the model that -o writes; name that, or leave it out")

    @property
    def paths(self) -> list[str | Path]:
        """The files to write."""
        own = (self.out, self.plan, self.log, self.snippet, *self.sessions, self.buffer_plan, self.commands)
        return [*(path for path in own if path is not None), *self.exports.paths, *self.pictures.paths, *self.texts]

    def possible(self, plan: Plan) -> PlanFiles:
        """Without commands where memories were named and none of them was found: no driver could run that plan."""
        return self if plan.moves is not None else replace(self, commands=None)


@typed
def apply(plan: Plan, model: str | Path | Exported, out: str | Path, *, copy_external: bool = False) -> None:
    """Write the model with its ops in the plan's order; every byte that need not change stays as it was.

    `model` is a file, or an ExportedProgram, of which the file is written that `torch.export.save` would write.

    Raises
    ------
    InputError
        The plan is for another model, or the output cannot be written (`docs/contract.md`, Files).
    VerificationError
        ``open``: the model's runtime does not open what would be written.
    """
    with as_file(model) as file:
        write_all(plan, file, PlanFiles(out, copy_external=copy_external))


def write_all(
    plan: Plan,
    model: str | Path,
    files: PlanFiles,
    *,
    trace: Sequence[Progress] = (),
    target: str | Target = "auto",
    dims: Dims = NO_DIMS,
    board: str | Path | None = None,
    opened: bool = True,
) -> None:
    """Write the model, the plan, the anytime log, the layout: together or not at all, and never over an input. `trace`:
    what the log is to say. `target`, `dims`, `board`: as the plan was made with; for exports of the layout, and so that
    their files are not replaced. `opened`: whether the model's runtime is to open what is written. Raises `InputError`,
    `VerificationError`: as `apply`."""
    if plan.moves and files.exports.paths:
        raise InputError("tensors move in this plan, so they have no one place; write --commands instead")
    wanted = (files.out, files.snippet, *files.sessions, files.buffer_plan, *files.exports.paths)
    if plan.fission is not None and any(path is not None for path in wanted):
        raise InputError(
            "this plan tiles a training step, which has no form as graph JSON; write the plan alone", str(model)
        )
    if plan.loops and any(path is not None for path in wanted):
        raise InputError("this plan streams rows, which no model file can express; write the plan alone", str(model))
    layout = layout_of(plan, model, _planned_target(plan, target), dims) if files.exports.paths else None
    inputs = files_read(model, target, board, external=_replaces(files.paths))
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder, Outputs(inputs) as outputs:
        if files.out is not None:
            out = Path(files.out)
            with planned_model(plan, model) as source:
                optimised = source != model
                if optimised:
                    files, dims = replace(files, copy_external=None), plan.sizes(NO_DIMS)
                made_of = _write_model(plan, str(source), files, Path(folder), outputs, dims)
                if plan.optimized_from is not None and files.snippet is not None:
                    make_lean(_pending(out, outputs))
                if opened:
                    open_written(outputs, made_of)
                outside = optimised and external_locations(made_of)
                if outside or (plan.weights is not None and plan.weights.mapped):
                    _map_weights(out, outputs, made_of.parent if outside else None)
        for path, content in _contents(plan, model, files, trace):
            outputs.write(path, content)
        if layout is not None:
            files.exports.write(layout, outputs)
        files.pictures.write(plan, outputs)


def data_of(out: Path) -> Path:
    """The file of a model's weights."""
    return out.with_name(f"{out.name}.data")


def _pending(out: Path, outputs: Outputs) -> Path:
    """Where a file is until all are written."""
    return next(path for final, path in outputs.pending.items() if final.name == out.name)


def _map_weights(out: Path, outputs: Outputs, outside: Path | None) -> None:
    """Write the weights of a written model into a file of their own. `outside`: the folder of those that are in other
    files already, if any is."""
    from lowtide.write.lean import move_weights

    data = data_of(out)
    with outputs.create(data) as file:
        move_weights(_pending(out, outputs), file, data.name, outside)


def _planned_target(plan: Plan, target: str | Target) -> str | Target:
    """The target with what a board added to it, which the plan's name for it says if it is a built-in one."""
    named = isinstance(target, str) and not target.endswith(".toml") and plan.target.partition(",")[0] in BUILT_IN
    return plan.target if named else target


def _write_model(plan: Plan, model: str | Path, files: PlanFiles, folder: Path, outputs: Outputs, dims: Dims) -> Path:
    """Write the plan's model; the file that it was made of."""
    from lowtide.runtimes.tflm.offline import offline_offsets
    from lowtide.write import write_model

    assert files.out is not None
    recomputes = recomputes_ops(plan.rewrites)
    if any(isinstance(r, Swap) for r in plan.rewrites or ()):
        raise InputError("this plan offloads tensors, which no file can express; write the plan alone, with --plan")
    if recomputes and not str(files.out).lower().endswith(".onnx"):
        raise InputError("this plan recomputes operators, which only ONNX files can express; write the plan alone")
    source = _file_of(model)
    if source is None:
        source = _zoo_file(model, plan.seed, folder, files.out)
    else:
        _same_model(plan, source)
    if recomputes:
        from lowtide.api.moves.repeated import write_repeated

        write_repeated(plan, source, files.out, copy_external=files.copy_external, outputs=outputs)
    elif in_parts(plan.rewrites):
        from lowtide.api.moves.decisions import write_parts

        write_parts(plan, source, files.out, dims=dims, copy_external=files.copy_external, outputs=outputs)
    else:
        offsets = offline_offsets(plan)
        write_model(source, plan.order, files.out, files.copy_external, outputs, offsets, plan.kernels)
    return source


def _contents(
    plan: Plan, model: str | Path, files: PlanFiles, trace: Sequence[Progress]
) -> Iterator[tuple[str | Path, bytes]]:
    """The files in addition to the model and the exports."""
    yield from ((path, text.encode()) for path, text in files.texts.items())
    if files.plan is not None:
        yield files.plan, plan.to_json()
    for session in (*([] if files.snippet is None else [files.snippet]), *files.sessions):
        from lowtide.verify.check.parts import has_cuts

        if files.out is None and has_cuts(plan):
            raise InputError(
                "a snippet opens the model, and this plan's model is tiled; write that with -o", str(model)
            )
        yield session, _session(plan, model, files.out or model, session).encode()
    if files.buffer_plan is not None:
        yield files.buffer_plan, buffer_plan_of(plan, model)
    if files.log is not None:
        lines = [f"{p.seconds:.6f},{p.best_bytes},{p.bound_bytes}" for p in trace]
        yield files.log, "\n".join(["seconds,best_bytes,bound_bytes", *lines, ""]).encode()
    if files.commands is not None:
        from lowtide.write.command_stream import commands_json, commands_text

        if plan.moves is None:
            raise InputError("commands are for a plan with spilling; name the memories with --memory")
        yield files.commands, (commands_json if str(files.commands).endswith(".json") else commands_text)(plan)


def _session(plan: Plan, model: str | Path, opened: str | Path, file: str | Path) -> str:
    """The session of a plan for onnxruntime that opens a file. Raises `InputError` if it is for another target."""
    from lowtide.run.session_texts import SessionSettings, session_text

    if plan.runtime_arena_bytes is None:
        message = f"a session is for onnxruntime, not for target {plan.target}; plan with --target onnxruntime"
        raise InputError(message)
    settings = SessionSettings.of_plan(plan, Path(model), Path(opened), Path(file))
    return session_text(settings, Path(file).name)


def check_outputs(
    model: str | Path, paths: Sequence[str | Path], out: str | Path | None = None, settings: Sequence[object] = ()
) -> None:
    """See that outputs can be written, before any time is spent on planning; leaves nothing behind. `paths`: all of
    them. `out`: the one among them that is to be the model, if any. `settings`: target and board, which may be
    files. Raises `InputError`: an output is an input, a directory, cannot be written, has another format than the
    model; two outputs are one file; or there is no model file to write back."""
    if out is not None:
        _ending(model, out)
    outputs = Outputs(files_read(model, *settings, external=_replaces(paths)))
    try:
        for path in paths:
            with outputs.create(path):
                pass
    finally:
        outputs.discard()


def _replaces(paths: Iterable[str | Path]) -> bool:
    """Whether an output is there already: only then can it be an input."""
    return any(os.path.exists(path) for path in paths)  # a name that no file can have is none


def write_zoo(name: str, out: str | Path, seed: int = 0) -> None:
    """Write a network of the zoo as `.onnx`, with random weights from `seed`, or as `.graph.json`. Raises `InputError`:
    no such network or parameter, another ending, or the output cannot be written. Raises `VerificationError`: ``open``:
    onnxruntime does not open it."""
    _ending(f"zoo:{name}", out)
    with Outputs() as outputs:
        _zoo_into(outputs, name, out, seed)
        open_written(outputs)


def _zoo_into(outputs: Outputs, name: str, out: str | Path, seed: int) -> None:
    """A network of the zoo as a file, in the format that the file's name says."""
    net = networks(f"zoo:{name}").build(name)
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
    else:
        from lowtide.write import ending_of

        ending = ending_of(model, out)
        if ending != ".tflite" and not str(out).lower().endswith(ending):
            raise InputError(f"the output has the model's own format; its name must end in {ending}", str(out))


def _zoo_file(model: str | Path, seed: int, folder: Path, out: str | Path) -> Path:
    """A zoo network as a file, in the format of the output."""
    _ending(model, out)
    source = folder / ("model.onnx" if str(out).lower().endswith(".onnx") else "model.graph.json")
    with Outputs() as outputs:
        _zoo_into(outputs, str(model)[4:], source, seed)
    return source


def _same_model(plan: Plan, source: Path) -> None:
    import hashlib

    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", str(source)) from None
    if digest != plan.model_sha256:
        raise InputError("the plan is for another model, or the file has changed; plan it again", str(source))


def open_written(outputs: Outputs, source: Path | None = None) -> None:
    """Open the models among the files that are being written, and warn of those that cannot be. `outputs`: not yet
    committed: an error leaves none of the files. `source`: the file that the models are made of, next to which their
    external data is; None if there is none. Raises `VerificationError`: ``open``: a runtime opens `source`, and not
    what was made of it."""
    for final, written in outputs.pending.items():
        if final.suffix.lower() in (".onnx", ".tflite"):
            why = not_opened(written, final, source)
            if why:
                warnings.warn(f"{final.name} not opened: {why}", stacklevel=3)


def not_opened(written: Path, final: Path, source: Path | None = None) -> str:
    """Open a file that will be `final` in its runtime: why it could not be tried, or why that says nothing of it; empty
    if it opens. Raises as `open_written`."""
    onnx = final.suffix.lower() == ".onnx"
    home = written.parent if source is None else source.parent
    try:
        if onnx:
            missing = [at for at in _external(written) if not (home / at).is_file()]
            if missing:
                return f"its weights are in {missing[0]!r}, which is not there"
        refused = _refusals(written, home, onnx)
        if not refused:
            return ""
        before = {} if source is None else _refusals(source, home, onnx)
    except ImportError:
        return "onnxruntime is not installed" if onnx else "neither tflite-micro nor ai-edge-litert is installed"
    new = {name: why for name, why in refused.items() if name not in before}
    if new:
        says = "; ".join(f"{name} does not open it: {why}" for name, why in new.items())
        raise VerificationError("open", f"nothing was written, for {final.name} would be of no use: {says}")
    return "; ".join(f"{name} does not open the model itself: {why}" for name, why in before.items())


def _refusals(file: Path, home: Path, onnx: bool) -> dict[str, str]:
    """Which runtimes do not open a file, whose external data is in `home`, and why."""
    if not onnx:
        return tflite_refusals(file)
    elsewhere = home.resolve() != file.parent.resolve() and bool(_external(file))
    why = onnx_refusal(file, home if elsewhere else None)
    return {"onnxruntime": why} if why else {}


def _external(file: Path) -> list[str]:
    """Where an ONNX file says that its weights are."""
    from lowtide.read.onnx.wire import parse_model
    from lowtide.write.onnx import external_files

    with open_bytes(file) as data:
        return external_files(parse_model(data, str(file)))
