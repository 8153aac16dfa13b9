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
