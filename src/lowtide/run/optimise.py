"""A model as onnxruntime's own optimiser leaves it, written to a file that can be planned like any other.

Fused nodes, folded constants and fixed dimensions are then in the file, and nothing is left that onnxruntime would do
at load time, where it would also change the order. What level "extended" fuses runs on any CPU; level "all" also
rewrites convolutions for the CPU at hand, which is onnxruntime's default and often needs less memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from lowtide.errors import InputError, MissingExtraError, first_line

Level = Literal["extended", "all"]


def write_optimized(model: Path, out: Path, dims: Mapping[str, int], level: Level = "extended") -> None:
    """Let onnxruntime optimise a model offline. The same onnxruntime writes the same bytes.

    Parameters
    ----------
    model, out
        The model, and the file to write, weights inside.
    dims
        Sizes of free dimensions by their names; those of unnamed ones (``"INPUT:AXIS"``) are left alone.
    level
        ``"extended"``, or ``"all"`` for a file that is to run on CPUs like this one only.

    Raises
    ------
    InputError
        onnxruntime cannot load the model: weights are missing, for one.
    MissingExtraError
        onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "run", "--runtime-optimized") from None
    if not model.is_file():
        raise InputError("cannot read the file: No such file or directory", str(model))
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if level == "all" else levels.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(out)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for name, size in dims.items():
        if ":" not in name:
            options.add_free_dimension_override_by_name(name, size)
    source = _with_shapes(model)
    try:
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        message = f"onnxruntime cannot load it, so it cannot optimise it: {first_line(error)}"
        raise InputError(message, str(model)) from None


def _with_shapes(model: Path) -> str | bytes:
    """The model with every tensor's shape declared: fused ops of onnxruntime's own keep what is declared before."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        bare = onnx.load(str(model), load_external_data=False)
        declared = {v.name for v in (*bare.graph.value_info, *bare.graph.output)}
        if declared.issuperset(name for node in bare.graph.node for name in node.output if name):
            return str(model)
        onnx.load_external_data_for_model(bare, str(model.parent))
        return onnx.shape_inference.infer_shapes(bare, data_prop=True).SerializeToString()
    except (DecodeError, OSError, ValueError, RuntimeError):
        return str(model)
