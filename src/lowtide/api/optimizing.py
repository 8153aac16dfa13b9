"""The optimiser of the runtime itself, run beforehand so that its result can be planned."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from lowtide.api.models import NO_DIMS, user_function
from lowtide.errors import InputError


def runtime_optimized(
    model: str | Path,
    out: str | Path,
    *,
    level: str = "extended",
    dims: Mapping[str, int] = NO_DIMS,
    seed: int = 0,
) -> None:
    """Write a model as onnxruntime's own optimiser leaves it: plan that file, and run its plan.

    Parameters
    ----------
    model
        An ONNX file with its weights, or ``zoo:NAME``.
    out
        The file to write; it holds the weights.
    level
        ``"extended"``, or ``"all"``: onnxruntime's default, whose convolutions are for CPUs like this one only. Where a
        kernel's shapes are seen nowhere else, as theirs, the model is run once.
    dims
        Sizes of free dimensions by name; they are fixed in the file written.
    seed
        Of a zoo network's weights.

    Raises
    ------
    InputError
        Not an ONNX model, onnxruntime cannot load it, an unknown level, or `out` cannot be written or is the model.
    MissingExtraError
        onnxruntime is not installed.
    """
    from lowtide.read.onnx_optimized import write_optimized
    from lowtide.verify.ort_shapes import declare_shapes
    from lowtide.write.atomic import Outputs

    name = str(model)
    if level not in ("extended", "all"):
        raise InputError(f"the level of onnxruntime's optimiser is {level!r}; use extended or all")
    if user_function(model) is not None or not (name.startswith("zoo:") or name.lower().endswith(".onnx")):
        raise InputError("onnxruntime optimises ONNX models only", name)
    if not str(out).lower().endswith(".onnx"):
        raise InputError("the optimised model is an ONNX file; its name must end in .onnx", str(out))
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        source = Path(model)
        if name.startswith("zoo:"):
            from lowtide import zoo

            source = Path(folder) / "model.onnx"
            source.write_bytes(zoo.build(name[4:]).onnx(seed).SerializeToString(deterministic=True))
        made = Path(folder) / "optimized.onnx"
        with Outputs([] if name.startswith("zoo:") else [source]) as outputs, outputs.create(out) as file:
            write_optimized(source, made, dims, level)
            if not _readable(made, {name: size for name, size in dims.items() if ":" in name}):
                declare_shapes(made, dims, seed)
            file.write(made.read_bytes())


def _readable(made: Path, dims: Mapping[str, int]) -> bool:
    """Whether every shape is known without a run."""
    from lowtide.read import read_model

    try:
        read_model(made, dims)
    except InputError:
        return False
    return True
