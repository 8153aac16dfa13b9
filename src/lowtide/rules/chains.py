"""Chains of elementwise ops as one kernel: tensors between them are made element by element, by their consumer.

    x ---> Sigmoid --- t ---> Mul ---> y      y[i] = x[i] * sigmoid(x[i]): one loop, t is nowhere
      \\________________________/

What such a chain makes of one tensor needs no bytes of its own: it is a view of that tensor, as long as it is read.
The ops stay, and so do the results: each element is worked out by the same ops, in the same order. As the prologue of a
convolution, a product or a pool it is recomputed each time that the kernel reads the element.
"""

from __future__ import annotations

from collections.abc import Collection

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.forms import Contraction, Convolution, Pool
from lowtide.ops.kinds import kind_of
from lowtide.ops.meaning import meaning

MOST_OPS = 64  # ops in front of one in its chain; what follows on a longer one is written to memory


def chain_source(graph: Graph, op: Op, elementwise_types: Collection[str], *, prologue: bool) -> int | None:
    """What an op reads that its result is a view of, if its only reader makes that element by element; else None.
    All that the chain up to here reads is one tensor, constants excluded, which an op makes and no op outside reads.
    `elementwise_types`: op types that run element by element in addition to those of the table. `prologue`: whether
    the reader may also be a convolution, a product or a pool."""
    reader = _reader(graph, op, elementwise_types)
    if reader is None or not (_elementwise(reader, elementwise_types) or (prologue and _computes(graph, reader))):
        return None
    leaves: set[int] = set()
    seen, todo = {op.id}, [op]
    while todo:
        for t in _data(graph, todo.pop()):
            maker = graph.op_by_id.get(graph.producer.get(t, -1))
            if maker is None or _reader(graph, maker, elementwise_types) is None:
                leaves.add(t)
            elif maker.id not in seen:
                seen.add(maker.id)
                todo.append(maker)
        if len(leaves) > 1 or len(seen) > MOST_OPS:
            return None
    size = graph.tensor_by_id[op.outputs[0]].size
    for t in leaves:
        leaf = graph.tensor_by_id[t]
        if t in graph.producer and leaf.kind is Kind.ACTIVATION and leaf.size == size:
            return _data(graph, op)[0]
    return None


def _reader(graph: Graph, op: Op, elementwise_types: Collection[str]) -> Op | None:
    """The only reader of what an elementwise op makes of as many elements; None if there is none, or several."""
    if not _elementwise(op, elementwise_types):
        return None
    made = graph.tensor_by_id[op.outputs[0]]
    readers = graph.consumers.get(made.id, ())
    if len(readers) != 1 or made.kind is not Kind.ACTIVATION or made.alias_of is not None or not made.size:
        return None
    reader = graph.op_by_id[readers[0]]
    around = [graph.tensor_by_id[t] for t in _data(graph, op)]
    if _elementwise(reader, elementwise_types):
        around.append(graph.tensor_by_id[reader.outputs[0]])
    alike = made.shape is not None and all((t.shape, t.size) == (made.shape, made.size) for t in around)
    return reader if alike else None


def _computes(graph: Graph, op: Op) -> bool:
    """Whether an op adds up, or takes the greatest, of what it reads: no result of it is a copy of what it reads."""
    known = meaning(graph, op)
    return known is not None and isinstance(known.form, Convolution | Contraction | Pool)


def _elementwise(op: Op, elementwise_types: Collection[str]) -> bool:
    row = kind_of(op.type)
    known = (row is not None and row.elementwise) or op.type in elementwise_types
    return known and len(op.outputs) == 1 and op.overwrites is None and not op.after and not op.bodies


def _data(graph: Graph, op: Op) -> list[int]:
    """What an op reads that is no constant."""
    return [t for t in dict.fromkeys(op.inputs) if graph.tensor_by_id[t].kind is not Kind.CONSTANT]
