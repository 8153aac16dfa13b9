"""Small random ONNX networks: windows with strides, paddings and dilations, residual sums, products, rearrangements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 20
Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of some options: `random.Random.choice`, or a draw of hypothesis."""
Shape = tuple[int, ...]

_MOST_ELEMENTS = 4096
_UNARY = ("Relu", "Sigmoid", "HardSwish", "Neg", "Identity", "Elu")


@dataclass
class Nets:
    """Makes one network, node by node; what does not fit is left out again."""

    pick: Pick
    opset: int = OPSET
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    def input(self, shape: Shape) -> str:
        """A graph input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def floats(self, shape: Sequence[int], scale: float = 1.0) -> str:
        """Weights, of which the same place in the network always has the same."""
        rng = np.random.default_rng(len(self.weights))
        values = (rng.standard_normal(tuple(shape)) * scale).astype(np.float32)
        return self._weight(values)

    def positive(self, size: int) -> str:
        """A vector of numbers above 0."""
        return self._weight(np.linspace(0.5, 2, size, dtype=np.float32))

    def values(self, *values: float) -> str:
        """A vector of numbers."""
        return self._weight(np.array(values, np.float32))

    def ints(self, *values: int) -> str:
        """Whole numbers."""
        return self._weight(np.array(values, np.int64))

    def _weight(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind: str, reads: Sequence[str], results: int = 1, **attributes: Any) -> list[str]:
        """A node; nothing where it does not fit, or makes nothing or too much."""
        names = [f"t{len(self.nodes)}_{j}" if results > 1 else f"t{len(self.nodes)}" for j in range(results)]
        made = helper.make_node(kind, list(reads), names, name=f"n{len(self.nodes)}", **attributes)
        shapes = self._shapes(made, names)
        if shapes is None:
            return []
        self.nodes.append(made)
        self.shapes.update(zip(names, shapes, strict=True))
        return names

    def undo(self) -> None:
        """Take the last node away."""
        for name in self.nodes.pop().output:
            del self.shapes[name]

    def _shapes(self, made: onnx.NodeProto, names: list[str]) -> list[Shape] | None:
        read = [helper.make_tensor_value_info(n, 1, self.shapes[n]) for n in set(made.input) if n in self.shapes]
        fixed = [w for w in self.weights if w.name in made.input]
        graph = helper.make_graph([made], "g", read, [helper.make_empty_tensor_value_info(n) for n in names], fixed)
        try:
            typed = onnx.shape_inference.infer_shapes(self._model(graph), strict_mode=True, data_prop=True)
        except (onnx.shape_inference.InferenceError, RuntimeError):
            return None
        shapes = [tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in typed.graph.output]
        return shapes if all(s and 0 < math.prod(s) <= _MOST_ELEMENTS for s in shapes) else None

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", self.opset)])

    def model(self, also: Sequence[str] = ()) -> onnx.ModelProto:
        """The network; its outputs are what nobody reads, and those of `also`."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        outputs = [name for name in made if name not in read or name in also]
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(n, 1, self.shapes[n]) for n in self.inputs],
            [helper.make_tensor_value_info(n, 1, self.shapes[n]) for n in outputs],
            self.weights,
        )
        return self._model(graph)


def _first(options: Sequence[Any]) -> Any:
    raise AssertionError("nothing is drawn")


def pyramid(rows: int = 16) -> Nets:
    """Convolutions that end smaller than they begin: what lies between is worth cutting."""
    nets = Nets(_first)
    x = nets.input((1, 2, rows, 8))
    (a,) = nets.node("Conv", [x, nets.floats((12, 2, 3, 3), 0.3), nets.floats((12,))], pads=[1, 1, 1, 1])
    (b,) = nets.node("Relu", [a])
    (c,) = nets.node("Conv", [b, nets.floats((12, 12, 3, 3), 0.1)], pads=[1, 1, 1, 1], strides=[2, 2])
    (d,) = nets.node("Conv", [c, nets.floats((12, 12, 3, 3), 0.1)], pads=[1, 1, 1, 1])
    (e,) = nets.node("Add", [c, d])
    nets.node("Conv", [e, nets.floats((2, 12, 1, 1), 0.3)])
    return nets


def rows_and_channels() -> onnx.ModelProto:
    """A flat image: rows, and then channels, of what lies between two convolutions are worth cutting."""
    nets = Nets(_first)
    (a,) = nets.node("Conv", [nets.input((1, 2, 4, 32)), nets.floats((16, 2, 3, 3), 0.3)], pads=[1, 1, 1, 1])
    (b,) = nets.node("Sigmoid", [a])
    (c,) = nets.node("MaxPool", [b], kernel_shape=[2, 2], strides=[2, 2])
    nets.node("Conv", [c, nets.floats((2, 16, 1, 1), 0.3)])
    return nets.model()


def group_norm() -> onnx.ModelProto:
    """An activation behind a group norm of two groups between reshapes, and a sum over the channels."""
    nets = Nets(_first)
    (a,) = nets.node("Conv", [nets.input((1, 2, 4, 4)), nets.floats((8, 2, 3, 3))], pads=[1, 1, 1, 1])
    (b,) = nets.node("Reshape", [a, nets.ints(1, 2, -1)])
    (c,) = nets.node("InstanceNormalization", [b, nets.floats((2,)), nets.floats((2,))])
    (d,) = nets.node("Reshape", [c, nets.ints(1, 8, 4, 4)])
    (e,) = nets.node("Relu", [d])
    nets.node("Conv", [e, nets.floats((1, 8, 1, 1))])
    return nets.model()


def random_net(pick: Pick, nodes: int = 8, opset: int = OPSET) -> onnx.ModelProto:
    """A network of about so many nodes: an image, or a few tokens."""
    nets = Nets(pick, opset)
    image = pick((True, True, True, False))
    sizes = (4, 5, 7, 8, 9, 11, 12, 16)
    if image:
        nets.input((pick((1, 1, 1, 2)), pick((2, 4)), pick(sizes), pick((4, 5, 8))))
    else:
        nets.input((pick((1, 2)), pick(sizes), pick((4, 6, 8))))
    tries = 0
    while len(nets.nodes) < nodes and tries < 3 * nodes:
        tries += 1
        live = [name for name, shape in nets.shapes.items() if all(d > 0 for d in shape)]
        x = pick((live[-1], live[-1], pick(live)))
        options = IMAGE if len(nets.shapes[x]) == 4 else ANY
        pick(options)(nets, x)
    made = [name for name in nets.shapes if name not in nets.inputs]
    made = made or nets.node("Relu", [nets.inputs[0]])
    return nets.model((pick(made),) if pick((True, False)) else ())


def _padding(nets: Nets, taps: Sequence[int]) -> dict[str, Any]:
    kind = nets.pick(("NOTSET", "NOTSET", "SAME", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if kind == "SAME":
        return {"pads": [(t - 1) // 2 for t in taps] * 2}
    if kind == "NOTSET":
        return {"pads": [nets.pick(range(t)) for t in (*taps, *taps)]}
    return {"auto_pad": kind}


def conv(nets: Nets, x: str) -> None:
    """A convolution: plain, grouped or by channel."""
    channels = nets.shapes[x][1]
    groups = nets.pick([g for g in (1, 1, 2, channels) if channels % g == 0])
    filters = groups * nets.pick((1, 2))
    filters = nets.pick((4, 6)) if groups == 1 else filters
    taps = (nets.pick((1, 2, 3, 3, 5)), nets.pick((1, 3)))
    weights = nets.floats((filters, channels // groups, *taps), 1 / math.sqrt(channels // groups * math.prod(taps)))
    bias = [nets.floats((filters,))] if nets.pick((True, False)) else []
    attributes: dict[str, Any] = {"strides": [nets.pick((1, 1, 2, 3)), nets.pick((1, 2))], **_padding(nets, taps)}
    if "pads" in attributes:
        attributes["dilations"] = [nets.pick((1, 1, 2)), 1]
    nets.node("Conv", [x, weights, *bias], group=groups, **attributes)


def conv_transpose(nets: Nets, x: str) -> None:
    """A transposed convolution."""
    channels = nets.shapes[x][1]
    groups = nets.pick([g for g in (1, 1, 2) if channels % g == 0])
    weights = nets.floats((channels, nets.pick((2, 3)), nets.pick((2, 3)), 2), 0.3)
    nets.node("ConvTranspose", [x, weights], group=groups, strides=[2, 1])


def pool(nets: Nets, x: str) -> None:
    """A pool."""
    kind = nets.pick(("MaxPool", "AveragePool", "LpPool"))
    taps = (nets.pick((2, 3)), nets.pick((1, 2, 3)))
    attributes: dict[str, Any] = {"strides": [nets.pick((1, 2, 3)), nets.pick((1, 2))], **_padding(nets, taps)}
    if kind != "LpPool" and "auto_pad" not in attributes:
        attributes["ceil_mode"] = nets.pick((0, 1))
    if kind == "AveragePool":
        attributes["count_include_pad"] = nets.pick((0, 1))
    elif "pads" in attributes:
        attributes["dilations"] = [nets.pick((1, 1, 2)), 1]
    made = nets.node(kind, [x], kernel_shape=list(taps), **attributes)
    pads = attributes.get("pads", (0, 0))
    for d in (0, 1) if made else ():
        if (nets.shapes[made[0]][2 + d] - 1) * attributes["strides"][d] - pads[d] >= nets.shapes[x][2 + d]:
            nets.undo()  # onnx and onnxruntime do not agree on whether a window may see padding alone
            break


def unary(nets: Nets, x: str) -> None:
    """An elementwise op of one operand."""
    nets.node(nets.pick(_UNARY), [x])


def sum_of_two(nets: Nets, x: str) -> None:
    """A residual sum: with whatever has the same shape or is broadcast."""
    fits = [t for t, shape in nets.shapes.items() if _broadcasts(shape, nets.shapes[x])]
    nets.node(nets.pick(("Add", "Mul", "Max", "Sum")), [x, nets.pick(fits)])


def _broadcasts(a: Shape, b: Shape) -> bool:
    return len(a) <= len(b) and all(s in (1, t) for s, t in zip(a[::-1], b[::-1], strict=False))


def scaled(nets: Nets, x: str) -> None:
    """Times a weight that is broadcast."""
    shape = nets.shapes[x]
    form = tuple(nets.pick((1, s)) for s in shape)[nets.pick(range(len(shape))) :]
    nets.node(nets.pick(("Mul", "Add", "PRelu")), [x, nets.floats(form)])


def concat(nets: Nets, x: str) -> None:
    """Side by side with up to two others."""
    shape, axis = nets.shapes[x], nets.pick(range(len(nets.shapes[x])))
    rest = shape[:axis] + shape[axis + 1 :]
    fits = [t for t, s in nets.shapes.items() if len(s) == len(shape) and s[:axis] + s[axis + 1 :] == rest]
    nets.node("Concat", [x, *(nets.pick(fits) for _ in range(nets.pick((1, 2))))], axis=axis)


def split(nets: Nets, x: str) -> None:
    """In two."""
    axis = nets.pick(range(len(nets.shapes[x])))
    size = nets.shapes[x][axis]
    if size > 1:
        first = nets.pick(range(1, size))
        nets.node("Split", [x, nets.ints(first, size - first)], results=2, axis=axis)


def slice_(nets: Nets, x: str) -> None:
    """Some rows, maybe every other one, maybe backwards."""
    axis = nets.pick(range(len(nets.shapes[x])))
    size = nets.shapes[x][axis]
    start, step = nets.pick(range(size)), nets.pick((1, 1, 2, -1))
    end = size if step > 0 else -size - 1
    nets.node("Slice", [x, nets.ints(start), nets.ints(end), nets.ints(axis), nets.ints(step)])


def pad(nets: Nets, x: str) -> None:
    """More rows around."""
    rank = len(nets.shapes[x])
    axis = nets.pick(range(rank))
    pads = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = nets.pick((0, 1, 2)), nets.pick((0, 1))
    nets.node("Pad", [x, nets.ints(*pads)], mode=nets.pick(("constant", "edge", "reflect")))


def resize(nets: Nets, x: str) -> None:
    """Twice as many rows, by scales or by sizes."""
    mode = nets.pick(("nearest", "nearest", "linear"))
    shape = nets.shapes[x]
    places = nets.pick(("asymmetric", "half_pixel"))
    rounding = nets.pick(("floor", "round_prefer_floor"))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": places, "nearest_mode": rounding}
    if nets.pick((True, False)):
        sizes = nets.ints(*shape[:2], *(2 * s for s in shape[2:]))
        nets.node("Resize", [x, "", "", sizes], **attributes)
    else:
        nets.node("Resize", [x, "", nets.values(1, 1, 2, nets.pick((1, 2)))], **attributes)


def norm(nets: Nets, x: str) -> None:
    """A normalisation of an image."""
    channels = nets.shapes[x][1]
    scale, bias = nets.floats((channels,)), nets.floats((channels,))
    if nets.pick((True, False)):
        nets.node("BatchNormalization", [x, scale, bias, nets.floats((channels,)), nets.positive(channels)])
    else:
        nets.node("InstanceNormalization", [x, scale, bias])


def along(nets: Nets, x: str) -> None:
    """An op that sees one dimension whole."""
    rank = len(nets.shapes[x])
    match nets.pick(("Softmax", "LayerNormalization", "CumSum", "LpNormalization")):
        case "LayerNormalization":
            size = nets.shapes[x][-1]
            nets.node("LayerNormalization", [x, nets.floats((size,)), nets.floats((size,))])
        case "CumSum":
            nets.node("CumSum", [x, nets.ints(nets.pick(range(rank)))])
        case kind:
            nets.node(kind, [x], axis=nets.pick(range(rank)))


def transpose(nets: Nets, x: str) -> None:
    """Dimensions in another order."""
    order = list(range(len(nets.shapes[x])))
    i, j = nets.pick(order), nets.pick(order)
    order[i], order[j] = order[j], order[i]
    nets.node("Transpose", [x], perm=order)


def reshape(nets: Nets, x: str) -> None:
    """Two dimensions as one, or one as two, or a dimension more or less."""
    shape = nets.shapes[x]
    d = nets.pick(range(len(shape)))
    match nets.pick(("merge", "split", "Flatten", "Unsqueeze", "Squeeze")):
        case "merge" if d + 1 < len(shape):
            nets.node("Reshape", [x, nets.ints(*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :])])
        case "split" if shape[d] % 2 == 0:
            nets.node("Reshape", [x, nets.ints(*shape[:d], *nets.pick(((2, -1), (-1, 2))), *shape[d + 1 :])])
        case "Flatten":
            nets.node("Flatten", [x], axis=d)
        case "Unsqueeze" if len(shape) < 5:
            nets.node("Unsqueeze", [x, nets.ints(d)])
        case "Squeeze" if shape[d] == 1 and len(shape) > 1:
            nets.node("Squeeze", [x, nets.ints(d)])


def reduce(nets: Nets, x: str) -> None:
    """Some dimensions summed, or their largest."""
    rank = len(nets.shapes[x])
    axes = sorted({nets.pick(range(rank)), nets.pick(range(rank))})
    kind = nets.pick(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"))
    nets.node(kind, [x, nets.ints(*axes)], keepdims=nets.pick((0, 1)))


def squeeze_and_excite(nets: Nets, x: str) -> None:
    """Channels weighed by what is in all of them."""
    channels = nets.shapes[x][1]
    made = nets.node(nets.pick(("GlobalAveragePool", "GlobalMaxPool")), [x])
    made = made and nets.node("Conv", [made[0], nets.floats((channels, channels, 1, 1), 0.3)])
    made = made and nets.node("Sigmoid", made)
    if made:
        nets.node("Mul", [x, made[0]])


def product(nets: Nets, x: str) -> None:
    """A matrix product with weights, from either side, or a Gemm."""
    shape = nets.shapes[x]
    if len(shape) < 2:
        return
    size = nets.pick((3, 4))
    match nets.pick(("right", "left", "gemm")):
        case "right":
            nets.node("MatMul", [x, nets.floats((shape[-1], size), 1 / math.sqrt(shape[-1]))])
        case "left":
            nets.node("MatMul", [nets.floats((size, shape[-2]), 1 / math.sqrt(shape[-2])), x])
        case _ if len(shape) == 2:
            turned = nets.pick((0, 1))
            form = (size, shape[1]) if turned else (shape[1], size)
            bias = [nets.floats(nets.pick(((size,), (1, size), (shape[0], 1))))] if nets.pick((True, False)) else []
            scale = {"beta": 0.5, "alpha": 2.0} if nets.pick((True, False)) else {}
            nets.node("Gemm", [x, nets.floats(form, 0.3), *bias], transB=turned, **scale)
        case _:
            return


def attention(nets: Nets, x: str) -> None:
    """Queries, keys and values of tokens; softmax; a product."""
    shape = nets.shapes[x]
    if len(shape) != 3:
        return
    width = shape[-1]
    q, k, v = (nets.node("MatMul", [x, nets.floats((width, width), 1 / math.sqrt(width))]) for _ in range(3))
    if q and k and v:
        turned = nets.node("Transpose", k, perm=[0, 2, 1])
        scores = nets.node("MatMul", [q[0], turned[0]])
        weights = scores and nets.node("Softmax", scores, axis=-1)
        if weights:
            nets.node("MatMul", [weights[0], v[0]])


def blocks(nets: Nets, x: str) -> None:
    """Depth to space, or back."""
    kind = nets.pick(("DepthToSpace", "SpaceToDepth"))
    mode = {"mode": nets.pick(("DCR", "CRD"))} if kind == "DepthToSpace" else {}
    if kind == "DepthToSpace" or not any(s % 2 for s in nets.shapes[x][2:]):
        nets.node(kind, [x], blocksize=2, **mode)


def gather(nets: Nets, x: str) -> None:
    """One row, or some."""
    axis = nets.pick(range(len(nets.shapes[x])))
    size = nets.shapes[x][axis]
    rows = [nets.pick(range(size)) for _ in range(nets.pick((1, 3)))]
    nets.node("Gather", [x, nets.ints(*rows)], axis=axis)


def einsum(nets: Nets, x: str) -> None:
    """A sum of products, by letters."""
    shape = nets.shapes[x]
    letters = "abcde"[: len(shape)]
    d = nets.pick(range(len(shape)))
    equation = f"{letters},{letters[d]}z->{letters.replace(letters[d], 'z')}"
    nets.node("Einsum", [x, nets.floats((shape[d], 3), 0.5)], equation=equation)


def expand(nets: Nets, x: str) -> None:
    """A dimension of size 1 repeated."""
    shape = nets.shapes[x]
    ones = [d for d, s in enumerate(shape) if s == 1]
    if ones:
        d = nets.pick(ones)
        nets.node("Expand", [x, nets.ints(*shape[:d], 3, *shape[d + 1 :])])


def folded_weight(nets: Nets, x: str) -> None:
    """A product with weights that a folded node computes."""
    shape = nets.shapes[x]
    if len(shape) < 2:
        return
    (turned,) = nets.node("Transpose", [nets.floats((4, shape[-1]), 0.3)], perm=[1, 0])
    if nets.node("MatMul", [x, turned]):
        del nets.shapes[turned]
    else:
        nets.undo()


ANY = (
    unary, sum_of_two, sum_of_two, scaled, concat, split, slice_, pad, along, transpose, reshape, reshape, reduce,
    product, product, attention, attention, gather, einsum, expand, folded_weight,
)  # fmt: skip
IMAGE = (
    conv, conv, conv, conv, pool, pool, conv_transpose, sum_of_two, sum_of_two, norm, squeeze_and_excite, blocks,
    resize, *ANY,
)  # fmt: skip
