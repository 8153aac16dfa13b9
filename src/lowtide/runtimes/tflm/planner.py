"""TFLM's own planner, played through: the head of its arena for a file, with or without an offline plan.

It places buffers one by one: those with an offline offset at that offset, whatever is there; then the others by
decreasing size, of equal sizes the one added last first, each at the lowest gap among those alive with it. Lifetimes
are counted in scopes: one per operator, and one more per subgraph that an operator runs, whose operators follow.
Source: tensorflow/lite/micro/micro_allocation_info.cc and memory_planner/greedy_memory_planner.cc (commit 90b983c).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.read.tflite.model import TfliteModel
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.rule import ALIGNMENT, TflmRule

ONLINE = -1
REFERENCE = TflmRule("reference")
MOST_BUFFERS = 6000
"""Up to this many buffers TFLM's placement is played through; it takes time that grows with their square."""
_NEVER = -1


@dataclass(slots=True)
class _Buffer:
    size: int
    first: int = _NEVER
    last: int = _NEVER
    offset: int = ONLINE

    def meets(self, other: _Buffer) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Head:
    """The non-persistent part of the arena.

    `bytes`: where it ends. `offsets`: of each tensor of subgraph 0 that is in it. `buffers`: of every buffer, in the
    order in which TFLM adds them: tensors of all subgraphs, then scratch. `bodies`: for each operator of subgraph 0
    that runs others, the most bytes of theirs in use at once.
    """

    bytes: int
    offsets: dict[int, int]
    buffers: tuple[int, ...]
    bodies: dict[int, int]


def tflm_head(
    model: TfliteModel,
    graph: Graph,
    order: Sequence[int],
    offline: Sequence[int] | None = None,
    rule: TflmRule = REFERENCE,
) -> Head | None:
    """Head that TFLM makes of a file.

    `model`: the file. `graph`: its subgraph 0. `order`: operators of subgraph 0, in the order in which they run; the
    other subgraphs are as in the file. `offline`: offset or -1 for each tensor of all subgraphs, one after another;
    None: there is no offline plan. `rule`: whose kernels run: their scratch is in the head. Returns: none if there are
    too many buffers to play it through. Raises `InputError`: subgraphs that run one another in a circle.
    """
    starts = [0]
    for subgraph in model.subgraphs:
        starts.append(starts[-1] + len(subgraph.tensors))
    buffers: list[_Buffer | None] = []
    for k, subgraph in enumerate(model.subgraphs):
        for i, t in enumerate(subgraph.tensors):
            at = offline[starts[k] + i] if offline is not None else ONLINE
            planned = not t.buffer_bytes and t.size and (not t.variable or at != ONLINE)
            buffers.append(_Buffer(_up(t.size), offset=at) if planned else None)
    scratch = {
        place: [_Buffer(_up(size)) for size in sizes] for place, sizes in requests(model, graph, order, rule).items()
    }
    scopes = _mark(model, order, starts, buffers, scratch)
    extra = [b for asked in scratch.values() for b in asked]
    for b in extra:
        if b.first == _NEVER:  # of a subgraph that nothing runs
            b.size = 0
    placed = [b for b in (*buffers, *extra) if b is not None]
    online = sum(b.offset == ONLINE for b in placed)
    if len(placed) * max(online, 1) > MOST_BUFFERS**2:
        return None
    _place(placed)
    offsets = {i: b.offset for i, b in enumerate(buffers[: starts[1]]) if b is not None}
    inner = [b for b in buffers[starts[1] :] if b is not None]
    inner += [b for (k, _), asked in scratch.items() if k for b in asked]
    bodies = {i: _most(inner, *span) for i, span in scopes.items()}
    end = max((b.offset + b.size for b in placed), default=0)
    return Head(end, offsets, tuple(b.offset for b in placed), bodies)


def _most(buffers: Sequence[_Buffer], first: int, last: int) -> int:
    """Most bytes of buffers in use at once in a stretch of scopes."""
    begins = [b.first for b in buffers if first <= b.first <= last]
    return max((sum(b.size for b in buffers if b.first <= at <= b.last) for at in set(begins)), default=0)


def requests(
    model: TfliteModel, graph: Graph, order: Sequence[int], rule: TflmRule
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Bytes of the scratch buffers that each operator asks for, by subgraph and operator, in the order of asking.
    TFLM prepares the operators of subgraph 0 first, then those of each further one: bodies of IF and WHILE, and what
    CALL_ONCE runs."""
    asked = {(0, i): rule.scratch(graph, graph.op_by_id[i]) for i in order}
    for k, subgraph in enumerate(model.subgraphs[1:], 1):
        if subgraph.ops:
            body = graph_of(model, (), model.place, "", k)
            asked |= {(k, op.id): rule.scratch(body, op) for op in body.ops}
    return asked


def _mark(
    model: TfliteModel,
    order: Sequence[int],
    starts: Sequence[int],
    buffers: Sequence[_Buffer | None],
    scratch: Mapping[tuple[int, int], Sequence[_Buffer]],
) -> dict[int, tuple[int, int]]:
    """Set the lifetimes of all buffers; the scopes of each operator of subgraph 0 that runs others."""
    scope = 0
    scopes: dict[int, tuple[int, int]] = {}

    def begin(at: int) -> None:
        b = buffers[at]
        if b is not None and b.first == _NEVER:
            b.first = scope

    def end(at: int) -> None:
        b = buffers[at]
        if b is not None:
            b.last = scope

    def walk(index: int, running: tuple[int, ...]) -> None:
        nonlocal scope
        if index in running:
            raise InputError(f"its subgraph {index} runs itself; nothing can be planned", model.place)
        subgraph, base = model.subgraphs[index], starts[index]
        for t in subgraph.inputs:
            begin(base + t)
            end(base + t)
        for i in order if index == 0 else range(len(subgraph.ops)):
            op = subgraph.ops[i]
            scope += 1
            began = scope
            for t in op.outputs:
                begin(base + t)
            for callee in op.callees if op.type in ("IF", "WHILE", "CALL_ONCE") else ():
                scope += 1
                walk(callee, (*running, index))
            for t in (*op.inputs, *op.outputs):
                if t >= 0:
                    end(base + t)
            if index == 0 and scope > began:
                scopes[i] = began, scope
            for b in scratch[index, i]:
                b.first, b.last = began if b.first == _NEVER else b.first, scope
        for t in subgraph.outputs:
            begin(base + t)
            end(base + t)

    walk(0, ())
    return scopes


def _place(placed: Sequence[_Buffer]) -> None:
    """Give every buffer without an offset the one that TFLM gives it."""
    by_offset: list[_Buffer] = []
    fixed = [b for b in placed if b.offset != ONLINE]
    online = [b for b in placed[::-1] if b.offset == ONLINE]
    online.sort(key=lambda b: -b.size)
    for b in (*fixed, *online):
        if b.offset == ONLINE:
            at = 0
            for other in by_offset:
                if not other.meets(b):
                    continue
                if other.offset - at >= b.size:
                    break
                at = max(at, other.offset + other.size)
            b.offset = at
        by_offset.insert(bisect_right(by_offset, b.offset, key=lambda other: other.offset), b)


def _up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
