"""What each kind of op of a drawn net makes, and which rows of its operands each row of its result needs.

Said here from the definition of each op, without lowtide: the oracle of changed graphs (`changed_plans`) stands on it.
A tensor is its shape, in elements; an op may be tiled along an `Axis`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of dimension `dim` of an operand: rows ``[a, b)`` of an axis need ``[a * num // den + lo, (b - 1) * num //
    den + hi + 1)``, as far as the operand goes."""

    dim: int
    num: int = 1
    den: int = 1
    lo: int = 0
    hi: int = 0

    def needed(self, a: int, b: int, size: int) -> tuple[int, int]:
        """Rows that rows ``[a, b)`` of the axis need, of `size`; an empty range is ``(0, 0)``."""
        first = max(0, a * self.num // self.den + self.lo)
        end = min(size, (b - 1) * self.num // self.den + self.hi + 1)
        return (first, end) if first < end else (0, 0)


@dataclass(frozen=True)
class Axis:
    """A way to run an op in parts.

    Attributes
    ----------
    size, grain
        Rows, and at multiples of how many of them parts begin.
    made
        Of each result the dimension that runs along the axis; None: the result is summed over the axis.
    reads
        Of each operand the rows that are needed; None: all of it.
    merge
        How results of parts become one where the axis is summed over: ``"sum"`` or ``"max"``.
    """

    size: int
    made: tuple[int | None, ...]
    reads: tuple[Rows | None, ...]
    grain: int = 1
    merge: str = ""


@dataclass(frozen=True)
class NetOp:
    """An op: its kind, the tensors that it reads and makes, and its parameters."""

    kind: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])


ELEMENTWISE = ("unary", "binary")
VIEWS = ("merge", "split_dim")
"""Kinds that give a tensor another shape and leave its bytes as they are."""


def _cells(size: int, taps: int, stride: int, pad: int) -> int:
    return (size + 2 * pad - taps) // stride + 1


def shapes_made(kind: str, p: Mapping[str, Any], reads: Sequence[Shape]) -> list[Shape]:
    """Shapes of the results; an empty list where the op does not fit its operands."""
    x = reads[0]
    match kind:
        case "unary" | "softmax":
            return [x]
        case "binary":
            y = reads[1]
            if len(x) != len(y) or any(a != b and 1 not in (a, b) for a, b in zip(x, y, strict=True)):
                return []
            return [tuple(map(max, x, y))]
        case "matmul":
            return [(*x[:-1], p["columns"])]
        case "product":
            y = reads[1]
            return [(*x[:-1], y[-1])] if x[:-2] == y[:-2] and x[-1] == y[-2] else []
        case "conv":
            sizes = tuple(_cells(s, t, p["stride"], p["pad"]) for s, t in zip(x[2:], p["taps"], strict=True))
            return [(x[0], p["channels"], *sizes)] if min(sizes) > 0 else []
        case "depthwise":
            sizes = tuple(_cells(s, t, p["stride"], p["pad"]) for s, t in zip(x[2:], p["taps"], strict=True))
            return [(*x[:2], *sizes)] if min(sizes) > 0 else []
        case "reduce_sum" | "reduce_max" | "reduce_mean":
            return [tuple(1 if d == p["axis"] else s for d, s in enumerate(x))]
        case "concat":
            a = p["axis"]
            if any(len(y) != len(x) or y[:a] + y[a + 1 :] != x[:a] + x[a + 1 :] for y in reads):
                return []
            return [(*x[:a], sum(y[a] for y in reads), *x[a + 1 :])]
        case "slice":
            a = p["axis"]
            return [(*x[:a], -(-(p["end"] - p["start"]) // p["step"]), *x[a + 1 :])]
        case "split":
            a = p["axis"]
            return [(*x[:a], s, *x[a + 1 :]) for s in p["sizes"]]
        case "merge":
            d = p["dim"]
            return [(*x[:d], x[d] * x[d + 1], *x[d + 2 :])]
        case "split_dim":
            d, first = p["dim"], p["first"]
            return [(*x[:d], first, x[d] // first, *x[d + 1 :])] if x[d] % first == 0 else []
        case "transpose":
            return [tuple(x[d] for d in p["perm"])]
        case _:
            raise ValueError(kind)


def axes_of(kind: str, p: Mapping[str, Any], reads: Sequence[Shape], makes: Sequence[Shape]) -> list[Axis]:
    """Ways to run an op in two parts or more."""
    return [axis for axis in _axes(kind, p, reads, makes) if axis.size > axis.grain]


def _same(d: int, reads: Sequence[Shape], makes: Sequence[Shape]) -> Axis:
    """Rows of dimension d of every result need the same rows of every operand, one that is repeated as a whole."""
    size = makes[0][d]
    return Axis(size, (d,) * len(makes), tuple(Rows(d) if x[d] == size else None for x in reads))


def _axes(kind: str, p: Mapping[str, Any], reads: Sequence[Shape], makes: Sequence[Shape]) -> list[Axis]:
    x, y, last = reads[0], makes[0], len(makes[0]) - 1
    match kind:
        case "unary" | "binary":
            return [_same(d, reads, makes) for d in range(last + 1)]
        case "softmax" | "split":
            return [_same(d, reads, makes) for d in range(last + 1) if d != p["axis"]]
        case "reduce_sum" | "reduce_max" | "reduce_mean":
            a = p["axis"]
            kept = [_same(d, reads, makes) for d in range(last + 1) if d != a]
            merge = {"reduce_sum": "sum", "reduce_max": "max"}.get(kind)
            return kept if merge is None else [*kept, Axis(x[a], (None,), (Rows(a),), merge=merge)]
        case "matmul":
            rows = [Axis(x[d], (d,), (Rows(d),)) for d in range(last)]
            return [*rows, Axis(y[last], (last,), (None,)), Axis(x[last], (None,), (Rows(last),), merge="sum")]
        case "product":
            return [
                *(Axis(x[d], (d,), (Rows(d), Rows(d))) for d in range(last - 1)),
                Axis(y[last - 1], (last - 1,), (Rows(last - 1), None)),
                Axis(y[last], (last,), (None, Rows(last))),
                Axis(x[last], (None,), (Rows(last), Rows(last - 1)), merge="sum"),
            ]
        case "conv" | "depthwise":
            ways = [_window(d, p, y) for d in range(2, last + 1)]
            if kind == "depthwise":
                return [Axis(y[1], (1,), (Rows(1),)), *ways]
            return [Axis(y[1], (1,), (None,)), Axis(x[1], (None,), (Rows(1),), merge="sum"), *ways]
        case "concat":
            return [_concat(d, reads, makes) if d == p["axis"] else _same(d, reads, makes) for d in range(last + 1)]
        case "slice":
            a = p["axis"]
            along = Axis(y[a], (a,), (Rows(a, p["step"], 1, p["start"], p["start"]),))
            return [along if d == a else _same(d, reads, makes) for d in range(last + 1)]
        case "merge":
            d = p["dim"]
            inner = x[d + 1]
            merged = Axis(y[d], (d,), (Rows(d, 1, inner),), inner) if x[d] > 1 else Axis(y[d], (d,), (Rows(d + 1),))
            return [*_moved(x, range(d), 0), merged, *_moved(x, range(d + 2, len(x)), -1)]
        case "split_dim":
            d, inner = p["dim"], y[p["dim"] + 1]
            outer = [Axis(y[d], (d,), (Rows(d, inner, 1, 0, inner - 1),))]
            inside = [Axis(inner, (d + 1,), (Rows(d),))] if y[d] == 1 else []
            return [*_moved(x, range(d), 0), *outer, *inside, *_moved(x, range(d + 1, len(x)), 1)]
        case "transpose":
            return [Axis(y[d], (d,), (Rows(p["perm"][d]),)) for d in range(last + 1)]
        case _:
            raise ValueError(kind)


def _window(d: int, p: Mapping[str, Any], y: Shape) -> Axis:
    lo = -p["pad"]
    return Axis(y[d], (d,), (Rows(d, p["stride"], 1, lo, lo + p["taps"][d - 2] - 1),))


def _concat(d: int, reads: Sequence[Shape], makes: Sequence[Shape]) -> Axis:
    """Along the dimension that is concatenated: each operand has its own stretch of rows."""
    rows, at = [], 0
    for x in reads:
        rows.append(Rows(d, 1, 1, -at, -at))
        at += x[d]
    return Axis(makes[0][d], (d,), tuple(rows))


def _moved(x: Shape, dims: range, by: int) -> list[Axis]:
    """Dimensions that a view leaves as they are, `by` places further on in its result."""
    return [Axis(x[d], (d + by,), (Rows(d),)) for d in dims]
