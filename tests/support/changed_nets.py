"""Small nets for the oracle of changed graphs: drawn, as JSON, and as lowtide's graphs of ONNX ops."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor
from support.changed_ops import Axis, NetOp, Shape, axes_of, shapes_made

ELEMENT = 4
"""Bytes of an element: all tensors are float32."""
OPSET = 20

_TYPES = {
    "unary": "Relu", "binary": "Add", "matmul": "MatMul", "product": "MatMul", "conv": "Conv", "depthwise": "Conv",
    "softmax": "Softmax", "reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean",
    "concat": "Concat", "slice": "Slice", "split": "Split", "merge": "Reshape", "split_dim": "Reshape",
    "transpose": "Transpose",
}  # fmt: skip


@dataclass(frozen=True)
class Net:
    """Ops in an order in which they can run; tensors are numbers. `inputs` come first, then what the ops make."""

    shapes: tuple[Shape, ...]
    inputs: tuple[int, ...]
    ops: tuple[NetOp, ...]
    outputs: tuple[int, ...]

    def bytes_of(self, t: int) -> int:
        """Of a tensor."""
        return ELEMENT * prod(self.shapes[t])

    def axes(self, op: NetOp) -> list[Axis]:
        """Ways to run an op in parts."""
        reads, makes = ([self.shapes[t] for t in ts] for ts in (op.reads, op.makes))
        return axes_of(op.kind, op.params, reads, makes)

    def to_json(self) -> dict[str, Any]:
        """The net as plain values."""
        return {
            "inputs": {str(t): list(self.shapes[t]) for t in self.inputs},
            "ops": [{"kind": o.kind, "reads": list(o.reads), "makes": list(o.makes), **o.params} for o in self.ops],
            "outputs": list(self.outputs),
        }


def from_json(value: dict[str, Any]) -> Net:
    """The net that `Net.to_json` wrote."""
    shapes = {int(t): tuple(shape) for t, shape in value["inputs"].items()}
    inputs, ops = tuple(shapes), []
    for given in value["ops"]:
        op = {**given}
        kind, reads, makes = op.pop("kind"), tuple(op.pop("reads")), tuple(op.pop("makes"))
        ops.append(NetOp(kind, reads, makes, op))
        shapes.update(zip(makes, shapes_made(kind, op, [shapes[t] for t in reads]), strict=True))
    return Net(tuple(shapes[t] for t in range(len(shapes))), inputs, tuple(ops), tuple(value["outputs"]))


def to_graph(net: Net, costs: Sequence[int] = ()) -> Graph:
    """The net as a graph of ONNX ops, with the net's numbers; constants come behind. `costs`: of ops."""
    outputs = set(net.outputs)
    tensors = []
    for t, shape in enumerate(net.shapes):
        kind = Kind.OUTPUT if t in outputs else Kind.INPUT if t in net.inputs else Kind.ACTIVATION
        tensors.append(Tensor(t, net.bytes_of(t), kind, f"t{t}", shape, "float32"))
    ops = []
    for i, op in enumerate(net.ops):
        constants, attributes = _spelled(op, [net.shapes[t] for t in op.reads], [net.shapes[t] for t in op.makes])
        given = list(op.reads)
        for shape, numbers in constants:
            value = None if numbers is None else struct.pack(f"<{len(numbers)}q", *numbers)
            size = ELEMENT * prod(shape) if value is None else len(value)
            dtype = "float32" if value is None else "int64"
            given.append(len(tensors))
            tensors.append(Tensor(len(tensors), size, Kind.CONSTANT, f"w{len(tensors)}", shape, dtype, value=value))
        operands = tuple(given)
        name = f"n{i}"
        cost = float(costs[i]) if costs else None
        ops.append(Op(i, operands, op.makes, name, _type(op), attributes=attributes, operands=operands, cost=cost))
    return Graph("drawn", tuple(tensors), tuple(ops), dialect="onnx", opset=OPSET)


def _type(op: NetOp) -> str:
    return str(op.params.get("type", _TYPES[op.kind]))


Constant = tuple[Shape, Sequence[int] | None]
"""Shape, and the whole numbers that it holds; None: weights."""


def _spelled(op: NetOp, reads: Sequence[Shape], makes: Sequence[Shape]) -> tuple[list[Constant], dict[str, Any]]:
    """Constants behind the operands, and attributes."""
    p, x, y = op.params, reads[0], makes[0]
    match op.kind:
        case "matmul":
            return [((x[-1], y[-1]), None)], {}
        case "conv" | "depthwise":
            taps, sides = p["taps"], len(x) - 2
            group = x[1] if op.kind == "depthwise" else 1
            window = {"kernel_shape": tuple(taps), "strides": (p["stride"],) * sides, "pads": (p["pad"],) * 2 * sides}
            return [((y[1], x[1] // group, *taps), None)], {**window, "group": group}
        case "softmax" | "concat":
            return [], {"axis": p["axis"]}
        case "reduce_sum" | "reduce_max" | "reduce_mean":
            return [_ints(p["axis"])], {"keepdims": 1}
        case "slice":
            return [_ints(p["start"]), _ints(p["end"]), _ints(p["axis"]), _ints(p["step"])], {}
        case "split":
            return [_ints(*p["sizes"])], {"axis": p["axis"]}
        case "merge" | "split_dim":
            return [_ints(*y)], {}
        case "transpose":
            return [], {"perm": tuple(p["perm"])}
        case _:
            return [], {}


def _ints(*values: int) -> Constant:
    return (len(values),), values


class Drawing:
    """A net as it is drawn, op by op; an op that does not fit is left out."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.shapes: list[Shape] = []
        self.inputs: list[int] = []
        self.ops: list[NetOp] = []

    def input(self, shape: Shape) -> int:
        """A graph input."""
        self.shapes.append(shape)
        self.inputs.append(len(self.shapes) - 1)
        return self.inputs[-1]

    def op(self, kind: str, *reads: int, **params: Any) -> list[int]:
        """Numbers of the results; an empty list where the op does not fit."""
        made = shapes_made(kind, params, [self.shapes[t] for t in reads])
        if not made or any(min(s) < 1 or prod(s) > MOST_ELEMENTS for s in made):
            return []
        first = len(self.shapes)
        self.shapes += made
        self.ops.append(NetOp(kind, reads, tuple(range(first, first + len(made))), params))
        return list(self.ops[-1].makes)

    def net(self) -> Net:
        """What was drawn; results that nobody reads are outputs, and sometimes one that is read."""
        read = {t for op in self.ops for t in op.reads}
        made = [t for op in self.ops for t in op.makes]
        outputs = [t for t in made if t not in read]
        if self.random.random() < 0.1:
            outputs.append(self.random.choice(made))
        return Net(tuple(self.shapes), tuple(self.inputs), tuple(self.ops), tuple(sorted(set(outputs))))


MOST_ELEMENTS = 1024


def drawn_net(random: Random, most: int = 6) -> Net:
    """A net of two ops to `most`: shapes that make cuts pay are common (`_PATTERNS`), and any op may stand anywhere."""
    d = Drawing(random)
    image = random.random() < 0.3
    rows = random.choice((2, 3, 4, 4, 6, 8))
    if image:
        at = d.input((1, random.choice((1, 2, 4)), rows, random.choice((1, 1, 2))))
    elif random.random() < 0.75:
        at = d.input((rows, random.choice((1, 2, 4, 8))))
    else:
        at = d.input((random.choice((1, 2)), rows, random.choice((2, 4))))
    count = random.randint(2, most)
    if random.random() < 0.6:
        _PATTERNS[random.randrange(len(_PATTERNS))](d, at)
    for _ in range(4 * most):
        if len(d.ops) >= count:
            break
        _any(d)
    return d.net() if d.ops else drawn_net(random, most)


def _recent(d: Drawing) -> int:
    return d.random.choice((len(d.shapes) - 1, len(d.shapes) - 1, d.random.randrange(len(d.shapes))))


def _any(d: Drawing) -> None:
    r, x = d.random, _recent(d)
    shape = d.shapes[x]
    _OPS[r.randrange(len(_OPS))](d, r, x, shape)


def _unary(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    d.op("unary", x, type=r.choice(("Relu", "Sigmoid", "Neg")))


def _binary(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    fits = [t for t, s in enumerate(d.shapes) if len(s) == len(shape) and shapes_made("binary", {}, [shape, s])]
    others = [t for t in fits if t != x] or fits
    d.op("binary", *r.sample((x, r.choice(others)), 2), type=r.choice(("Add", "Sub", "Mul")))


def _widened(d: Drawing, r: Random, x: int, shape: Shape) -> list[int]:
    """A product with weights, or a window: what changes how wide a tensor is."""
    if len(shape) == 4:
        if r.random() < 0.3:
            return d.op("depthwise", x, taps=[r.choice((1, 3)), 1], stride=r.choice((1, 1, 2)), pad=0)
        return d.op("conv", x, taps=[r.choice((1, 1, 2, 3)), 1], stride=r.choice((1, 1, 2)), pad=0,
                    channels=r.choice((1, 2, 4, 8, 16)))  # fmt: skip
    return d.op("matmul", x, columns=r.choice((1, 1, 2, 4, 8, 16, 24)))


def _widen(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    _widened(d, r, x, shape)


def _padded(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    if len(shape) == 4 and shape[3] == 1:  # a square window, so that paddings are equal
        return
    if len(shape) == 4:
        taps, kind = [3, 3], r.choice(("conv", "depthwise"))
        more = {"channels": r.choice((1, 2, 4, 8))} if kind == "conv" else {}
        d.op(kind, x, taps=taps, stride=r.choice((1, 1, 2)), pad=1, **more)


def _product(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    fits = [t for t, s in enumerate(d.shapes) if len(s) == len(shape) and s[:-2] == shape[:-2] and s[-2] == shape[-1]]
    if fits:
        d.op("product", x, r.choice(fits))


def _softmax(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    d.op("softmax", x, axis=_dim(r, shape))


def _reduce(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    d.op(r.choice(("reduce_sum", "reduce_max", "reduce_mean")), x, axis=_dim(r, shape))


def _dim(r: Random, shape: Shape) -> int:
    """A dimension, of more than one row if there is one."""
    long = [k for k, s in enumerate(shape) if s > 1]
    return r.choice(long or range(len(shape)))


def _concat(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    axis = _dim(r, shape)
    rest = (*shape[:axis], *shape[axis + 1 :])
    fits = [t for t, s in enumerate(d.shapes) if len(s) == len(shape) and (*s[:axis], *s[axis + 1 :]) == rest]
    d.op("concat", *r.sample([x, *(r.choice(fits) for _ in range(r.choice((1, 1, 2))))], 2), axis=axis)


def _slice(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    axis = _dim(r, shape)
    start = r.randrange(shape[axis])
    d.op("slice", x, axis=axis, start=start, end=r.randint(start + 1, shape[axis]), step=r.choice((1, 1, 1, 2)))


def _split(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    axis = _dim(r, shape)
    if shape[axis] > 1:
        first = r.randrange(1, shape[axis])
        d.op("split", x, axis=axis, sizes=[first, shape[axis] - first])


def _view(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    if r.random() < 0.5 and len(shape) > 2:
        d.op("merge", x, dim=r.randrange(len(shape) - 1))
    elif len(shape) < 4:
        dim = _dim(r, shape)
        d.op("split_dim", x, dim=dim, first=r.choice([f for f in (1, 2, 3, shape[dim]) if shape[dim] % f == 0]))


def _transpose(d: Drawing, r: Random, x: int, shape: Shape) -> None:
    d.op("transpose", x, perm=r.sample(range(len(shape)), len(shape)))


_OPS = (
    _unary, _unary, _binary, _binary, _binary, _widen, _widen, _widen, _padded, _product, _softmax, _softmax, _softmax,
    _reduce, _reduce, _concat, _slice, _split, _view, _view, _transpose,
)  # fmt: skip


def _all_and_along(d: Drawing, at: int) -> None:
    """A wide tensor goes through ops row by row; one reader of it needs all rows, another goes along with them."""
    r = d.random
    a = _widened(d, r, at, d.shapes[at])
    if not a:
        return
    rows = 2 if len(d.shapes[at]) == 4 else 0
    b = a[0]
    for _ in range(r.choice((1, 1, 2))):
        b = (d.op("softmax", b, axis=len(d.shapes[b]) - 1 if rows == 0 else 1) or [b])[0]
    every = r.choice(("softmax", "reduce_sum", "reduce_mean", "reduce_max"))
    c = (d.op(every, b, axis=rows) or [b])[0]
    e = d.op("binary", a[0], r.choice((b, b, c)), type=r.choice(("Add", "Sub", "Mul")))
    for t in (e[0] if e else b, c):
        if r.random() < 0.7:
            d.op("matmul", t, columns=1) if rows == 0 else d.op("conv", t, taps=[1, 1], stride=1, pad=0, channels=1)


def _two_ends(d: Drawing, at: int) -> None:
    """One tensor, wide ops behind it, two results or one sum of them."""
    r = d.random
    a = _widened(d, r, at, d.shapes[at])
    ends = []
    for _ in range(2):
        t = (a or [at])[0]
        for _ in range(r.choice((1, 1, 2))):
            made = _widened(d, r, t, d.shapes[t]) if r.random() < 0.7 else d.op("unary", t, type="Relu")
            t = (made or [t])[0]
        ends.append(t)
    if r.random() < 0.5:
        d.op("binary", *ends, type="Add")


def _squeeze(d: Drawing, at: int) -> None:
    """A tensor times its own mean or sum."""
    r = d.random
    a = (_widened(d, r, at, d.shapes[at]) or [at])[0]
    m = d.op(r.choice(("reduce_sum", "reduce_mean", "reduce_max")), a, axis=_dim(r, d.shapes[a]))
    if m and r.random() < 0.5:
        m = d.op("unary", m[0], type="Sigmoid")
    s = d.op("binary", a, (m or [a])[0], type="Mul")
    if s:
        _widened(d, r, s[0], d.shapes[s[0]])


def _gated(d: Drawing, at: int) -> None:
    """A wide tensor times what is made of its mean by an op that sees the whole mean: tiles of it may be handed on."""
    r = d.random
    a = (_widened(d, r, at, d.shapes[at]) or [at])[0]
    rows, columns = (2, 1) if len(d.shapes[a]) == 4 else (0, len(d.shapes[a]) - 1)
    m = d.op(r.choice(("reduce_sum", "reduce_mean")), a, axis=rows)[0]
    m = d.op("softmax", m, axis=columns)[0]
    s = d.op("binary", a, m, type="Mul")[0]
    d.op(r.choice(("reduce_sum", "reduce_max")), s, axis=r.choice((rows, columns)))


def _skip(d: Drawing, at: int) -> None:
    """A wide tensor is read early and late, with other wide ones between: to make it again needs fewer bytes."""
    r = d.random
    if len(d.shapes[at]) > 3:
        return
    wide = d.shapes[at][-1] * r.choice((2, 4))
    a = d.op("matmul", at, columns=wide)[0]
    b = d.op("matmul", a, columns=1)[0]
    for columns in r.choice(((wide * 2, 1), (wide, 1), (wide * 2, wide, 1))):
        b = (d.op("matmul", b, columns=columns) or [b])[0]
    d.op("binary", a, b, type="Mul")


def _narrow_wide_narrow(d: Drawing, at: int) -> None:
    """Wide in the middle: what a region of rows is for."""
    r, t = d.random, at
    for _ in range(r.choice((2, 3, 4))):
        t = (_widened(d, r, t, d.shapes[t]) or [t])[0]
        if r.random() < 0.4:
            t = (d.op("unary", t, type="Relu") or [t])[0]


def _attention(d: Drawing, at: int) -> None:
    """Scores of rows against rows, normalised, times what the rows hold."""
    r, shape = d.random, d.shapes[at]
    if len(shape) > 3:
        return
    keys = d.op("matmul", at, columns=r.choice((1, 2, 4)))
    last = len(shape) - 1
    turned = d.op("transpose", keys[0], perm=[*range(last - 1), last, last - 1])
    queries = (d.op("matmul", at, columns=d.shapes[keys[0]][-1]) if r.random() < 0.5 else keys)[0]
    scores = d.op("product", queries, turned[0])
    if scores:
        weights = d.op("softmax", scores[0], axis=r.choice((last, last, last - 1)))
        d.op("product", weights[0], r.choice((at, keys[0])))


def skipping_net(random: Random) -> Net:
    """A net of two ops to seven in which it may pay to run ops again; in every other one something is read through a
    view."""
    d = Drawing(random)
    at = d.input((random.choice((2, 3, 4)), random.choice((1, 2, 4))))
    _skip(d, at)
    if random.random() < 0.5:
        seen = random.randrange(1, len(d.shapes))
        _view(d, random, seen, d.shapes[seen])
        if random.random() < 0.6:
            _unary(d, random, len(d.shapes) - 1, d.shapes[-1])
    for _ in range(random.choice((0, 0, 1, 2))):
        _any(d)
    return d.net()


_PATTERNS = (
    *(_all_and_along,) * 5, *(_two_ends,) * 2, _squeeze, _gated, _attention, _skip, _narrow_wide_narrow,
)  # fmt: skip
