"""What TFLM keeps in its arena beside the planned part: the tail, and what it needs for a moment while it starts.

TFLM allocates persistent data from the end of the arena downwards, each piece aligned downwards, in a fixed order::

    head (planned, non-persistent) ->                          <- tail (persistent)
    | tensors, scratch ...         |   free                    | ... op data | nodes | eval tensors | allocator |

The sequence is played through with the sizes of the 64-bit build that pip ships (`RecordingMicroAllocator`; `sizeof` of
the structs of tflite-micro at commit 90b983c). On other builds the planned part is the same and this is an estimate:
pointers are smaller there, and firmware mostly runs without the recording allocator.

While the plan is made, the head holds other things: scratch requests, a record per tensor, and the planner's arrays.
With few bytes of tensors that moment decides how large the arena must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.graph import Graph
from lowtide.read.tflite.model import Subgraph, TfliteModel, TfliteOp
from lowtide.rules.tflm.rule import scratch, scratch_unknown

_ALLOCATORS = 464
"""`RecordingSingleArenaBufferAllocator`, `GreedyMemoryPlanner`, `RecordingMicroAllocator` and
`MicroBuiltinDataAllocator`, measured."""
_SUBGRAPH, _EVAL_TENSOR, _NODE, _HANDLE = 24, 24, 64, 8
_TENSOR, _QUANTISATION, _POINTER = 64, 24, 8
_REQUEST, _REQUESTS_PER_OP, _RECORD, _PLANNER_BUFFER = 16, 12, 32, 40

Options = tuple[int, int]
"""Bytes and alignment of an operator's options."""

BUILTIN: dict[str, Options] = {
    "ADD": (8, 4), "SUB": (8, 4), "MUL": (4, 4), "DIV": (4, 4), "CONV_2D": (28, 4), "DEPTHWISE_CONV_2D": (28, 4),
    "FULLY_CONNECTED": (32, 4), "AVERAGE_POOL_2D": (40, 4), "MAX_POOL_2D": (40, 4), "L2_POOL_2D": (40, 4),
    "SOFTMAX": (4, 4), "RESHAPE": (36, 4), "SQUEEZE": (36, 4), "MEAN": (1, 1), "SUM": (1, 1), "REDUCE_MAX": (1, 1),
    "REDUCE_MIN": (1, 1), "REDUCE_ALL": (1, 1), "CONCATENATION": (8, 4), "SVDF": (12, 4),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (16, 4), "STRIDED_SLICE": (24, 4), "TRANSPOSE_CONV": (20, 4),
    "LEAKY_RELU": (4, 4), "L2_NORMALIZATION": (4, 4), "PACK": (8, 4), "UNPACK": (8, 4), "SPLIT": (4, 4),
    "SPLIT_V": (4, 4), "GATHER": (8, 4), "RESIZE_BILINEAR": (2, 1), "RESIZE_NEAREST_NEIGHBOR": (2, 1),
    "SPACE_TO_DEPTH": (4, 4), "DEPTH_TO_SPACE": (4, 4), "ARG_MAX": (4, 4), "ARG_MIN": (4, 4), "MIRROR_PAD": (4, 4),
    "IF": (8, 4), "WHILE": (8, 4), "CALL_ONCE": (4, 4),
}  # fmt: skip
"""Options that are parsed into the arena; other known operators have none."""

DATA: dict[str, int] = {
    "ADD": 60, "SUB": 52, "MUL": 36, "DIV": 28, "CONV_2D": 80, "DEPTHWISE_CONV_2D": 80, "FULLY_CONNECTED": 72,
    "AVERAGE_POOL_2D": 32, "MAX_POOL_2D": 32, "SOFTMAX": 80, "MEAN": 44, "SUM": 44, "REDUCE_MAX": 44,
    "REDUCE_MIN": 44, "REDUCE_ALL": 44, "CONCATENATION": 80, "SVDF": 44, "UNIDIRECTIONAL_SEQUENCE_LSTM": 684,
    "STRIDED_SLICE": 84, "LEAKY_RELU": 24, "L2_NORMALIZATION": 4, "QUANTIZE": 32, "DEQUANTIZE": 32, "RELU": 28,
    "RELU6": 8, "LOGISTIC": 16, "TANH": 16, "HARD_SWISH": 20, "PRELU": 28, "PAD": 56, "PADV2": 56, "ELU": 256,
    "SQUARED_DIFFERENCE": 108, "ABS": 28, "RSQRT": 28, "MIRROR_PAD": 24, "IF": 8, "WHILE": 8, "CALL_ONCE": 8,
}  # fmt: skip
"""Bytes that a kernel asks for when it is made (`Init`)."""

PLAIN = frozenset(
    (
        "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "MAXIMUM", "MINIMUM", "EXP", "SIN", "COS", "LOG", "SQRT", "SQUARE", "NEG",
        "CEIL", "FLOOR", "ROUND", "TRANSPOSE", "SLICE", "LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR", "PACK", "UNPACK",
        "SPLIT", "SPLIT_V", "RESIZE_NEAREST_NEIGHBOR", "ARG_MAX", "ARG_MIN", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE",
        "ZEROS_LIKE",
    )
)  # fmt: skip
"""Kernels that ask for nothing."""


@dataclass(frozen=True, slots=True)
class ArenaParts:
    """The parts of the smallest arena beside the planned one, in bytes.

    Attributes
    ----------
    persistent_bytes
        The tail, once TFLM has started.
    planning_bytes
        Least arena in which TFLM can make its plan, whatever the plan takes.
    preparing_bytes
        Least arena in which TFLM can prepare its kernels, to within some 32 bytes: they look at tensors as they like.
    scratch_bytes
        Most scratch of an operator; it is in the planned part.
    exact
        Whether all of it is known for the build that pip ships; else an estimate.
    unknown
        Operator types that are not known here.
    """

    persistent_bytes: int
    planning_bytes: int
    preparing_bytes: int
    scratch_bytes: int
    exact: bool
    unknown: tuple[str, ...]

    def smallest_arena(self, head_bytes: int) -> int:
        """Smallest kTensorArenaSize, a multiple of 16, for an arena that begins at a multiple of 16."""
        return max(_up(head_bytes, 16) + self.persistent_bytes, self.planning_bytes, self.preparing_bytes)

    def exact_for(self, head_bytes: int) -> bool:
        """Whether `smallest_arena` is known to the byte for the build that pip ships."""
        return self.exact and self.smallest_arena(head_bytes) > self.preparing_bytes


_VARIABLE = 96
"""Bytes that a handle of a variable takes, its kernel's included, measured; the variable's own are beside them."""


class _Tail:
    """Bytes taken from the end of an arena whose end is aligned."""

    def __init__(self) -> None:
        self.used = 0

    def take(self, size: int, alignment: int = 16) -> None:
        self.used = _up(self.used + size, alignment)


def arena_parts(model: TfliteModel, graph: Graph, order: Sequence[int]) -> ArenaParts:
    """Play TFLM's start through for the operators of subgraph 0 in `order`, and those of the others in the file's."""
    tail = _Tail()
    tail.take(_ALLOCATORS, 8)
    tail.take(_SUBGRAPH * len(model.subgraphs), 8)
    for subgraph in model.subgraphs:
        tail.take(_EVAL_TENSOR * len(subgraph.tensors), 8)
    for subgraph in model.subgraphs:
        tail.take(_NODE * len(subgraph.ops), 8)
    ops = [(model.subgraphs[0], model.subgraphs[0].ops[i]) for i in order]
    ops += [(subgraph, op) for subgraph in model.subgraphs[1:] for op in subgraph.ops]
    for _, op in ops:
        if op.type in BUILTIN:
            tail.take(*BUILTIN[op.type])
    for _, op in ops:
        if op.type in DATA:
            tail.take(DATA[op.type])
    for size in _variables(ops):
        tail.take(size)
    requests = {op.id: scratch(graph, op) for op in graph.ops}
    count = preparing = 0
    for position, (subgraph, op) in enumerate(ops):
        for size in _prepared(subgraph, op):
            tail.take(size)
        preparing = max(preparing, tail.used + _REQUEST * (count + _REQUESTS_PER_OP) + _temporaries(subgraph, op))
        count += len(requests[order[position]]) if position < len(order) else 0
    if count:
        tail.take(_HANDLE * count, 8)
    for subgraph in model.subgraphs:
        for t in subgraph.tensors:
            if t.variable:
                tail.take(t.size)
    planning = _up(tail.used, 16) + _planning(model, count)
    main = model.subgraphs[0]
    for listed in (main.inputs, main.outputs):
        tail.take(_POINTER * len(listed))
        for t in listed:
            tail.take(_TENSOR, 8)
            channels = main.tensors[t].channels
            if channels:
                tail.take(_QUANTISATION, 8)
                tail.take(4 + 4 * channels, 4)
    unknown = tuple(
        dict.fromkeys(
            op.type for _, op in ops if op.type not in BUILTIN and op.type not in DATA and op.type not in PLAIN
        )
    )
    exact = not unknown and len(model.subgraphs) == 1 and not any(scratch_unknown(op) for op in graph.ops)
    most = max((sum(_up(size, 16) for size in sizes) for sizes in requests.values()), default=0)
    return ArenaParts(_up(tail.used, 16), _up(planning, 16), _up(preparing, 16), most, exact, unknown)


def _prepared(subgraph: Subgraph, op: TfliteOp) -> tuple[int, ...]:
    """Bytes of each piece that a kernel asks for when it is prepared: multipliers and shifts per channel."""
    weights = subgraph.tensors[op.inputs[1]] if len(op.inputs) > 1 and op.inputs[1] >= 0 else None
    if weights is None:
        return ()
    if op.type in ("CONV_2D", "TRANSPOSE_CONV") and weights.shape:
        return (4 * weights.shape[0],) * 2
    if op.type == "DEPTHWISE_CONV_2D" and weights.shape:
        return (4 * weights.shape[-1],) * 2
    if op.type == "FULLY_CONNECTED" and weights.channels > 1:
        return (4 * weights.channels,) * 2
    return ()


def _variables(ops: Sequence[tuple[Subgraph, TfliteOp]]) -> list[int]:
    """What TFLM keeps for variables with handles: never less than it does, and up to 16 bytes more for each read."""
    taken = [_VARIABLE for _, op in ops if op.type == "VAR_HANDLE"]
    known: set[tuple[int, int]] = set()
    for subgraph, op in ops:
        if op.type != "ASSIGN_VARIABLE" or len(op.inputs) < 2 or min(op.inputs[:2]) < 0:
            continue
        handle, value = id(subgraph), op.inputs[0]
        taken.append(16 if (handle, value) in known else 16 + subgraph.tensors[op.inputs[1]].size)
        known.add((handle, value))
    return taken


def _temporaries(subgraph: Subgraph, op: TfliteOp) -> int:
    """Bytes of the tensor records that a kernel looks at while it is prepared: they are given back together."""
    there = [t for t in op.inputs if t >= 0]
    listed = [*there, *op.outputs]
    if op.type in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"):
        listed += [*op.outputs, *there[:2]]
    used = 0
    for t in listed:
        used = _up(used, 8) + _TENSOR
        channels = subgraph.tensors[t].channels
        if channels:
            used = _up(used, 8) + _QUANTISATION
            used = _up(used, 4) + 4 + 4 * channels
    return used


def _planning(model: TfliteModel, scratch_count: int) -> int:
    """Bytes of the head while the plan is made: scratch requests, a record for each tensor, the planner's arrays."""
    tensors = [t for subgraph in model.subgraphs for t in subgraph.tensors]
    planned = sum(1 for t in tensors if not t.buffer_bytes and not t.variable and t.size)
    head = _REQUEST * (scratch_count + _REQUESTS_PER_OP) + 8 * len(model.subgraphs)
    head += _RECORD * (len(tensors) + scratch_count)
    return _up(head, 16) + _PLANNER_BUFFER * (planned + scratch_count)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
