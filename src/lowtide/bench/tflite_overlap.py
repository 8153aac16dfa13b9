"""How far an output may lie over its input in TFLM: the rule's distances tried in the interpreter itself.

For each operator of the table of kernels, models of that one operator with random shapes, strides and paddings. The
output lies at the rule's distance below the input, and must be bit-equal to what comes out without an offline plan;
then one row nearer, and one element nearer, where it may not be. What is one element nearer and still equal is the
slack of the rule there: chance (the spoilt value was the same), or a distance that is larger than need be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.bench.tflite_net import SAME, VALID, Net, s
from lowtide.graph import Graph
from lowtide.read.tflite import graph_of
from lowtide.read.tflite_model import parse_tflite
from lowtide.rules.tflm_kernels import distances
from lowtide.verify.tflite_process import draw as draw_input
from lowtide.verify.tflite_process import quiet, tflm_interpreter
from lowtide.write.tflite import planned_bytes

_ARENA = 4 * 2**20
_BINARY = {
    "ADD": "AddOptionsT", "SUB": "SubOptionsT", "MUL": "MulOptionsT", "SQUARED_DIFFERENCE": "SquaredDifferenceOptionsT",
    "MAXIMUM": "MaximumMinimumOptionsT", "MINIMUM": "MaximumMinimumOptionsT",
}  # fmt: skip
_UNARY_FLOAT = (
    "ABS", "SIN", "COS", "LOG", "SQRT", "RSQRT", "SQUARE", "NEG", "CEIL", "FLOOR", "ROUND", "EXP", "RELU", "RELU6",
    "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "SOFTMAX",
)  # fmt: skip
_UNARY_INT8 = ("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "SOFTMAX", "ABS")
_SCALES = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0)}

Make = Callable[[random.Random, Net], tuple[list[int], int]]
"""Adds one operator of random shape to a net: its inputs and its output."""


@dataclass(frozen=True, slots=True)
class OverlapRow:
    """What was seen of one kind of operator.

    Attributes
    ----------
    kind, dtype
        Operator and type of its output.
    shapes
        How many shapes the rule gives an overlap for; each is tried for each input that may be overlapped.
    equal
        At the rule's distance, bit-equal to the plain run.
    row_nearer_corrupt, element_nearer_corrupt
        A row, an element nearer, and the outputs differ.
    most_slack_bytes
        Largest number of bytes by which the output could lie nearer, over all shapes, with outputs still equal.
    """

    kind: str
    dtype: str
    shapes: int
    equal: int
    row_nearer_corrupt: int
    element_nearer_corrupt: int
    most_slack_bytes: int


def overlap_rows(shapes: int, seed: int, report: Callable[[str], None] | None = None) -> list[OverlapRow]:
    """Try every kind on so many shapes.

    Raises
    ------
    ImportError
        tflite-micro or ai-edge-litert is missing.
    """
    rows = []
    for (kind, dtype), make in kinds().items():
        if report is not None:
            report(f"{kind} {dtype}")
        rows.append(_row(kind, dtype, make, shapes, seed))
    return rows


def kinds() -> dict[tuple[str, str], Make]:
    """Every kind of operator that is tried, by name and type."""
    found: dict[tuple[str, str], Make] = {}
    for dtype in ("int8", "float32"):
        for kind in _BINARY:
            found[kind, dtype] = _binary(kind, dtype)
        for kind in _UNARY_INT8 if dtype == "int8" else _UNARY_FLOAT:
            found[kind, dtype] = _unary(kind, dtype)
        for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"):
            found[kind, dtype] = _window(kind, dtype)
        found["FULLY_CONNECTED", dtype] = _fully_connected(dtype)
        found["CONCATENATION", dtype] = _concatenation(dtype)
    found["QUANTIZE", "int8"] = _typed("QUANTIZE", "int8", "int8")
    found["QUANTIZE", "int8 from float32"] = _typed("QUANTIZE", "float32", "int8")
    found["DEQUANTIZE", "float32"] = _typed("DEQUANTIZE", "int8", "float32")
    found["LOGICAL_NOT", "bool"] = _typed("LOGICAL_NOT", "bool", "bool")
    return found


def _row(kind: str, dtype: str, make: Make, shapes: int, seed: int) -> OverlapRow:
    draw = random.Random(f"{seed} {kind} {dtype}")
    tried = equal = rows = elements = most_slack = 0
    for _ in range(shapes):
        net = Net(draw.randrange(2**31))
        inputs, out = make(draw, net)
        net.ends(inputs, [out])
        case = _Case.of(net.bytes(), inputs, out, draw.randrange(2**31))
        if case is None:
            continue
        for over, distance in distances(case.graph, case.graph.ops[0]):
            tried += 1
            if case.spoilt(over, distance, 0):
                continue
            equal += 1
            read = case.graph.tensor_by_id[over]
            shape = read.shape or (1,)
            width = read.size // int(np.prod(shape))
            row = read.size // int(np.prod(shape[:-2] or (1,)))
            rows += case.spoilt(over, distance, row)
            slack = 0
            while slack <= 4 * row and not case.spoilt(over, distance, slack + width):
                slack += width
            elements += slack == 0
            most_slack = max(most_slack, slack)
    return OverlapRow(kind, dtype, tried, equal, rows, elements, most_slack)


@dataclass(frozen=True)
class _Case:
    """A model of one operator, random inputs, and what comes out of it without an offline plan."""

    data: bytes
    graph: Graph
    inputs: list[int]
    out: int
    feeds: list[list[np.ndarray]]
    results: list[bytes]

    @classmethod
    def of(cls, data: bytes, inputs: list[int], out: int, seed: int) -> _Case | None:
        """Run it plainly; None if TFLM refuses the model."""
        model = parse_tflite(data, "net")
        rng = np.random.default_rng(seed)
        tensors = model.subgraphs[0].tensors
        feeds = [[draw_input(rng, tensors[t].dtype, tensors[t].shape) for t in inputs] for _ in range(2)]
        results = _run(data, feeds)
        return None if results is None else cls(data, graph_of(model, [], "net", ""), inputs, out, feeds, results)

    def spoilt(self, over: int, distance: int, nearer: int) -> bool:
        """Whether outputs differ with the output `nearer` bytes less than `distance` below the input `over`."""
        tensors = self.graph.tensor_by_id
        low = max(0, nearer - distance)
        places = {self.out: low, over: low + distance - nearer}
        at = sum(t.size for t in tensors.values()) + nearer
        for other in self.inputs:
            if other != over:
                places[other] = at
                at += tensors[other].size
        return _run(planned_bytes(self.data, [0], places, "net"), self.feeds) != self.results


def _run(data: bytes, feeds: Sequence[Sequence[np.ndarray]]) -> list[bytes] | None:
    """Outputs for each of the inputs; None if TFLM refuses the model."""

    def invoke() -> list[bytes] | None:
        session = tflm_interpreter(data, _ARENA)
        if session is None:
            return None
        results = []
        for feed in feeds:
            for i, value in enumerate(feed):
                session.set_input(value, i)
            try:
                session.invoke()
            except RuntimeError:
                return None
            results.append(np.array(session.get_output(0)).tobytes())
        return results

    return quiet(invoke)[0]


def _shape(draw: random.Random) -> tuple[int, int, int, int]:
    return draw.choice((1, 1, 2)), draw.randint(1, 9), draw.randint(1, 9), draw.randint(1, 8)


def _binary(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        a = net.tensor(_shape(draw), dtype)
        b = net.like(a)
        out = net.like(a)
        net.op(kind, [a, b], [out], getattr(s, _BINARY[kind])())
        return [a, b], out

    return make


def _unary(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_shape(draw), dtype)
        options: Any = None
        if kind == "SOFTMAX":
            options = s.SoftmaxOptionsT()
            options.beta = 1.0
        elif kind == "LEAKY_RELU":
            options = s.LeakyReluOptionsT()
            options.alpha = 0.2
        if dtype == "int8" and kind in _SCALES:
            scale, zero = _SCALES[kind]
            return [x], net.unary(kind, x, options, dtype=dtype, scale=scale, zero=zero)
        return [x], net.unary(kind, x, options)

    return make


def _typed(kind: str, given: str, made: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        x = net.tensor(_shape(draw), given)
        options = {"QUANTIZE": s.QuantizeOptionsT, "DEQUANTIZE": s.DequantizeOptionsT}.get(kind, s.LogicalNotOptionsT)()
        out = net.tensor(net.shape(x), made, scale=0.03, zero=5)
        net.op(kind, [x], [out], options)
        return [x], out

    return make


def _window(kind: str, dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        size = (draw.randint(3, 12), draw.randint(3, 12))
        x = net.tensor((draw.choice((1, 1, 2)), *size, draw.randint(1, 6)), dtype)
        padding = draw.choice((SAME, VALID))
        stride = (draw.randint(1, 3), draw.randint(1, 3))
        kernel = (draw.randint(1, 3), draw.randint(1, 3))
        if kind.endswith("POOL_2D"):
            return [x], net.pool(x, kind, kernel, stride, padding)
        dilation = (1, 1)
        if draw.random() < 0.3:
            dilation, stride = (draw.randint(1, 2), draw.randint(1, 2)), (1, 1)
            kernel = (min(kernel[0], 2), min(kernel[1], 2)) if padding == VALID else kernel
        deep = kind == "DEPTHWISE_CONV_2D"
        return [x], net.conv(x, draw.randint(1, 2 if deep else 8), kernel, stride, padding, dilation, depthwise=deep)

    return make


def _fully_connected(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        batches, depth, units = draw.randint(2, 6), draw.randint(2, 12), draw.randint(2, 12)
        x = net.tensor((batches, depth), dtype)
        quantised = dtype == "int8"
        values = net.rng.integers(-127, 128, (units, depth)) if quantised else net.rng.standard_normal((units, depth))
        w = net.tensor((units, depth), dtype, values, scale=0.01)
        b = net.tensor((units,), "int32" if quantised else dtype, np.zeros(units), scale=0.0005)
        out = net.tensor((batches, units), dtype, scale=0.1)
        net.op("FULLY_CONNECTED", [x, w, b], [out], s.FullyConnectedOptionsT())
        return [x], out

    return make


def _concatenation(dtype: str) -> Make:
    def make(draw: random.Random, net: Net) -> tuple[list[int], int]:
        shape = [draw.choice((1, 1, 2)), draw.randint(1, 6), draw.randint(2, 6), draw.randint(2, 8)]
        options = s.ConcatenationOptionsT()
        options.axis = draw.choice((1, 2, 3, -1))
        sizes = [draw.randint(1, 6) for _ in range(draw.randint(2, 3))]
        inputs = []
        for size in sizes:
            shape[options.axis] = size
            inputs.append(net.tensor(tuple(shape), dtype))
        shape[options.axis] = sum(sizes)
        out = net.like(inputs[0], tuple(shape))
        net.op("CONCATENATION", inputs, [out], options)
        return inputs, out

    return make


def table(rows: Sequence[OverlapRow]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| operator | type | overlaps | equal at the distance | a row nearer corrupts | an element nearer corrupts | "
        "largest slack, B |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.kind} | {r.dtype} | {r.shapes} | {r.equal} | {r.row_nearer_corrupt} | {r.element_nearer_corrupt} "
        f"| {r.most_slack_bytes} |"
        for r in rows
    ]
    return "\n".join(lines)
