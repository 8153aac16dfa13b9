"""Shapes that no file declares and no rule gives, as of onnxruntime's blocked convolutions: seen in a run."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from lowtide.errors import InputError, first_line
from lowtide.run.onnx import draw
from lowtide.run.ort_session import PLANNED, open_session
from lowtide.sizes import Dims

_TYPES = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
"""ONNX's number of an element type, by the name that onnxruntime's profile has for it."""


def declare_shapes(model: Path, dims: Dims, seed: int = 0) -> None:
    """Declare, in the file itself, the shape of every tensor that has none, as one run on random inputs shows it.

    Raises
    ------
    InputError
        onnxruntime cannot run the model, or an input cannot be drawn.
    """
    import onnx

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
