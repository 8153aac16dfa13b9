"""A small network builder: one recording of a network, made into a `Graph` or into a runnable ONNX model.

`Net` keeps the ops in the order in which they were added, and that is the file order of both forms. Ids are
those that an ONNX reader gives to the file: op id = index of the node; tensor id = order of first appearance,
graph inputs first, then initializers, then what the nodes make.

Multiplications and parameters can be counted. Weights are drawn only when the ONNX form is requested. Two things
keep the outputs of deep random networks finite and dependent on the inputs. Every value carries an estimate of its
mean and variance, and each weight is scaled so that its op brings the variance back to one (He et al., 2015, with
the estimate in place of the constant for ReLU). And the weights of an output add up to zero, so that the mean which
ReLU leaves, the same for every input, does not drown what differs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide_research.zoo.mixing import DOMAIN, VERSION, mix_attributes, mix_function, mix_type
from lowtide_research.zoo.values import TINY, UNIT, Ints, NetOp, Signal, Value, Weight, mean_taps

if TYPE_CHECKING:
    import onnx

__all__ = ["Net", "Signal", "Value"]

OPSET = 17
OPSET_OF = {"Gelu": 20}  # ops that a later opset brought
IR_VERSION = 8
MAX_ONNX_BYTES = 2**31 - 2**24
"""A protobuf message ends at 2 GiB; 16 MiB are left for everything but the weights."""

AVERAGE_POOL_GAIN = 0.85
MAX_POOL_GAIN = 0.7
MAX_POOL_SHIFT = 0.9
GLOBAL_POOL_GAIN = 0.3
"""What pooling does to the variance of a typical activation, and how many deviations a maximum lies above the
mean. Measured; only their rough size matters."""


class Net:
    """A network under construction.

    Parameters
    ----------
    name
        Name of the graph.
    merge
        Whether an op that repeats an earlier one (same type, inputs and attributes) is that op. Exporters do
        so, and HMCOS's published figures need it.
    runnable
        Whether there are operators after the ops. Where there are none the net has no ONNX form.

    Examples
    --------
    >>> net = Net("tiny")
    >>> x = net.input("x", (1, 3, 8, 8))
    >>> net.output(net.relu(net.conv(x, 4, 3)))
    >>> [op.type for op in net.graph().ops]
    ['Conv', 'Relu']
    """

    def __init__(self, name: str, *, merge: bool = True, runnable: bool = True) -> None:
        self.name = name
        self.runnable = runnable
        self.nodes: list[NetOp] = []
        self.inputs: list[Value] = []
        self.weights: list[Weight] = []
        self.outputs: list[Value] = []
        self._merge = merge
        self._known: dict[tuple[Any, ...], Value] = {}
        self._scope = ""
        self._keys = 0

    @contextmanager
    def scope(self, prefix: str) -> Iterator[None]:
        """Put `prefix/` before the names of what is added inside."""
        outer = self._scope
        self._scope = f"{outer}{prefix}/"
        try:
            yield
        finally:
            self._scope = outer

    def input(self, name: str, shape: Ints, dtype: str = "float32") -> Value:
        """Add a graph input."""
        value = self._value(name, shape, dtype, UNIT)
        self.inputs.append(value)
        return value

    def output(self, value: Value) -> None:
        """Mark the output of an op as a graph output."""
        assert value not in self.outputs, f"{value.name} is an output already"
        self.outputs.append(value)

    def op(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Ints,
        signal: Signal = UNIT,
        dtype: str = "float32",
        **attributes: Any,
    ) -> Value:
        """Add an op of ONNX type `kind` with one output. `shape`, `signal` and `dtype` are the output's; the shape
        is the caller's to get right."""
        signature = (kind, *(v.key for v in inputs), *sorted(attributes.items()))
        if self._merge and signature in self._known:
            return self._known[signature]
        name = f"{self._scope}{kind}_{len(self.nodes)}"
        value = self._value(name, shape, dtype, signal)
        self.nodes.append(NetOp(kind, name, tuple(inputs), value, tuple(attributes.items())))
        self._known[signature] = value
        return value

    def weight(
        self, role: str, shape: Ints, deviation: float, mean: float = 0.0, centred: Ints = (), trained: bool = True
    ) -> Value:
        """Add a float32 initializer drawn from a normal distribution; `role` names it after the next op. `centred`
        lists the axes along which it shall add up to zero."""
        name = f"{self._scope}{role}_{len(self.nodes)}"
        value = self._value(name, shape, "float32", Signal(mean, deviation**2))
        self.weights.append(Weight(value, mean, deviation, centred, trained=trained))
        return value

    def integers(self, *values: int) -> Value:
        """Vector of int64 constants; equal vectors are one initializer."""
        return self._constant("const_" + "_".join(str(v).replace("-", "m") for v in values), values, "int64")

    def floats(self, *values: float) -> Value:
        """Vector of float32 constants, perhaps empty; equal vectors are one initializer."""
        return self._constant("floats_" + "_".join(f"{v:.9g}" for v in values), values, "float32")

    def _constant(self, name: str, values: tuple[float, ...], dtype: str, rank: int = 1) -> Value:
        signature = (dtype, *values) if rank else (dtype, "scalar", *values)
        if signature not in self._known:
            value = self._value(name, (len(values),) * rank, dtype, UNIT)
            self.weights.append(Weight(value, values=values, trained=False))
            self._known[signature] = value
        return self._known[signature]

    def scalar(self, number: float) -> Value:
        """Float32 constant of rank 0; equal ones are one initializer."""
        signature = ("scalar", number)
        if signature not in self._known:
            value = self._value(f"scalar_{number:.9g}", (), "float32", Signal(number, 0.0))
            self.weights.append(Weight(value, mean=number, trained=False))
            self._known[signature] = value
        return self._known[signature]

    def conv(self, x: Value, filters: int, kernel: int | Ints, stride: int = 1, *, bias: bool = True) -> Value:
        """Convolve all channels, padded so that stride 1 keeps height and width; kernel sides are odd."""
        return self._conv(x, filters, kernel, stride, bias, groups=1)

    def depthwise(
        self, x: Value, kernel: int | Ints, stride: int = 1, *, dilation: int = 1, bias: bool = False
    ) -> Value:
        """Convolve each channel by itself."""
        return self._conv(x, x.shape[1], kernel, stride, bias, groups=x.shape[1], dilation=dilation)

    def _conv(
        self, x: Value, filters: int, kernel: int | Ints, stride: int, bias: bool, groups: int, dilation: int = 1
    ) -> Value:
        kernel = (kernel,) * (len(x.shape) - 2) if isinstance(kernel, int) else kernel
        pads = tuple(k // 2 * dilation for k in kernel)
        strides = (stride,) * len(kernel)
        return self.padded_conv(x, filters, kernel, strides, pads, bias=bias, groups=groups, dilation=dilation)

    def padded_conv(
        self,
        x: Value,
        filters: int,
        kernel: Ints,
        stride: Ints,
        pads: Ints,
        *,
        bias: bool = True,
        groups: int = 1,
        dilation: int = 1,
    ) -> Value:
        """Convolve over any number of axes; `kernel`, `stride` and `pads` (before and after) have a number for each."""
        lengths = zip(x.shape[2:], kernel, stride, pads, strict=True)
        shape = (x.shape[0], filters, *((d + 2 * p - dilation * (k - 1) - 1) // s + 1 for d, k, s, p in lengths))
        channels = x.shape[1] // groups
        taps = math.prod(mean_taps(d, k, s, dilation) for d, k, s in zip(x.shape[2:], kernel, stride, strict=True))
        centred = tuple(range(1, len(kernel) + 2)) if groups == 1 else ()
        reach = x.signal.variance if centred else x.signal.square
        deviation = (channels * taps * max(reach, TINY)) ** -0.5
        inputs = [x, self.weight("weight", (filters, channels, *kernel), deviation, centred=centred)]
        if bias:
            inputs.append(self.weight("bias", (filters,), 0.05))
        attributes: dict[str, Any] = {"dilations": (dilation,) * len(kernel)} if dilation > 1 else {}
        attributes |= {"strides": stride, "pads": pads + pads, "group": groups}
        return self.op("Conv", inputs, shape, kernel_shape=kernel, **attributes)

    def conv_transpose(self, x: Value, filters: int, times: int = 2) -> Value:
        """Make height and width `times` larger by a transposed convolution without overlap."""
        shape = (x.shape[0], filters, *(d * times for d in x.shape[2:]))
        kernel = (times, times)
        deviation = (x.shape[1] * max(x.signal.variance, TINY)) ** -0.5
        weight = self.weight("weight", (x.shape[1], filters, *kernel), deviation, centred=(0,))
        inputs = [x, weight, self.weight("bias", (filters,), 0.05)]
        return self.op("ConvTranspose", inputs, shape, kernel_shape=kernel, strides=kernel)

    def upsample(self, x: Value, times: int) -> Value:
        """Repeat every row and column `times` times."""
        inputs = [x, self.floats(), self.floats(1, 1, times, times)]
        shape = (*x.shape[:2], *(d * times for d in x.shape[2:]))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.op("Resize", inputs, shape, x.signal, **how)

    def max_pool(self, x: Value, kernel: int, stride: int = 1) -> Value:
        """Maximum over windows, padded as `conv`."""
        mean, variance = x.signal
        signal = Signal(mean + MAX_POOL_SHIFT * math.sqrt(variance), MAX_POOL_GAIN * variance)
        return self._pool("MaxPool", x, kernel, stride, signal)

    def average_pool(self, x: Value, kernel: int, stride: int = 1) -> Value:
        """Mean over windows, padded as `conv`; the padding is not counted."""
        signal = Signal(x.signal.mean, x.signal.variance * (AVERAGE_POOL_GAIN if kernel > 1 else 1.0))
        return self._pool("AveragePool", x, kernel, stride, signal, count_include_pad=0)

    def _pool(self, kind: str, x: Value, kernel: int, stride: int, signal: Signal, **attributes: Any) -> Value:
        shape = (*x.shape[:2], *(-(-d // stride) for d in x.shape[2:]))
        return self.op(
            kind, [x], shape, signal,
            kernel_shape=(kernel, kernel), strides=(stride, stride), pads=((kernel - 1) // 2,) * 4, **attributes,
        )  # fmt: skip

    def global_average_pool(self, x: Value) -> Value:
        """Mean over height and width, which stay as ones."""
        signal = Signal(x.signal.mean, GLOBAL_POOL_GAIN * x.signal.variance)
        return self.op("GlobalAveragePool", [x], (*x.shape[:2], 1, 1), signal)

    def relu(self, x: Value) -> Value:
        """Rectify."""
        return self.op("Relu", [x], x.shape, x.signal.rectified())

    def add(self, a: Value, b: Value) -> Value:
        """Sum of two tensors of which one may be broadcast."""
        mean, variance = a.signal.mean + b.signal.mean, a.signal.variance + b.signal.variance
        signal = Signal(mean, 2 * variance if a == b else variance)
        return self.op("Add", [a, b], _wider(a, b), signal)

    def multiply(self, a: Value, b: Value) -> Value:
        """Product of two tensors of which one may be broadcast."""
        mean = a.signal.mean * b.signal.mean
        return self.op("Mul", [a, b], _wider(a, b), Signal(mean, a.signal.square * b.signal.square - mean**2))

    def concat(self, values: Sequence[Value], axis: int = 1) -> Value:
        """Concatenate along `axis`."""
        first = values[0].shape
        axis %= len(first)
        total = sum(v.shape[axis] for v in values)
        mean = sum(v.signal.mean * v.shape[axis] for v in values) / total
        square = sum(v.signal.square * v.shape[axis] for v in values) / total
        shape = (*first[:axis], total, *first[axis + 1 :])
        return self.op("Concat", values, shape, Signal(mean, square - mean**2), axis=axis)

    def pad(self, x: Value, before: Ints, after: Ints) -> Value:
        """Add zeros before and after along every axis."""
        shape = tuple(b + d + a for b, d, a in zip(before, x.shape, after, strict=True))
        return self.op("Pad", [x, self.integers(*before, *after)], shape, x.signal, mode="constant")

    def slice(self, x: Value, start: Ints, end: Ints) -> Value:
        """Take the half-open box from `start` to `end`, along every axis."""
        axes = self.integers(*range(len(start)))
        shape = tuple(e - s for s, e in zip(start, end, strict=True))
        return self.op("Slice", [x, self.integers(*start), self.integers(*end), axes], shape, x.signal)

    def batch_norm(self, x: Value) -> Value:
        """Batch normalisation at inference, with statistics that suit the estimate of `x`."""
        c = x.shape[1]
        mean, variance = x.signal.mean, max(x.signal.variance, TINY)
        inputs = [
            x,
            self.weight("scale", (c,), 0.1, 1.0),
            self.weight("shift", (c,), 0.05),
            self.weight("mean", (c,), 0.05 * math.sqrt(variance), mean, trained=False),
            self.weight("variance", (c,), 0.05 * variance, variance, trained=False),
        ]
        return self.op("BatchNormalization", inputs, x.shape, epsilon=1e-3)

    def layer_norm(self, x: Value) -> Value:
        """Layer normalisation over the last axis."""
        width = x.shape[-1:]
        inputs = [x, self.weight("scale", width, 0.1, 1.0), self.weight("shift", width, 0.05)]
        return self.op("LayerNormalization", inputs, x.shape, axis=-1, epsilon=1e-5)

    def dense(self, x: Value, width: int, *, bias: bool = True) -> Value:
        """Matrix product of the last axis with a weight; a bias is added by an op of its own."""
        deviation = (x.shape[-1] * max(x.signal.variance, TINY)) ** -0.5
        y = self.matmul(x, self.weight("weight", (x.shape[-1], width), deviation, centred=(0,)))
        return self.add(y, self.weight("bias", (width,), 0.05)) if bias else y

    def gemm(self, x: Value, width: int) -> Value:
        """Matrix product of a matrix with a transposed weight, and its bias, as one op."""
        deviation = (x.shape[-1] * max(x.signal.variance, TINY)) ** -0.5
        weight = self.weight("weight", (width, x.shape[-1]), deviation, centred=(1,))
        return self.op("Gemm", [x, weight, self.weight("bias", (width,), 0.05)], (x.shape[0], width), transB=1)

    def matmul(self, a: Value, b: Value, signal: Signal = UNIT) -> Value:
        """Batched matrix product; `signal` is what to expect of it."""
        return self.op("MatMul", [a, b], (*a.shape[:-1], b.shape[-1]), signal)

    def softmax(self, x: Value) -> Value:
        """Softmax over the last axis."""
        mean = 1 / x.shape[-1]
        return self.op("Softmax", [x], x.shape, Signal(mean, mean**2), axis=-1)

    def gelu(self, x: Value) -> Value:
        """Gaussian error unit as exporters write it below opset 20: Div, Erf, Add, Mul, Mul."""
        ratio = self.op("Div", [x, self.scalar(math.sqrt(2))], x.shape)
        gate = self.add(self.op("Erf", [ratio], x.shape), self.scalar(1.0))
        signal = x.signal.rectified()
        return self.op("Mul", [self.op("Mul", [x, gate], x.shape), self.scalar(0.5)], x.shape, signal)

    def mean(self, x: Value, *, keep: bool = True) -> Value:
        """Mean over all axes but the first two, which stay as ones if `keep`."""
        signal = Signal(x.signal.mean, GLOBAL_POOL_GAIN * x.signal.variance)
        axes = tuple(range(2, len(x.shape)))
        shape = (*x.shape[:2], *((1,) * len(axes) if keep else ()))
        return self.op("ReduceMean", [x], shape, signal, axes=axes, keepdims=int(keep))

    def resize(self, x: Value, side: Ints) -> Value:
        """Interpolate linearly to another height and width."""
        shape = (*x.shape[:2], *side)
        inputs = [x, self.floats(), self.floats(), self.integers(*shape)]
        return self.op("Resize", inputs, shape, x.signal, mode="linear", coordinate_transformation_mode="half_pixel")

    def select(self, x: Value, index: int, axis: int = 0) -> Value:
        """Take one position of an axis, which goes."""
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        position = self._constant(f"index_{index}", (index,), "int64", rank=0)
        return self.op("Gather", [x, position], shape, x.signal, axis=axis)

    def reshape(self, x: Value, shape: Ints) -> Value:
        """Give the same elements another shape."""
        assert math.prod(shape) == math.prod(x.shape), f"{x.shape} is not {shape}"
        return self.op("Reshape", [x, self.integers(*shape)], shape, x.signal)

    def squeeze(self, x: Value, axes: Ints) -> Value:
        """Drop axes of length one."""
        dropped = {a % len(x.shape) for a in axes}
        kept = tuple(d for i, d in enumerate(x.shape) if i not in dropped)
        return self.op("Squeeze", [x, self.integers(*axes)], kept, x.signal)

    def unsqueeze(self, x: Value, axis: int) -> Value:
        """Insert an axis of length one."""
        axis %= len(x.shape) + 1
        return self.op("Unsqueeze", [x, self.integers(axis)], (*x.shape[:axis], 1, *x.shape[axis:]), x.signal)

    def transpose(self, x: Value, permutation: Ints) -> Value:
        """Permute the axes."""
        return self.op("Transpose", [x], tuple(x.shape[i] for i in permutation), x.signal, perm=permutation)

    def macs(self) -> int:
        """Multiplications with addition in all convolutions and matrix products."""
        return sum(node.macs or 0 for node in self.nodes)

    def parameters(self) -> int:
        """Number of trained weights, biases among them."""
        return sum(math.prod(w.value.shape) for w in self.weights if w.trained)

    def graph(self) -> Graph:
        """The network as a `Graph`. Takes time linear in the ops and needs neither onnx nor weights."""
        assert self.outputs, "the net has no output"
        ids: dict[int, int] = {}
        tensors: list[Tensor] = []
        outputs = {v.key for v in self.outputs}

        def declare(value: Value, kind: Kind) -> None:
            ids[value.key] = len(tensors)
            tensors.append(Tensor(len(tensors), value.size, kind, value.name, value.shape, value.dtype))

        for value in self.inputs:
            declare(value, Kind.INPUT)
        for weight in self.weights:
            declare(weight.value, Kind.CONSTANT)
        ops = []
        for i, node in enumerate(self.nodes):
            declare(node.output, Kind.OUTPUT if node.output.key in outputs else Kind.ACTIVATION)
            read = tuple(ids[v.key] for v in node.inputs)
            flops = None if node.macs is None else 2 * node.macs
            ops.append(Op(i, read, (ids[node.output.key],), node.name, node.type, flops=flops))
        return Graph(self.name, tuple(tensors), tuple(ops), source=f"zoo:{self.name}", sha256=self._digest())

    def onnx(self, seed: int = 0) -> onnx.ModelProto:
        """The network as an ONNX model with random weights: opset 17, full value_info. The same `seed` gives the
        same bytes. Raises `InputError`: the net has no operators, or its weights do not fit one protobuf message (2
        GiB)."""
        import numpy as np
        from onnx import TensorProto, helper

        if not self.runnable:
            raise InputError(
                "this network has sizes and no operators, so there is no ONNX form; write it as .graph.json",
                f"zoo:{self.name}",
            )
        total = sum(w.value.size for w in self.weights)
        if total > MAX_ONNX_BYTES:
            raise InputError(
                f"the weights take {total} bytes, too many for one ONNX file; take a smaller network",
                f"zoo:{self.name}",
            )
        element = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}
        generator = np.random.default_rng(seed)
        initializers = []
        for weight in self.weights:
            value = weight.value
            raw = weight.draw(generator).tobytes()
            initializers.append(helper.make_tensor(value.name, element[value.dtype], value.shape, raw, raw=True))
        nodes = []
        mixes = sorted({len(n.inputs) for n in self.nodes if n.type == mix_type(len(n.inputs))})
        for n in self.nodes:
            attributes = dict(n.attributes)
            domain, _, kind = n.type.rpartition("::")
            if domain == DOMAIN:
                attributes = mix_attributes(sum(v.size for v in n.inputs), n.output.size, generator)
            read = [v.name for v in n.inputs]
            nodes.append(helper.make_node(kind, read, [n.output.name], n.name, domain=domain or None, **attributes))
        outputs = {v.key for v in self.outputs}

        def info(values: Sequence[Value]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(v.name, element[v.dtype], v.shape) for v in values]

        graph = helper.make_graph(
            nodes,
            self.name,
            info(self.inputs),
            info(self.outputs),
            initializers,
            value_info=info([n.output for n in self.nodes if n.output.key not in outputs]),
        )
        opset = max(OPSET_OF.get(n.type, OPSET) for n in self.nodes)
        opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(DOMAIN, VERSION)] if mixes else [])]
        functions = [mix_function(reads, OPSET) for reads in mixes]
        return helper.make_model(
            graph, functions=functions, opset_imports=opsets, producer_name="lowtide", ir_version=IR_VERSION
        )

    def _value(self, name: str, shape: Ints, dtype: str, signal: Signal) -> Value:
        self._keys += 1
        return Value(self._keys - 1, name, shape, dtype, signal)

    def _digest(self) -> str:
        """Digest of the structure; weights and their seed have no part in it."""
        values = (*self.inputs, *(w.value for w in self.weights), *self.outputs)
        parts = [self.name, *(f"{value.key}{value.shape}" for value in values)]
        parts += [f"{n.type}{[v.key for v in n.inputs]}{n.attributes}{n.output}" for n in self.nodes]
        return hashlib.sha256("".join(parts).encode()).hexdigest()


def _wider(a: Value, b: Value) -> Ints:
    """Shape of what is broadcast."""
    rank = max(len(a.shape), len(b.shape))
    return tuple(max(d, e) for d, e in zip(*((1,) * (rank - len(v.shape)) + v.shape for v in (a, b)), strict=True))
