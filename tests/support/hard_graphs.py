"""Graphs that are small and hard to order."""

from __future__ import annotations

from lowtide.graph import Graph, Kind, Op, Tensor


def unit_matrix_product(m: int) -> Graph:
    """C[i][j] = sum over k of A[i][k] * B[k][j], every entry an op of its own that makes a byte: hard from m = 4 on."""
    tensors: list[Tensor] = []
    ops: list[Op] = []

    def op(*read: int, kind: Kind = Kind.ACTIVATION) -> int:
        tensors.append(Tensor(len(ops), 1, kind))
        ops.append(Op(len(ops), read, (len(ops),)))
        return ops[-1].id

    a = [[op() for _ in range(m)] for _ in range(m)]
    b = [[op() for _ in range(m)] for _ in range(m)]
    for i in range(m):
        for j in range(m):
            op(*[op(a[i][k], b[k][j]) for k in range(m)], kind=Kind.OUTPUT)
    return Graph("matrix_product", tuple(tensors), tuple(ops))


def training_step(layers: int) -> Graph:
    """A chain forward, and back: each layer's activation is kept, copied into another layout, and made a gradient of
    weights with what comes back. All copies can be made at any time from then on, and none is of use early."""
    tensors: list[Tensor] = []
    ops: list[Op] = []

    def op(size: int, *read: int, kind: Kind = Kind.ACTIVATION) -> int:
        tensors.append(Tensor(len(ops), size, kind))
        ops.append(Op(len(ops), read, (len(ops),)))
        return ops[-1].id

    kept = [op(64)]
    for k in range(layers):
        kept.append(op(64 + 8 * (k % 3), kept[-1]))
    gradient = op(40, kept[-1])
    for k in reversed(range(layers)):
        op(1 + k, op(61 + k, kept[k]), op(40 + k % 2, gradient), kind=Kind.OUTPUT)
        below = op(44, gradient, kept[k])
        op(3, gradient, below, kind=Kind.OUTPUT)
        gradient = below
    return Graph("training_step", tuple(tensors), tuple(ops))
