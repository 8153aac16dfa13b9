"""What an onnxruntime process takes with a plan, predicted part by part from the files that are written.

    heap of the session   what nodes need, weights in the model's file, inputs
    own mappings          the arena of the tensors and the arena's table, copies of weights that kernels make
    files that are read   onnxruntime's code, by the kinds of ops that run; weights in a file of their own

An empty session is measured on this machine where onnxruntime is installed: how much of onnxruntime's code a process
has depends on the system. The other constants were measured with onnxruntime 1.32.0 on x86-64 and Linux;
`packages/research/bench/front.py` prints what is predicted, and what is measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from lowtide.comparison import ProcessMemory, Weights
from lowtide.read.onnx.proto import all_graphs, bodies, names_read
from lowtide.read.onnx.reader import read_onnx
from lowtide.run.packed_weights import PACKED
from lowtide.run.timing import FreshRun, Setup, run_fresh
from lowtide.sizes import NO_DIMS, Dims

_EMPTY_SESSION_BYTES = 10_450_000
"""A session of one small op in onnxruntime 1.32.0, where it cannot be measured."""
_NODE_BYTES, _ATTRIBUTE_BYTES = 6300, 1120
"""What a session keeps for a node, and more for each of its attributes."""
_CODE_BYTES, _KIND_BYTES = 650_000, 31_500
"""Pages of onnxruntime's code that a run touches beyond those of an empty session, and more for each kind of op."""
_IN_FILE = 1.04
"""What weights take that are read from the model's file, for each of their bytes: gaps between them."""
_ROW_BYTES = 88
"""What the heap has for each row of a product by a vector: three offsets and the call's arguments."""
_HELD_BY_NODE = 2.5
"""The same of a constant that a node or a body holds: the node, the file and the session each have it."""
_ARENA_TABLE = 1 / 32
"""What the arena needs for each of its bytes: 8 in a table for every 256."""


def predicted_process(
    model: Path, arena_bytes: int, weights: Weights | None, input_bytes: int, heap: int = 0
) -> ProcessMemory:
    """Memory of a process above that before it opened a model. `model`: the file that the session opens.
    `arena_bytes`: the block for its tensors, outputs among them. `weights`: where its weights are. `input_bytes`: of
    the inputs of a run. `heap`: see `heap_bytes`."""
    import onnx

    where, graph = weights or Weights(), onnx.load(str(model), load_external_data=False).graph
    graphs = list(all_graphs(graph))
    nodes = [node for each in graphs for node in each.node]
    outside = {tensor.name: _outside(tensor) for each in graphs for tensor in each.initializer if _outside(tensor)}
    inside = _inside(graphs)
    copied = _copied(nodes, {**outside, **inside}) if where.prepacked else {}
    mapped = bytes_read(graph, {name: size for name, size in outside.items() if name not in copied})
    copies = sum(copied[name] for name in copied if name in outside)  # else the place of the weight is used anew
    kept = _NODE_BYTES * len(nodes) + _ATTRIBUTE_BYTES * sum(len(node.attribute) for node in nodes)
    held, session, table = sum(inside.values()), empty_session_bytes(), int(_ARENA_TABLE * arena_bytes)
    code = _CODE_BYTES + _KIND_BYTES * len({(node.domain, node.op_type) for node in nodes})
    running = session + code + kept + heap + held + mapped + copies + table + arena_bytes + input_bytes
    opening = session + kept + held + copies + _most_twice(copied)
    return ProcessMemory(
        session_bytes=session + code,
        nodes_bytes=kept + heap + table,
        weights_bytes=held + mapped,
        prepacked_bytes=copies,
        tensors_bytes=arena_bytes,
        values_bytes=input_bytes,
        loading_bytes=max(0, opening - running),
    )


def heap_bytes(model: Path, dims: Dims = NO_DIMS) -> int:
    """What kernels take from the heap at the most: products of rows by a vector, which run row by row. `model`: a file
    that declares its shapes; `dims`: sizes of those that are free."""
    import onnx

    graphs = list(all_graphs(onnx.load(str(model), load_external_data=False).graph))
    vectors = {tensor.name for each in graphs for tensor in each.initializer if len(tensor.dims) == 1}
    if not any(node.op_type == "MatMul" and node.input[1] in vectors for each in graphs for node in each.node):
        return 0
    graph = read_onnx(model, dims)
    operands = [[graph.tensor_by_id[t].shape or () for t in op.inputs] for op in graph.ops if op.type == "MatMul"]
    return _ROW_BYTES * max((prod(left[:-1]) for left, right in operands if len(right) == 1), default=0)


def _most_twice(copied: Mapping[str, int]) -> int:
    """What weights take that are copied one after the other beyond all copies, at the most: a weight goes when its copy
    is there."""
    left, most = sum(copied.values()), 0
    for size in copied.values():
        left -= size
        most = max(most, size - left)
    return most


def _inside(graphs: Sequence[Any]) -> dict[str, int]:
    """What each constant in the model's file takes: one that a node or a body holds more than twice as much."""
    sizes: dict[str, int] = {}
    for k, graph in enumerate(graphs):
        times = _HELD_BY_NODE if k else _IN_FILE
        sizes |= {t.name: int(times * t.ByteSize()) for t in graph.initializer if not _outside(t)}
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.HasField("t"):
                    sizes[node.output[0]] = int(_HELD_BY_NODE * attribute.t.ByteSize())
    return sizes


def _copied(nodes: Sequence[Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """The weights that kernels copy, in the order of their nodes."""
    packed = [node.input[i] for node in nodes for i in PACKED.get(node.op_type, ()) if i < len(node.input)]
    return {name: sizes[name] for name in packed if name in sizes}


def bytes_read(graph: Any, sizes: Mapping[str, int]) -> int:
    """Bytes of weights that a run reads: of the branches of an If those of the larger."""
    inner = [node for node in graph.node if any(bodies(node))]
    within = {name for node in inner for name in names_read(node)}
    read = sum(size for name, size in sizes.items() if name not in within)
    for node in inner:
        branches = [
            sum(sizes.get(name, 0) for name in {n for each in all_graphs(body) for one in each.node for n in one.input})
            for body in bodies(node)
        ]
        read += max(branches) if node.op_type == "If" else sum(branches)
    return read


def empty_session_bytes() -> int:
    """What a process takes for a session of one small op: measured, if onnxruntime is installed."""
    return _EMPTY_SESSION_BYTES if find_spec("onnxruntime") is None else empty_session().model_bytes


@cache
def empty_session() -> FreshRun:
    """The same, as measured in a process of its own."""
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


def _outside(tensor: Any) -> int:
    """Bytes of an initializer in a file of its own, if it is there."""
    return next((int(entry.value) for entry in tensor.external_data if entry.key == "length"), 0)
