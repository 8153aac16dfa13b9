"""ATen's matrix products and reductions."""

from __future__ import annotations

from typing import Literal

from lowtide.ops.forms import Contraction, Form, Labels, Reduction
from lowtide.ops.node import Node, NoForm, Row

_SUMMED = -1


def _added(rank: int) -> Row:
    """`addmm`, `baddbmm`: operand 0 is broadcast and added once."""

    def row(node: Node) -> Form:
        lead: Labels = tuple(range(rank))
        added = lead[rank - node.rank() :]
        return Contraction((added, (*lead[:-1], _SUMMED), (*lead[:-2], _SUMMED, lead[-1])), (lead,), once=(0,))

    return row


def _linear(node: Node) -> Form:
    """Weights of shape (out, in)."""
    lead: Labels = tuple(range(node.rank() - 1))
    out = len(lead)
    bias: tuple[Labels | None, ...] = ((out,),) if node.given(2) else (None,) * (len(node.operands) - 2)
    weights: Labels = (out, _SUMMED)
    return Contraction(((*lead, _SUMMED), weights, *bias), ((*lead, out),), once=(2,) if node.given(2) else ())


def _matmul(node: Node) -> Form:
    """As numpy's: leading dimensions broadcast, vectors for missing ones."""
    left, right = node.rank(0), node.rank(1)
    if not left or not right:
        raise NoForm("a scalar among its operands")
    lead = max(left, right, 2) - 2
    batch = tuple(range(lead))
    row, column = lead, lead + 1
    a: Labels = (*batch[lead - (left - 2) :], row, _SUMMED) if left > 1 else (_SUMMED,)
    b: Labels = (*batch[lead - (right - 2) :], _SUMMED, column) if right > 1 else (_SUMMED,)
    result = (*batch, *((row,) if left > 1 else ()), *((column,) if right > 1 else ()))
    return Contraction((a, b), (result,))


def dims_of(node: Node, name: str = "dim") -> tuple[int, ...]:
    """Dimensions that an argument names, all of them where it names none. Raises `NoForm`: the operator takes the
    argument, and it is not known."""
    rank = node.rank()
    if name not in node.op.attributes and node.type.split(".")[-1] in ("dim_IntList", "dim", "int", "dim_max"):
        raise NoForm(f"its argument {name} is not known")
    dims = node.ints(name)
    return tuple(node.dim(d, rank) for d in dims) if dims else tuple(range(rank))


def _reduction(merge: Literal["sum", "max", "min"] | None) -> Row:
    exact = "bits" if merge in ("max", "min") else "sum"
    return lambda node: Reduction(dims_of(node), bool(node.attribute("keepdim", False)), merge, exact)


def _everything(merge: Literal["sum", "max", "min"] | None) -> Row:
    exact = "bits" if merge in ("max", "min") else "sum"
    return lambda node: Reduction(tuple(range(node.rank())), False, merge, exact)


def _of_one_dim(node: Node) -> Form:
    """Largest and its place: the places of parts do not merge."""
    if node.type.endswith((".dim", ".dim_max", ".dim_min")):
        return Reduction(dims_of(node), bool(node.attribute("keepdim", False)), None)
    largest = node.type.split(".")[1] in ("max", "amax")
    return _everything("max" if largest else "min")(node)


ROWS: dict[str, Row] = {
    "mm": lambda node: Contraction(((0, _SUMMED), (_SUMMED, 1)), ((0, 1),)),
    "bmm": lambda node: Contraction(((0, 1, _SUMMED), (0, _SUMMED, 2)), ((0, 1, 2),)),
    "addmm": _added(2),
    "baddbmm": _added(3),
    "mv": lambda node: Contraction(((0, _SUMMED), (_SUMMED,)), ((0,),)),
    "dot": lambda node: Contraction(((_SUMMED,), (_SUMMED,)), ((),)),
    "linear": _linear,
    "matmul": _matmul,
    "sum mean": _reduction("sum"),
    "amax any": _reduction("max"),
    "amin all": _reduction("min"),
    "max min": _of_one_dim,
    "argmax argmin var std var_mean logsumexp prod linalg_vector_norm": _reduction(None),
}
