"""Convolution networks whose optimised form is in onnxruntime's blocked layout, drawn by seed."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import numpy_helper

from support.onnx_builder import model, node, value

_WIDTHS = (16, 32, 48, 20)


def drawn_blocked_net(seed: int) -> onnx.ModelProto:
    """Convolutions of every kind, pools, joins, splits, sums and elementwise chains, of one image of 3 channels."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    shapes: dict[str, tuple[int, int, int]] = {"x": (3, draw.choice((12, 17, 24)), 12)}
    scalars = {"three": 3.0, "six": 6.0, "zero": 0.0}
    weights += [numpy_helper.from_array(np.array(v, np.float32), name) for name, v in scalars.items()]
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "twice"))

    def made(kind: str, reads: str, shape: tuple[int, int, int], **attributes: object) -> str:
        name = f"t{len(nodes)}"
        nodes.append(node(kind, reads, name, **attributes))
        shapes[name] = shape
        return name

    def conv(read: str, wide: int, taps: int, stride: int, *, depthwise: bool = False) -> str:
        channels, rows, columns = shapes[read]
        groups = channels if depthwise else 1
        wide, name = (channels if depthwise else wide), f"w{len(nodes)}"
        kernel = rng.standard_normal((wide, channels // groups, taps, taps)) / (
            taps * max(1, channels // groups) ** 0.5
        )
        weights.append(numpy_helper.from_array(kernel.astype(np.float32), name))
        size = [(n + 2 * (taps // 2) - taps) // stride + 1 for n in (rows, columns)]
        return made(
            "Conv", f"{read} {name}", (wide, size[0], size[1]), group=groups, kernel_shape=[taps, taps],
            strides=[stride, stride], pads=[taps // 2] * 4,
        )  # fmt: skip

    last = conv("x", draw.choice((16, 32)), 3, 1)
    for _ in range(draw.randrange(3, 9)):
        channels, rows, columns = shape = shapes[last]
        like = [name for name, other in shapes.items() if other == shape and name not in ("x", last)]
        beside = [name for name, other in shapes.items() if other[1:] == shape[1:] and name not in ("x", last)]
        match draw.randrange(9):
            case 0:
                last = conv(last, channels, 3, draw.choice((1, 2)), depthwise=True)
            case 1 | 2:
                last = conv(last, draw.choice(_WIDTHS), draw.choice((1, 3)), draw.choice((1, 1, 2)))
            case 3:  # hard swish, spelled out
                inner = made("Clip", f"{made('Add', f'{last} three', shape)} zero six", shape)
                last = made("Div", f"{made('Mul', f'{last} {inner}', shape)} six", shape)
            case 4:
                last = made(draw.choice(("Relu", "Sigmoid", "LeakyRelu")), last, shape)
            case 5 if like:
                last = made("Add", f"{draw.choice(like)} {last}", shape)
            case 6 if beside:
                other = draw.choice(beside)
                last = made("Concat", f"{other} {last}", (channels + shapes[other][0], rows, columns), axis=1)
            case 7 if rows > 4:
                size = [(n + 2 - 3) // 2 + 1 for n in (rows, columns)]
                kind = draw.choice(("MaxPool", "AveragePool"))
                pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
                last = made(kind, last, (channels, size[0], size[1]), **pool)
            case 8 if rows < 24:
                place = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
                last = made("Resize", f"{last} _ twice", (channels, 2 * rows, 2 * columns), **place)
            case _ if channels % 32 == 0 and channels > 32:
                half = (channels // 2, rows, columns)
                nodes.append(node("Split", last, f"a{len(nodes)} b{len(nodes)}", axis=1, num_outputs=2))
                last, other = nodes[-1].output
                shapes[last] = shapes[other] = half
            case _:
                pass
    last = conv(last, 16, 1, 1)
    declared = [value(name, (1, *shape)) for name, shape in shapes.items() if name not in ("x", last)]
    return model(nodes, [value("x", (1, *shapes["x"]))], [value(last, (1, *shapes[last]))], weights, declared)
