"""Runs the steps of a plan with numbers, so that it is seen to compute what the net computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.changed_nets import Net
from support.changed_ops import Axis, NetOp
from support.changed_steps import Steps

Array = NDArray[np.float64]


def outputs(net: Net, steps: Steps, order: Sequence[int]) -> dict[int, Array]:
    """What the steps make of random inputs, for each output of the net."""
    random = np.random.default_rng(0)
    there = {t: random.standard_normal(net.shapes[t]) for t in net.inputs}
    weights = [_weights(net, op, random) for op in net.ops]
    for k in order:
        step = steps.steps[k]
        given = [there[t] for t in step.reads]
        match step.how:
            case ("run", v, rows):
                made = _run(net, net.ops[v], weights[v], given, rows)
            case ("concat", dim):
                made = [np.concatenate(given, axis=dim)]
            case ("slice", dim, first, stop):
                made = [given[0].take(range(first, stop), axis=dim)]
            case ("merge", "sum"):
                made = [given[0] + given[1]]
            case ("merge", "max"):
                made = [np.maximum(given[0], given[1])]
            case other:
                raise ValueError(other)
        for t, array in zip(step.makes, made, strict=True):
            assert 4 * array.size == steps.sizes[t], step.label
            there[t] = array
    return {t: there[t] for t in net.outputs}


def _weights(net: Net, op: NetOp, random: np.random.Generator) -> Array:
    x, y = net.shapes[op.reads[0]], net.shapes[op.makes[0]]
    match op.kind:
        case "matmul":
            return random.standard_normal((x[-1], y[-1]))
        case "conv":
            return random.standard_normal((y[1], x[1], *op.params["taps"]))
        case "depthwise":
            return random.standard_normal((y[1], 1, *op.params["taps"]))
        case _:
            return np.zeros(0)


def _run(net: Net, op: NetOp, w: Array, given: list[Array], rows: tuple[Axis, int, int] | None) -> list[Array]:
    """An op, or the rows of an axis of it."""
    p, x = op.params, given[0]
    axis, begin, end = rows if rows is not None else (None, 0, 0)
    made = None if axis is None else axis.made[0]
    match op.kind:
        case "unary":
            return [
                {"Relu": lambda: np.maximum(x, 0), "Neg": lambda: -x}.get(p["type"], lambda: 1 / (1 + np.exp(-x)))()
            ]
        case "binary":
            return [{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[p["type"]](x, given[1])]
        case "product":
            return [x @ given[1]]
        case "matmul":
            if axis is not None and made is None:
                w = w[begin:end]
            return [x @ (w[:, begin:end] if made == x.ndim - 1 else w)]
        case "softmax":
            power = np.exp(x - x.max(axis=p["axis"], keepdims=True))
            return [power / power.sum(axis=p["axis"], keepdims=True)]
        case "reduce_sum" | "reduce_max" | "reduce_mean":
            how: Any = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_mean": np.mean}[op.kind]
            return [how(x, axis=p["axis"], keepdims=True)]
        case "concat":
            return [np.concatenate(given, axis=p["axis"])]
        case "slice":
            if made is not None and made == p["axis"]:
                return [x[(slice(None),) * made + (slice(None, None, p["step"]),)]]
            return [x[(slice(None),) * p["axis"] + (slice(p["start"], p["end"], p["step"]),)]]
        case "split":
            return np.split(x, np.cumsum(p["sizes"])[:-1], axis=p["axis"])
        case "merge" | "split_dim":
            shape = list(net.shapes[op.makes[0]])
            if made is not None:
                shape[made] = end - begin
            return [x.reshape(shape)]
        case "transpose":
            return [x.transpose(p["perm"])]
        case _:
            return [_convolved(net, op, w, x, rows)]


def _convolved(net: Net, op: NetOp, w: Array, x: Array, rows: tuple[Axis, int, int] | None) -> Array:
    """A convolution tap by tap; a part of rows has padding only where the whole operand ends."""
    p, whole, made = op.params, net.shapes[op.reads[0]], net.shapes[op.makes[0]]
    cells, pads = [[0, size] for size in made[2:]], [[p["pad"], p["pad"]] for _ in made[2:]]
    if rows is not None:
        axis, begin, end = rows
        d = axis.made[0]
        if d == 1:
            w = w[begin:end]
        elif d is None:
            w = w[:, begin:end]
        else:
            cells[d - 2] = [begin, end]
            first, last = begin * p["stride"] - p["pad"], (end - 1) * p["stride"] - p["pad"] + p["taps"][d - 2]
            pads[d - 2] = [max(0, -first), max(0, last - whole[d])]
    x = np.pad(x, [(0, 0), (0, 0), *((a, b) for a, b in pads)])
    sizes = [b - a for a, b in cells]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    for i in range(p["taps"][0]):
        for j in range(p["taps"][1]):
            stop = [k + p["stride"] * (n - 1) + 1 for k, n in zip((i, j), sizes, strict=True)]
            seen = x[:, :, i : stop[0] : p["stride"], j : stop[1] : p["stride"]]
            result += (
                seen * w[None, :, 0, i, j, None, None]
                if op.kind == "depthwise"
                else np.einsum("nchw,oc->nohw", seen, w[:, :, i, j])
            )
    return result
