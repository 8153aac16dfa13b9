"""Small random .tflite networks, and their parts run beside the whole in TFLM and in LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from lowtide.graph import Graph
from lowtide.read.tflite.model import TfliteFile, parse_file
from lowtide.read.tflite.reader import graph_of
from lowtide.transform.cut import PACES, Cutter, Pace, Region
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.tflite_file import TfliteParts, with_file
from lowtide.write import tflite_parts
from lowtide.write.tflite_parts import parts_bytes
from support.tflite_builder import SAME, VALID, Net, s

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of some options: `random.Random.choice`, or a draw of hypothesis."""
RELATIVE = 1e-5
"""Of the largest number of a result: what another kernel may make of floats."""
_MOST_ELEMENTS = 6000
_ARENA = 4 << 20


def graph_with_file(data: bytes) -> Graph:
    """Graph of a file's bytes, with what planning asks of the file."""
    file: TfliteFile = parse_file(data, "m")
    return replace(graph_of(file.model, file.dependencies, "m", ""), file=file)


def pyramid() -> Net:
    """A wide tensor between narrow ones: worth cutting even with what TFLM keeps for each operator."""
    net = Net()
    x = net.tensor((1, 32, 32, 3))
    a = net.conv(x, 8)
    b = net.conv(a, 48, (1, 1))
    c = net.conv(b, 8, (3, 3), (4, 4))
    net.ends([x], [net.conv(c, 4, (1, 1))])
    return net


def wide_net() -> Net:
    """A wide tensor between narrow ones, which two dimensions cut lower than one."""
    net = Net()
    x = net.tensor((1, 16, 16, 4))
    wide = net.conv(net.conv(x, 8), 32)
    net.ends([x], [net.conv(net.conv(wide, 4, (3, 3), (4, 4)), 4, (1, 1))])
    return net


def _conv(net: Net, x: int, pick: Pick, *, depthwise: bool) -> int:
    kernel = pick(((1, 1), (3, 3), (3, 2), (2, 3), (5, 1), (1, 4)))
    stride = pick(((1, 1), (1, 1), (2, 2), (2, 1), (1, 2), (3, 3)))
    dilation = pick(((1, 1), (1, 1), (2, 1), (1, 2))) if stride == (1, 1) else (1, 1)
    padding = pick((SAME, SAME, VALID))
    if padding == VALID:
        fits = zip(net.shape(x)[1:3], kernel, dilation, strict=True)
        if any(size <= (tap - 1) * step for size, tap, step in fits):
            return x
    channels = pick((1, 1, 2)) if depthwise else pick((3, 4, 8, 16, 20))
    if depthwise and net.shape(x)[3] * channels > 24:
        channels = 1
    return net.conv(x, channels, kernel, stride, padding, dilation, depthwise=depthwise)


def _pool(net: Net, x: int, pick: Pick) -> int:
    kernel, stride, padding = pick(((2, 2), (3, 3), (2, 1))), pick(((1, 1), (2, 2), (2, 1))), pick((SAME, VALID))
    if any(size < tap for size, tap in zip(net.shape(x)[1:3], kernel, strict=True)):
        return x
    return net.pool(x, pick(("AVERAGE_POOL_2D", "MAX_POOL_2D")), kernel, stride, padding)


def _binary(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    others = [t for t in live if net.shape(t) == net.shape(x)]
    y, out = pick(others), net.like(x)
    kind = pick(("ADD", "MUL", "MAXIMUM", "SUB"))
    options = {"ADD": s.AddOptionsT, "MUL": s.MulOptionsT, "SUB": s.SubOptionsT, "MAXIMUM": s.MaximumMinimumOptionsT}
    net.op(kind, [x, y], [out], options[kind]())
    return out


def _softmax(net: Net, x: int) -> int:
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    if net.graph.tensors[x].type == s.TensorType.FLOAT32:
        return net.unary("SOFTMAX", x, o)
    return net.unary("SOFTMAX", x, o, scale=1 / 256, zero=-128)


def _concat(net: Net, x: int, pick: Pick, live: Sequence[int]) -> int:
    axis = pick((1, 2, 3))
    shape = net.shape(x)
    rest = [size for d, size in enumerate(shape) if d != axis]
    scaled = [t for t in live if _scale(net, t) == _scale(net, x)]
    y = pick([t for t in scaled if [size for d, size in enumerate(net.shape(t)) if d != axis] == rest])
    out = net.like(x, tuple(a + (net.shape(y)[d] if d == axis else 0) for d, a in enumerate(shape)))
    o = s.ConcatenationOptionsT()
    o.axis = axis
    net.op("CONCATENATION", [x, y], [out], o)
    return out


def _scale(net: Net, t: int) -> Any:
    q = net.graph.tensors[t].quantization
    return None if q is None else (tuple(q.scale), tuple(q.zeroPoint))


def _pad(net: Net, x: int, pick: Pick) -> int:
    d = pick((1, 2))
    rows = pick(((1, 0), (0, 1), (1, 2)))
    pads = [(0, 0)] * 4
    pads[d] = rows
    shape = tuple(size + sum(more) for size, more in zip(net.shape(x), pads, strict=True))
    out = net.like(x, shape)
    net.op("PAD", [x, net.tensor((4, 2), "int32", pads, scale=0.0)], [out], s.PadOptionsT())
    return out


def _strided(net: Net, x: int, pick: Pick) -> int:
    shape = net.shape(x)
    d = pick((1, 2, 3))
    if shape[d] < 3:
        return x
    begin, end, step = [0] * 4, list(shape), [1] * 4
    begin[d], end[d], step[d] = 1, shape[d], pick((1, 2))
    size = list(shape)
    size[d] = -(-(end[d] - begin[d]) // step[d])
    out = net.like(x, tuple(size))
    given = [net.tensor((4,), "int32", numbers, scale=0.0) for numbers in (begin, end, step)]
    o = s.StridedSliceOptionsT()
    net.op("STRIDED_SLICE", [x, *given], [out], o)
    return out


def _mean(net: Net, x: int, pick: Pick) -> int:
    shape = net.shape(x)
    out = net.like(x, (shape[0], 1, 1, shape[3]))
    o = s.ReducerOptionsT()
    o.keepDims = True
    net.op("MEAN", [x, net.tensor((2,), "int32", [1, 2], scale=0.0)], [out], o)
    return out


def _rows(net: Net, x: int, pick: Pick) -> int:
    """A product for each row of some."""
    shape = net.shape(x)
    flat = net.reshape(x, (shape[0] * shape[1] * shape[2], shape[3]))
    outputs = pick((3, 6))
    real = net.graph.tensors[x].type == s.TensorType.FLOAT32
    values = net.rng.standard_normal((outputs, shape[3])) if real else net.rng.integers(-127, 128, (outputs, shape[3]))
    w = net.tensor((outputs, shape[3]), "float32" if real else "int8", values, scale=[0.01] * (1 if real else outputs))
    b = net.tensor((outputs,), "float32" if real else "int32", np.zeros(outputs), scale=[0.0005] * outputs)
    out = net.tensor((net.shape(flat)[0], outputs), "float32" if real else "int8", scale=0.2)
    net.op("FULLY_CONNECTED", [flat, w, b], [out], s.FullyConnectedOptionsT())
    return net.reshape(out, (*shape[:3], outputs))


def _resize(net: Net, x: int, pick: Pick) -> int:
    n, height, width, depth = net.shape(x)
    size = (height * pick((1, 2)), width * pick((1, 2)))
    out = net.like(x, (n, *size, depth))
    to = net.tensor((2,), "int32", size, scale=0.0)
    net.op("RESIZE_NEAREST_NEIGHBOR", [x, to], [out], s.ResizeNearestNeighborOptionsT())
    return out


KINDS: Mapping[str, Callable[[Net, int, Pick, Sequence[int]], int]] = {
    "conv": lambda net, x, pick, live: _conv(net, x, pick, depthwise=False),
    "depthwise": lambda net, x, pick, live: _conv(net, x, pick, depthwise=True),
    "pool": lambda net, x, pick, live: _pool(net, x, pick),
    "binary": _binary,
    "relu": lambda net, x, pick, live: net.unary("RELU", x),
    "softmax": lambda net, x, pick, live: _softmax(net, x),
    "concat": _concat,
    "pad": lambda net, x, pick, live: _pad(net, x, pick),
    "strided": lambda net, x, pick, live: _strided(net, x, pick),
    "mean": lambda net, x, pick, live: _mean(net, x, pick),
    "rows": lambda net, x, pick, live: _rows(net, x, pick),
    "resize": lambda net, x, pick, live: _resize(net, x, pick),
}
_DRAWN = ("conv",) * 5 + ("depthwise",) * 4 + ("pool", "pool", "binary", "binary") + tuple(KINDS)[4:]


def random_tflite(pick: Pick, ops: int = 7, dtype: str = "int8") -> Net:
    """A network of about so many operators over an image."""
    net = Net(pick(range(1000)))
    x = net.tensor((1, pick((5, 7, 8, 12, 13)), pick((4, 5, 7)), pick((2, 3))), dtype, zero=pick((0, 3, -128, 127)))
    live = [x]
    for _ in range(3 * ops):
        if len(net.graph.operators) >= ops:
            break
        at = pick((live[-1], live[-1], pick(live)))
        made = KINDS[pick(_DRAWN)](net, at, pick, live)
        if made != at:
            live.append(made)
        if int(np.prod(net.shape(live[-1]))) > _MOST_ELEMENTS:
            break
    read = {t for op in net.graph.operators for t in op.inputs}
    made_by = {t for op in net.graph.operators for t in op.outputs}
    net.ends([x], [t for t in live if t in made_by and t not in read])
    return net


def litert(data: bytes, feeds: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Outputs for each input, in LiteRT without delegates."""
    session = Interpreter(
        model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    session.allocate_tensors()
    results = []
    for feed in feeds:
        session.set_tensor(session.get_input_details()[0]["index"], feed)
        session.invoke()
        results.append([session.get_tensor(d["index"]).copy() for d in session.get_output_details()])
    return results


def tflm(data: bytes, feeds: Sequence[np.ndarray], outputs: int) -> list[list[np.ndarray]]:
    """Outputs for each input, in TFLM."""
    from lowtide.run.tflite_process import tflm_interpreter

    session = tflm_interpreter(data, _ARENA)
    assert session is not None
    results = []
    for feed in feeds:
        session.set_input(feed, 0)
        session.invoke()
        results.append([np.array(session.get_output(i)) for i in range(outputs)])
    return results


def feeds_of(data: bytes, count: int = 2) -> list[np.ndarray]:
    """Random inputs."""
    tensor = parse_file(data, "m").model.subgraphs[0]
    given = tensor.tensors[tensor.inputs[0]]
    rng = np.random.default_rng(1)
    if given.dtype == "float32":
        return [rng.standard_normal(given.shape).astype(np.float32) for _ in range(count)]
    return [rng.integers(-128, 128, given.shape).astype(given.dtype) for _ in range(count)]


def exactness(cutter: Cutter, parts: PartGraph) -> str:
    """What the cuts do to the numbers, the worst of them."""
    worst = ["bits"]
    for region in parts.regions:
        for cut in region.cuts:
            known = cutter.meaning(cut.op)
            assert known is not None
            worst.append(known.access.exactness(cut.axis))
    return max(worst, key=("bits", "kernel", "sum", "never").index)


def difference(before: list[list[np.ndarray]], after: list[list[np.ndarray]]) -> float:
    """Largest difference of a result, relative to its largest number; 0: equal to the bit."""
    worst = 0.0
    for a, b in ((a, b) for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.tobytes() != b.tobytes():
            a, b = a.astype(np.float64), b.astype(np.float64)
            worst = max(worst, float(np.nanmax(np.abs(a - b), initial=0) / max(1e-30, np.abs(a).max())))
    return worst


def ways_to_cut(cutter: Cutter) -> Iterator[tuple[dict[int, int], Pace]]:
    """Each way to cut ops of a graph together, as far as they are needed and as far as they can run."""
    graph: Graph = cutter.graph
    known = set()
    for op in graph.ops:
        for axis in cutter.axes(op.id):
            for within in (graph.own_order, graph.own_order[: graph.index_of[op.id] + 1], (op.id,)):
                axes = cutter.grow(within, op.id, axis)
                if axes is not None and (key := frozenset(axes.items())) not in known:
                    known.add(key)
                    for pace in PACES[: len(axes)]:
                        yield axes, pace


def regions(cutter: Cutter, stripes: int) -> Iterator[Region]:
    """Regions for each of these ways."""
    return (cutter.region(cutter.graph.own_order, axes, stripes, pace) for axes, pace in ways_to_cut(cutter))


_parsed_once = lru_cache(maxsize=4)(parse_file)
"""The file that is cut over and over is parsed once."""


class Whole:
    """A file and what it makes of some inputs, in the runtimes that run it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.graph = data, graph_with_file(data)
        self.cutter = Cutter(self.graph)
        self.feeds = feeds_of(data)
        self.outputs = len(parse_file(data, "m").model.subgraphs[0].outputs)
        self.litert = litert(data, self.feeds)
        try:
            self.tflm: list[list[np.ndarray]] | None = tflm(data, self.feeds, self.outputs)
        except Exception:  # TFLM's interpreter has no error of its own kind
            self.tflm = None

    def differs(self, found: Sequence[Region]) -> str:
        """What is wrong with the file in parts, run beside the whole; empty: nothing."""
        parts = with_file(apply(self.cutter, found))
        return self.runs_otherwise(parts, bits=exactness(self.cutter, parts) == "bits")

    def runs_otherwise(self, parts: PartGraph, *, bits: bool) -> str:
        """The same of some parts, with the file that they will be."""
        with patch.object(tflite_parts, "parse_file", _parsed_once):
            made = parts_bytes(self.data, parts, parts.graph.own_order, "m")
        check_file(made, parts)
        limit = 0.0 if bits else RELATIVE
        measured = difference(self.litert, litert(made, self.feeds))
        if not measured <= limit:
            return f"LiteRT: {measured:.3g}"
        if self.tflm is not None:
            measured = difference(self.tflm, tflm(made, self.feeds, self.outputs))
            if not measured <= limit:
                return f"TFLM: {measured:.3g}"
        return ""


def check_file(data: bytes, parts: PartGraph) -> None:
    """What was written reads back as the file that was planned."""
    file = parts.graph.file
    assert isinstance(file, TfliteParts)
    again = parse_file(data, "m").model
    assert len(again.subgraphs) == len(file.model.subgraphs)
    for read, planned in zip(again.subgraphs, file.model.subgraphs, strict=True):
        assert (read.name, read.inputs, read.outputs) == (planned.name, planned.inputs, planned.outputs)
        for a, b in zip(read.tensors, planned.tensors, strict=True):
            assert (a.name, a.shape, a.dtype, a.size, a.buffer_bytes, a.quant) == (
                b.name, b.shape, b.dtype, b.size, b.buffer_bytes, b.quant,
            )  # fmt: skip
            assert b.value is None or a.value == b.value
        for a, b in zip(read.ops, planned.ops, strict=True):
            assert (a.type, a.inputs, a.outputs, a.options) == (b.type, b.inputs, b.outputs, b.options)
