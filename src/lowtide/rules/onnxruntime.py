"""onnxruntime's CPU provider: which kernels share memory, seen by experiment with version 1.31.1.

Its planner decides with the order known, op by op (`tests/test_rules_onnxruntime.py` shows each line of this against
the runtime itself):

- An *alias* kernel hands its input on, whoever else reads it.
- A *may-inplace* kernel writes over its input if nobody needs that any more, the shapes are equal, dimension by
  dimension, the elements have the same width, and the kernel reads that input once.
- What is a graph output gets memory of its own, always: an alias kernel copies then. Graph inputs are the caller's:
  they are not counted and never overwritten, though an alias of one is.
- Binary arithmetic (Add, Mul, ...) is *not* in place here, nor are Exp, Sqrt, Gelu, Dropout or batch normalisation.
- `Shape` and `Size` run as soon as they can, wherever they stand in the file.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lowtide.graph import Graph, Kind, Op

ALIAS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "com.microsoft::ExpandDims"})
"""Kernels whose output is their first input's memory."""

MAY_INPLACE: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(
        ("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Shrink", "Sigmoid", "Softplus", "Softsign", "Tanh",
         "ThresholdedRelu", "Clip", "Cast", "Softmax", "LogSoftmax", "Trilu", "Scatter", "ScatterElements"), 0
    ) | {"com.microsoft::FusedConv": -1}
)  # fmt: skip
"""Kernels that may write over an input, with that input's position; -1 is the last of three or more."""

_AT_ONCE = frozenset({"Shape", "Size"})


class OnnxRuntimeRule:
    """See the module."""

    def view_source(self, graph: Graph, op: Op) -> int | None:
        """The input whose memory an alias kernel hands on."""
        if op.type not in ALIAS or len(op.outputs) != 1 or not op.inputs:
            return None
        made, read = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[op.inputs[0]]
        if made.kind is Kind.OUTPUT or made.alias_of is not None or made.size != read.size:
            return None
        return read.id

    def in_place_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """The input that a may-inplace kernel may write over."""
        at = MAY_INPLACE.get(op.type)
        if at is None or len(op.outputs) != 1 or len(op.inputs) < (1 if at == 0 else 3):
            return ()
        if op.inputs.count(op.inputs[at]) != 1:
            return ()
        made, read = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[op.inputs[at]]
        if made.kind is Kind.OUTPUT or made.alias_of is not None or read.kind is Kind.CONSTANT:
            return ()
        same = made.shape is not None and made.shape == read.shape and made.size == read.size != 0
        return (read.id,) if same else ()

    def as_run(self, graph: Graph, order: Sequence[int]) -> list[int]:
        """The file's order, but for `Shape` and `Size`, which run as soon as their input is there."""
        position = {op: i for i, op in enumerate(order)}
        index = graph.index_of
        waits = {op: set(graph.predecessors[index[op]]) for op in order}
        readers: dict[int, list[int]] = {}
        for op, before in waits.items():
            for p in before:
                readers.setdefault(graph.ops[p].id, []).append(op)

        def rank(op: int) -> tuple[bool, int]:
            return graph.op_by_id[op].type not in _AT_ONCE, position[op]

        ready = [(rank(op), op) for op in order if not waits[op]]
        heapq.heapify(ready)
        result = []
        while ready:
            _, op = heapq.heappop(ready)
            result.append(op)
            for reader in readers.get(op, ()):
                waits[reader].discard(index[op])
                if not waits[reader]:
                    heapq.heappush(ready, (rank(reader), reader))
        return result
