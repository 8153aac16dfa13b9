"""Temporary tensors of LiteRT's kernels, each kind and type in the runtime, on random shapes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.rules.litert.temporaries import _KERNELS, temporaries
from lowtide.run.tflite_process import _litert
from lowtide.runtimes.litert import litert_arena
from lowtide.target import BUILT_IN
from support.tflite_builder import SAME, Net, graph_from, s

pytest.importorskip("ai_edge_litert.interpreter", reason="pip install '.[tflite]'")
SHAPES = 6


def weights(net: Net, shape: tuple[int, ...], dtype: str) -> int:
    """Random ones."""
    floats = dtype == "float32"
    values = net.rng.standard_normal(shape) if floats else net.rng.integers(-100, 100, shape)
    return net.tensor(shape, dtype, values, scale=0.0 if floats else 0.01)


def state(net: Net, shape: tuple[int, ...], dtype: str = "float32") -> int:
    """A variable."""
    return net.tensor(shape, dtype, variable=True, scale=2.0**-11)


def options(kind: str, **values: Any) -> Any:
    """An options table with fields set."""
    made = getattr(s, f"{kind}OptionsT")()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def lstm(draw: random.Random, dtype: str, *, sequence: bool = True) -> Net:
    """An LSTM over a sequence, or one step of one; sometimes without an input gate, sometimes with a projection."""
    net = Net()
    batch, steps, read, cells = (draw.randrange(1, n) for n in (4, 6, 9, 40))
    cifg, project, major = draw.random() < 0.4, draw.random() < 0.4, sequence and draw.random() < 0.5
    given = "int8" if dtype == "int8" else "float32"
    made = draw.randrange(1, 20) if project else cells
    lead = ((steps, batch) if major else (batch, steps)) if sequence else (batch,)
    x = net.tensor((*lead, read), given)
    kind, bias = (
        ("float32", "float32") if dtype == "float32" else ("int8", "float32" if given == "float32" else "int32")
    )
    gate = lambda width: [weights(net, (cells, width), kind) for _ in range(3 if cifg else 4)]  # noqa: E731
    first = [-1] * cifg
    inputs = [x, *first, *gate(read), *first, *gate(made), -1, -1, -1]
    inputs += [*first, *(net.tensor((cells,), bias, net.rng.integers(0, 5, cells)) for _ in range(3 if cifg else 4))]
    inputs += [weights(net, (made, cells), kind), -1] if project else [-1, -1]
    inputs += [state(net, (batch, made), given), state(net, (batch, cells), "int16" if given == "int8" else "float32")]
    out = net.tensor((*lead, made), given)
    between = [net.tensor((0,), "int16" if i < 4 else "int8", scale=0.01) for i in range(5)]
    if sequence:
        named = options("UnidirectionalSequenceLSTM", timeMajor=major, fusedActivationFunction=4)
        net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [*inputs, -1, -1, -1, -1], [out], named)
    else:
        net.op("LSTM", [*inputs, -1, -1, -1, -1], [out], options("LSTM", fusedActivationFunction=4))
    if given == "int8":
        net.graph.operators[-1].intermediates = between
    net.ends([x], [out])
    return net


def rnn(draw: random.Random, dtype: str, *, sequence: bool = False) -> Net:
    """A plain recurrent layer."""
    net = Net()
    batch, steps, read, units = (draw.randrange(1, n) for n in (4, 6, 9, 40))
    major = draw.random() < 0.5
    lead = ((steps, batch) if major else (batch, steps)) if sequence else (batch,)
    x = net.tensor((*lead, read), "float32")
    bias = net.tensor((units,), "float32", net.rng.standard_normal(units))
    inputs = [x, weights(net, (units, read), dtype), weights(net, (units, units), dtype), bias]
    out = net.tensor((*lead, units), "float32")
    named = options("SequenceRNN", timeMajor=major) if sequence else options("RNN")
    kind = "UNIDIRECTIONAL_SEQUENCE_RNN" if sequence else "RNN"
    net.op(kind, [*inputs, state(net, (batch, units))], [out], named)
    net.ends([x], [out])
    return net


def svdf(draw: random.Random, dtype: str) -> Net:
    """A rank decomposition of a recurrent layer."""
    net = Net()
    batch, read, units, rank, memory = (draw.randrange(1, n) for n in (4, 20, 30, 4, 9))
    given = "int8" if dtype == "int8" else "float32"
    x = net.tensor((batch, read), given)
    bias = net.tensor((units,), "int32" if dtype == "int8" else "float32", net.rng.integers(0, 5, units))
    held = state(net, (batch, memory * units * rank), "int16" if dtype == "int8" else "float32")
    kind = "int8" if dtype != "float32" else dtype
    times = weights(net, (units * rank, memory), "int16" if dtype == "int8" else kind)
    out = net.tensor((batch, units), given)
    net.op(
        "SVDF",
        [x, weights(net, (units * rank, read), kind), times, bias, held],
        [out],
        options("SVDF", rank=rank, fusedActivationFunction=1 if dtype == "int8" else 0),
    )
    net.ends([x], [out])
    return net


def fully_connected(draw: random.Random, dtype: str) -> Net:
    """Float inputs, 8-bit weights."""
    net = Net()
    batch, read, units = (draw.randrange(1, n) for n in (7, 50, 50))
    x = net.tensor((batch, read), "float32")
    out = net.tensor((batch, units), "float32")
    net.op("FULLY_CONNECTED", [x, weights(net, (units, read), dtype), -1], [out], options("FullyConnected"))
    net.ends([x], [out])
    return net


def convolution(draw: random.Random, dtype: str, *, depthwise: bool = False) -> Net:
    """Float inputs, 8-bit weights of one scale per filter."""
    net = Net()
    n, side, depth, filters, kernel = (draw.randrange(1, n) for n in (3, 12, 6, 9, 4))
    x = net.tensor((n, side, side, depth), "float32")
    made = depth if depthwise else filters
    shape = (1, kernel, kernel, depth) if depthwise else (filters, kernel, kernel, depth)
    w = net.tensor(
        shape,
        dtype,
        net.rng.integers(-100, 100, shape),
        scale=[0.01 + k / 1000 for k in range(made)],
        axis=3 if depthwise else 0,
    )
    bias = net.tensor((made,), "float32", net.rng.standard_normal(made))
    out = net.tensor((n, side, side, made), "float32")
    common = {"padding": SAME, "strideH": 1, "strideW": 1}
    if depthwise:
        net.op("DEPTHWISE_CONV_2D", [x, w, bias], [out], options("DepthwiseConv2D", depthMultiplier=1, **common))
    else:
        net.op("CONV_2D", [x, w, bias], [out], options("Conv2D", **common))
    net.ends([x], [out])
    return net


def batch_matmul(draw: random.Random, dtype: str) -> Net:
    """Two activations, or one and a constant, of floats or hybrid."""
    net = Net()
    batch, rows, inner, columns = (draw.randrange(1, n) for n in (4, 20, 20, 20))
    x = net.tensor((batch, rows, inner), "float32")
    fixed = dtype == "int8" or draw.random() < 0.5
    shape = (batch, inner, columns)
    y = weights(net, shape, dtype) if fixed else net.tensor(shape, "float32")
    out = net.tensor((batch, rows, columns), "float32")
    net.op("BATCH_MATMUL", [x, y], [out], options("BatchMatMul"))
    net.ends([x] if fixed else [x, y], [out])
    return net


def add_n(draw: random.Random, dtype: str) -> Net:
    """A sum of several."""
    net = Net()
    inputs = [net.tensor((3, 7), dtype) for _ in range(draw.randrange(2, 6))]
    out = net.like(inputs[0])
    net.op("ADD_N", inputs, [out], options("AddN"))
    net.ends(inputs, [out])
    return net


KERNELS: dict[str, Callable[[random.Random], Net]] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM float": lambda d: lstm(d, "float32"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM hybrid": lambda d: lstm(d, "hybrid"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM int8": lambda d: lstm(d, "int8"),
    "LSTM float": lambda d: lstm(d, "float32", sequence=False),
    "LSTM hybrid": lambda d: lstm(d, "hybrid", sequence=False),
    "LSTM int8": lambda d: lstm(d, "int8", sequence=False),
    "RNN float": lambda d: rnn(d, "float32"),
    "RNN hybrid": lambda d: rnn(d, "int8"),
    "UNIDIRECTIONAL_SEQUENCE_RNN hybrid": lambda d: rnn(d, "int8", sequence=True),
    "SVDF float": lambda d: svdf(d, "float32"),
    "SVDF hybrid": lambda d: svdf(d, "hybrid"),
    "SVDF int8": lambda d: svdf(d, "int8"),
    "FULLY_CONNECTED hybrid": lambda d: fully_connected(d, "int8"),
    "CONV_2D hybrid": lambda d: convolution(d, "int8"),
    "DEPTHWISE_CONV_2D hybrid": lambda d: convolution(d, "int8", depthwise=True),
    "BATCH_MATMUL float": lambda d: batch_matmul(d, "float32"),
    "BATCH_MATMUL hybrid": lambda d: batch_matmul(d, "int8"),
    "ADD_N float": lambda d: add_n(d, "float32"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_arena_has_its_temporary_tensors(kernel: Callable[[random.Random], Net], tmp_path: Any) -> None:
    """The arena is as large as predicted, on several random shapes; on some there is more in it than the tensors."""
    for seed in range(SHAPES):
        data = kernel(random.Random(seed)).bytes()
        graph = graph_from(data)
        (tmp_path / "m.tflite").write_bytes(data)
        tensors = [t.id for t in graph.tensors if t.kind is not Kind.CONSTANT]
        measured = _litert("litert", str(tmp_path / "m.tflite")).measured(tensors)  # placed, and never run
        found = litert_arena(memory_model(graph, BUILT_IN["tflite"]), range(len(graph.ops)))
        assert measured == {"arena_bytes": found.bytes}, (seed, temporaries(graph, graph.ops[0]))


@pytest.mark.parametrize("kind", sorted(_KERNELS))
def test_shapes_that_the_runtime_refuses_are_no_error(kind: str) -> None:
    """Operands of no dimension or of an empty one have no temporary tensors, or some."""
    for shape in ((), (1,), (0,), (0, 3)):
        tensors = (*(Tensor(i, 4, Kind.INPUT, "", shape, "float32") for i in range(5)), Tensor(5, 4, shape=shape))
        graph = Graph("g", tensors, (Op(0, tuple(range(5)), (5,), type=kind),))
        assert all(size >= 0 for size in temporaries(graph, graph.ops[0]))
