"""What an onnxruntime process takes with a plan, predicted part by part from the files that are written.

The constants were measured with onnxruntime 1.32.0 on x86-64; `packages/research/bench/front.py` prints what is
predicted, and what is measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lowtide.comparison import ProcessMemory, Weights
from lowtide.read.onnx.proto import bodies
from lowtide.run.timing import FreshRun, Setup, run_fresh

_NODE_BYTES = 4300
"""What a session keeps for a node."""
_KERNEL_BYTES = 1_500_000
"""Pages of onnxruntime's own code that a run of a usual model touches, beyond those of opening it."""
_IN_FILE = 1.2
"""What weights take that are read from the model's file, for each of their bytes: pieces of the file stay in memory."""
_HELD_BY_NODE = 2.5
"""The same of a constant that a node holds: the node, the file and the session each have it."""
_PACKED = {"MatMul": (1,), "Gemm": (1,), "FusedMatMul": (1,), "FusedGemm": (1,), "LSTM": (1, 2), "GRU": (1, 2)}
"""Operands that kernels copy into a layout of their own when the session opens."""


def predicted_process(model: Path, arena_bytes: int, weights: Weights | None, value_bytes: int) -> ProcessMemory:
    """Memory of a process above that before it opened a model. `model`: the file that the session opens.
    `arena_bytes`: the block for its tensors. `weights`: where its weights are. `value_bytes`: of the inputs and
    outputs of a run."""
    where = weights or Weights()
    nodes, constants, packed = _contents(model, model.stat().st_mtime_ns)
    copies = packed if where.prepacked else 0
    held = constants if where.mapped else int(_IN_FILE * constants)
    session, kept = empty_session().model_bytes, _NODE_BYTES * nodes
    running = session + _KERNEL_BYTES + kept + held + arena_bytes + value_bytes  # a packed weight is given back
    opening = session + kept + copies + (copies if where.mapped else held)
    return ProcessMemory(
        session_bytes=session + _KERNEL_BYTES,
        nodes_bytes=kept,
        weights_bytes=held - copies,
        prepacked_bytes=copies,
        tensors_bytes=arena_bytes,
        values_bytes=value_bytes,
        loading_bytes=max(0, opening - running),
    )


@lru_cache(maxsize=4)
def _contents(model: Path, _: int) -> tuple[int, int, int]:
    """The number of nodes of a file that was changed at some time, bytes of its constants, and of those that kernels
    copy."""
    import onnx

    graphs = list(_graphs(onnx.load(str(model), load_external_data=False).graph))
    sizes = {name: size for graph in graphs for name, size in _sizes(graph).items()}
    nodes = [node for graph in graphs for node in graph.node]
    packed = {node.input[i] for node in nodes for i in _PACKED.get(node.op_type, ()) if i < len(node.input)}
    return len(nodes), sum(sizes.values()), sum(sizes.get(name, 0) for name in packed)


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph, and the bodies of its nodes."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from _graphs(body)


def _sizes(graph: Any) -> dict[str, int]:
    """What each constant of a graph takes: an initializer its bytes, what a node holds more than twice as much."""
    sizes = {tensor.name: _bytes(tensor) for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                sizes[node.output[0]] = int(_HELD_BY_NODE * attribute.t.ByteSize())
    return sizes


@cache
def empty_session() -> FreshRun:
    """What a process takes for a session of one small op, measured."""
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "empty", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with tempfile.TemporaryDirectory(prefix="lowtide-") as name:
        folder = Path(name)
        file = folder / "empty.onnx"
        file.write_bytes(model.SerializeToString())
        (run,) = run_fresh([Setup(file, folder / "outputs.npz")], folder / "feeds.npz", {}, runs=1)
    return run


def _bytes(tensor: Any) -> int:
    """Of an initializer, in the file or outside."""
    outside = [int(entry.value) for entry in tensor.external_data if entry.key == "length"]
    return outside[0] if outside else tensor.ByteSize()
