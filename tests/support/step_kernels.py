"""What the ops of a training step compute, in numpy: plain and slow, for small sizes.

The order in which a sum is added up hangs on nothing but what is summed, not on how many rows there are beside it: what
is cut between sums is equal to the bit.

Each takes its operands and the op's attributes; the op's result shape says what they do not. An op of several results
gives them one beside another, along a first dimension. Kinds are those of MAGIS's training steps, and those that
`lowtide.transform.siblings` puts in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = Any
Kernel = Callable[[Sequence[Array], Mapping[str, Any], tuple[int, ...]], Array]

_EPSILON = 1e-5


def _padded(x: Array, pad: int) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))


def _windows(x: Array, kernel: int, stride: int, pad: int) -> Array:
    """Windows of an image: (n, c, rows, columns, kernel, kernel)."""
    return sliding_window_view(_padded(x, pad), (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]


def _spread(windows: Array, shape: tuple[int, ...], kernel: int, stride: int, pad: int) -> Array:
    """Windows (n, c, rows, columns, kernel, kernel) added up where they lie in an image of that shape."""
    image = np.zeros((*shape[:2], shape[2] + 2 * pad, shape[3] + 2 * pad), dtype=windows.dtype)
    rows, columns = windows.shape[2:4]
    for i in range(kernel):
        for j in range(kernel):
            image[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride] += windows[..., i, j]
    return image[:, :, pad : pad + shape[2], pad : pad + shape[3]]


def _product(equation: str, *operands: Array) -> Array:
    """As einsum, but that each element of the result is one sum over elements that lie side by side."""
    reads, _, words = equation.partition("->")
    inner = "".join(sorted(set(reads) - set(words) - {","}))
    terms = [
        np.einsum(f"{own}->{''.join(sorted(own, key=(words + inner).index))}", x)
        for own, x in zip(reads.split(","), operands, strict=True)
    ]
    sizes = {w: d for own, x in zip(reads.split(","), operands, strict=True) for w, d in zip(own, x.shape, strict=True)}
    product: Array = 1.0
    for own, x in zip(reads.split(","), terms, strict=True):
        product = product * x.reshape([sizes[w] if w in own else 1 for w in words + inner])
    return np.ascontiguousarray(product).reshape([sizes[w] for w in words] + [-1]).sum(axis=-1)


def _conv2d(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    windows = _windows(v[0], v[1].shape[2], a["stride"], a["pad"])
    return _product("ncyxij,ocij->noyx", windows, v[1])


def _conv2d_input(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    windows = _product("noyx,ocij->ncyxij", v[0], v[1])
    return _spread(windows, shape, v[1].shape[2], a["stride"], a["pad"])


def _conv2d_weight(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    windows = _windows(v[0], shape[2], a["stride"], a["pad"])
    rows, columns = v[1].shape[2:]
    return _product("ncyxij,noyx->ocij", windows[:, :, :rows, :columns], v[1])


def _mean_pool(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    windows = np.ascontiguousarray(_windows(v[0], a["kernel"], a["stride"], a["pad"]))
    return windows.reshape(*windows.shape[:4], -1).mean(axis=-1)


def _mean_pool_backward(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    k = a["kernel"]
    windows = np.broadcast_to(v[0][..., None, None] / (k * k), (*v[0].shape, k, k))
    return _spread(windows, shape, k, a["stride"], a["pad"])


def _softmax(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    e = np.exp(v[0] - v[0].max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layer_norm(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    mean = v[0].mean(axis=-1, keepdims=True)
    deviation = np.sqrt(v[0].var(axis=-1, keepdims=True) + _EPSILON)
    return np.concatenate([(v[0] - mean) / deviation, mean, deviation], axis=-1)


def _layer_norm_backward(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    g, x, mean, deviation = v
    y = (x - mean) / deviation
    return (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / deviation


def _repeat_backward(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    t = a["times"]
    blocks = np.moveaxis(v[0].reshape(*shape[:2], shape[2], t, shape[3], t), 3, 4)
    return np.ascontiguousarray(blocks).reshape(*shape, t * t).sum(axis=-1)


def _unstack(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    parts = np.moveaxis(v[0], a["dimension"], 0)
    return np.transpose(parts, (0, *(d + 1 for d in a["permutation"])))


def _stack(v: Sequence[Array], a: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    return np.stack([np.transpose(x, a["permutation"]) for x in v], axis=a["dimension"])


KERNELS: Mapping[str, Kernel] = {
    "add": lambda v, a, s: v[0] + v[1],
    "sub": lambda v, a, s: v[0] - v[1],
    "mul": lambda v, a, s: v[0] * v[1],
    "square": lambda v, a, s: v[0] * v[0],
    "scale": lambda v, a, s: v[0] * a["factor"],
    "update": lambda v, a, s: v[0] + v[1] * a["factor"],
    "relu": lambda v, a, s: np.maximum(v[0], 0),
    "positive": lambda v, a, s: (v[0] > 0).astype(v[0].dtype),
    "sigmoid": lambda v, a, s: 1 / (1 + np.exp(-v[0])),
    "sigmoid_backward": lambda v, a, s: v[0] * v[1] * (1 - v[1]),
    "softmax": _softmax,
    "softmax_backward": lambda v, a, s: v[1] * (v[0] - (v[0] * v[1]).sum(axis=-1, keepdims=True)),
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "index_out": lambda v, a, s: v[0][..., a["first"] : a["first"] + s[-1]],
    "permute": lambda v, a, s: np.transpose(v[0], a["permutation"]),
    "reshape": lambda v, a, s: v[0].reshape(s),
    "einsum": lambda v, a, s: _product(a["equation"], *v),
    "concat": lambda v, a, s: np.concatenate(v, axis=1),
    "slice": lambda v, a, s: v[0][:, a["first"] : a["first"] + s[1]],
    "conv2d": _conv2d,
    "conv2d_input": _conv2d_input,
    "conv2d_weight": _conv2d_weight,
    "mean_pool": _mean_pool,
    "mean_pool_backward": _mean_pool_backward,
    "repeat": lambda v, a, s: v[0].repeat(a["times"], axis=2).repeat(a["times"], axis=3),
    "repeat_backward": _repeat_backward,
    "unstack": _unstack,
    "stack": _stack,
}
