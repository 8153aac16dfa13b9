"""LiteRT (TensorFlow Lite) without delegates: whose memory is shared is settled before anything is placed.

Its planner (`tflite/arena_planner.cc`, LiteRT 2.3) goes by references in the full graph, not by the order, so that a
shared tensor is as good as a view (`tests/rules/litert/test_rule.py` shows each line of this in the runtime):

- A reshape hands its input on, unless that is a graph input or a constant, or its output is a graph output.
- Add, Sub, Mul, Div, Softmax and DynamicUpdateSlice write over the first input of equal size, above 4 bytes, that
  nothing else reads, under the same conditions.
- Graph inputs stay to the end, and so do tensors without a consumer. All other kernels get memory of their own.
- Kernels take temporary tensors, a convolution for what it unfolds (`rules/litert/temporaries.py`).

With XNNPACK, which is what runs by default, tensors lie in XNNPACK's own workspace, and none of this holds there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lowtide.graph import Graph, Kind, Op
from lowtide.rules.litert.temporaries import temporaries
from lowtide.sizes import round_up

UNMODIFIED = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST"})
OVERWRITTEN = {"ADD": 2, "SUB": 2, "MUL": 2, "DIV": 2, "SOFTMAX": 1, "DYNAMIC_UPDATE_SLICE": 1}
"""Kernels that write over an input, and how many of their first inputs they may take."""
_SCALAR_BYTES = 4


class LitertRule:
    """See the module."""

    tables: Mapping[str, Sequence[str]] = MappingProxyType(
        {"Share their input's memory": sorted(UNMODIFIED), "Write over an input": tuple(OVERWRITTEN)}
    )

    def view_source(self, graph: Graph, op: Op) -> int | None:
        """The input whose memory the first output has, whatever the order."""
        if not op.outputs or not op.inputs or len(op.outputs) != 1:
            return None
        output = graph.tensor_by_id[op.outputs[0]]
        if output.kind is Kind.OUTPUT or output.alias_of is not None or not output.size:
            return None
        if op.type in UNMODIFIED:
            read = graph.tensor_by_id[op.inputs[0]]
            return read.id if _own(graph, read.id) and read.size == output.size else None
        for t in op.inputs[: OVERWRITTEN.get(op.type, 0)]:
            read = graph.tensor_by_id[t]
            alone = references(graph, t) <= 1
            if _own(graph, t) and alone and read.size == output.size > _SCALAR_BYTES:
                return t if references(graph, self._root(graph, t)) <= 1 else None
        return None

    def _root(self, graph: Graph, tensor: int) -> int:
        """The tensor whose memory it has first of all."""
        producer = graph.producer.get(tensor)
        while producer is not None:
            source = self.view_source(graph, graph.op_by_id[producer])
            if source is None:
                break
            tensor = source
            producer = graph.producer.get(tensor)
        return tensor

    def in_place_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """None as a choice: see `view_source`."""
        return ()

    def overlap_inputs(self, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
        """None: the planner never overlaps tensors."""
        return ()

    def workspace(self, graph: Graph, op: Op) -> int:
        """All temporary tensors of the kernel that are known."""
        return sum(round_up(size, 64) for size in temporaries(graph, op))

    def as_run(self, graph: Graph, order: Sequence[int]) -> list[int]:
        """The file's order."""
        return list(order)


def _own(graph: Graph, tensor: int) -> bool:
    """Whether a tensor is in the arena and is no graph input."""
    return graph.tensor_by_id[tensor].kind is not Kind.CONSTANT and tensor in graph.producer


def references(graph: Graph, tensor: int) -> int:
    """How often a tensor is read, and once more if it is a graph output."""
    readers = (graph.op_by_id[o] for o in graph.consumers.get(tensor, ()))
    return sum(op.inputs.count(tensor) for op in readers) + (graph.tensor_by_id[tensor].kind is Kind.OUTPUT)
