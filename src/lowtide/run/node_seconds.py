"""How long single ONNX nodes take in onnxruntime: ops of a model, parts of them, and what holds parts together.

Run repeatedly, a node finds all that it reads in the caches: compared with what `session_seconds` measures this says
how times go with sizes. Each is a model of one node, whose constants are initializers, so that the runtime packs them
as in the full model, and the profile says what the kernel takes without the call around it. Every node is timed in a
few rounds, far apart in time, and the least of the rounds' medians counts: on a machine that does something else as
well that is what moves least.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from lowtide.cost.file import Level
from lowtide.cost.model import Work, work_of
from lowtide.cost.signature import Signature, of_op
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.part import Glue, adapter, given_box
from lowtide.run.ort_session import new_session
from lowtide.run.probe import Operand, RefusedError
from lowtide.run.probe_onnx import node_model
from lowtide.transform.cut import Cutter

_RUNS, _SECONDS, _MOST_RUNS = 9, 0.03, 200
"""Runs of a node in a round at the least, the time for which it is run again, and runs at the most."""
_PARTS = (2, 4, 8, 16, 32)
"""Into how many parts axes are divided for those that are timed."""
_MOST_GLUE = 40
"""Slices and joins that are timed."""
LAYOUTS = ("ReorderInput", "ReorderOutput")
"""Nodes with which onnxruntime's optimiser changes layouts."""


@dataclass(frozen=True)
class Node:
    """A node to time."""

    # What the cost file knows it by; None for what holds parts together, which only its family is made of.
    signature: Signature | None
    work: Work  # what it has to do
    # graph, op: a graph that holds just its tensors, and the op.
    graph: Graph
    op: Op


def untiled_nodes(cutter: Cutter) -> list[Node]:
    """Every op of a graph, each signature once."""
    graph, result = cutter.graph, dict[Signature, Node]()
    for op in graph.ops:
        known = cutter.meaning(op.id)
        signature = of_op(graph, op, known)
        if signature not in result and not op.bodies:
            result[signature] = Node(signature, work_of(graph, op, known), _alone(graph, op, {}), op)
    return list(result.values())


def part_nodes(cutter: Cutter) -> list[Node]:
    """Parts of every op along every axis that it can be cut along, each signature once; the largest first."""
    result = dict[Signature, Node]()
    for op in cutter.graph.ops:
        known = cutter.meaning(op.id)
        for axis in cutter.axes(op.id):
            how = cutter.spelling(op.id, axis)
            assert known is not None, op.label
            assert how is not None, op.label
            size, grain = known.access.sizes[axis], max(how.grain, known.access.grain_of(axis))
            for parts in _PARTS:
                rows = -(-size // (parts * grain)) * grain
                if rows < size:
                    node = _part(cutter, op, axis, rows)
                    assert node.signature is not None
                    result.setdefault(node.signature, node)
    return sorted(result.values(), key=lambda node: -node.work.flops - node.work.bytes)


def _part(cutter: Cutter, op: Op, axis: int, rows: int) -> Node:
    """A part in the middle of an axis."""
    graph, known, how = cutter.graph, cutter.meaning(op.id), cutter.spelling(op.id, axis)
    assert known is not None, op.label
    assert how is not None, op.label
    access, size = known.access, known.access.sizes[axis]
    grain = max(how.grain, access.grain_of(axis))
    first = (size - rows) // 2 // grain * grain
    part = (first, min(size, first + rows))
    shapes: dict[int, tuple[int, ...]] = {}
    operands = list(op.operands or op.inputs)
    for i, t in enumerate(operands):
        if t is not None and axis in access.reduce and i in access.once:
            operands[i] = None
        elif t is not None:
            box = given_box(access, i, graph.tensor_by_id[t].shape or (), axis, part)
            shapes[t] = tuple(b - a for a, b in box)
    for j, t in enumerate(op.outputs):
        box = access.written(j, graph.tensor_by_id[t].shape or (), {axis: how.around(part)})
        shapes[t] = tuple(b - a for a, b in box)
    written = how.spell(part, tuple(shapes[t] for t in op.outputs))
    alone = _alone(graph, op, shapes, {operands[i]: v for i, v in written.literals.items()})
    cut = replace(op, attributes=written.attributes, operands=tuple(operands), flops=None)
    work = work_of(graph, op, known)
    moved = sum(tensor.size for tensor in alone.tensors)
    share = Work(work.family, work.flops * rows // max(1, size), moved)
    return Node(of_op(graph, op, known, shapes), share, alone, cut)


def glue_nodes(cutter: Cutter) -> list[Node]:
    """Slices, joins and merges of a few of the graph's tensors, small and large."""
    graph, spell = cutter.graph, adapter(cutter.graph)
    assert spell is not None, graph.dialect
    wanted: dict[tuple[str, Any], Node] = {}
    for op in graph.ops:
        for axis in cutter.axes(op.id):
            tensor = graph.tensor_by_id[op.outputs[0]]
            d, shape = cutter.dim(op.id, tensor.id, axis), tensor.shape or ()
            if d is None:
                wanted.setdefault(("merge", shape), _glue(graph, spell.merging("sum"), "merge", tensor, [shape] * 2))
                continue
            for rows in {max(1, shape[d] // parts) for parts in (2, 8, 32)}:
                if not 2 < rows < shape[d] - 2:
                    continue
                part = tuple(rows if k == d else s for k, s in enumerate(shape))
                kept = tuple(2 if k == d else s for k, s in enumerate(shape))
                cut = spell.slicing(graph, {d: (1, rows - 1)}, part)
                wanted.setdefault(("slice", (part, d)), _glue(graph, cut, "slice", tensor, [part], {d: rows - 2}))
                join = spell.joining(d)
                node = _glue(graph, join, "join", tensor, [kept, part], {d: rows + 2})
                wanted.setdefault(("join", (part, d)), node)
    nodes = sorted(wanted.values(), key=lambda node: (node.work.family, node.work.bytes))
    step = max(1, -(-len(nodes) // _MOST_GLUE))
    return nodes[::step]


def _glue(
    graph: Graph,
    glue: Glue,
    role: str,
    like: Tensor,
    reads: Sequence[tuple[int, ...]],
    rows: dict[int, int] | None = None,
) -> Node:
    """A node between parts, of tensors like another; `rows` of a dimension of what it makes."""
    element = like.size // max(1, prod(like.shape or ()))
    tensors = [
        Tensor(k, element * prod(shape), Kind.INPUT, f"x{k}", shape, like.dtype) for k, shape in enumerate(reads)
    ]
    for values in glue.literals:
        at, value = len(tensors), np.array(values, "<i8").tobytes()
        tensors.append(Tensor(at, len(value), Kind.CONSTANT, f"x{at}", (len(values),), "int64", value=value))
    given = tuple(range(len(tensors)))
    shape = tuple((rows or {}).get(d, size) for d, size in enumerate(reads[0]))
    size = element * prod(shape)
    tensors.append(Tensor(len(given), size, Kind.ACTIVATION, "y", shape, like.dtype))
    op = Op(0, given, (len(given),), role, glue.type, attributes=glue.attributes, operands=given)
    alone = Graph("glue", tuple(tensors), (), dialect=graph.dialect, opset=graph.opset)
    return Node(None, Work(role, 0, (3 if role == "merge" else 2) * size), alone, op)


def _alone(
    graph: Graph, op: Op, shapes: dict[int, tuple[int, ...]], literals: dict[int | None, tuple[int, ...]] | None = None
) -> Graph:
    """The op's tensors, with other shapes and other literals."""
    tensors = []
    for t in dict.fromkeys((*op.inputs, *op.outputs)):
        tensor, shape = graph.tensor_by_id[t], shapes.get(t)
        if literals and t in literals:
            value = np.array(literals[t], "<i8").tobytes()
            tensor = replace(tensor, value=value, size=len(value), shape=(len(literals[t]),))
        elif shape is not None and shape != tensor.shape and tensor.shape is not None:
            size = tensor.size * prod(shape) // max(1, prod(tensor.shape))
            tensor = replace(tensor, shape=shape, size=size, value=None)
        kind = tensor.kind if tensor.kind is Kind.CONSTANT else Kind.INPUT if t in op.inputs else Kind.ACTIVATION
        tensors.append(replace(tensor, kind=kind, alias_of=None, alias_offset=0))
    return Graph(graph.name, tuple(tensors), (), dialect=graph.dialect, opset=graph.opset)


def time_nodes(
    nodes: Sequence[Node], level: Level, threads: int, seed: int, report: Callable[[Node], bool]
) -> dict[int, float]:
    """Time nodes once each: seconds by position; those that the runtime refuses are left out. `report`: called
    before each; False: it is enough."""
    result = {}
    with tempfile.TemporaryDirectory(prefix="lowtide-measure-") as folder:
        for k, node in enumerate(nodes):
            if not report(node):
                break
            try:
                result[k] = _time(node, level, threads, seed, folder)
            except RefusedError:
                continue
    return result


def _time(node: Node, level: Level, threads: int, seed: int, folder: str) -> float:
    """Seconds of the node's kernel, without changes of layout around it."""
    rng = np.random.default_rng(seed)
    operands = [None if t is None else _operand(node.graph, t, rng) for t in node.op.operands or node.op.inputs]
    feed = {
        f"x{i}": _drawn(operand.shape, operand.dtype, rng)
        for i, operand in enumerate(operands)
        if operand is not None and operand.value is None
    }
    model = node_model(node.graph, node.op, operands).SerializeToString()
    try:
        session = node_session(model, level, threads, folder)
        session.run(None, feed)
        began, runs = time.perf_counter(), 0
        while runs < _RUNS or (time.perf_counter() - began < _SECONDS and runs < _MOST_RUNS):
            session.run(None, feed)
            runs += 1
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        raise RefusedError(str(error)) from None
    events = profile_events(Path(session.end_profiling()))
    return sum(middle(taken) for (kind, _, _), taken in events.items() if kind not in LAYOUTS)


def node_session(model: bytes | str, level: Level, threads: int, folder: str = "") -> Any:
    """A session, in the file's order where the optimiser does not run. Its profile goes to a folder, if any."""
    return new_session(
        model,
        "ENABLE_ALL" if level == "all" else "DISABLE_ALL",
        threads,
        keep_order=True,
        profile=str(Path(folder) / uuid4().hex) if folder else "",  # the time that is added may be that of another
        enable_mem_reuse=False,
        enable_mem_pattern=False,
    )


def profile_events(profile: Path) -> dict[tuple[str, int, str], list[float]]:
    """Seconds of each kernel but in the first run, by (type, bytes of the results, name); the file goes."""
    result: dict[tuple[str, int, str], list[float]] = {}
    data = profile.read_bytes()
    profile.unlink()
    for event in json.loads(data):
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            kind, size = str(event["args"]["op_name"]), int(event["args"].get("output_size") or 0)
            result.setdefault((kind, size, name), []).append(1e-6 * event["dur"])
    return {key: taken[1:] for key, taken in result.items() if len(taken) > 1}


def middle(taken: Sequence[float]) -> float:
    """The median as the mean of the middle third: the profile counts microseconds."""
    ordered = sorted(taken)
    third = len(ordered) // 3
    return float(np.mean(ordered[third : len(ordered) - third]))


def _operand(graph: Graph, t: int, rng: np.random.Generator) -> Operand:
    tensor = graph.tensor_by_id[t]
    shape, dtype = tensor.shape or (), tensor.dtype or ""
    if tensor.kind is not Kind.CONSTANT:
        return Operand(shape, dtype)
    if tensor.value is not None:
        value = np.frombuffer(tensor.value, np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)
        return Operand(shape, dtype, value)
    return Operand(shape, dtype, _drawn(shape, dtype, rng))


def _drawn(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers of which no kernel takes a short way: no zeros, nothing that is no number; indices are of row 0."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise RefusedError(f"elements of type {dtype} are not drawn") from None
    if kind.kind == "f":
        return (0.5 + rng.random(shape)).astype(kind)
    return np.zeros(shape, kind)
