"""What onnxruntime takes for a file with default options: its own order, its memory reuse, its growing arena.

Three things differ from a planned session (`onnxruntime.py`). Nodes run in the order of a depth-first walk from the
last ones back. A tensor that died is kept for a later one of the same shape, and memory is held from the first of such
a chain to the last use of the last. The arena begins with 1 MiB, takes blocks that double, and splits a chunk only if
half of it is left. Its optimiser is not played through: what it makes of a file is another file.

Source: onnxruntime 1.31, graph_viewer.cc, allocation_planner.cc, bfc_arena.cc; `tests/runtimes` holds it against the
runtime itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from lowtide.analyse.storage import MemoryModel, body_bytes
from lowtide.graph import Graph, Kind, Op
from lowtide.plan import RuntimeFigure, Sure
from lowtide.rules.onnxruntime.known import unknown_kernels
from lowtide.rules.onnxruntime.rule import CHUNK_BYTES, OnnxRuntimeRule, chunks, kept_chunks
from lowtide.sizes import round_up

_RULE = OnnxRuntimeRule()
_FIRST_BLOCK_BYTES = 2**20
_MOST_DEAD_BYTES = 128 * 2**20
"""A chunk is split if so much is left of it, or at least half."""
_UNSURE = ("Quantize", "QLinear", "Integer", "Attention", "Sequence", "LSTM", "GRU", "RNN")
"""Parts of the names of ONNX ops whose kernels take workspace that is not known, or not on every CPU."""
_FUNCTIONS = frozenset(
    {"Bernoulli", "CastLike", "CenterCropPad", "GroupNormalization", "HardSwish", "Mish", "NegativeLogLikelihoodLoss",
     "SoftmaxCrossEntropyLoss", "Swish"}
)  # fmt: skip
"""ONNX ops without a kernel: onnxruntime takes them apart, and runs what comes of them in an order of its own."""

Take = tuple[int, int]  # a chunk's number, and its exact bytes if it is taken, or 0 if it is given back


@dataclass(frozen=True)
class Defaults:
    """Bytes under the defaults: `in_use_bytes` at once, tensors and workspace; `arena_bytes` taken from the system."""

    in_use_bytes: int
    arena_bytes: int


def defaults(model: MemoryModel) -> Defaults:
    """What onnxruntime takes by its defaults for an unmodified graph, under its own target."""
    trace = _takes(model, default_order(model.graph))
    return Defaults(_most(trace), _held(trace))


def default_order(graph: Graph) -> tuple[int, ...]:
    """Positions of the ops as onnxruntime runs them: depth first from the last ones back, late inputs first.

    >>> from lowtide.graph import Graph, Kind, Op, Tensor
    >>> tensors = (Tensor(0, 4, Kind.INPUT), Tensor(1, 4), Tensor(2, 4), Tensor(3, 4, Kind.OUTPUT))
    >>> default_order(Graph("g", tensors, (Op(0, (0,), (1,)), Op(1, (0,), (2,)), Op(2, (1, 2), (3,)))))
    (1, 0, 2)
    """
    read = {before for i in range(len(graph.ops)) for before in graph.predecessors[i]}
    waiting = [(i, False) for i in range(len(graph.ops)) if i not in read]
    seen: set[int] = set()
    order: list[int] = []
    while waiting:
        i, done = waiting.pop()
        if done:
            order.append(i)
        elif i not in seen:
            seen.add(i)
            waiting.append((i, True))
            waiting += [(before, False) for before in sorted(graph.predecessors[i]) if before not in seen]
    return tuple(order)


@dataclass
class _Reuse:
    """Its planner, op by op: the earlier tensor whose memory each one reuses."""

    model: MemoryModel
    uses: dict[int, int] = field(default_factory=dict)
    """Uses that a buffer still has; a buffer is named by its first tensor."""
    buffer: dict[int, int] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    """Dead buffers, the last one first."""

    def __post_init__(self) -> None:
        graph = self.model.graph
        for t in graph.tensors:
            self.uses[t.id] = 1 if t.kind is Kind.ACTIVATION else 2
            self.buffer[t.id] = t.id
        for op in graph.ops:
            for t in op.inputs:
                self.uses[t] += 1

    def run(self, op: Op) -> None:
        """Place its outputs, and free what has no consumer left."""
        for t in op.outputs:
            over = self._over(op, t)
            if over is not None:
                root = self.buffer[over]
                self.buffer[t] = root
                self.uses[root] += self.uses[t]
        for t in (*op.inputs, *op.outputs):
            root = self.buffer[t]
            self.uses[root] -= 1
            if not self.uses[root]:
                self.free.insert(0, root)

    def _over(self, op: Op, output: int) -> int | None:
        """The tensor whose memory an output takes; None if it gets its own."""
        graph = self.model.graph
        wanted = graph.tensor_by_id[output]
        if wanted.kind is Kind.OUTPUT:
            return None
        if len(op.outputs) == 1:
            source = _RULE.view_source(graph, op)
            if source is not None:
                return source
            for read in _RULE.in_place_inputs(graph, op):
                if self.uses[self.buffer[read]] == 1:
                    return read
        for k, root in enumerate(self.free):
            dead = graph.tensor_by_id[root]
            if wanted.shape and dead.shape == wanted.shape and dead.size == wanted.size:
                return self.free.pop(k)
        return None


def _takes(model: MemoryModel, order: Sequence[int]) -> list[Take]:
    """What is taken and given back, as it happens."""
    graph = model.graph
    reuse = _Reuse(model)
    for i in order:
        reuse.run(graph.ops[i])
    size_of = {t.id: t.size for t in graph.tensors if t.kind not in (Kind.INPUT, Kind.CONSTANT)}
    ending = _last_uses(graph, order, reuse.buffer)
    fresh = count(max((t.id for t in graph.tensors), default=0) + 1)
    trace = [(next(fresh), size) for size in kept_chunks(graph)]
    taken: set[int] = set()
    for step, i in enumerate(order):
        op = graph.ops[i]
        before, after = chunks(graph, op)
        held = _workspace(trace, before, fresh)
        for root in dict.fromkeys(reuse.buffer[t] for t in op.outputs):
            if root not in taken and size_of.get(root):
                taken.add(root)
                trace.append((root, size_of[root]))
        inside = body_bytes(graph, op, model.target)
        held += _workspace(trace, (*after, inside) if inside else after, fresh)
        trace += [(chunk, 0) for chunk in held]
        trace += [(root, 0) for root in ending[step] if root in taken]
    return trace


def _last_uses(graph: Graph, order: Sequence[int], buffer: Mapping[int, int]) -> list[list[int]]:
    """Per step the buffers that it is the last to use; outputs stay."""
    last = {buffer[t]: step for step, i in enumerate(order) for t in (*graph.ops[i].inputs, *graph.ops[i].outputs)}
    kept = {buffer[t.id] for t in graph.tensors if t.kind is Kind.OUTPUT}
    ending: list[list[int]] = [[] for _ in order]
    for root, step in last.items():
        if root not in kept:
            ending[step].append(root)
    return ending


def _workspace(trace: list[Take], sizes: Sequence[int], fresh: Iterator[int]) -> list[int]:
    """Take a kernel's chunks; a size of 0 gives the oldest back. Those that it still holds."""
    held: list[int] = []
    for size in sizes:
        if size:
            held.append(next(fresh))
        trace.append((held[-1], size) if size else (held.pop(0), 0))
    return held


def _most(trace: Sequence[Take]) -> int:
    """Most bytes taken at once."""
    sizes: dict[int, int] = {}
    now = most = 0
    for chunk, size in trace:
        now += size - sizes.pop(chunk, 0)
        if size:
            sizes[chunk] = size
        most = max(most, now)
    return most


def _held(trace: Sequence[Take]) -> int:
    """What the growing arena takes from the system: blocks that double, or as large as what has to fit."""
    free = FreeChunks()
    place: dict[int, tuple[int, int]] = {}
    held = address = 0
    block = _FIRST_BLOCK_BYTES
    for chunk, size in trace:
        if not size:
            free.give(*place.pop(chunk))
            continue
        rounded = round_up(size, CHUNK_BYTES)
        found = free.take(rounded)
        if found is None:
            grown = block
            while grown < rounded:
                grown *= 2
            found = address, address + grown
            address += grown + 1  # blocks do not join
            held += grown
            block = grown if grown > block else 2 * block
        start, end = found
        if end - start >= 2 * rounded or end - start - rounded >= _MOST_DEAD_BYTES:
            free.add(start + rounded, end)
            end = start + rounded
        place[chunk] = start, end
    return held


class FreeChunks:
    """Free stretches of addresses, half-open; those that touch are one."""

    def __init__(self) -> None:
        self._by_size: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}

    def add(self, start: int, end: int) -> None:
        """A stretch that touches no other, or is not to be merged."""
        self._end_of[start], self._start_of[end] = end, start
        insort(self._by_size, (end - start, start))

    def give(self, start: int, end: int) -> None:
        """A stretch that is freed, merged with its free neighbours."""
        if end in self._end_of:
            end = self._drop(end, self._end_of[end])[1]
        if start in self._start_of:
            start = self._drop(self._start_of[start], start)[0]
        self.add(start, end)

    def take(self, size: int) -> tuple[int, int] | None:
        """The smallest stretch of at least a given number of bytes, of equal ones the lowest; None if there is none."""
        at = bisect_left(self._by_size, (size, -1))
        if at == len(self._by_size):
            return None
        length, start = self._by_size[at]
        return self._drop(start, start + length)

    def _drop(self, start: int, end: int) -> tuple[int, int]:
        del self._end_of[start], self._start_of[end]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        return start, end


def figures(model: MemoryModel, in_use_bytes: int, block_bytes: int | None) -> list[RuntimeFigure]:
    """Bytes in use at once and of the arena, by the defaults and with a plan; `block_bytes`: None if not known."""
    taken = defaults(model)
    pairs = ("in use", taken.in_use_bytes, in_use_bytes), ("arena", taken.arena_bytes, block_bytes)
    sure = _of_kernels(model.graph)
    return [
        RuntimeFigure(runtime="onnxruntime", what=what, default_bytes=today, planned_bytes=planned, sure=sure)
        for what, today, planned in pairs
    ]


def _of_kernels(graph: Graph) -> Sure:
    """Whether it is known of every kernel what it takes from the arena, by the defaults too."""
    wide = any(t.dtype in ("float16", "bfloat16", "float64") for t in graph.tensors)
    strange = wide or any(_strange(op) for op in graph.ops)
    return "at least" if strange or unknown_kernels(graph) else "exact"


def _strange(op: Op) -> bool:
    apart = bool(op.bodies) or "::" in op.type or op.type in _FUNCTIONS
    return apart or any(part in op.type for part in _UNSURE)
