"""TFLite's convolutions, pools and resizing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from lowtide.ops.forms import Convolution, Form, Indexed, Pool, Reduction
from lowtide.ops.geometry import tflite_padded, tflite_window
from lowtide.ops.index import Index, Window, fit
from lowtide.ops.node import Node, NoForm, Row

_HEIGHT, _WIDTH, _CHANNEL = 1, 2, 3


def is_float(node: Node, position: int = 0) -> bool:
    """Whether an operand holds floating-point numbers."""
    tensor = node.operands[position]
    return tensor is not None and (tensor.dtype or "").startswith(("float", "bfloat"))


def summed(real: bool, node: Node) -> Literal["sum", "never"]:
    """Whether results of parts add up: of real numbers, before an activation that the kernel applies itself."""
    return "sum" if real and not node.attribute("fused_activation_function") else "never"


def _window(node: Node, taps: int, letter: str, size: int, rows: int) -> Window:
    window = tflite_window(node.op.attributes, letter, taps)
    if window is None:
        raise NoForm(f"taps, stride_{letter} or its dilation below 1")
    return tflite_padded(window, node.op.attributes, size, rows)


def _windows(node: Node, data: int, taps: tuple[int, int]) -> tuple[tuple[int, Window], ...]:
    """Geometry of height and width; a transposed convolution's is that of the convolution from its result."""
    size, rows = node.shape(data), node.result()
    if node.type == "TRANSPOSE_CONV":
        size, rows = rows, size
    return tuple(
        (d, _window(node, tap, letter, size[d], rows[d]))
        for d, tap, letter in zip((_HEIGHT, _WIDTH), taps, "hw", strict=True)
    )


def _convolution(node: Node) -> Form:
    """Weights of shape (out, height, width, in / groups)."""
    weights = node.shape(1)
    if node.rank() != 4 or len(weights) != 4 or not weights[3] or node.shape()[_CHANNEL] % weights[3]:
        raise NoForm("weights that do not fit the data")
    real = is_float(node)
    return Convolution(
        _windows(node, 0, (weights[1], weights[2])),
        channel=_CHANNEL,
        filters=0,
        depth=3,
        groups=node.shape()[_CHANNEL] // weights[3],
        bias=2 if node.given(2) else None,
        exact="kernel" if real else "bits",
        merged=summed(real, node),
    )


def _depthwise(node: Node) -> Form:
    """Weights of shape (1, height, width, out): so many output channels in a row as `depth_multiplier` says."""
    weights = node.shape(1)
    if node.rank() != 4 or len(weights) != 4:
        raise NoForm("weights that do not fit the data")
    return Convolution(
        _windows(node, 0, (weights[1], weights[2])),
        channel=_CHANNEL,
        filters=3,
        depth=3,
        groups=node.shape()[_CHANNEL],
        bias=2 if node.given(2) else None,
        exact="kernel" if is_float(node) else "bits",
        merged=summed(is_float(node), node),
    )


def _transposed(node: Node) -> Form:
    """Operands: shape of the result, weights (out, height, width, in), data, bias."""
    weights = node.shape(1)
    real = is_float(node, 2)
    return Convolution(
        _windows(node, 2, (weights[1], weights[2])),
        channel=_CHANNEL,
        filters=0,
        depth=3,
        data=2,
        weights=1,
        bias=3 if node.given(3) else None,
        literal=(0,),
        transposed=True,
        exact="kernel" if real else "bits",
        merged=summed(real, node),
    )


def _pool(node: Node) -> Form:
    taps = int(node.attribute("filter_height", 0)), int(node.attribute("filter_width", 0))
    if min(taps) < 1:
        raise NoForm(f"a window of {taps[0]} by {taps[1]}")
    windows = _windows(node, 0, taps)
    if node.type == "AVERAGE_POOL_2D" and all(_sees_all(w, node.shape()[d], node.result()[d]) for d, w in windows):
        return Reduction((_HEIGHT, _WIDTH), True, "sum", "never")
    return Pool(windows)


def _sees_all(window: Window, size: int, rows: int) -> bool:
    """Whether there is one row, and it is of all rows of the operand."""
    return rows == 1 and window.before >= 0 and window.taps - window.before >= size


def _response(node: Node) -> Form:
    """A window of channels."""
    radius = int(node.attribute("radius", 0))
    return Pool(((node.rank() - 1, Window(2 * radius + 1, before=radius)),))


def _resize(node: Node) -> Form:
    nearest = node.type == "RESIZE_NEAREST_NEIGHBOR"
    aligned, half = bool(node.attribute("align_corners")), bool(node.attribute("half_pixel_centers"))
    indices = [Index(d) for d in range(node.rank())]
    for d in (_HEIGHT, _WIDTH):
        indices[d] = _resized(d, node.shape()[d], node.result()[d], nearest, aligned, half)
    return Indexed("resample", tuple(indices), (1,), "bits" if nearest else "kernel", 0 if nearest else 8)


def _resized(d: int, size: int, rows: int, nearest: bool, aligned: bool, half: bool) -> Index:
    """Rows that each row of the result mixes; kernels compute places in single precision, so that a row on the edge
    of two is given both."""
    if size == rows:
        return Index(d)
    if not size or not rows:
        raise NoForm("nothing to resize")
    scale = Fraction(size - 1, rows - 1) if aligned and rows > 1 else Fraction(size, rows)
    shift = Fraction(1, 2) if half else Fraction(0)

    def mixed(i: int) -> tuple[int, int]:
        at = (i + shift) * scale
        if nearest:
            place = at + Fraction(1, 2) if aligned else at
            first = last = math.floor(place)
            if place == first and (aligned or half or scale.denominator > 1) and place > 0:
                first -= 1
        else:
            first = math.floor(at - shift)
            last = first if at - shift == first else first + 1
        first, last = (min(max(row, 0), size - 1) for row in (first, last))
        return first, last + 1

    return fit(d, [mixed(i) for i in range(rows)], scale.numerator, scale.denominator)


ROWS: dict[str, Row] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed,
    "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D": _pool,
    "LOCAL_RESPONSE_NORMALIZATION": _response,
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": _resize,
}
