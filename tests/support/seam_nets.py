"""Small random ONNX networks full of concats, and of ops that may run on each operand of one."""

from __future__ import annotations

import onnx

from support.small_nets import Nets, Pick


def seam_net(pick: Pick, nodes: int = 10) -> onnx.ModelProto:
    """A network of about so many nodes over an image."""
    nets = Nets(pick)
    nets.input((1, pick((2, 3, 4)), pick((5, 6)), 5))
    nets.node("Conv", ["x0", nets.floats((pick((2, 4, 6)), nets.shapes["x0"][1], 1, 1))])
    for _ in range(3 * nodes):
        if len(nets.nodes) >= nodes:
            break
        live = [name for name, shape in nets.shapes.items() if len(shape) == 4 and shape[1] > 0]
        x = pick((live[-1], live[-1], pick(live)))
        STEPS[pick(tuple(STEPS))](nets, x, live)
    return nets.model([name for name in nets.shapes if name.startswith("t") and pick((False,) * 9 + (True,))])


def _concat(nets: Nets, x: str, live: list[str]) -> None:
    fit = [n for n in live if nets.shapes[n][2:] == nets.shapes[x][2:]]
    nets.node("Concat", [x, *(nets.pick(fit) for _ in range(nets.pick((1, 2, 3))))], axis=nets.pick((1, -3)))


def _conv(nets: Nets, x: str, live: list[str]) -> None:
    channels, taps = nets.shapes[x][1], nets.pick((1, 3))
    bias = nets.pick((True, False))
    out = nets.pick((2, 3, 5))
    reads = [x, nets.floats((out, channels, taps, taps), 0.3), *([nets.floats((out,))] if bias else [])]
    nets.node("Conv", reads, pads=[taps // 2] * 4, strides=nets.pick(([1, 1], [1, 1], [2, 2])))


def _grouped(nets: Nets, x: str, live: list[str]) -> None:
    """Depthwise, with one or two filters a channel, or of two groups."""
    channels = nets.shapes[x][1]
    groups = nets.pick((channels, channels, 2)) if channels % 2 == 0 else channels
    out = channels * nets.pick((1, 2))
    weights = nets.floats((out, channels // groups, 3, 3), 0.3)
    reads, strides = [x, weights, nets.floats((out,))], nets.pick(([1, 1], [2, 2]))
    if nets.pick((False, True)):
        nets.node("Conv", reads, group=groups, strides=strides, auto_pad="SAME_UPPER")
    else:
        nets.node("Conv", reads, group=groups, strides=strides, pads=[1] * 4)


def _norm(nets: Nets, x: str, live: list[str]) -> None:
    size = nets.shapes[x][1]
    vectors = [nets.floats((size,)), nets.floats((size,)), nets.floats((size,)), nets.positive(size)]
    nets.node("BatchNormalization", [x, *vectors])


def _unary(nets: Nets, x: str, live: list[str]) -> None:
    nets.node(nets.pick(("Relu", "Sigmoid", "HardSwish", "Identity")), [x])


def _slopes(nets: Nets, x: str, live: list[str]) -> None:
    nets.node("PRelu", [x, nets.floats((nets.shapes[x][1], 1, 1))])


def _binary(nets: Nets, x: str, live: list[str]) -> None:
    fit = [n for n in live if nets.shapes[n] == nets.shapes[x]]
    nets.node(nets.pick(("Add", "Mul")), [x, nets.pick(fit)])


def _pool(nets: Nets, x: str, live: list[str]) -> None:
    kind = nets.pick(("MaxPool", "AveragePool"))
    nets.node(kind, [x], kernel_shape=[3, 3], strides=nets.pick(([1, 1], [2, 2])), pads=[1] * 4)


def _squeeze(nets: Nets, x: str, live: list[str]) -> None:
    """What is multiplied by one number for each channel."""
    mean = nets.node("GlobalAveragePool", [x])
    if mean:
        nets.node("Mul", [x, mean[0]])


def _weighted(nets: Nets, x: str, live: list[str]) -> None:
    """Tensors side by side along a dimension of their own, and a product with a vector."""
    fit = [n for n in live if nets.shapes[n] == nets.shapes[x]]
    many = [x, *(nets.pick(fit) for _ in range(nets.pick((1, 2))))]
    single = [nets.node("Unsqueeze", [n, nets.ints(4)]) for n in many]
    if all(single):
        joined = nets.node("Concat", [n for names in single for n in names], axis=-1)
        if joined:
            nets.node("MatMul", [joined[0], nets.floats((len(many),))])


def _most(nets: Nets, x: str, live: list[str]) -> None:
    nets.node(nets.pick(("ReduceMax", "ReduceSum")), [x, nets.ints(1)], keepdims=1)


STEPS = {
    "concat": _concat,
    "concat again": _concat,
    "and again": _concat,
    "conv": _conv,
    "conv again": _conv,
    "grouped": _grouped,
    "norm": _norm,
    "unary": _unary,
    "slopes": _slopes,
    "binary": _binary,
    "pool": _pool,
    "squeeze": _squeeze,
    "weighted": _weighted,
    "most": _most,
}


def _nothing_drawn(options: object) -> object:
    raise AssertionError("nothing is drawn")


def dense_block() -> Nets:
    """Wide branches, their concat, and narrow convolutions of it: what lies between is worth leaving out."""
    nets = Nets(_nothing_drawn)
    x = nets.input((1, 2, 12, 12))
    joined = []
    for _ in range(4):
        (a,) = nets.node("Conv", [x, nets.floats((6, 2, 3, 3), 0.3), nets.floats((6,))], pads=[1] * 4)
        joined.append(*nets.node("Relu", [a]))
    (c,) = nets.node("Concat", joined, axis=1)
    (d,) = nets.node("Conv", [c, nets.floats((24, 1, 3, 3), 0.3), nets.floats((24,))], pads=[1] * 4, group=24)
    (e,) = nets.node("Conv", [d, nets.floats((3, 24, 1, 1), 0.3), nets.floats((3,))])
    nets.node("Conv", [e, nets.floats((2, 3, 3, 3), 0.3)])
    return nets
