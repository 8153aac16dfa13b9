"""The optimiser of the runtime itself, run beforehand so that its result can be planned."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from lowtide.api.models import files_read, user_function
from lowtide.api.opening import not_opened
from lowtide.api.optimized import sizes_by_name
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.extensions import networks
from lowtide.names import did_you_mean
from lowtide.outputs import Outputs
from lowtide.run.optimise import Level
from lowtide.run.optimise_process import optimize
from lowtide.sizes import NO_DIMS, Dims

_LEVELS: tuple[Level, ...] = ("extended", "all")


@typed
def runtime_optimized(
    model: str | Path,
    out: str | Path,
    *,
    level: str = "extended",
    dims: Dims = NO_DIMS,
    seed: int = 0,
    time: float = 10.0,
) -> str:
    """Write a model as onnxruntime's own optimiser leaves it: plan that file, and run its plan.

    Parameters
    ----------
    model
        An ONNX file with its weights, or ``zoo:NAME``.
    out
        The file to write; it holds the weights. Of models with more than 1.5 GiB outside, OUT.data next to it does.
    level
        ``"extended"``, or ``"all"``: onnxruntime's default, whose convolutions are for CPUs like this one only. Where a
        kernel's shapes are seen nowhere else, as theirs, the model is run once. ``"best"``: both are planned, and the
        one whose plan needs the smaller arena is written, ``"extended"`` if they need the same.
    dims
        Sizes of free dimensions by name; they are fixed in the file written.
    seed
        Of a zoo network's weights.
    time
        Seconds of search for each level, if both are planned.

    Returns
    -------
    str
        The level of the file that was written.

    Raises
    ------
    InputError
        Not an ONNX model, onnxruntime cannot load it, an unknown level, or `out` cannot be written or is the model.
    MissingExtraError
        onnxruntime is not installed.
    VerificationError
        ``open``: onnxruntime does not open at its default level what it made.
    """
    name = str(model)
    if level not in (*_LEVELS, "best"):
        hint = did_you_mean(level, (*_LEVELS, "best"))
        raise InputError(f"the level of onnxruntime's optimiser is {level!r}; use extended, all or best{hint}")
    if user_function(model) is not None or not (name.startswith("zoo:") or name.lower().endswith(".onnx")):
        raise InputError("onnxruntime optimises ONNX models only", name)
    if not str(out).lower().endswith(".onnx"):
        raise InputError("the optimised model is an ONNX file; its name must end in .onnx", str(out))
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        source = Path(model)
        if name.startswith("zoo:"):
            source = Path(folder) / "model.onnx"
            source.write_bytes(networks(name).build(name[4:]).onnx(seed).SerializeToString(deterministic=True))
        files: dict[Level, Path] = {k: Path(folder) / k / Path(out).name for k in _LEVELS if level in (k, "best")}
        sizes = sizes_by_name(source, dims)
        with Outputs(files_read(name)) as outputs, outputs.create(out) as file:
            for k, path in files.items():
                path.parent.mkdir()
                optimize(source, path, sizes, k, seed)
            chosen = min(files, key=lambda k: _needs(files[k], time) if level == "best" else 0)
            not_opened(files[chosen], Path(out))
            with files[chosen].open("rb") as made:
                shutil.copyfileobj(made, file)
            _copy_data(files[chosen], Path(out), outputs)
    return chosen


def _copy_data(optimized: Path, out: Path, outputs: Outputs) -> None:
    """What a file that was made keeps outside itself, to the folder of `out`."""
    data = optimized.with_name(f"{optimized.name}.data")
    if data.exists():
        with outputs.create(out.with_name(data.name)) as file, data.open("rb") as source:
            shutil.copyfileobj(source, file, 1 << 24)


def optimize_first(model: str | Path, out: str | Path, *, target: str, dims: Dims, **more: Any) -> str:
    """Run `runtime_optimized` (`more` are its other arguments) for a plan of `out` for target onnxruntime; the level.

    Raises
    ------
    InputError
        The plan is to be for another runtime; or as `runtime_optimized`.
    """
    if target not in ("auto", "onnxruntime"):
        raise InputError(f"--runtime-optimized is for target onnxruntime, not for {target}; drop one of them")
    return runtime_optimized(model, out, dims=dims, **more)


def _needs(file: Path, time: float) -> int:
    """Bytes of the arena of a plan."""
    from lowtide.api.planning import plan

    return plan(file, target="onnxruntime", time=time).required_bytes
