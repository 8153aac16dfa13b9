"""Models of one operator each, of random shape: what the overlap rules of TFLM's kernels are tried on.

A kind has a name (the operator's) and a variant (types, and what is special). Shapes are drawn to be awkward: sizes of
1, strides above the kernel, windows that lie in the padding, groups, several batches, broadcast operands.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from lowtide_research.bench.tflite_net import SAME, VALID, Net, out_size, s

Make = Callable[[random.Random, Net], tuple[list[int], int]]
"""Adds one operator of random shape to a net: its inputs and its output."""

_BINARY = {
    "ADD": "AddOptionsT", "SUB": "SubOptionsT", "MUL": "MulOptionsT", "SQUARED_DIFFERENCE": "SquaredDifferenceOptionsT",
    "MAXIMUM": "MaximumMinimumOptionsT", "MINIMUM": "MaximumMinimumOptionsT", "DIV": "DivOptionsT",
    "FLOOR_DIV": "FloorDivOptionsT", "FLOOR_MOD": "FloorModOptionsT", "PRELU": "",
}  # fmt: skip
_BINARY_TYPES = {
    "ADD": ("int8", "int16", "float32"), "SUB": ("int8", "int16", "float32"), "MUL": ("int8", "int16", "float32"),
    "SQUARED_DIFFERENCE": ("int8", "int16", "float32"), "MAXIMUM": ("int8", "int16", "float32"),
    "MINIMUM": ("int8", "int16", "float32"), "DIV": ("float32",), "FLOOR_DIV": ("float32",),
    "FLOOR_MOD": ("float32",), "PRELU": ("int8", "float32"),
}  # fmt: skip
_COMPARED = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_UNARY_FLOAT = (
    "ABS", "SIN", "COS", "LOG", "SQRT", "RSQRT", "SQUARE", "NEG", "CEIL", "FLOOR", "ROUND", "EXP", "RELU", "RELU6",
    "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION",
)  # fmt: skip
_UNARY_INT8 = (
    "RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "SOFTMAX", "ABS", "L2_NORMALIZATION",
)  # fmt: skip
_UNARY_INT16 = ("RELU", "RELU6", "LOGISTIC", "TANH", "LEAKY_RELU", "SOFTMAX")
_SCALES = {
    ("LOGISTIC", "int8"): (1 / 256, -128), ("SOFTMAX", "int8"): (1 / 256, -128), ("TANH", "int8"): (1 / 128, 0),
    ("L2_NORMALIZATION", "int8"): (1 / 128, 0), ("LOGISTIC", "int16"): (1 / 32768, 0),
    ("TANH", "int16"): (1 / 32768, 0), ("SOFTMAX", "int16"): (1 / 32768, 0),
}  # fmt: skip
_CASTS = (("int8", "int8"), ("int8", "float32"), ("float32", "int8"), ("int16", "int8"), ("float32", "float32"))
_QUANTISED = (
    ("int8", "int8"), ("float32", "int8"), ("int16", "int8"), ("int8", "int16"), ("int16", "int16"), ("int32", "int8"),
    ("int8", "int32"),
)  # fmt: skip


def kinds() -> dict[tuple[str, str], Make]:
    """Every kind of operator that is tried, by name and variant."""
    result: dict[tuple[str, str], Make] = {}
    for kind, types in _BINARY_TYPES.items():
        for dtype in types:
            if kind != "PRELU":
                result[kind, dtype] = _binary(kind, dtype)
            result[kind, f"{dtype} broadcast"] = _broadcast(kind, dtype)
    for kind in _COMPARED:
        result[kind, "bool from int8"] = _compared(kind)
    for kind in ("LOGICAL_AND", "LOGICAL_OR"):
        result[kind, "bool"] = _binary(kind, "bool")
    for dtype, listed in (("int8", _UNARY_INT8), ("int16", _UNARY_INT16), ("float32", _UNARY_FLOAT)):
        for kind in listed:
            result[kind, dtype] = _unary(kind, dtype)
    for dtype in ("int8", "int16", "float32"):
        result["CONV_2D", dtype] = _conv(dtype)
        result["DEPTHWISE_CONV_2D", dtype] = _conv(dtype, deep=True)
        for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            result[kind, dtype] = _pool(kind, dtype)
        result["FULLY_CONNECTED", dtype] = _fully_connected(dtype)
        result["CONCATENATION", dtype] = _concatenation(dtype)
        result["BATCH_MATMUL", dtype] = _batch_matmul(dtype)
    for dtype in ("int8", "float32"):
        result["ADD_N", dtype] = _add_n(dtype)
        result["SELECT_V2", dtype] = _select(dtype)
        result["PACK", dtype] = _pack(dtype)
        result["RESIZE_BILINEAR", dtype] = _resize("RESIZE_BILINEAR", dtype)
        for kind, make in _MOVES.items():
            result[kind, dtype] = make(kind, dtype)
    result["CONV_2D", "int8, int4 filter"] = _conv("int8", nibbles=True)
    result["DEPTHWISE_CONV_2D", "int8, int4 filter"] = _conv("int8", deep=True, nibbles=True)
    result["CONV_2D", "int8 groups"] = _conv("int8", groups=True)
    result["CONV_2D", "float32 groups"] = _conv("float32", groups=True)
    result["L2_POOL_2D", "float32"] = _pool("L2_POOL_2D", "float32")
    result["MEAN", "float32"] = _mean
    result["TRANSPOSE_CONV", "int8"] = _transpose_conv("int8")
    result["TRANSPOSE_CONV", "int16"] = _transpose_conv("int16")
    for source, output in _QUANTISED:
        result["QUANTIZE", f"{output} from {source}"] = _typed("QUANTIZE", source, output)
    for source, output in _CASTS:
        result["CAST", f"{output} from {source}"] = _typed("CAST", source, output)
    result["DEQUANTIZE", "float32 from int8"] = _typed("DEQUANTIZE", "int8", "float32")
    result["LOGICAL_NOT", "bool"] = _typed("LOGICAL_NOT", "bool", "bool")
    result["SOFTMAX", "int16 from int8"] = _softmax_wide
    return result


def _shape(draw: random.Random) -> tuple[int, ...]:
    rank = draw.choice((1, 2, 3, 4, 4, 4))
    return (draw.choice((1, 1, 2)), draw.randint(1, 9), draw.randint(1, 9), draw.randint(1, 8))[-rank:]


def _image(draw: random.Random, most: int = 12) -> tuple[int, int, int, int]:
    return draw.choice((1, 1, 2, 3)), draw.randint(1, most), draw.randint(1, most), draw.randint(1, 6)


def _integers(net: Net, *values: int) -> int:
    """A constant vector of indices."""
    return net.tensor((len(values),), "int32", values, scale=0.0)


def _binary(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        a = net.tensor(_shape(draw), dtype)
        b = a if draw.random() < 0.05 else net.like(a)
        out = net.like(a)
        net.op(kind, [a, b], [out], getattr(s, _BINARY[kind])() if kind in _BINARY else None)
        return sorted({a, b}), out

    return make


def _broadcast(kind: str, dtype: str) -> Make:
    """One operand of the output's shape, the other with some sizes of 1, or fewer dimensions; often a constant."""

    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        shape = _shape(draw)
        a = net.tensor(shape, dtype)
        kept = [d if draw.random() < 0.5 else 1 for d in shape]
        other = tuple(kept) if kind == "PRELU" else tuple(kept[draw.randrange(len(kept)) :])
        constant = net.rng.integers(1, 100, other) if draw.random() < 0.5 else None
        b = net.tensor(other, dtype, constant)
        out = net.like(a)
        pair = [b, a] if kind != "PRELU" and draw.random() < 0.4 else [a, b]
        net.op(kind, pair, [out], getattr(s, _BINARY[kind])() if _BINARY[kind] else None)
        return [a] if constant is not None else [a, b], out

    return make


def _compared(kind: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        a = net.tensor(_shape(draw))
        b = net.like(a) if draw.random() < 0.5 else net.tensor((1,))
        out = net.tensor(net.shape(a), "bool")
        net.op(kind, [a, b], [out])
        return [a, b], out

    return make


def _add_n(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        a = net.tensor(_shape(draw), dtype)
        inputs = [a, *(net.like(a) for _ in range(draw.randint(1, 3)))]
        out = net.like(a)
        net.op("ADD_N", inputs, [out], s.AddNOptionsT())
        return inputs, out

    return make


def _select(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        condition = net.tensor(_shape(draw), "bool")
        a = net.tensor(net.shape(condition), dtype)
        b, out = net.like(a), net.like(a)
        net.op("SELECT_V2", [condition, a, b], [out], s.SelectV2OptionsT())
        return [condition, a, b], out

    return make


def _unary(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        scale = 1 / 4096 if dtype == "int16" and kind in ("LOGISTIC", "TANH") else 0.05
        x = net.tensor(_shape(draw), dtype, scale=scale)
        options: Any = None
        if kind == "SOFTMAX":
            options = s.SoftmaxOptionsT()
            options.beta = 1.0
        elif kind == "LEAKY_RELU":
            options = s.LeakyReluOptionsT()
            options.alpha = 0.2
        elif kind == "L2_NORMALIZATION":
            options = s.L2NormOptionsT()
        if (kind, dtype) in _SCALES:
            scale, zero = _SCALES[kind, dtype]
            return [x], net.unary(kind, x, options, dtype=dtype, scale=scale, zero=zero)
        return [x], net.unary(kind, x, options)

    return make


def _softmax_wide(draw: random.Random, net: Net) -> tuple[list[int], int]:
    x = net.tensor(_shape(draw))
    out = net.tensor(net.shape(x), "int16", scale=1 / 65536, zero=-32768)
    options = s.SoftmaxOptionsT()
    options.beta = 1.0
    net.op("SOFTMAX", [x], [out], options)
    return [x], out


def _typed(kind: str, source: str, output: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_shape(draw), source)
        named = {"QUANTIZE": "Quantize", "DEQUANTIZE": "Dequantize", "CAST": "Cast", "LOGICAL_NOT": "LogicalNot"}
        options = getattr(s, f"{named[kind]}OptionsT")()
        out = net.tensor(net.shape(x), output, scale=0.03, zero=5 if output == "int8" else 0)
        net.op(kind, [x], [out], options)
        return [x], out

    return make


def _window(draw: random.Random, size: tuple[int, int], dilated: bool) -> tuple[Any, Any, Any, int]:
    """Kernel, stride, dilation and padding that fit an image; strides above the kernel and windows beyond the edge."""
    padding = draw.choice((SAME, VALID))
    stride = (draw.randint(1, 4), draw.randint(1, 4))
    kernel = (draw.randint(1, 4), draw.randint(1, 4))
    dilation = (draw.randint(1, 3), draw.randint(1, 3)) if dilated and draw.random() < 0.4 else (1, 1)
    if padding == VALID:
        kernel = tuple(min(k, (n - 1) // d + 1) for k, n, d in zip(kernel, size, dilation, strict=True))
    return kernel, stride, dilation, padding


def _conv(dtype: str, *, deep: bool = False, nibbles: bool = False, groups: bool = False) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        n, height, width, depth = _image(draw)
        many = draw.randint(2, 3) if groups else 1
        depth *= many
        x = net.tensor((n, height, width, depth), dtype)
        kernel, stride, dilation, padding = _window(draw, (height, width), True)
        channels = depth * draw.randint(1, 3) if deep else many * draw.randint(1, 8)
        shape = (1, *kernel, channels) if deep else (channels, *kernel, depth // many)
        quantised = dtype != "float32"
        if nibbles:
            values = net.rng.integers(0, 256, -(-prod(shape) // 2))
        else:
            values = net.rng.integers(-127, 128, shape) if quantised else net.rng.standard_normal(shape)
        scales = [0.01 * (1 + i % 3) for i in range(channels)] if draw.random() < 0.7 else [0.01]
        kind = "int4" if nibbles else "int8" if quantised else dtype
        w = net.tensor(shape, kind, values, scale=scales, axis=3 if deep else 0)
        inputs = [x, w]
        if deep or draw.random() < 0.7:
            bias = {"int8": "int32", "int16": "int64"}.get(dtype, dtype)
            inputs.append(net.tensor((channels,), bias, np.arange(channels) - 2, scale=[0.05 * v for v in scales]))
        size = [out_size(*v, padding) for v in zip((height, width), kernel, stride, dilation, strict=True)]
        out = net.tensor((n, *size, channels), dtype, scale=0.1)
        o = s.DepthwiseConv2DOptionsT() if deep else s.Conv2DOptionsT()
        if deep:
            o.depthMultiplier = channels // depth
        o.padding, o.strideH, o.strideW = padding, *stride
        o.dilationHFactor, o.dilationWFactor = dilation
        net.op("DEPTHWISE_CONV_2D" if deep else "CONV_2D", inputs, [out], o)
        return [x], out

    return make


def _pool(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_image(draw), dtype)
        kernel, stride, _, padding = _window(draw, net.shape(x)[1:3], False)  # pyright: ignore[reportArgumentType]
        return [x], net.pool(x, kind, kernel, stride, padding)

    return make


def _fully_connected(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        batches, depth, units = draw.randint(1, 8), draw.randint(1, 12), draw.randint(1, 12)
        split = [(batches, depth), (1, batches, depth), (batches, 1, 1, depth)]
        given = draw.choice(split)
        x = net.tensor(given, dtype)
        quantised = dtype != "float32"
        values = net.rng.integers(-127, 128, (units, depth)) if quantised else net.rng.standard_normal((units, depth))
        each = draw.random() < 0.4 and dtype == "int8"
        scales = [0.01 * (1 + i % 3) for i in range(units)] if each else [0.01]
        w = net.tensor((units, depth), "int8" if quantised else dtype, values, scale=scales)
        bias = {"int8": "int32", "int16": "int64"}.get(dtype, dtype)
        b = net.tensor((units,), bias, np.zeros(units), scale=[0.05 * v for v in scales])
        out = net.tensor((*given[:-1], units) if draw.random() < 0.5 else (batches, units), dtype, scale=0.1)
        o = s.FullyConnectedOptionsT()
        o.keepNumDims = len(net.shape(out)) == len(given)
        net.op("FULLY_CONNECTED", [x, w, b], [out], o)
        return [x], out

    return make


def _batch_matmul(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        front = tuple(draw.randint(1, 3) for _ in range(draw.randint(0, 2)))
        rows, depth, columns = draw.randint(1, 6), draw.randint(1, 6), draw.randint(1, 6)
        o = s.BatchMatMulOptionsT()
        o.adjY = draw.random() < 0.5
        x = net.tensor((*front, rows, depth), dtype)
        behind = tuple(d if draw.random() < 0.7 else 1 for d in front)
        y = net.tensor((*behind, *((columns, depth) if o.adjY else (depth, columns))), dtype)
        out = net.tensor((*front, rows, columns), dtype, scale=0.2)
        net.op("BATCH_MATMUL", [x, y], [out], o)
        return [x, y], out

    return make


def _concatenation(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        shape = [draw.choice((1, 1, 2)), draw.randint(1, 6), draw.randint(2, 6), draw.randint(2, 8)]
        options = s.ConcatenationOptionsT()
        options.axis = draw.choice((0, 1, 2, 3, -1))
        sizes = [draw.randint(1, 6) for _ in range(draw.randint(2, 4))]
        inputs: list[int] = []
        constants: set[int] = set()
        for size in sizes:
            shape[options.axis] = size
            held = draw.random() < 0.15 and len(constants) + 1 < len(sizes)
            inputs.append(net.tensor(tuple(shape), dtype, np.ones(shape) if held else None))
            if held:
                constants.add(inputs[-1])
        shape[options.axis] = sum(sizes)
        out = net.like(inputs[0], tuple(shape))
        net.op("CONCATENATION", inputs, [out], options)
        return [t for t in inputs if t not in constants], out

    return make


def _pack(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        shape = _shape(draw)[-3:]
        a = net.tensor(shape, dtype)
        inputs = [a, *(net.like(a) for _ in range(draw.randint(1, 3)))]
        o = s.PackOptionsT()
        o.axis, o.valuesCount = draw.choice((0, 0, -1 - len(shape))), len(inputs)
        out = net.like(a, (len(inputs), *shape))
        net.op("PACK", inputs, [out], o)
        return inputs, out

    return make


def _mean(draw: random.Random, net: Net) -> tuple[list[int], int]:
    x = net.tensor(_image(draw), "float32")
    o = s.ReducerOptionsT()
    o.keepDims = True
    out = net.tensor((net.shape(x)[0], 1, 1, net.shape(x)[3]), "float32")
    net.op("MEAN", [x, _integers(net, *draw.choice(((1, 2), (2, 1))))], [out], o)
    return [x], out


def _resize(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_image(draw, 8), dtype)
        n, height, width, depth = net.shape(x)
        by = draw.choice((1, 2, 2, 3))
        size = (height * by, width * by) if draw.random() < 0.5 else (draw.randint(1, 16), draw.randint(1, 16))
        out = net.like(x, (n, *size, depth))
        o = s.ResizeBilinearOptionsT() if kind == "RESIZE_BILINEAR" else s.ResizeNearestNeighborOptionsT()
        o.alignCorners, o.halfPixelCenters = draw.choice(((False, False), (False, True), (True, False)))
        net.op(kind, [x, _integers(net, *size)], [out], o)
        return [x], out

    return make


def _transpose_conv(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        n, height, width, depth = _image(draw, 6)
        x = net.tensor((n, height, width, depth), dtype)
        kernel, stride = (draw.randint(1, 3), draw.randint(1, 3)), (draw.randint(1, 3), draw.randint(1, 3))
        padding, maps = draw.choice((SAME, VALID)), draw.randint(1, 5)
        sides = zip((height, width), kernel, stride, strict=True)
        size = [i * t if padding == SAME else (i - 1) * t + k for i, k, t in sides]
        shape = (maps, *kernel, depth)
        w = net.tensor(shape, "int8", net.rng.integers(-127, 128, shape), scale=[0.01] * maps)
        b = net.tensor((maps,), "int32" if dtype == "int8" else "int64", np.arange(maps), scale=[0.0005] * maps)
        out = net.tensor((n, *size, maps), dtype, scale=0.1)
        o = s.TransposeConvOptionsT()
        o.padding, o.strideH, o.strideW = padding, *stride
        net.op("TRANSPOSE_CONV", [_integers(net, n, *size, maps), w, x, b], [out], o)
        return [x], out

    return make


def _pad(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_shape(draw), dtype)
        pads = [(draw.choice((0, 0, 1, 2)), draw.choice((0, 1, 3))) for _ in net.shape(x)]
        paddings = net.tensor((len(pads), 2), "int32", pads, scale=0.0)
        out = net.like(x, tuple(d + a + b for d, (a, b) in zip(net.shape(x), pads, strict=True)))
        value = [net.tensor((), dtype, 3)] if kind == "PADV2" else []
        net.op(kind, [x, paddings, *value], [out], s.PadV2OptionsT() if value else s.PadOptionsT())
        return [x], out

    return make


def _slice(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_shape(draw), dtype)
        at = [draw.randrange(d) if draw.random() < 0.6 else 0 for d in net.shape(x)]
        counts = [draw.randint(1, d - a) for d, a in zip(net.shape(x), at, strict=True)]
        out = net.like(x, tuple(counts))
        net.op(kind, [x, _integers(net, *at), _integers(net, *counts)], [out], s.SliceOptionsT())
        return [x], out

    return make


def _strided_slice(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_shape(draw), dtype)
        o = s.StridedSliceOptionsT()
        begin, end, strides, shape = [], [], [], []
        for axis, size in enumerate(net.shape(x)):
            at, step = draw.randrange(size) if draw.random() < 0.5 else 0, draw.choice((1, 1, 2, 3))
            stop = draw.randint(at + 1, size)
            if draw.random() < 0.3:
                o.beginMask |= 1 << axis
                at = 0
            if draw.random() < 0.3:
                o.endMask |= 1 << axis
                stop = size
            shrunk = draw.random() < 0.2
            o.shrinkAxisMask |= shrunk << axis
            begin.append(at - size if draw.random() < 0.2 else at)
            end.append(stop)
            strides.append(step)
            if not shrunk:
                shape.append(-(-(stop - at) // step))
        out = net.like(x, tuple(shape))
        net.op(kind, [x, *(_integers(net, *v) for v in (begin, end, strides))], [out], o)
        return [x], out

    return make


def _transpose(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        shape = tuple(1 if draw.random() < 0.3 else d for d in _shape(draw))
        x = net.tensor(shape, dtype)
        order = list(range(len(shape)))
        if draw.random() < 0.5:
            draw.shuffle(order)
        elif len(order) > 1:
            order[-1], order[-2] = order[-2], order[-1]
        out = net.like(x, tuple(shape[axis] for axis in order))
        net.op(kind, [x, _integers(net, *order)], [out], s.TransposeOptionsT())
        return [x], out

    return make


def _space_and_depth(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        block = draw.choice((1, 2, 2, 3))
        n, height, width, depth = _image(draw, 5)
        wide, deep = (n, height * block, width * block, depth), (n, height, width, depth * block**2)
        source, output = (wide, deep) if kind == "SPACE_TO_DEPTH" else (deep, wide)
        x = net.tensor(source, dtype)
        out = net.like(x, output)
        o = s.SpaceToDepthOptionsT() if kind == "SPACE_TO_DEPTH" else s.DepthToSpaceOptionsT()
        o.blockSize = block
        net.op(kind, [x], [out], o)
        return [x], out

    return make


def _space_and_batch(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        n, height, width, depth = _image(draw, 5)
        block = (draw.randint(1, 3), draw.randint(1, 3))
        pads = [draw.choice((0, 0, 1, 2)) for _ in range(4)]
        whole = (height * block[0], width * block[1])
        inside = (whole[0] - pads[0] - pads[1], whole[1] - pads[2] - pads[3])
        if min(inside) < 1:
            pads, inside = [0] * 4, whole
        wide, deep = (n, *inside, depth), (n * block[0] * block[1], height, width, depth)
        to_batch = kind == "SPACE_TO_BATCH_ND"
        x = net.tensor(wide if to_batch else deep, dtype)
        out = net.like(x, deep if to_batch else wide)
        constants = [_integers(net, *block), net.tensor((2, 2), "int32", pads, scale=0.0)]
        net.op(kind, [x, *constants], [out], s.SpaceToBatchNDOptionsT() if to_batch else s.BatchToSpaceNDOptionsT())
        return [x], out

    return make


_MOVES: dict[str, Callable[[str, str], Make]] = {
    "PAD": _pad, "PADV2": _pad, "SLICE": _slice, "STRIDED_SLICE": _strided_slice, "TRANSPOSE": _transpose,
    "SPACE_TO_DEPTH": _space_and_depth, "DEPTH_TO_SPACE": _space_and_depth, "SPACE_TO_BATCH_ND": _space_and_batch,
    "BATCH_TO_SPACE_ND": _space_and_batch, "RESIZE_NEAREST_NEIGHBOR": _resize,
}  # fmt: skip
