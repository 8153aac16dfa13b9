"""onnxruntime's CPU provider: which kernels share memory, seen by experiment with version 1.31.1.

Its planner decides with the order known, op by op (`tests/test_rules_onnxruntime.py` shows each line of this against
the runtime itself):

- An *alias* kernel hands its input on, whoever else reads it.
- A *may-inplace* kernel writes over its input if nobody needs that any more, the shapes are equal, dimension by
  dimension, the elements have the same width, and the kernel reads that input once.
- What is a graph output gets memory of its own, always: an alias kernel copies then. Graph inputs are the caller's:
  they are not counted and never overwritten, though an alias of one is.
- Binary arithmetic (Add, Mul, ...) is *not* in place here, nor are Exp, Sqrt, Gelu, Dropout or batch normalisation.
- Some kernels take workspace from the arena while they run: `OnnxRuntimeRule.workspace`.
- `Shape` and `Size` run as soon as they can, wherever they stand in the file.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from math import prod
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

SEGMENT_BYTES = 65536
"""What a convolution unfolds its input into, piece by piece; for each thread of the session, here one."""

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

    def overlap_inputs(self, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
        """None: outputs lie exactly over an input or apart from it."""
        return ()

    def workspace(self, graph: Graph, op: Op) -> int:
        """Bytes for float convolutions, Softmax over an axis that is not the last, and BiasGelu; else 0, though a few
        kernels (LRN, Einsum, Where, recurrent ones, attention) take some.

        A convolution unfolds its input for one group and image at a time: not at all if it is pointwise with stride 1
        and no padding, as a whole if the group has more filters than the output has places, else by segments.
        """
        tensors = graph.tensor_by_id
        out = tensors[op.outputs[0]] if op.outputs else None
        if out is None or out.shape is None or out.dtype != "float32":
            return 0
        match op.type:
            case "Conv" | "com.microsoft::FusedConv" | "ConvTranspose" if len(op.inputs) > 1:
                weights, read = tensors[op.inputs[1]].shape, tensors[op.inputs[0]].shape
                if weights is None or read is None:
                    return 0
                groups = op.attributes.get("group", 1)
                if op.type == "ConvTranspose":
                    return 4 * prod(weights[1:]) * prod(read[2:])
                stride_1 = all(s == 1 for s in op.attributes.get("strides", ()))
                if prod(weights[2:]) == 1 and stride_1 and not any(op.attributes.get("pads", ())):
                    return 0
                places = prod(out.shape[2:])
                return 4 * places * prod(weights[1:]) if weights[0] // groups > places else SEGMENT_BYTES
            case "Softmax" | "LogSoftmax":
                return 0 if op.attributes.get("axis", -1) in (-1, len(out.shape) - 1) else 2 * out.size
            case "com.microsoft::BiasGelu":
                return out.size
            case _:
                return 0

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
