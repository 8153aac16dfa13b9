"""What TFLM keeps in its arena in addition to the planned part: the tail, and what it needs for a moment while it
starts.

TFLM allocates persistent data from the end of the arena downwards, each block aligned downwards, in a fixed order::

    head (planned, non-persistent) ->                          <- tail (persistent)
    | tensors, scratch ...         |   free                    | ... op data | nodes | eval tensors | allocator |

The sequence is played through with the sizes of a build's structs (`builds.py`, `kernel_data.py`).

While kernels are prepared and the plan is made, the head holds other things: scratch requests, tensors that a kernel
looks at, a record per tensor, and the planner's arrays. With few bytes of tensors that moment decides how large the
arena must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.graph import Graph
from lowtide.read.tflite.model import Subgraph, TfliteModel, TfliteOp
from lowtide.rules.tflm.rule import TflmRule, scratch_unknown
from lowtide.runtimes.tflm.builds import PIP, PLANNER_BUFFER, REQUESTS_PER_OP, Build
from lowtide.runtimes.tflm.kernel_data import data_of, is_modelled, looks_of, options_of, prepared_of, refused
from lowtide.runtimes.tflm.planner import requests


@dataclass(frozen=True, slots=True)
class ArenaParts:
    """The parts of the smallest arena other than the planned one, in bytes; of two arenas, if the build has these."""

    persistent_bytes: int  # the tail, once TFLM has started
    planning_bytes: int  # least arena, or head's arena, in which TFLM can make its plan, whatever the plan takes
    # The same in which it can prepare its kernels without spoiling what they look at; to within some 16 bytes.
    preparing_bytes: int
    optional_bytes: int  # what of the tail a kernel may go on without, where it does not look whether it got it
    scratch_bytes: int  # most scratch of an operator; it is in the planned part
    exact: bool  # whether all of it is known for the build; else TFLM needs at least this much
    unknown: tuple[str, ...]  # operator types of which it is not known what their kernels keep, or ask for as scratch

    def smallest_arena(self, head_bytes: int) -> int:
        """Smallest kTensorArenaSize, a multiple of 16, for an arena that begins at a multiple of 16."""
        return max(_up(head_bytes, 16) + self.persistent_bytes, self.planning_bytes, self.preparing_bytes)

    def head_arena(self, head_bytes: int) -> int:
        """Smallest arena for the head alone; the tail's is `persistent_bytes`."""
        return max(_up(head_bytes, 16), self.planning_bytes, self.preparing_bytes)

    def exact_for(self, head_bytes: int) -> bool:
        """Whether `smallest_arena` is known to the byte for the build."""
        return self.exact and self.smallest_arena(head_bytes) > self.preparing_bytes


class _Tail:
    """Bytes taken from the end of an arena whose end is aligned; `two_arenas` if the head has an arena of its own."""

    def __init__(self, *, two_arenas: bool = False) -> None:
        self.used = 0
        self.two_arenas = two_arenas

    @property
    def tail_bytes(self) -> int:
        """Bytes of it in the head's arena."""
        return 0 if self.two_arenas else self.used

    def take(self, size: int, alignment: int = 16) -> None:
        self.used = _up(self.used + size, alignment)


def arena_parts(model: TfliteModel, graph: Graph, order: Sequence[int], build: Build = PIP) -> ArenaParts:
    """Play TFLM's start through for the operators of subgraph 0 in `order`, and those of the others in the file's."""
    tail = _Tail(two_arenas=build.two_arenas)
    for size, alignment in build.allocators:
        tail.take(size, alignment)
    _take_many(tail, build.subgraph, len(model.subgraphs))
    for subgraph in model.subgraphs:
        _take_many(tail, build.eval_tensor, len(subgraph.tensors))
    for subgraph in model.subgraphs:
        _take_many(tail, build.node, len(subgraph.ops))
    ops = [(model.subgraphs[0], model.subgraphs[0].ops[i]) for i in order]
    ops += [(subgraph, op) for subgraph in model.subgraphs[1:] for op in subgraph.ops]
    for _, op in ops:
        options = options_of(op, build)
        if options is not None:
            tail.take(*options)
    optional = 0
    for subgraph, op in ops:
        for size in data_of(op, subgraph, build):
            tail.take(size)
            optional += _up(size, 16) if op.type == "ELU" and subgraph.tensors[op.inputs[0]].dtype == "float32" else 0
    handles = _resources(ops, build)
    for size in handles:
        tail.take(size)
    asked = requests(model, graph, order, TflmRule(build.kernels, build.simd, build.abi.pointer)).values()
    count = preparing = 0
    for (subgraph, op), sizes in zip(ops, asked, strict=True):
        head = build.request[0] * (count + REQUESTS_PER_OP)
        preparing = max(preparing, _prepare(tail, subgraph, op, head, build))
        count += len(sizes)
    if count:
        _take_many(tail, build.handle, count)
    for subgraph in model.subgraphs:
        for t in subgraph.tensors:
            if t.variable:
                tail.take(t.size)
    planning = _up(tail.tail_bytes, 16) + _planning(model, count, build)
    main = model.subgraphs[0]
    for listed in (main.inputs, main.outputs):
        tail.take(build.abi.pointer * len(listed))
        for t in listed:
            tail.take(*build.tensor)
            channels = main.tensors[t].channels
            if channels:
                tail.take(*build.quantisation)
                tail.take(4 + 4 * channels, 4)
    strange = (op for _, op in ops if not is_modelled(op))
    hidden = (op for _, op in ops if scratch_unknown(op.type))
    impossible = (why for subgraph, op in ops if (why := refused(op, subgraph)))
    unknown = tuple(dict.fromkeys((*(op.type for op in (*strange, *hidden)), *impossible)))
    exact = not unknown and not handles and not optional
    most = max((sum(_up(size, 16) for size in sizes) for sizes in asked), default=0)
    return ArenaParts(_up(tail.used, 16), _up(planning, 16), _up(preparing, 16), optional, most, exact, unknown)


def _take_many(tail: _Tail, struct: tuple[int, int], count: int) -> None:
    tail.take(struct[0] * count, struct[1])


def _prepare(tail: _Tail, subgraph: Subgraph, op: TfliteOp, head: int, build: Build) -> int:
    """Prepare a kernel: what it keeps is taken, and the least arena in which that can be done is recorded. Tensors
    that it looks at stand after the head until it is done. TFLM does not notice when what a kernel keeps reaches
    down into them, and spoils them: room is counted for both."""
    least = 0
    blocks = prepared_of(op, subgraph, build)
    temporary = head
    for look in looks_of(op, build):
        if look == "|":
            for size in blocks:
                tail.take(size)
                least = max(least, temporary + tail.tail_bytes)
            blocks = []
            continue
        listed, position = (op.outputs, int(look[1:])) if look[0] == "o" else (op.inputs, int(look))
        if position >= len(listed) or listed[position] < 0:
            continue
        temporary = _up(temporary, build.tensor[1]) + build.tensor[0]
        channels = subgraph.tensors[listed[position]].channels
        if channels:
            temporary = _up(temporary, build.quantisation[1]) + build.quantisation[0]
            temporary = _up(temporary, 4) + 4 + 4 * channels
        least = max(least, temporary + tail.tail_bytes)
    for size in blocks:
        tail.take(size)
        least = max(least, temporary + tail.tail_bytes)
    return least


def _resources(ops: Sequence[tuple[Subgraph, TfliteOp]], build: Build) -> list[int]:
    """What the application's MicroResourceVariables take, for as many variables as there are handles; and each one's
    bytes, when it is assigned first."""
    handles = sum(1 for _, op in ops if op.type == "VAR_HANDLE")
    if not handles:
        return []
    taken = [build.size("p2i")[0], build.size("4pb")[0] * handles]
    known: set[tuple[int, int]] = set()
    for subgraph, op in ops:
        if op.type != "ASSIGN_VARIABLE" or len(op.inputs) < 2 or min(op.inputs[:2]) < 0:
            continue
        handle = (id(subgraph), op.inputs[0])
        if handle not in known:
            taken.append(subgraph.tensors[op.inputs[1]].size)
        known.add(handle)
    return taken


def _planning(model: TfliteModel, scratch_count: int, build: Build) -> int:
    """Bytes of the head while the plan is made: scratch requests, a record for each tensor, the planner's arrays."""
    tensors = [t for subgraph in model.subgraphs for t in subgraph.tensors]
    planned = sum(1 for t in tensors if not t.buffer_bytes and not t.variable and t.size)
    head = build.request[0] * (scratch_count + REQUESTS_PER_OP)
    head = _up(head, build.abi.pointer) + build.abi.pointer * len(model.subgraphs)
    head = _up(head, build.record[1]) + build.record[0] * (len(tensors) + scratch_count)
    return _up(head, 16) + PLANNER_BUFFER * (planned + scratch_count)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
