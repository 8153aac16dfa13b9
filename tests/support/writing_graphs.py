"""Graphs whose ops write over bytes that others hold, and what a plain replay says that each op reads."""

from __future__ import annotations

from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor

Reads = tuple[dict[tuple[int, int], tuple[tuple[int, ...], ...]], list[tuple[int, ...]]]
"""Of each op and tensor, byte by byte, all that wrote it; and the same of what is left."""

CACHE = (
    Tensor(0, 8, Kind.INPUT, "x"), Tensor(1, 64, Kind.INPUT, "kv"), Tensor(2, 64, name="old"),
    Tensor(3, 64, name="kv_new", alias_of=1), Tensor(4, 32, Kind.OUTPUT), Tensor(5, 32, Kind.OUTPUT),
)  # fmt: skip


def cache(writes: tuple[int, ...] | None, tensors: tuple[Tensor, ...] = CACHE) -> Graph:
    """A reader of the old value, an update in place, readers of both."""
    ops = (
        Op(0, (1,), (2,), "peek"), Op(1, (1, 0), (3,), "append", writes=writes), Op(2, (3,), (4,), "new"),
        Op(3, (2,), (5,), "old"),
    )  # fmt: skip
    return Graph("cache", tensors, ops)


def drawn(rng: Random) -> Graph:
    """Ops that read and write parts of one state, as a program without names for values would; then as values."""
    size = 4
    tensors = [Tensor(0, size, Kind.INPUT)]
    holds: list[tuple[int, int, int]] = [(0, 0, size)]
    ops: list[Op] = []
    for k in range(rng.randint(2, 6)):
        t, begin, end = rng.choice(holds)
        number = len(tensors)
        if rng.random() < 0.5:
            tensors.append(Tensor(number, 1, Kind.OUTPUT))
            ops.append(Op(k, (t,), (number,)))
            continue
        low = rng.randint(begin, end - 1)
        high = rng.randint(low + 1, end)
        tensors.append(Tensor(number, high - low, alias_of=t, alias_offset=low - begin))
        whole = (low, high) == (begin, end)
        ops.append(Op(k, (t,), (number,), writes=(t,) if whole else rng.choice([(), None])))
        if whole:
            holds = [h for h in holds if h[2] <= low or high <= h[1]]
        holds.append((number, low, high))
    return Graph("drawn", tuple(tensors), tuple(ops))


def reads(graph: Graph, order: tuple[int, ...]) -> Reads:
    """What each op reads, byte by byte as the list of all that wrote it, and what is left; slow and plain."""
    held: list[tuple[int, ...]] = [()] * 4
    seen = {}
    for v in order:
        op = graph.op_by_id[v]
        for t in op.inputs:
            begin, end = span(graph, t)
            seen[v, t] = tuple(held[begin:end])
        for t in op.outputs if op.writes is None else op.writes:
            if graph.tensor_by_id[t].alias_of is not None or op.writes:
                begin, end = span(graph, t)
                for at in range(begin, end):
                    held[at] = (*held[at], v)
    return seen, held


def span(graph: Graph, t: int) -> tuple[int, int]:
    """First byte of a tensor in its root, and the one behind its last."""
    tensor, begin = graph.tensor_by_id[t], 0
    size = tensor.size
    while tensor.alias_of is not None:
        begin += tensor.alias_offset
        tensor = graph.tensor_by_id[tensor.alias_of]
    return begin, begin + size
