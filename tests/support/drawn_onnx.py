"""Random ONNX models of the versions 7 to 24: float32, float16, with quantised tensors between, of quantised ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support import small_nets
from support.small_nets import Nets, Shape

OPSETS = range(7, 25)
KINDS = ("float32", "float32", "float32", "float32", "float16", "mixed", "qdq", "qoperator")
"""What is drawn; half of it in single precision. In `mixed` some tensors are float16, and back at once."""
_SIZES = (5, 7, 8, 9, 12, 16)


@dataclass
class Drawn(Nets):
    """A network of one version: each node is one that ONNX's checker takes there."""

    scales: set[str] = field(default_factory=set[str])

    def _shapes(self, made: onnx.NodeProto, names: list[str]) -> list[Shape] | None:
        schema = onnx.defs.get_schema(made.op_type, self.opset, made.domain) if _known(made, self.opset) else None
        if schema is None or not {a.name for a in made.attribute} <= set(schema.attributes):
            return None
        if not schema.min_input <= len(made.input) <= schema.max_input:
            return None
        return super()._shapes(made, names)

    def number(self, value: float) -> str:
        """A single number."""
        return self._weight(np.array(value, np.float32))

    def factors(self, *values: float) -> str:
        """Scales of a resize, which are float32 whatever the model is in."""
        self.scales.add(self.values(*values))
        return self.weights[-1].name


def _known(made: onnx.NodeProto, opset: int) -> bool:
    return onnx.defs.has(made.op_type, max_inclusive_version=opset, domain=made.domain)


def split(nets: Nets, x: str) -> None:
    """In two, by an attribute or an operand."""
    axis = nets.pick(range(len(nets.shapes[x])))
    size = nets.shapes[x][axis]
    if size < 2:
        return
    first = nets.pick(range(1, size))
    if nets.opset < 13:
        nets.node("Split", [x], results=2, axis=axis, split=[first, size - first])
    else:
        nets.node("Split", [x, nets.ints(first, size - first)], results=2, axis=axis)


def slice_(nets: Nets, x: str) -> None:
    """Some rows, where operands say so maybe every other one, maybe backwards."""
    axis = nets.pick(range(len(nets.shapes[x])))
    size = nets.shapes[x][axis]
    start = nets.pick(range(size))
    if nets.opset < 10:
        nets.node("Slice", [x], axes=[axis], starts=[start], ends=[nets.pick(range(start + 1, size + 1))])
        return
    step = nets.pick((1, 1, 2, -1))
    end = size if step > 0 else -size - 1
    steps = [nets.ints(step)] if step != 1 or nets.pick((True, False)) else []
    nets.node("Slice", [x, nets.ints(start), nets.ints(end), nets.ints(axis), *steps])


def pad(nets: Nets, x: str) -> None:
    """More rows around, in two dimensions."""
    rank = len(nets.shapes[x])
    pads, mode = [0] * (2 * rank), nets.pick(("constant", "constant", "edge", "reflect"))
    for axis in (nets.pick(range(rank)), nets.pick(range(rank))):
        pads[axis], pads[rank + axis] = nets.pick((0, 1, 2)), nets.pick((0, 1))
    if nets.opset < 11:
        nets.node("Pad", [x], mode=mode, pads=pads, value=nets.pick((0.0, 0.5)))
    else:
        fill = [nets.floats(())] if mode == "constant" and nets.pick((True, False)) else []
        by_axes = nets.opset >= 18 and nets.pick((True, False))
        last = [*(fill or [""]), nets.ints(*range(rank))] if by_axes else fill
        nets.node("Pad", [x, nets.ints(*pads), *last], mode=mode)


def resize(nets: Nets, x: str) -> None:
    """More rows or fewer, by scales or by sizes; at 11 and 12 with a region of interest, empty or not."""
    assert isinstance(nets, Drawn)
    shape, opset = nets.shapes[x], nets.opset
    scales = [nets.pick((1.0, 2.0, 2.0, 3.0, 1.5, 0.5)) for _ in "hw"]
    if opset < 10:
        scales = [max(1.0, s) for s in scales]
        by = {"scales": [1.0, 1.0, *scales]} if opset < 9 else {}
        more = [] if opset < 9 else [nets.factors(1, 1, *scales)]
        nets.node("Upsample", [x, *more], mode=nets.pick(("nearest", "linear")), **by)
        return
    if opset == 10:
        nets.node("Resize", [x, nets.factors(1, 1, *scales)], mode=nets.pick(("nearest", "linear")))
        return
    mode = nets.pick(("nearest", "nearest", "linear", "cubic"))
    places = nets.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": places}
    if mode == "nearest":
        how["nearest_mode"] = nets.pick(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if opset >= 18 and mode != "nearest":
        how["antialias"] = nets.pick((0, 0, 1))
    roi = nets.floats((nets.pick((0, 0, 8)),)) if opset < 13 else nets.pick(("", "", nets.floats((0,))))
    if nets.pick((True, True, False)):
        nets.node("Resize", [x, roi, nets.factors(1, 1, *scales)], **how)
    else:
        none = nets.factors() if opset < 13 else ""
        sizes = [max(1, math.floor(s * f)) for s, f in zip(shape[2:], scales, strict=True)]
        if opset >= 18 and nets.pick((True, False)):
            how["axes"] = [2, 3]
            nets.node("Resize", [x, roi, none, nets.ints(*sizes)], **how)
        else:
            nets.node("Resize", [x, roi, none, nets.ints(*shape[:2], *sizes)], **how)


def reduce(nets: Nets, x: str) -> None:
    """Some dimensions as one."""
    rank, kind = len(nets.shapes[x]), nets.pick(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"))
    axes = sorted({nets.pick(range(rank)), nets.pick(range(rank))})
    by_operand = nets.opset >= (13 if kind == "ReduceSum" else 18)
    given = {} if by_operand else {"axes": axes}
    left_out = by_operand and nets.pick((False, False, True))
    read = [x, "" if left_out else nets.ints(*axes)] if by_operand else [x]
    nets.node(kind, read, keepdims=1 if left_out else nets.pick((0, 1, 1)), **given)


def along(nets: Nets, x: str) -> None:
    """An op that sees one dimension whole."""
    rank = len(nets.shapes[x])
    match nets.pick(("Softmax", "Softmax", "LogSoftmax", "LayerNormalization", "CumSum", "LpNormalization", "LRN")):
        case "LayerNormalization":
            size = nets.shapes[x][-1]
            nets.node("LayerNormalization", [x, nets.floats((size,)), nets.floats((size,))][: nets.pick((2, 3))])
        case "CumSum":
            nets.node("CumSum", [x, nets.ints(nets.pick(range(rank)))], exclusive=nets.pick((0, 1)))
        case "LRN":
            nets.node("LRN", [x], size=3)
        case kind:
            nets.node(kind, [x], axis=nets.pick(range(rank)))


def reshape(nets: Nets, x: str) -> None:
    """Two dimensions as one, one as two, one more or less."""
    if nets.opset >= 13:
        small_nets.reshape(nets, x)
        return
    shape = nets.shapes[x]
    d = nets.pick(range(len(shape)))
    match nets.pick(("merge", "Flatten", "Unsqueeze", "Squeeze")):
        case "merge" if d + 1 < len(shape):
            nets.node("Reshape", [x, nets.ints(*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :])])
        case "Flatten":
            nets.node("Flatten", [x], axis=d)
        case "Unsqueeze" if len(shape) < 5:
            nets.node("Unsqueeze", [x], axes=[d])
        case "Squeeze" if shape[d] == 1 and len(shape) > 1:
            nets.node("Squeeze", [x], axes=[d])


def clip(nets: Nets, x: str) -> None:
    """Between two bounds, one of which may be left out."""
    if nets.opset < 11:
        nets.node("Clip", [x], min=-0.5, max=nets.pick((0.5, 6.0)))
    else:
        nets.node("Clip", [x, nets.pick(("", nets.floats(()))), nets.values(2.0)][: nets.pick((2, 3))])


def unary(nets: Nets, x: str) -> None:
    """An elementwise op."""
    kinds = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Identity",
             "Dropout", "Erf", "HardSwish", "Gelu", "Mish")  # fmt: skip
    kind = nets.pick(kinds)
    assert isinstance(nets, Drawn)
    ratio = [nets.number(0.3)] if kind == "Dropout" and nets.opset >= 12 and nets.pick((True, False)) else []
    nets.node(kind, [x, *ratio])


def choose(nets: Nets, x: str) -> None:
    """Rows by their numbers, several times, or as many as another tensor has."""
    shape = nets.shapes[x]
    axis = nets.pick(range(len(shape)))
    match nets.pick(("Gather", "Tile", "Expand", "Where")):
        case "Gather":
            nets.node("Gather", [x, nets.ints(*(nets.pick(range(shape[axis])) for _ in range(3)))], axis=axis)
        case "Tile":
            nets.node("Tile", [x, nets.ints(*(nets.pick((1, 1, 2)) for _ in shape))])
        case "Expand":
            nets.node("Expand", [x, nets.ints(*(nets.pick((s, 4)) if s == 1 else s for s in shape))])
        case _:
            fits = [t for t, other in nets.shapes.items() if other == shape]
            positive = nets.node("Max", [x, nets.floats(())]) if nets.opset >= 9 else []
            if positive:
                nets.node("Min", [positive[0], nets.pick(fits)])


ANY: tuple[Callable[[Nets, str], None], ...] = (
    unary, unary, small_nets.sum_of_two, small_nets.sum_of_two, small_nets.scaled, small_nets.concat, split, slice_,
    pad, along, small_nets.transpose, reshape, reduce, small_nets.product, small_nets.product, clip, choose,
    small_nets.attention, small_nets.attention, small_nets.folded_weight,
)  # fmt: skip
IMAGE = (
    small_nets.conv, small_nets.conv, small_nets.conv, small_nets.conv, small_nets.conv_transpose, small_nets.pool,
    small_nets.pool, resize, resize, small_nets.norm, small_nets.squeeze_and_excite, small_nets.blocks, *ANY,
)  # fmt: skip


def drawn_model(random: Random) -> tuple[str, onnx.ModelProto]:
    """A kind, and a model of it. Not every one is a model that onnxruntime runs."""
    kind = random.choice(KINDS)
    if kind == "qoperator":
        return kind, _quantised_ops(random)
    opset = random.choice(OPSETS if kind != "qdq" else range(10, 25))
    nets = Drawn(random.choice, opset)
    if random.random() < 0.75:
        nets.input(
            (random.choice((1, 1, 1, 2)), random.choice((2, 3, 4)), random.choice(_SIZES), random.choice(_SIZES))
        )
    else:
        nets.input((random.choice((1, 2)), random.choice(_SIZES), random.choice((4, 6, 8))))
    wanted = random.choice((5, 8, 12, 16))
    if random.random() < 0.7:
        _widen(nets)
    for _ in range(3 * wanted):
        if len(nets.nodes) >= wanted:
            break
        live = list(nets.shapes)
        x = random.choice((live[-1], live[-1], random.choice(live)))
        random.choice(IMAGE if len(nets.shapes[x]) == 4 else ANY)(nets, x)
    if random.random() < 0.7:
        _narrow(nets)
    made = [name for name in nets.shapes if name not in nets.inputs] or nets.node("Relu", [nets.inputs[0]])
    model = nets.model((random.choice(made),) if random.random() < 0.3 else ())
    if opset < 9:  # before, every initializer was an input as well
        model.ir_version = 8
    if kind == "float16":
        _halve(model, nets.scales)
    elif kind in ("qdq", "mixed"):
        _between(model, random, _quantised if kind == "qdq" else _halved)
    return kind, model


def _widen(nets: Nets) -> None:
    """More channels than the input has: what lies between is then what a plan is about."""
    (x,), filters = nets.inputs, nets.pick((8, 12))
    shape = nets.shapes[x]
    if len(shape) == 4:
        nets.node("Conv", [x, nets.floats((filters, shape[1], 3, 3), 0.3), nets.floats((filters,))], pads=[1, 1, 1, 1])
    else:
        nets.node("MatMul", [x, nets.floats((shape[-1], 2 * filters), 0.3)])


def _narrow(nets: Nets) -> None:
    """A small end, and nothing that does not lead there."""
    end = list(nets.shapes)[-1]
    shape = nets.shapes[end]
    made = list[str]()
    if len(shape) == 4:
        weights = nets.floats((2, shape[1], 1, 1), 0.3)
        made = nets.node("Conv", [end, weights], strides=[nets.pick((1, 2)), nets.pick((1, 2))])
    elif len(shape) > 1:
        made = nets.node("MatMul", [end, nets.floats((shape[-1], 2), 0.3)])
    needed = {made[0] if made else end}
    for node in reversed(list(nets.nodes)):
        if needed.isdisjoint(node.output):
            nets.nodes.remove(node)
        else:
            needed.update(node.input)
    for name in [name for name in nets.shapes if name not in nets.inputs]:
        if not any(name in node.output for node in nets.nodes):
            del nets.shapes[name]


def _halve(model: onnx.ModelProto, scales: set[str]) -> None:
    for w in model.graph.initializer:
        if w.data_type == TensorProto.FLOAT and w.name not in scales:
            w.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(w).astype(np.float16), w.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16


def _between(
    model: onnx.ModelProto, random: Random, into: Callable[[onnx.GraphProto, str, Random], list[onnx.NodeProto]]
) -> None:
    """Nodes behind most nodes, whose last result is read in the place of theirs."""
    graph, nodes, instead = model.graph, list[onnx.NodeProto](), dict[str, str]()
    ends = {v.name for v in graph.output}
    for node in graph.node:
        node.input[:] = [instead.get(name, name) for name in node.input]
        nodes.append(node)
        for name in node.output:
            if name not in ends and random.random() < 0.7:
                nodes += into(graph, name, random)
                instead[name] = nodes[-1].output[0]
    del graph.node[:]
    graph.node.extend(nodes)


def _quantised(graph: onnx.GraphProto, name: str, random: Random) -> list[onnx.NodeProto]:
    """A tensor in 8 bits, and back."""
    scale, zero = f"{name}_s", f"{name}_z"
    graph.initializer.append(numpy_helper.from_array(np.array(random.uniform(0.01, 0.1), np.float32), scale))
    graph.initializer.append(numpy_helper.from_array(np.array(*random.choice(((-3, np.int8), (128, np.uint8)))), zero))
    return [
        helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_d"]),
    ]


def _halved(_: onnx.GraphProto, name: str, random: Random) -> list[onnx.NodeProto]:
    """A tensor in half precision, an op of it, and back."""
    return [
        helper.make_node("Cast", [name], [f"{name}_h"], to=TensorProto.FLOAT16),
        helper.make_node(random.choice(("Sigmoid", "Neg", "Relu", "Identity")), [f"{name}_h"], [f"{name}_i"]),
        helper.make_node("Cast", [f"{name}_i"], [f"{name}_d"], to=TensorProto.FLOAT),
    ]


@dataclass
class _Quantised:
    """A network of quantised ops, in one type of 8 bits."""

    random: Random
    dtype: Any
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def weight(self, values: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(values), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def scale(self) -> list[str]:
        """A scale and a zero point."""
        zero = 128 if self.dtype is np.uint8 else 3
        return [self.weight(np.float32(self.random.uniform(0.02, 0.1))), self.weight(self.dtype(zero))]

    def node(self, kind: str, reads: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        name, domain = f"t{len(self.nodes)}", "com.microsoft" if kind in _MICROSOFT else ""
        self.nodes.append(helper.make_node(kind, list(reads), [name], f"n{name}", domain=domain, **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def step(self, x: str) -> None:
        """One more node behind `x`."""
        random, (n, c, h, w) = self.random, self.shapes[x]
        match random.choice(("conv", "conv", "conv", "conv", "pool", "add", "concat", "sigmoid", "turn", "slice")):
            case "conv":
                filters, k, s = random.choice((3, 4, 8)), random.choice((1, 3, 3)), random.choice((1, 1, 2))
                weights = self.weight(random_bytes(random, (filters, c, k, k), np.int8))
                bias = [self.weight(random_bytes(random, (filters,), np.int32))] if random.random() < 0.5 else []
                filter_scale = [self.weight(np.float32(0.02)), self.weight(np.int8(0))]
                size = [(d + 2 * (k // 2) - k) // s + 1 for d in (h, w)]
                given = [x, *self.scale(), weights, *filter_scale, *self.scale(), *bias]
                self.node("QLinearConv", given, (n, filters, *size), pads=[k // 2] * 4, strides=[s, s])
            case "pool" if min(h, w) > 2:
                self.node("MaxPool", [x], (n, c, h // 2, w // 2), kernel_shape=[2, 2], strides=[2, 2])
            case "add":
                other = random.choice([t for t, shape in self.shapes.items() if shape == self.shapes[x]])
                self.node("QLinearAdd", [x, *self.scale(), other, *self.scale(), *self.scale()], (n, c, h, w))
            case "concat":
                fits = [t for t, (_, _, *size) in self.shapes.items() if size == [h, w]]
                other = random.choice(fits)
                self.node("Concat", [x, other], (n, c + self.shapes[other][1], h, w), axis=1)
            case "sigmoid":
                self.node("QLinearSigmoid", [x, *self.scale(), *self.scale()], (n, c, h, w))
            case "turn":
                self.node("Transpose", [x], (n, c, w, h), perm=[0, 1, 3, 2])
            case _:
                if h > 3:
                    bounds = [self.weight(np.array([v], np.int64)) for v in (1, h, 2)]
                    self.node("Slice", [x, *bounds], (n, c, h - 1, w))


_MICROSOFT = frozenset({"QLinearAdd", "QLinearSigmoid"})


def random_bytes(random: Random, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Whole numbers of 7 bits."""
    return np.random.default_rng(random.randrange(2**32)).integers(-60, 60, tuple(shape)).astype(dtype)


def _quantised_ops(random: Random) -> onnx.ModelProto:
    opset = random.choice(range(12, 25))
    net = _Quantised(random, random.choice((np.uint8, np.int8)))
    shape = (1, random.choice((2, 3)), random.choice(_SIZES), random.choice(_SIZES))
    net.shapes["x"] = shape
    net.node("QuantizeLinear", ["x", *net.scale()], shape)
    del net.shapes["x"]
    for _ in range(random.choice((5, 8, 12))):
        live = list(net.shapes)
        net.step(random.choice((live[-1], live[-1], random.choice(live))))
    read = {name for node in net.nodes for name in node.input}
    for name in [name for name in net.shapes if name not in read]:
        net.node("DequantizeLinear", [name, *net.scale()], net.shapes[name])
    ends = [n.output[0] for n in net.nodes if n.op_type == "DequantizeLinear"]
    graph = helper.make_graph(
        net.nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info(name, 1, net.shapes[name]) for name in ends],
        net.weights,
    )
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=8 if opset < 21 else 10, opset_imports=domains)
