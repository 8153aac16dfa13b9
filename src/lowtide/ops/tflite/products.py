"""TFLite's matrix products, reductions, recurrent layers, and what depends on all of a dimension."""

from __future__ import annotations

from math import prod
from typing import Literal

from lowtide.ops.forms import Along, Contraction, Form, Labelled, Labels, Reduction
from lowtide.ops.node import Node, NoForm, Row
from lowtide.ops.tflite.windows import is_float, summed

_SUMMED = -1

STATES = {
    "SVDF": (4,), "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19), "UNIDIRECTIONAL_SEQUENCE_RNN": (4,), "RNN": (4,),
    "LSTM": (18, 19), "ASSIGN_VARIABLE": (0,), "CALL_ONCE": (),
}  # fmt: skip
"""Operands that hold a state from one run to the next."""


def _fully_connected(node: Node) -> Form:
    """Weights of shape (out, in); data is taken for rows of that many elements."""
    out, given = node.shape(1)
    data, result = node.shape(), node.result()
    lead: Labels
    if data[-1:] == (given,) and len(result) == len(data):
        lead = tuple(range(len(data) - 1))
        read: Labels = (*lead, _SUMMED)
    elif data and len(result) == 2 and data[0] == result[0]:
        lead, read = (0,), (0, *(None,) * (len(data) - 1))
    else:
        lead, read = (None,) * (len(result) - 1), (None,) * len(data)
    last = len(result) - 1
    weights: Labels = (last, _SUMMED if _SUMMED in read else None)
    bias: tuple[Labels | None, ...] = ()
    if len(node.operands) > 2:
        bias = ((last,) if node.given(2) and node.shape(2) == (out,) else None if not node.given(2) else (None,),)
    real = is_float(node) and is_float(node, 1)
    return Contraction(
        (read, weights, *bias),
        ((*lead, last),),
        once=(2,) if node.given(2) else (),
        exact="kernel" if real else "bits",
        merged=summed(real, node),
    )


def _batch_product(node: Node) -> Form:
    """Leading dimensions are broadcast; either operand may be given transposed."""
    rank = len(node.result())
    if node.rank(0) < 2 or node.rank(1) < 2:
        raise NoForm("an operand of less than two dimensions")
    row, column = rank - 2, rank - 1
    batch = tuple(range(rank - 2))
    left: Labels = (_SUMMED, row) if node.attribute("adj_x") else (row, _SUMMED)
    right: Labels = (column, _SUMMED) if node.attribute("adj_y") else (_SUMMED, column)
    real = is_float(node) and is_float(node, 1)
    return Contraction(
        ((*batch[rank - node.rank(0) :], *left), (*batch[rank - node.rank(1) :], *right)),
        ((*batch, row, column),),
        exact="kernel" if real else "bits",
        merged=summed(real, node),
    )


def _reduction(merge: Literal["sum", "max", "min"] | None) -> Row:
    def row(node: Node) -> Form:
        rank = node.rank()
        dims = tuple(sorted({node.dim(int(d), rank) for d in node.values(1)}))
        exact: Literal["bits", "sum", "never"] = "bits" if merge in ("max", "min") else summed(is_float(node), node)
        return Reduction(dims, bool(node.attribute("keep_dims")), merge, exact, (1,))

    return row


def _place(node: Node) -> Form:
    (dim,) = node.values(1)
    return Reduction((node.dim(int(dim), node.rank()),), False, None, literal=(1,))


def _last(node: Node) -> Form:
    if not node.rank():
        raise NoForm("a scalar")
    return Along((node.rank() - 1,))


def _cumulative(node: Node) -> Form:
    (dim,) = node.values(1)
    return Along((node.dim(int(dim), node.rank()),), literal=(1,), cost=1)


def _recurrent(node: Node) -> Form:
    """Cut along the batch where the states lie batch by batch; time runs from the first row to the last."""
    time_major = bool(node.attribute("time_major")) and node.rank() == 3
    batch = 1 if time_major else 0
    states = STATES[node.type]
    data: Labels = tuple(0 if d == batch else None for d in range(node.rank()))
    if node.shape()[batch] > 1:
        raise NoForm("several batches, each with a state of its own")
    reads = tuple(
        None
        if shape is None
        else data
        if i == 0
        else (0, *(None,) * (len(shape) - 1))
        if i in states
        else (None,) * len(shape)
        for i, shape in enumerate(node.reads)
    )
    weights = sum(prod(s) for i, s in enumerate(node.reads) if i and s is not None and len(s) == 2 and i not in states)
    steps = node.shape()[1 - batch] if node.rank() == 3 else 1
    result: Labels = tuple(0 if d == batch else None for d in range(len(node.result())))
    return Labelled("recurrent", reads, (result,), flops=2 * weights * steps)


ROWS: dict[str, Row] = {
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_product,
    "SUM MEAN": _reduction("sum"),
    "REDUCE_MAX REDUCE_ANY": _reduction("max"),
    "REDUCE_MIN REDUCE_ALL": _reduction("min"),
    "REDUCE_PROD": _reduction(None),
    "ARG_MAX ARG_MIN": _place,
    "SOFTMAX LOG_SOFTMAX L2_NORMALIZATION": _last,
    "CUMSUM": _cumulative,
    "TOPK_V2": lambda node: Along((node.rank() - 1,), literal=(1,), cost=10),
    "SVDF UNIDIRECTIONAL_SEQUENCE_LSTM UNIDIRECTIONAL_SEQUENCE_RNN RNN": _recurrent,
}
