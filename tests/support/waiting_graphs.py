"""Random graphs in which one chain of ops wants several tensors to be gone that others have yet to read."""

from __future__ import annotations

from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor
from support.random_graphs import random_order, with_own_order

GROWTH, ROOM = (1, 2, 4), (0, 0, 8, 32, 64)


def waiting_graph(rng: Random) -> Graph:
    """A chain and the readers of what it reads, in a random own order.

    s0 -+-> a0 -c0-> a1 -c1-> ...     room at any of them; each may write over what it reads
        |            ^
    s1 ---+----------'
        | |
        | '-> u1 -> small             two or three s, each read by one or two u
        '---> u0 -> small
    """
    tensors: list[Tensor] = []
    ops: list[Op] = []

    def tensor(size: int, kind: Kind = Kind.ACTIVATION) -> int:
        tensors.append(Tensor(len(tensors), size, kind, f"t{len(tensors)}", shape=(size,)))
        return len(tensors) - 1

    def op(read: list[int], made: list[int], room: int = 0, name: str = "reader") -> None:
        what = rng.choice(("Add", "Add", "Conv"))
        ops.append(Op(len(ops), tuple(read), tuple(made), f"{name}{len(ops)}", what, room))

    size = rng.choice((4, 8, 16))
    kind = rng.choice((Kind.INPUT, Kind.ACTIVATION))
    waiting = [tensor(rng.choice((size, size, size + 1)), kind) for _ in range(rng.randint(2, 3))]
    if kind is Kind.ACTIVATION:
        op([], waiting, name="maker")
    length = rng.randint(1, 3)
    begins = [0, *(rng.randrange(length) for _ in waiting[1:-1]), rng.choice((length - 1, rng.randrange(length)))]
    last: list[int] = []
    for k in range(length):
        read = last + [s for s, begin in zip(waiting, begins, strict=True) if begin == k]
        if k + 1 < length:
            last = [tensor(rng.choice((size, 2 * size, 3 * size)))]
        else:
            last = [tensor(tensors[rng.choice((waiting[-1], waiting[-1], *read))].size, Kind.OUTPUT)]
        op(read, last, rng.choice(ROOM), "chain")
    for s in waiting:
        for _ in range(rng.randint(1, 2)):
            op([s], [tensor(rng.choice(GROWTH), Kind.OUTPUT)], rng.choice((0, 0, 0, 1, size)))
    if rng.random() < 0.3:
        a, b = rng.sample(waiting, 2)
        op([a, b], [tensor(rng.choice(GROWTH), Kind.OUTPUT)])
    graph = Graph("waiting", tuple(tensors), tuple(ops))
    return with_own_order(graph, random_order(rng, graph))
