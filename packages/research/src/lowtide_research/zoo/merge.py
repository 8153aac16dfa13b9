"""Graphs of other granularity, as published studies count them: ops merged, constants bypassed or copied, types
narrowed.
"""

from __future__ import annotations

from dataclasses import replace

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.kinds import kind_of
from lowtide.transform.rename import of_ops, reading

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def one_op_per_convolution(graph: Graph, *, after: frozenset[str] | None = CONVOLUTIONS) -> Graph:
    """Make one op of a convolution and the normalisation and activation after it, if the values between have no
    other consumer. `after`: types of the ops that others are merged into; None is all (so that Add and Relu become
    one as well). Returns a separate graph for measurements: its orders are not of the user's ops."""
    head: dict[int, int] = {}
    merged: dict[int, Op] = {op.id: op for op in graph.ops}
    gone: set[int] = set()
    for op in graph.ops:
        read = _only_read(graph, op)
        if read is None:
            continue
        maker = graph.producer[read]
        first = head.get(maker, maker)
        if graph.consumers[read] != (op.id,) or len(merged[first].outputs) != 1:
            continue
        if after is not None and merged[first].type not in after:
            continue
        extra = tuple(t for t in op.inputs if t != read)
        merged[first] = replace(merged[first], inputs=(*merged[first].inputs, *extra), outputs=op.outputs, operands=())
        head[op.id] = first
        gone.add(op.id)
    return of_ops(graph, [merged[op.id] for op in graph.ops if op.id not in gone])


def _only_read(graph: Graph, op: Op) -> int | None:
    """The tensor that an op follows: the only one it reads, constants excluded, which an op makes and which is no
    output of the graph. None if there is none, or if the op does more than change single elements."""
    read = [t for t in dict.fromkeys(op.inputs) if graph.tensor_by_id[t].kind is not Kind.CONSTANT]
    row = kind_of(op.type)
    plain = row is not None and (row.elementwise or row.family == "batch_normalisation")
    if not plain or len(read) != 1 or len(op.outputs) != 1 or op.after or read[0] not in graph.producer:
        return None
    return None if graph.tensor_by_id[read[0]].kind is Kind.OUTPUT else read[0]


BYTES_OF_FLOAT = 4


def eight_bits(graph: Graph) -> Graph:
    """The graph with every element of 8 bits instead of 32: sizes are a quarter, in bytes, rounded up."""
    return replace(graph, tensors=tuple(replace(t, size=-(-t.size // BYTES_OF_FLOAT)) for t in graph.tensors))


def without_padding(graph: Graph, types: frozenset[str] = frozenset({"Pad", "Slice"})) -> Graph:
    """Let the readers of a Pad or Slice read its input: a kernel that pads and crops by itself. With Conv,
    BatchNormalization and Relu of single use as one op, this makes timm's NASNet-A Mobile (224x224) the graph of
    Zhong et al.'s Table II: its own order needs 4405 KiB, the optimum 3943 KiB."""
    through: dict[int, int] = {}
    ops = []
    for op in graph.ops:
        op = reading(op, through)
        plain = len(op.outputs) == 1 and bool(op.inputs)
        if plain and op.type in types and graph.tensor_by_id[op.outputs[0]].kind is not Kind.OUTPUT:
            through[op.outputs[0]] = op.inputs[0]
        else:
            ops.append(op)
    return of_ops(graph, ops)


def one_parameter_each(graph: Graph) -> Graph:
    """The graph with a copy of its own for each op that reads a constant; the first reader keeps the original. COSMA
    (section V-B): "parameter tensors are used only for single operators". Exported graphs share scalars such as an
    epsilon or a scale."""
    constants = {t.id for t in graph.tensors if t.kind is Kind.CONSTANT}
    tensors, ops = list(graph.tensors), []
    fresh = max((t.id for t in tensors), default=0) + 1
    taken: set[int] = set()
    for op in graph.ops:
        copies: dict[int, int] = {}
        for t in dict.fromkeys(t for t in op.inputs if t in constants):
            if t in taken:
                tensors.append(replace(graph.tensor_by_id[t], id=fresh))
                copies[t] = fresh
                fresh += 1
            taken.add(t)
        ops.append(reading(op, copies))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))
