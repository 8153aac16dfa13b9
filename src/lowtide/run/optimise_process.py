"""onnxruntime's optimiser in a process of its own: a model on which it crashes, or needs much memory, ends that."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lowtide.errors import InputError, LowtideError, MissingExtraError, first_line
from lowtide.run import blocks, optimise
from lowtide.run.blocked_shapes import declare_blocked
from lowtide.run.forks import CallEndedError, call
from lowtide.run.optimise import Level, write_optimized
from lowtide.sizes import NO_DIMS, Dims

NO_SIZES: Mapping[str, int] = {}


def optimize(
    model: Path,
    out: Path,
    dims: Mapping[str, int],
    level: Level,
    free_sizes: Mapping[str, int] = NO_SIZES,
    seed: int = 0,
) -> None:
    """Write a model as onnxruntime's optimiser leaves it, with every shape declared that its ops do not tell.
    Parameters are those of `write_optimized`. `free_sizes`: sizes of dimensions that stay free in the file: the shapes
    are declared for these. `seed` is of the random inputs of the run that shows shapes. Raises `InputError`:
    onnxruntime cannot load or run the model, or crashes. Raises `MissingExtraError`: onnxruntime is not installed."""
    if find_spec("onnxruntime") is None:
        raise MissingExtraError("onnxruntime", "run", "a plan for onnxruntime")
    what = [str(model), str(out), dict(dims), level, dict(free_sizes), seed, optimise.INLINE_BYTES]
    try:
        error = call("onnx", "lowtide.run.optimise_process:optimize_here", *what)
    except CallEndedError as ended:
        raise InputError(f"onnxruntime crashes on it ({ended}); plan it for another runtime", str(model)) from None
    if error:
        raise InputError(error.removeprefix(f"{model}: "), str(model))


def optimize_here(
    model: str, out: str, dims: dict[str, int], level: Level, free_sizes: dict[str, int], seed: int, inline_bytes: int
) -> str:
    """Do the same in this process; what is wrong, or nothing."""
    file = Path(out)
    try:
        write_optimized(Path(model), file, dims, level, inline_bytes)
        if free_sizes:
            forget_free_shapes(file)
        elif not _readable(file):
            declare_blocked(file, blocks.block_size())
        if not _readable(file, free_sizes):
            declare_shapes(file, {**dims, **free_sizes}, seed)
    except LowtideError as error:
        return str(error)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        return f"onnxruntime cannot optimise it: {first_line(error)}"
    return ""


def forget_free_shapes(file: Path) -> None:
    """Write a file anew without the declared shapes of inner tensors that have a free size."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    known = [v for v in proto.graph.value_info if all(d.dim_value > 0 for d in v.type.tensor_type.shape.dim)]
    kept = [type(v).FromString(v.SerializeToString()) for v in known]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    file.write_bytes(proto.SerializeToString(deterministic=True))


def _readable(file: Path, dims: Dims = NO_DIMS) -> bool:
    """Whether every shape is known without a run."""
    from lowtide.read import read_model

    try:
        read_model(file, dims=dims)
    except InputError:
        return False
    return True


_TYPES = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
"""ONNX's number of an element type, by the name that onnxruntime's profile has for it."""


def declare_shapes(model: Path, dims: Dims, seed: int = 0) -> None:
    """Declare, in the file itself, the shape of every tensor that has none, as one run on random inputs shows it.
    Raises `InputError`: onnxruntime cannot run the model, or an input cannot be drawn."""
    import onnx

    from lowtide.run.onnx import draw
    from lowtide.run.ort_session import PLANNED, open_session

    proto = onnx.load(str(model), load_external_data=False)
    graph = proto.graph
    declared = {v.name for v in (*graph.value_info, *graph.output)}
    if declared.issuperset(name for node in graph.node for name in node.output if name):
        return
    with tempfile.TemporaryDirectory(prefix="lowtide-run-") as folder:
        try:
            session = open_session(model, PLANNED, folder, "shapes")
        except Exception as error:  # onnxruntime's own kinds of error have no common base
            raise InputError(f"onnxruntime cannot load what it optimised: {first_line(error)}", str(model)) from None
        draw(session, model, seed, 1, dims)
        events = json.loads(Path(session.end_profiling()).read_bytes())
    output_names = _outputs(graph.node)
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") != "Node" or not name.endswith("_kernel_time"):
            continue
        key = name.removesuffix("_kernel_time"), str(event["args"].get("node_index"))
        seen = event["args"].get("output_type_shape", ())
        for tensor, types in zip(output_names.get(key, ()), seen, strict=False):
            for element, shape in types.items():
                if tensor not in declared and element in _TYPES:
                    declared.add(tensor)
                    graph.value_info.append(onnx.helper.make_tensor_value_info(tensor, _TYPES[element], shape))
    model.write_bytes(proto.SerializeToString())


def _outputs(nodes: Any) -> dict[tuple[str, str], list[str]]:
    """Names of what each node makes, by the name and number that onnxruntime gives it."""
    kept = [n for n in nodes if n.op_type != "Constant"]
    return {(n.name or f"{n.op_type}_{i}", str(i)): [o for o in n.output if o] for i, n in enumerate(kept)}
