"""Small networks of 16 bits, and of filters that keep what they made, for what is written as C of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowtide_research.bench.tflite_net import out_size
from support.tflite_builder import SAME, Net, s


def sixteen(net: Net, shape: tuple[int, ...], scale: float = 0.001) -> int:
    """A tensor of 16 bits around 0."""
    return net.tensor(shape, "int16", scale=scale)


def _scale(net: Net, x: int) -> float:
    return float(net.graph.tensors[x].quantization.scale[0])


def _weights(net: Net, x: int, shape: tuple[int, ...], filters: int, axis: int, fan: int) -> tuple[list[int], float]:
    """Weights and a bias, a scale for each filter, and a scale that the result fits."""
    scales = [float(v) for v in net.rng.uniform(0.004, 0.012, filters)]
    w = net.tensor(shape, "int8", net.rng.integers(-127, 128, shape), scale=scales, axis=axis)
    bias = [_scale(net, x) * scale for scale in scales]
    b = net.tensor((filters,), "int64", net.rng.integers(-(10**6), 10**6, filters), scale=bias)
    return [x, w, b], _scale(net, x) * 0.012 * 73 * math.sqrt(fan)


def wide_conv(
    net: Net, x: int, channels: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1), *,
    depthwise: bool = False, activation: int = 0,
) -> int:  # fmt: skip
    """A convolution of 16 bits."""
    n, height, width, depth = net.shape(x)
    filters = depth * channels if depthwise else channels
    shape = (1, *kernel, filters) if depthwise else (filters, *kernel, depth)
    fan = math.prod(kernel) * (1 if depthwise else depth)
    inputs, scale = _weights(net, x, shape, filters, 3 if depthwise else 0, fan)
    size = [out_size(i, k, t, 1, SAME) for i, k, t in zip((height, width), kernel, stride, strict=True)]
    out = sixteen(net, (n, *size, filters), scale)
    o = s.DepthwiseConv2DOptionsT() if depthwise else s.Conv2DOptionsT()
    if depthwise:
        o.depthMultiplier = channels
    o.padding, o.strideH, o.strideW, o.dilationHFactor, o.dilationWFactor = SAME, *stride, 1, 1
    o.fusedActivationFunction = activation
    net.op("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", inputs, [out], o)
    return out


def wide_product(net: Net, x: int, outputs: int) -> int:
    """A product of 16 bits with one scale."""
    depth = net.shape(x)[-1]
    w = net.tensor((outputs, depth), "int8", net.rng.integers(-127, 128, (outputs, depth)), scale=0.01)
    bias = net.rng.integers(-(10**6), 10**6, outputs)
    b = net.tensor((outputs,), "int64", bias, scale=[0.01 * _scale(net, x)])
    out = sixteen(net, (*net.shape(x)[:-1], outputs), _scale(net, x) * 0.01 * 73 * math.sqrt(depth))
    net.op("FULLY_CONNECTED", [x, w, b], [out], s.FullyConnectedOptionsT())
    return out


def wide_net(seed: int = 0) -> Net:
    """All operators of 16 bits that C is written for, and 8 bits at one end."""
    net = Net(seed)
    x = net.tensor((1, 20, 9, 3), scale=0.05, zero=-4)
    wide = net.unary("QUANTIZE", x, s.QuantizeOptionsT(), dtype="int16", scale=0.001)
    a = wide_conv(net, wide, 8, (3, 3), activation=int(net.rng.integers(0, 2)))
    b = wide_conv(net, a, 1, (3, 3), depthwise=True)
    c = net.unary("QUANTIZE", wide_conv(net, b, 8, (1, 1)), s.QuantizeOptionsT(), dtype="int16", scale=0.004)
    total = sixteen(net, net.shape(c), 0.006)
    o = s.AddOptionsT()
    o.potScaleInt16 = False
    net.op("ADD", [a, c], [total], o)
    d = wide_conv(net, total, 2, (3, 2), (2, 2), depthwise=True)
    e = net.pool(d, "MAX_POOL_2D", (2, 2), (1, 1))
    e = net.pool(e, "AVERAGE_POOL_2D", (3, 2), (1, 1), SAME)
    rows, columns, channels = net.shape(e)[1:]
    flat = net.reshape(net.pool(e, "AVERAGE_POOL_2D", (rows, columns), (1, 1)), (1, channels))
    net.ends([x], [wide_product(net, flat, 5)])
    return net


def long_ends(seed: int = 0) -> Net:
    """Numbers of 16 bits handed over, of 32 bits as result, and a softmax between."""
    net = Net(seed)
    x = sixteen(net, (1, 12), 0.002)
    narrow = net.unary("QUANTIZE", x, s.QuantizeOptionsT(), dtype="int8", scale=0.3, zero=7)
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    y = net.unary("SOFTMAX", narrow, o, dtype="int16", scale=1 / 65536, zero=-32768)
    long = net.unary("QUANTIZE", y, s.QuantizeOptionsT(), dtype="int32", scale=1 / 32768)
    net.ends([x], [long])
    return net


def kept_net(seed: int = 0) -> Net:
    """Two filters over time, one after the other."""
    net = Net(seed)
    x = net.tensor((1, 10), scale=0.05, zero=-128)
    y = _svdf(net, x, units=6, rank=1, memory=5, zero=-50)
    net.ends([x], [_svdf(net, y, units=4, rank=2, memory=7, zero=0)])
    return net


def _svdf(net: Net, x: int, *, units: int, rank: int, memory: int, zero: int) -> int:
    filters, depth = units * rank, net.shape(x)[1]
    features = net.tensor((filters, depth), "int8", net.rng.integers(-127, 128, (filters, depth)), scale=0.01)
    times = net.tensor((filters, memory), "int8", net.rng.integers(-127, 128, (filters, memory)), scale=0.01)
    kept_scale = _scale(net, x) * 0.01 * 73 * 100 * math.sqrt(depth) / 80
    bias = net.rng.integers(-500, 500, units)
    b = net.tensor((units,), "int32", bias, scale=[0.01 * kept_scale])
    kept = net.tensor((1, filters * memory), "int8", scale=kept_scale, zero=zero, variable=True)
    out = net.tensor((1, units), scale=kept_scale * 0.01 * 73 * 60 * math.sqrt(memory * rank) / 80, zero=-9)
    o: Any = s.SVDFOptionsT()
    o.rank, o.fusedActivationFunction = rank, 1
    net.op("SVDF", [x, features, times, b, kept], [out], o)
    return out


def feeds(net: Net, count: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Random inputs of the network's own types."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        one = []
        for t in net.graph.inputs:
            kind = {s.TensorType.INT8: np.int8, s.TensorType.INT16: np.int16}[net.graph.tensors[t].type]
            limits = np.iinfo(kind)
            one.append(rng.integers(limits.min, limits.max + 1, net.shape(t)).astype(kind))
        result.append(one)
    return result


def _concat(net: Net, given: list[int], axis: int) -> int:
    shape = list(net.shape(given[0]))
    shape[axis] = sum(net.shape(t)[axis] for t in given)
    out = net.like(given[0], tuple(shape))
    o = s.ConcatenationOptionsT()
    o.axis = axis
    net.op("CONCATENATION", given, [out], o)
    return out


def _numbers(net: Net, values: Any) -> int:
    return net.tensor(np.shape(values), "int32", values, scale=0.0)


def copies_net(seed: int = 0) -> Net:
    """16 bits that are bounded, padded, cut, joined with each other and with a constant, averaged, made parts of 1."""
    net = Net(seed)
    x = sixteen(net, (1, 18, 6, 5), 0.003)
    a = wide_conv(net, x, 6, (3, 3))
    a = net.unary("RELU", a, dtype="int16", scale=_scale(net, a) * 0.8)
    a = net.unary("RELU6", a)
    padded = net.like(a, (1, 21, 8, 6))
    net.op("PAD", [a, _numbers(net, [[0, 0], [1, 2], [2, 0], [0, 0]])], [padded], s.PadOptionsT())
    part = net.like(a, (1, 18, 6, 4))
    net.op("SLICE", [padded, _numbers(net, [0, 2, 1, 1]), _numbers(net, [1, 18, 6, 4])], [part], s.SliceOptionsT())
    fixed = net.tensor((1, 18, 6, 2), "int16", net.rng.integers(-30000, 30000, (1, 18, 6, 2)))
    net.graph.tensors[fixed].quantization = net.graph.tensors[a].quantization
    joined = _concat(net, [part, fixed, a], 3)
    deep = wide_conv(net, joined, 7, (3, 1))
    mean = sixteen(net, (1, 1, 1, 7), _scale(net, deep) * 0.3)
    o = s.ReducerOptionsT()
    o.keepDims = True
    net.op("MEAN", [deep, _numbers(net, [1, 2])], [mean], o)
    net.ends([x], [_softmax(net, net.reshape(mean, (1, 7)), (0.3, 1.0, 4.0)[seed % 3])])
    return net


def softmax_net(seed: int = 0) -> Net:
    """Parts of 1 of 16 bits alone, over rows of numbers far from each other and near."""
    net = Net(seed)
    x = sixteen(net, (1, 5, 3, (2, 9, 30)[seed % 3]), (0.0001, 0.001, 0.01)[seed % 3])
    net.ends([x], [_softmax(net, x, 1.0)])
    return net


def _softmax(net: Net, x: int, beta: float) -> int:
    o = s.SoftmaxOptionsT()
    o.beta = beta
    return net.unary("SOFTMAX", x, o, dtype="int16", scale=1 / 32768)
