"""Small int8 networks of the operators that C is written for, with all kinds of scales; their C, compiled and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from support.tflite_builder import SAME, VALID, Net, s

Pick = Callable[[Sequence[Any]], Any]
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-DMODEL_GUARD=64")
SANITIZERS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""What checks is not optimised: that takes four times as long to compile."""
COMPACT = ("-fsanitize-undefined-trap-on-error", "--param=asan-instrumentation-with-call-threshold=0")
"""The same checks in gcc by traps and calls, which take less than half the time to compile; without the flags a trap
has a message."""
_MOST_ELEMENTS = 4000


def compiler() -> str | None:
    """A C compiler of this machine."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@cache
def sanitizers() -> tuple[str, ...]:
    """The flags of sanitizers where the compiler links them."""
    with TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        words = (str(source), "-o", str(source.with_suffix("")))
        for flags in ((*SANITIZERS, *COMPACT), SANITIZERS):
            if subprocess.run([compiler() or "cc", *flags, *words], capture_output=True, check=False).returncode == 0:
                return flags
    return ()


def compiled(folder: Path, flags: Sequence[str] = ()) -> Path:
    """The host program of a project; its warnings are errors."""
    program = folder / "host"
    sources = ("model.c", "model_weights.c", "main.c")
    done = subprocess.run(
        [compiler() or "cc", *FLAGS, *flags, *sources, "-o", str(program)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
    return program


def output_of(program: Path, inputs: bytes) -> bytes:
    """What a host program makes of inputs, one after the other; it fails where a byte outside the arena is written."""
    source, target = program.parent / "in.bin", program.parent / "out.bin"
    source.write_bytes(inputs)
    done = subprocess.run([program, source, target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[:2000])
    return target.read_bytes()


def tflm_outputs(model: Path, feeds: Sequence[Sequence[np.ndarray]], outputs: int = 1) -> bytes:
    """What TFLM makes of them."""
    from lowtide.run.tflite_process import quiet, tflm_interpreter

    interpreter, output = quiet(lambda: tflm_interpreter(model.read_bytes(), 8 << 20))
    assert interpreter is not None, output
    result = b""
    for feed in feeds:
        for i, value in enumerate(feed):
            interpreter.set_input(value, i)
        interpreter.invoke()
        result += b"".join(np.array(interpreter.get_output(i)).tobytes() for i in range(outputs))
    return result


def feeds_of(net: Net, count: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Random inputs."""
    rng = np.random.default_rng(seed)
    shapes = [net.shape(t) for t in net.graph.inputs]
    return [[rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes] for _ in range(count)]


def convolution(net: Net, x: int, pick: Pick, channels: int, *, depthwise: bool = False, **window: Any) -> int:
    """A convolution with a scale for each channel, a bias, a zero point and an activation."""
    y = net.conv(x, channels, depthwise=depthwise, **window)
    _, w, b = net.graph.operators[-1].inputs
    filters = net.shape(y)[3]
    net.graph.tensors[w].quantization.scale = [float(v) for v in net.rng.uniform(0.002, 0.02, filters)]
    bias = net.rng.integers(-2000, 2000, filters).astype(np.int32)
    net.model.buffers[net.graph.tensors[b].buffer].data = np.frombuffer(bias.tobytes(), np.uint8)
    _requantized(net, y, pick)
    net.graph.operators[-1].builtinOptions.fusedActivationFunction = pick((0, 1, 3))
    return y


def _requantized(net: Net, y: int, pick: Pick) -> None:
    quant = net.graph.tensors[y].quantization
    quant.scale, quant.zeroPoint = [pick((0.021, 0.1, 0.37))], [pick((-128, -3, 0, 17))]


def _conv(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    depthwise = pick((False, True))
    stride = pick(((1, 1), (1, 1), (2, 2), (2, 1), (1, 2)))
    dilation = pick(((1, 1), (2, 1))) if stride == (1, 1) else (1, 1)
    kernel = pick(((1, 1), (3, 3), (2, 3), (5, 1)))
    padding = pick((SAME, SAME, VALID))
    fits = zip(net.shape(x)[1:3], kernel, dilation, strict=True)
    if padding == VALID and any(size <= (tap - 1) * step for size, tap, step in fits):
        padding = SAME
    channels = pick((1, 1, 2)) if depthwise else pick((3, 8, 13))
    window = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return convolution(net, x, pick, channels, depthwise=depthwise, **window)


def _pool(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    kernel, stride, padding = pick(((2, 2), (3, 3), (2, 1))), pick(((1, 1), (2, 2))), pick((SAME, VALID))
    if any(size < tap for size, tap in zip(net.shape(x)[1:3], kernel, strict=True)):
        return x
    return net.pool(x, pick(("AVERAGE_POOL_2D", "MAX_POOL_2D")), kernel, stride, padding)


def _add(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    y = net.add(x, pick([t for t in live if net.shape(t) == net.shape(x)]))
    quant = net.graph.tensors[y].quantization
    net.graph.tensors[y].quantization = s.QuantizationParametersT()
    net.graph.tensors[y].quantization.scale, net.graph.tensors[y].quantization.zeroPoint = quant.scale, quant.zeroPoint
    _requantized(net, y, pick)
    return y


def _rescale(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    kind = pick(("QUANTIZE", "RELU", "RELU6"))
    if kind == "RELU6":
        return net.unary(kind, x)
    options = s.QuantizeOptionsT() if kind == "QUANTIZE" else None
    return net.unary(kind, x, options, scale=pick((0.05, 0.2)), zero=pick((-128, 5)))


def _concat(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    axis, shape, quant = pick((1, 2, 3)), net.shape(x), net.graph.tensors[x].quantization
    rest = [size for d, size in enumerate(shape) if d != axis]
    fits = [
        t for t in live
        if [size for d, size in enumerate(net.shape(t)) if d != axis] == rest
        and list(net.graph.tensors[t].quantization.scale) == list(quant.scale)
        and list(net.graph.tensors[t].quantization.zeroPoint) == list(quant.zeroPoint)
    ]  # fmt: skip
    y = pick(fits)
    out = net.like(x, tuple(a + (net.shape(y)[d] if d == axis else 0) for d, a in enumerate(shape)))
    o = s.ConcatenationOptionsT()
    o.axis = axis
    net.op("CONCATENATION", [x, y], [out], o)
    return out


def _pad(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    pads = [(0, 0), pick(((1, 0), (0, 2))), pick(((0, 1), (1, 1))), (0, 0)]
    out = net.like(x, tuple(size + sum(more) for size, more in zip(net.shape(x), pads, strict=True)))
    net.op("PAD", [x, net.tensor((4, 2), "int32", pads, scale=0.0)], [out], s.PadOptionsT())
    return out


def _head(net: Net, x: int, pick: Pick) -> int:
    """What ends most networks: a mean or a pool over all, a product, a softmax."""
    shape = net.shape(x)
    if pick((True, False)):
        flat = net.tensor((1, shape[3]), scale=0.07, zero=4)
        o = s.ReducerOptionsT()
        o.keepDims = False
        net.op("MEAN", [x, net.tensor((2,), "int32", [1, 2], scale=0.0)], [flat], o)
    else:
        flat = net.reshape(net.pool(x, "AVERAGE_POOL_2D", (shape[1], shape[2]), (1, 1)), (1, shape[3]))
    outputs = pick((2, 7))
    values = net.rng.integers(-127, 128, (outputs, shape[3]))
    w = net.tensor((outputs, shape[3]), "int8", values, scale=pick(([0.01], [0.01] * outputs)))
    scale = 0.01 * net.graph.tensors[flat].quantization.scale[0]
    b = net.tensor((outputs,), "int32", net.rng.integers(-500, 500, outputs), scale=[scale])
    y = net.tensor((1, outputs), scale=pick((0.05, 0.3)), zero=-7)
    net.op("FULLY_CONNECTED", [flat, w, b], [y], s.FullyConnectedOptionsT())
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    return net.unary("SOFTMAX", y, o, scale=1 / 256, zero=-128)


def wide_net(window: int = 1) -> Net:
    """Two products, or convolutions, with many channels between them: a channel at a time needs least."""
    net = Net(3)
    x = net.tensor((1, 4, 5, 3), zero=4)
    wide = convolution(net, x, lambda options: options[-1], 300, kernel=(1, 1))
    y = convolution(net, wide, lambda options: options[0], 2, kernel=(window, window))
    net.ends([x], [y])
    return net


def layers_net() -> Net:
    """Convolutions with channels that no vector divides, paddings, steps, an ADD, and extreme weights and scales."""
    net = Net(5)
    x = net.tensor((1, 9, 7, 3), scale=0.05, zero=9)

    def layer(x: int, channels: int, *, edge: bool = False, **window: Any) -> int:
        y = convolution(net, x, lambda options: options[0 if edge else 1], channels, **window)
        return _at_the_edge(net, y) if edge else y

    y = layer(x, 37, kernel=(3, 3), padding=SAME)
    y = net.add(y, layer(y, 1, depthwise=True, kernel=(3, 3), padding=SAME))
    y = layer(y, 1, depthwise=True, kernel=(3, 2), dilation=(2, 1), padding=SAME)
    y = layer(y, 21, kernel=(1, 1), edge=True)
    y = layer(y, 1, depthwise=True, kernel=(3, 3), stride=(2, 2), padding=SAME, edge=True)
    net.ends([x], [layer(y, 2, depthwise=True, kernel=(2, 2), padding=SAME)])
    return net


def _at_the_edge(net: Net, y: int) -> int:
    """Give the convolution that makes a tensor some weights of -128, large biases, and factors above 1."""
    _, w, b = net.graph.operators[-1].inputs
    weights = net.model.buffers[net.graph.tensors[w].buffer].data
    weights = np.array(weights)
    weights[::5] = 128
    net.model.buffers[net.graph.tensors[w].buffer].data = weights
    scales = net.graph.tensors[w].quantization.scale
    scales[::3] = [30.0] * len(scales[::3])
    bias = net.rng.integers(-(1 << 26), 1 << 26, len(scales)).astype(np.int32)
    bias[::2] //= 1 << 18
    net.model.buffers[net.graph.tensors[b].buffer].data = np.frombuffer(bias.tobytes(), np.uint8)
    return y


def emit_net(pick: Pick, seed: int = 0, ops: int = 8) -> Net:
    """A random network with a convolution first; what nobody reads is an output no more."""
    net = Net(seed)
    x = net.tensor((1, pick((7, 12)), pick((6, 9)), pick((1, 3))), scale=0.05, zero=pick((-128, 0, 9)))
    live = [convolution(net, x, pick, 8, kernel=(3, 3), stride=pick(((1, 1), (2, 2))), padding=SAME)]
    for _ in range(ops):
        make = pick((_conv, _conv, _pool, _add, _rescale, _concat, _pad))
        y = make(net, pick(live[-2:]), pick, live)
        if np.prod(net.shape(y)) <= _MOST_ELEMENTS and y not in live:
            live.append(y)
    net.ends([x], [_head(net, live[-1], pick)])
    _without_idle_ops(net)
    return net


def _without_idle_ops(net: Net) -> None:
    """Take out ops whose results nobody needs, and tensors of no op: LiteRT hands out no tensors of others."""
    needed, kept = set(net.graph.outputs), []
    for op in reversed(net.graph.operators):
        if needed.intersection(op.outputs):
            needed.update(op.inputs)
            kept.append(op)
    net.graph.operators = kept[::-1]
    used = sorted({t for op in kept for t in (*op.inputs, *op.outputs)} | {*net.graph.inputs, *net.graph.outputs})
    number = {t: k for k, t in enumerate(used)}
    net.graph.tensors = [net.graph.tensors[t] for t in used]
    for op in kept:
        op.inputs, op.outputs = [number[t] for t in op.inputs], [number[t] for t in op.outputs]
    net.graph.inputs = [number[t] for t in net.graph.inputs]
    net.graph.outputs = [number[t] for t in net.graph.outputs]
