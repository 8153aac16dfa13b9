"""Small .tflite files, made with the schema's object API: for benchmarks and for tests.

Importing this needs ai-edge-litert and flatbuffers (extra `tflite`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as _schema

from lowtide.ops.geometry import tflite_rows
from lowtide.ops.index import Window

s: Any = _schema
SAME, VALID = 0, 1
_TYPES = {
    "int4": (s.TensorType.INT4, np.uint8),
    "int8": (s.TensorType.INT8, np.int8),
    "int16": (s.TensorType.INT16, np.int16),
    "int32": (s.TensorType.INT32, np.int32),
    "int64": (s.TensorType.INT64, np.int64),
    "uint32": (s.TensorType.UINT32, np.uint32),
    "uint64": (s.TensorType.UINT64, np.uint64),
    "float32": (s.TensorType.FLOAT32, np.float32),
    "bool": (s.TensorType.BOOL, np.bool_),
    "resource": (s.TensorType.RESOURCE, np.int32),
}


class Net:
    """A model under construction; tensors and operators are numbered as they come, in one subgraph at a time."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = s.ModelT()
        self.model.version, self.model.description = 3, "test"
        self.model.operatorCodes, self.model.subgraphs, self.model.metadata = [], [], []
        self.model.buffers = [s.BufferT()]
        self.codes: dict[str, int] = {}
        self.subgraph()

    def subgraph(self) -> int:
        """Begin a further subgraph; its index."""
        self.graph = s.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        return len(self.model.subgraphs) - 1

    def tensor(
        self,
        shape: tuple[int, ...],
        dtype: str = "int8",
        data: Any = None,
        *,
        scale: float | list[float] = 0.05,
        zero: int = 0,
        axis: int = 0,
        variable: bool = False,
        signature: tuple[int, ...] | None = None,
    ) -> int:
        """Add a tensor; constant if it has data (of int4 two to a byte). Its index."""
        t = s.TensorT()
        t.shape, t.type, t.name = list(shape), _TYPES[dtype][0], f"t{len(self.graph.tensors)}"
        t.isVariable, t.buffer, t.hasRank = variable, 0, True
        if signature is not None:
            t.shapeSignature = list(signature)
        if data is not None:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(np.asarray(data, _TYPES[dtype][1]).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            t.buffer = len(self.model.buffers) - 1
        if dtype in ("int4", "int8", "int16", "int32", "int64") and scale:
            q = s.QuantizationParametersT()
            q.scale = scale if isinstance(scale, list) else [scale]
            q.zeroPoint, q.quantizedDimension = [zero] * len(q.scale), axis
            t.quantization = q
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Shape of a tensor."""
        return tuple(self.graph.tensors[tensor].shape)

    def op(self, kind: str, inputs: list[int], outputs: list[int], options: Any = None, *, custom: bool = False) -> int:
        """Add an operator; options of a custom one are bytes. Its index."""
        if kind not in self.codes:
            code = s.OperatorCodeT()
            number = s.BuiltinOperator.CUSTOM if custom else getattr(s.BuiltinOperator, kind)
            code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
            code.customCode = kind if custom else None
            self.codes[kind] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(code)
        o = s.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = self.codes[kind], list(inputs), list(outputs)
        if custom and options is not None:
            o.customOptions = np.frombuffer(options, np.uint8)
        elif options is not None:
            o.builtinOptions = options
            o.builtinOptionsType = getattr(s.BuiltinOptions, type(options).__name__[:-1])
        self.graph.operators.append(o)
        return len(self.graph.operators) - 1

    def conv(
        self,
        x: int,
        channels: int,
        kernel: tuple[int, int] = (3, 3),
        stride: tuple[int, int] = (1, 1),
        padding: int = SAME,
        dilation: tuple[int, int] = (1, 1),
        depthwise: bool = False,
    ) -> int:
        """Add an int8 or float32 convolution with random weights; `channels` is the multiplier if depthwise."""
        n, height, width, depth = self.shape(x)
        quantised = self.graph.tensors[x].type == s.TensorType.INT8
        dtype = "int8" if quantised else "float32"
        filters = depth * channels if depthwise else channels
        weights = (1, *kernel, filters) if depthwise else (filters, *kernel, depth)
        values = self.rng.integers(-127, 128, weights) if quantised else self.rng.standard_normal(weights)
        w = self.tensor(weights, dtype, values, scale=[0.01] * filters, axis=3 if depthwise else 0)
        bias = np.zeros(filters) if quantised else self.rng.standard_normal(filters)
        b = self.tensor((filters,), "int32" if quantised else dtype, bias, scale=[0.0005] * filters)
        size = [
            out_size(i, k, t, d, padding) for i, k, t, d in zip((height, width), kernel, stride, dilation, strict=True)
        ]
        out = self.tensor((n, *size, filters), dtype, scale=0.1)
        o = s.DepthwiseConv2DOptionsT() if depthwise else s.Conv2DOptionsT()
        if depthwise:
            o.depthMultiplier = channels
        o.padding, o.strideH, o.strideW = padding, *stride
        o.dilationHFactor, o.dilationWFactor = dilation
        self.op("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, w, b], [out], o)
        return out

    def pool(self, x: int, kind: str, kernel: tuple[int, int], stride: tuple[int, int], padding: int = VALID) -> int:
        """Add ``AVERAGE_POOL_2D`` or ``MAX_POOL_2D``."""
        n, height, width, depth = self.shape(x)
        size = [out_size(i, k, t, 1, padding) for i, k, t in zip((height, width), kernel, stride, strict=True)]
        out = self.like(x, (n, *size, depth))
        o = s.Pool2DOptionsT()
        o.padding, o.strideH, o.strideW, o.filterHeight, o.filterWidth = padding, *stride, *kernel
        self.op(kind, [x], [out], o)
        return out

    def like(self, x: int, shape: tuple[int, ...] | None = None) -> int:
        """Add a tensor of the type and quantisation of another one."""
        t = self.graph.tensors[x]
        dtype = next(name for name, (number, _) in _TYPES.items() if number == t.type)
        output = self.tensor(shape or self.shape(x), dtype)
        self.graph.tensors[output].quantization = t.quantization
        return output

    def add(self, a: int, b: int) -> int:
        """Add an ``ADD`` of two tensors of equal shape."""
        out = self.like(a)
        self.op("ADD", [a, b], [out], s.AddOptionsT())
        return out

    def unary(self, kind: str, x: int, options: Any = None, **kind_of_output: Any) -> int:
        """Add an operator of one input and one output of the same shape."""
        out = self.tensor(self.shape(x), **kind_of_output) if kind_of_output else self.like(x)
        self.op(kind, [x], [out], options)
        return out

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:
        """Add a ``RESHAPE``."""
        to = self.tensor((len(shape),), "int32", shape, scale=0.0)
        out = self.like(x, shape)
        o = s.ReshapeOptionsT()
        o.newShape = list(shape)
        self.op("RESHAPE", [x, to], [out], o)
        return out

    def metadata(self, name: str, data: bytes) -> None:
        """Add metadata."""
        buffer = s.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(buffer)
        m = s.MetadataT()
        m.name, m.buffer = name, len(self.model.buffers) - 1
        self.model.metadata.append(m)

    def ends(self, inputs: list[int], outputs: list[int]) -> None:
        """Inputs and outputs of the subgraph."""
        self.graph.inputs, self.graph.outputs = inputs, outputs

    def bytes(self) -> bytes:
        """The file."""
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def out_size(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Size of an output dimension."""
    return tflite_rows(Window(kernel, stride, dilation), {"padding": padding}, size)


def residual(height: int = 16, channels: int = 8) -> Net:
    """Two convolutions and an addition, then a strided and a depthwise one, pooling, RESHAPE and SOFTMAX."""
    net = Net()
    x = net.tensor((1, height, height, 3))
    a = net.conv(x, channels)
    b = net.conv(a, channels)
    c = net.add(a, b)
    d = net.conv(c, channels, (1, 1), (2, 2))
    e = net.conv(d, 1, depthwise=True)
    f = net.pool(e, "AVERAGE_POOL_2D", (net.shape(e)[1], net.shape(e)[2]), (1, 1))
    g = net.reshape(f, (1, channels))
    net.ends([x], [net.unary("SOFTMAX", g, _softmax(), scale=1 / 256, zero=-128)])
    return net


def branches(count: int = 4) -> Net:
    """Branches from one input in breadth-first order, joined by additions: the order matters."""
    net = Net()
    x = net.tensor((1, 12, 12, 4))
    wide = [net.conv(x, 16) for _ in range(count)]
    narrow = [net.conv(w, 4, (1, 1)) for w in wide]
    total = narrow[0]
    for other in narrow[1:]:
        total = net.add(total, other)
    net.ends([x], [total])
    return net


def _softmax() -> Any:
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    return o


BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""MobileNetV2's inverted residuals: expansion, channels, how many, first stride (Sandler et al. 2018, table 2)."""


def channels_of(width: float, channels: int) -> int:
    """Channels at a width: a multiple of 8, no more than a tenth less than requested."""
    scaled = width * channels
    made = max(8, int(scaled + 4) // 8 * 8)
    return made + 8 if made < 0.9 * scaled else made


def mobilenet_v2(width: float = 0.35, size: int = 224, classes: int = 1000) -> Net:
    """MobileNetV2 in int8 with random weights."""
    net = Net(seed=0)
    given = net.tensor((1, size, size, 3))
    x = net.conv(given, channels_of(width, 32), (3, 3), (2, 2))
    for expansion, channels, count, stride in BLOCKS:
        for k in range(count):
            x = _inverted(net, x, channels_of(width, channels), expansion, stride if k == 0 else 1, 3)
    return _classified(net, given, net.conv(x, 1280, (1, 1)), classes)


def mcunet(blocks: Sequence[tuple[int, int, int, int]], size: int, classes: int) -> Net:
    """A network as MCUNet's (Lin et al., NeurIPS 2020 and 2021) in int8 with random weights: additions and a classifier
    around `blocks` of channels, expansion, stride and side of the depthwise kernel."""
    net = Net(seed=0)
    given = net.tensor((1, size, size, 3))
    x = net.conv(net.conv(given, 16, (3, 3), (2, 2)), 1, (3, 3), depthwise=True)
    x = net.conv(x, 8, (1, 1))
    for channels, expansion, stride, side in blocks:
        x = _inverted(net, x, channels, expansion, stride, side)
    return _classified(net, given, x, classes)


def _inverted(net: Net, x: int, channels: int, expansion: int, stride: int, side: int) -> int:
    """An inverted residual."""
    depth = net.shape(x)[3]
    y = net.conv(x, depth * expansion, (1, 1)) if expansion > 1 else x
    y = net.conv(net.conv(y, 1, (side, side), (stride, stride), SAME, depthwise=True), channels, (1, 1))
    return net.add(x, y) if stride == 1 and net.shape(y)[3] == depth else y


def _classified(net: Net, given: int, x: int, classes: int) -> Net:
    """The network with a mean over the image and classes of that."""
    x = net.pool(x, "AVERAGE_POOL_2D", (net.shape(x)[1], net.shape(x)[2]), (1, 1), VALID)
    x = net.conv(x, classes, (1, 1))
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    net.ends([given], [net.unary("SOFTMAX", net.reshape(x, (1, classes)), o, scale=1 / 256, zero=-128)])
    return net


def spread(net: Net) -> Net:
    """The network with weights in scales, a scale for each channel, that keep results within 8 bits."""
    rng = np.random.default_rng(1)
    for op in net.graph.operators:
        if len(op.inputs) != 3:
            continue
        x, w, b = (net.graph.tensors[t] for t in op.inputs)
        y = net.graph.tensors[op.outputs[0]]
        filters = y.shape[3]
        fan = math.prod(w.shape) / filters
        scale = 40 * y.quantization.scale[0] / (x.quantization.scale[0] * math.sqrt(fan) * 73 * 40)
        w.quantization.scale = [float(v) for v in scale * rng.uniform(0.7, 1.4, filters)]
        bias = rng.integers(-1000, 1000, filters).astype(np.int32)
        net.model.buffers[b.buffer].data = np.frombuffer(bias.tobytes(), np.uint8)
    return net
