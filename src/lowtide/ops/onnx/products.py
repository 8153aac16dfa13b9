"""ONNX matrix products, sums over dimensions, recurrent layers."""

from __future__ import annotations

from functools import partial
from typing import Any

from lowtide.ops.access import Shape
from lowtide.ops.forms import Contraction, Form, Labelled, Labels, Pointwise, Reduction
from lowtide.ops.node import Node, NoForm, Row

_INTEGERS = ("int", "uint")


def product_labels(a: Shape, b: Shape) -> tuple[Labels, Labels, Labels]:
    """Labels of numpy's ``a @ b``: vectors, matrices, stacks of matrices that are broadcast.

    >>> product_labels((4, 2, 3), (3, 5))
    ((2, -1, -2), (-2, -3), (2, -1, -3))
    """
    rows, inner, columns = -1, -2, -3
    stack = max(len(a), len(b))
    batch_a, batch_b = (tuple(range(stack - (len(s) - 2), stack)) if len(s) > 2 else () for s in (a, b))
    left: Labels = (*batch_a, rows, inner) if len(a) > 1 else (inner,)
    right: Labels = (*batch_b, inner, columns) if len(b) > 1 else (inner,)
    batch = batch_a if len(batch_a) >= len(batch_b) else batch_b
    ends = (*((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    return left, right, (*batch, *ends)


def _matmul(node: Node) -> Form:
    left, right, result = product_labels(node.shape(0), node.shape(1))
    return Contraction((left, right), (result,), **_exactness(node))


def _exactness(node: Node) -> dict[str, Any]:
    exact = (node.results[0].dtype or "").startswith(_INTEGERS)
    return {"exact": "bits", "merged": "bits"} if exact else {}


def _quantised_matmul(node: Node, data: tuple[int, int], exact_sums: bool) -> Form:
    """Scales and zero points are numbers, or one for each row of the first and each column of the second."""
    left, right, result = product_labels(node.shape(data[0]), node.shape(data[1]))
    reads: list[Labels | None] = []
    first = True
    for i, shape in enumerate(node.reads):
        first = first and i < data[1]
        if i in data:
            reads.append(left if i == data[0] else right)
            continue
        kept = left[-2:-1] if _belongs(i, data, exact_sums) else right[-1:]
        fits = shape is not None and len(shape) == 1 and shape[0] > 1 and len(kept) == 1
        reads.append(None if shape is None else kept if fits else (None,) * len(shape))
    return Contraction(tuple(reads), (result,), exact="bits", merged="never")


def _belongs(position: int, data: tuple[int, int], integer: bool) -> bool:
    """Whether a vector belongs to the first matrix: MatMulInteger (a, b, za, zb), QLinearMatMul (a, sa, za, b, ...)."""
    return position == 2 if integer else data[0] < position < data[1]


def _gemm(node: Node, *, activated: bool = False) -> Form:
    rows, inner, columns = 0, 1, 2
    first = (inner, rows) if node.attribute("transA") else (rows, inner)
    second = (columns, inner) if node.attribute("transB") else (inner, columns)
    reads: list[Labels | None] = [first, second]
    once: tuple[int, ...] = ()
    if node.given(2):
        reads.append((rows, columns)[2 - node.rank(2) :])
        once = (2,)
    elif len(node.operands) > 2:
        reads.append(None)
    merged: dict[str, Any] = {"merged": "never"} if activated else _exactness(node)
    return Contraction(tuple(reads), ((rows, columns),), once, **merged)


def _fused_matmul(node: Node) -> Form:
    """onnxruntime's product, which takes its operands as transposes before it left them. Where the batches of one
    are transposed, its first dimension is the one that `MatMul` has last but one, and the batches are after it.
    Where batches are broadcast, their sizes say so, as in `MatMul`."""
    left, right, result = product_labels(node.shape(0), node.shape(1))
    left = _as_stored(left, node.attribute("transA"), node.attribute("transBatchA"))
    right = _as_stored(right, node.attribute("transB"), node.attribute("transBatchB"))
    return Contraction((left, right), (result,))


def _as_stored(labels: Labels, turned: Any, batches_turned: Any) -> Labels:
    """Labels of an operand of a product, in the order in which its dimensions lie.

    >>> _as_stored((0, 1, -1, -2), turned=0, batches_turned=1)
    (-1, 0, 1, -2)
    """
    if len(labels) < 2:
        return labels
    *batches, a, b = labels
    first, last = (b, a) if turned else (a, b)
    return (first, *batches, last) if batches_turned else (*batches, first, last)


def _einsum(node: Node) -> Form:
    equation = node.text("equation").replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    terms = inputs.split(",")
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        result = ("..." if "..." in inputs else "") + "".join(sorted(c for c in letters if letters.count(c) == 1))
    if len(terms) != len(node.operands):
        raise NoForm(f"{len(node.operands)} operands for {inputs!r}")
    dots = max((node.rank(i) - len(t) + 3 for i, t in enumerate(terms) if "..." in t), default=0)

    def labels(term: str, rank: int) -> Labels:
        before, dotted, behind = term.partition("...")
        between = range(-(rank - len(before) - len(behind)), 0) if dotted else ()
        return (*map(ord, before), *between, *map(ord, behind))

    reads = tuple(labels(term, node.rank(i)) for i, term in enumerate(terms))
    rank = len(result) - 3 + dots if "..." in result else len(result)
    return Contraction(reads, (labels(result, rank),))


def _dims(node: Node) -> tuple[int, ...]:
    """Dimensions of a reduction, from an attribute or a constant operand; empty: none are named."""
    axes = node.values(1) if node.given(1) else node.ints("axes")
    return tuple(sorted({node.dim(int(d), node.rank()) for d in axes}))


def _reduce(node: Node, merge: str | None) -> Form:
    dims = _dims(node)
    if not dims and node.attribute("noop_with_empty_axes"):
        return Pointwise(node.literals())
    dims = dims or tuple(range(node.rank()))
    exact = merge in ("max", "min") or (merge == "sum" and (node.results[0].dtype or "").startswith(_INTEGERS))
    if node.type == "ReduceMean" and exact:
        merge, exact = None, False
    keep = bool(node.attribute("keepdims", 1))
    return Reduction(dims, keep, merge, "bits" if exact else "sum", node.literals())  # type: ignore[arg-type]


def _arg(node: Node) -> Form:
    return Reduction((node.dim(node.attribute("axis", 0), node.rank()),), bool(node.attribute("keepdims", 1)), None)


def _recurrent(node: Node, gates: int) -> Form:
    """Steps follow one another and states feed every gate: the batch alone can be cut."""
    batch = 0
    first = bool(node.attribute("layout"))
    sequence: Labels = (batch, None, None) if first else (None, batch, None)

    def state(rank: int) -> Labels:
        if rank == 4:
            return (batch, None, None, None) if first else (None, None, batch, None)
        return (batch, None, None) if first else (None, batch, None)

    reads: list[Labels | None] = []
    for i, shape in enumerate(node.reads):
        if shape is None:
            reads.append(None)
        elif i == 0:
            reads.append(sequence)
        elif i == 4:
            reads.append((batch,))
        else:
            reads.append(state(3) if i in (5, 6) else (None,) * len(shape))
    weights, recurrent = node.shape(1), node.shape(2)
    steps = node.shape()[0] * node.shape()[1]
    flops = 2 * steps * weights[0] * weights[1] * (weights[2] + recurrent[2])
    writes = tuple(state(len(shape or ())) for shape in node.writes)
    lengths = ((4, node.shape()[int(first)] + 1),)
    return Labelled("recurrent", tuple(reads), writes, limits=lengths, exact="kernel", flops=flops)


_MERGES = {
    "ReduceSum": "sum", "ReduceMean": "sum", "ReduceL1": "sum", "ReduceSumSquare": "sum", "ReduceMax": "max",
    "ReduceMin": "min", "ReduceL2": None, "ReduceLogSum": None, "ReduceLogSumExp": None, "ReduceProd": None,
}  # fmt: skip

ROWS: dict[str, Row] = {
    "MatMul": _matmul,
    "MatMulInteger": partial(_quantised_matmul, data=(0, 1), exact_sums=True),
    "QLinearMatMul": partial(_quantised_matmul, data=(0, 3), exact_sums=False),
    "Gemm": _gemm,
    "com.microsoft::FusedGemm": partial(_gemm, activated=True),
    "com.microsoft::FusedMatMul": _fused_matmul,
    "Einsum": _einsum,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "LSTM": partial(_recurrent, gates=4),
    "GRU": partial(_recurrent, gates=3),
    "RNN": partial(_recurrent, gates=1),
    **{name: partial(_reduce, merge=merge) for name, merge in _MERGES.items()},
}
