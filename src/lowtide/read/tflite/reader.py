"""TFLite models as graphs: subgraph 0 is planned, the others stand after the operators that run them.

Ids are the indices of operators and tensors in subgraph 0. Nothing is folded: both TFLite runtimes compute what
reads constants only like everything else. A variable tensor is no part of the arena that is planned; it is a
constant to the memory model, and the operators that share one keep their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lowtide.errors import InputError
from lowtide.files import open_bytes
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.geometry import convolution_flops, product_flops
from lowtide.read.tflite.dependencies import CONTROL_DEPENDENCIES
from lowtide.read.tflite.model import Subgraph, TfliteModel, TfliteOp, parse_file
from lowtide.read.tflite.schema import STATEFUL


def read_tflite(path: str | Path) -> Graph:
    """Read a .tflite file. Raises `InputError`: unreadable file, no TFLite model, cut short, an index or offset that
    leads nowhere, a shape that is not fixed, or a graph that `Graph` refuses."""
    with open_bytes(Path(path)) as data:
        file = parse_file(data, str(path))
        digest = hashlib.sha256(data).hexdigest()
    return replace(graph_of(file.model, file.dependencies, str(path), digest), file=file)


def graph_of(
    model: TfliteModel, dependencies: Sequence[Sequence[tuple[int, int]]], source: str, sha256: str, index: int = 0
) -> Graph:
    """Graph of a subgraph. `dependencies`: per subgraph, pairs of operators, the first to run before the second. Raises
    `InputError`: a tensor without a fixed size, or a graph that `Graph` refuses."""
    main = model.subgraphs[index]
    written = {t for op in main.ops for t in op.outputs}
    read = {t for op in main.ops for t in op.inputs}
    given, wanted = set(main.inputs), set(main.outputs)
    tensors = []
    for i, t in enumerate(main.tensors):
        if t.buffer_bytes or t.variable or (t.size == 0 and i not in written | given | wanted):
            kind = Kind.CONSTANT
        elif i in wanted:
            kind = Kind.OUTPUT
        elif i in given or (i in read and i not in written):
            kind = Kind.INPUT
        else:
            kind = Kind.ACTIVATION
        if t.bits == 0 and kind is not Kind.CONSTANT:
            raise InputError(f"tensor {i} {t.name!r} holds strings, whose size is not fixed; drop them", source)
        value = t.value if kind is Kind.CONSTANT else None
        tensors.append(Tensor(i, t.size, kind, t.name, t.shape, t.dtype, value=value, quant=t.quant))
    after = _after(model, main, dependencies[index] if dependencies else [], source)
    ops = tuple(
        Op(
            i,
            tuple([t for t in op.inputs if t >= 0]),
            op.outputs,
            main.tensors[op.outputs[0]].name if op.outputs else "",
            op.type,
            flops=_flops(op, main),
            after=after[i],
            attributes=op.options,
            operands=tuple([t if t >= 0 else None for t in op.inputs]),
        )
        for i, op in enumerate(main.ops)
    )
    return Graph(main.name or Path(source).stem, tuple(tensors), ops, (), source, sha256, "tflite")


def _after(model: TfliteModel, main: Subgraph, listed: Sequence[tuple[int, int]], place: str) -> list[tuple[int, ...]]:
    """For each operator those that must run earlier though no tensor says so, in the order of the file."""
    before: list[set[int]] = [set() for _ in main.ops]
    last_stateful: int | None = None
    last_user: dict[int, int] = {}
    for i, op in enumerate(main.ops):
        if _stateful(model, op):
            if last_stateful is not None:
                before[i].add(last_stateful)
            last_stateful = i
        for t in {*op.inputs, *op.outputs}:
            if t >= 0 and main.tensors[t].variable:
                if t in last_user:
                    before[i].add(last_user[t])
                last_user[t] = i
    for first, second in listed:
        if not (0 <= first < len(main.ops) and 0 <= second < len(main.ops)):
            raise InputError(
                f"its {CONTROL_DEPENDENCIES} name operators {first} and {second}, and there are {len(main.ops)}; "
                "export it again",
                place,
            )
        before[second].add(first)
    return [tuple(sorted(b)) for b in before]


def _stateful(model: TfliteModel, op: TfliteOp) -> bool:
    """Whether an operator may read or change something other than its tensors, itself or in a subgraph that it runs."""
    if op.type.partition(":")[0] not in STATEFUL:
        return False
    if op.type not in ("IF", "WHILE", "CALL"):
        return True
    seen: set[int] = set()
    waiting = list(op.callees)
    if not waiting:
        return True
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        for inner in model.subgraphs[index].ops:
            kind = inner.type.partition(":")[0]
            if kind in ("IF", "WHILE", "CALL") and inner.options:
                waiting += inner.callees
            elif kind in STATEFUL or any(t >= 0 and model.subgraphs[index].tensors[t].variable for t in inner.inputs):
                return True
    return False


def _flops(op: TfliteOp, main: Subgraph) -> int | None:
    """Twice the multiply-accumulates of convolutions and fully connected layers; None for the rest."""
    if len(op.inputs) < 2 or op.inputs[1] < 0 or not op.outputs:
        return None
    output, weights = main.tensors[op.outputs[0]], main.tensors[op.inputs[1]]
    if op.type == "CONV_2D" and len(weights.shape) == 4:
        return convolution_flops(output.shape, weights.shape)
    if op.type == "DEPTHWISE_CONV_2D" and len(weights.shape) == 4:
        return convolution_flops(output.shape, weights.shape, filters=3)
    if op.type == "FULLY_CONNECTED" and len(weights.shape) == 2:
        return product_flops(output.shape, weights.shape[1])
    return None
