"""Networks that bench/tiling.py plans in addition to those of a folder: built as ONNX from what is published of their
structure, with batch normalisation folded into convolutions. Weights are named and have shapes, and no numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from lowtide_research.zoo import build


class Net:
    """Writes nodes, and knows the shape of every tensor."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def input(self, *shape: int) -> str:
        """The one input."""
        self.shapes["input"] = shape
        return "input"

    def weight(self, *shape: int) -> str:
        """A weight whose numbers lie in a file that is not there."""
        tensor = TensorProto(name=f"w{len(self.weights)}", data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
        tensor.external_data.add(key="length", value=str(4 * prod(shape)))
        self.weights.append(tensor)
        return tensor.name

    def constant(self, values: Sequence[float] | float, kind: Any = np.float32) -> str:
        """Numbers that are there."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    def node(self, kind: str, reads: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """A node of one result."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(reads), [name], name=f"n{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def conv(self, x: str, out: int, kernel: int = 1, stride: int = 1, groups: int = 1, pad: int | None = None) -> str:
        """A convolution with a bias; padding keeps the size unless it is given."""
        n, c, h, w = self.shapes[x]
        pad = kernel // 2 if pad is None else pad
        rows, columns = ((size + 2 * pad - kernel) // stride + 1 for size in (h, w))
        weights = [self.weight(out, c // groups, kernel, kernel), self.weight(out)]
        more = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "group": groups}
        return self.node("Conv", [x, *weights], (n, out, rows, columns), **more)

    def alike(self, kind: str, *reads: str, **attributes: Any) -> str:
        """An op whose result has the shape of its first operand."""
        return self.node(kind, reads, self.shapes[reads[0]], **attributes)

    def act(self, kind: str, x: str) -> str:
        """An activation by name; SiLU is two ops."""
        if kind == "SiLU":
            return self.alike("Mul", x, self.alike("Sigmoid", x))
        if kind == "Relu6":
            return self.alike("Clip", x, self.constant(0.0), self.constant(6.0))
        return self.alike(kind, x)

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0, *, ceil: int = 0) -> str:
        """Largest of a window."""
        n, c, *sizes = self.shapes[x]
        rows = [
            -(-(s + 2 * pad - kernel) // stride) + 1 if ceil else (s + 2 * pad - kernel) // stride + 1 for s in sizes
        ]
        more = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": ceil}
        return self.node("MaxPool", [x], (n, c, *rows), **more)

    def mean(self, x: str) -> str:
        """Mean of every channel."""
        return self.node("GlobalAveragePool", [x], (*self.shapes[x][:2], 1, 1))

    def concat(self, *reads: str, axis: int = 1) -> str:
        """Side by side."""
        shape = list(self.shapes[reads[0]])
        shape[axis] = sum(self.shapes[r][axis] for r in reads)
        return self.node("Concat", reads, shape, axis=axis)

    def reshape(self, x: str, *shape: int) -> str:
        """Another shape."""
        return self.node("Reshape", [x, self.constant(shape, np.int64)], shape)

    def transpose(self, x: str, *perm: int) -> str:
        """Dimensions in another order."""
        return self.node("Transpose", [x], [self.shapes[x][d] for d in perm], perm=perm)

    def upsample(self, x: str, factor: int, mode: str = "nearest") -> str:
        """Rows and columns so many times."""
        n, c, h, w = self.shapes[x]
        scales = self.constant([1.0, 1.0, factor, factor])
        return self.node("Resize", [x, "", scales], (n, c, h * factor, w * factor), mode=mode)

    def linear(self, x: str, out: int) -> str:
        """A product with weights along the last dimension, and a bias."""
        shape = self.shapes[x]
        made = self.node("MatMul", [x, self.weight(shape[-1], out)], (*shape[:-1], out))
        return self.alike("Add", made, self.weight(out))

    def matmul(self, a: str, b: str) -> str:
        """A product of two tensors."""
        return self.node("MatMul", [a, b], (*self.shapes[a][:-1], self.shapes[b][-1]))

    def norm(self, x: str) -> str:
        """Layer normalisation along the last dimension."""
        c = self.shapes[x][-1]
        return self.alike("LayerNormalization", x, self.weight(c), self.weight(c), axis=-1)

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """Rows of a dimension."""
        shape = list(self.shapes[x])
        shape[axis] = end - start
        return self.node("Slice", [x, *(self.constant([v], np.int64) for v in (start, end, axis))], shape)

    def write(self, path: Path, *results: str) -> None:
        """The model's file."""
        first, last = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name]) for name in names]
            for names in (["input"], results)
        )
        graph = helper.make_graph(self.nodes, path.stem, first, last, self.weights)
        opset = [helper.make_opsetid("", 18)]
        path.write_bytes(helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString())


def _eighths(channels: float) -> int:
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def _squeeze(net: Net, x: str, inner: int, act: str, gate: str) -> str:
    """Every channel times a number that follows from the means of all."""
    channels = net.shapes[x][1]
    gates = net.conv(net.act(act, net.conv(net.mean(x), inner)), channels)
    return net.alike("Mul", x, net.act(gate, gates))


V3_ROWS = (
    (3, 16, 16, 0, "Relu", 1), (3, 64, 24, 0, "Relu", 2), (3, 72, 24, 0, "Relu", 1), (5, 72, 40, 1, "Relu", 2),
    (5, 120, 40, 1, "Relu", 1), (5, 120, 40, 1, "Relu", 1), (3, 240, 80, 0, "HardSwish", 2),
    (3, 200, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1),
    (3, 480, 112, 1, "HardSwish", 1), (3, 672, 112, 1, "HardSwish", 1), (5, 672, 160, 1, "HardSwish", 2),
    (5, 960, 160, 1, "HardSwish", 1), (5, 960, 160, 1, "HardSwish", 1),
)  # fmt: skip
"""Kernel, expanded and kept channels, squeeze, activation, stride (Howard et al. 2019, table 1)."""


def _v3(net: Net, x: str, shrink: int = 1) -> tuple[str, str]:
    """MobileNetV3-large's features: what the fourth stage's first block expands to, and the end."""
    x = net.act("HardSwish", net.conv(x, 16, 3, 2))
    expanded = x
    for k, (kernel, wide, out, squeeze, act, stride) in enumerate(V3_ROWS):
        before = x
        wide, out = (wide // shrink, out // shrink) if k > 11 else (wide, out)
        wide = wide * shrink if k == 12 else wide
        if wide != net.shapes[x][1]:
            x = net.act(act, net.conv(x, wide))
        expanded = x if k == 12 else expanded
        x = net.act(act, net.conv(x, wide, kernel, stride, wide))
        if squeeze:
            x = _squeeze(net, x, _eighths(wide / 4), "Relu", "HardSigmoid")
        x = net.conv(x, out)
        if net.shapes[before] == net.shapes[x]:
            x = net.alike("Add", x, before)
    return expanded, net.act("HardSwish", net.conv(x, 6 * net.shapes[x][1]))


def mobilenet_v3_large(path: Path) -> None:
    """Howard et al. 2019."""
    net = Net()
    _, x = _v3(net, net.input(1, 3, 224, 224))
    x = net.reshape(net.mean(x), 1, 960)
    net.write(path, net.linear(net.act("HardSwish", net.linear(x, 1280)), 1000))


def ssdlite320(path: Path) -> None:
    """MobileNetV3-large with SSDLite's extra layers and heads, up to the raw scores and boxes."""
    net = Net()
    maps = list(_v3(net, net.input(1, 3, 320, 320), 2))
    for inner, out in ((256, 512), (128, 256), (128, 256), (64, 128)):
        x = net.act("Relu6", net.conv(maps[-1], inner))
        x = net.act("Relu6", net.conv(x, inner, 3, 2, inner))
        maps.append(net.act("Relu6", net.conv(x, out)))
    results = []
    for each in (91, 4):
        parts = []
        for x in maps:
            _, c, h, w = net.shapes[x]
            y = net.conv(net.act("Relu6", net.conv(x, c, 3, 1, c)), 6 * each)
            y = net.transpose(net.reshape(y, 1, 6, each, h, w), 0, 3, 4, 1, 2)
            parts.append(net.reshape(y, 1, 6 * h * w, each))
        results.append(net.concat(*parts))
    net.write(path, *results)


def _efficientnet(net: Net, x: str) -> list[str]:
    """EfficientNet-B0's stem and the end of each stage (Tan and Le 2019)."""
    x = net.act("SiLU", net.conv(x, 32, 3, 2))
    ends = [x]
    rows = (
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )  # fmt: skip
    for ratio, kernel, stride, out, times in rows:
        for k in range(times):
            before, c = x, net.shapes[x][1]
            if ratio > 1:
                x = net.act("SiLU", net.conv(x, ratio * c))
            x = net.act("SiLU", net.conv(x, ratio * c, kernel, stride if k == 0 else 1, ratio * c))
            x = net.conv(_squeeze(net, x, max(1, c // 4), "SiLU", "Sigmoid"), out)
            x = net.alike("Add", x, before) if net.shapes[before] == net.shapes[x] else x
        ends.append(x)
    return ends


def efficientnet_b0(path: Path) -> None:
    """Tan and Le 2019."""
    net = Net()
    x = net.act("SiLU", net.conv(_efficientnet(net, net.input(1, 3, 224, 224))[-1], 1280))
    net.write(path, net.linear(net.reshape(net.mean(x), 1, 1280), 1000))


def shufflenet_v2(path: Path) -> None:
    """Ma et al. 2018, x1.0."""
    net = Net()
    x = net.pool(net.act("Relu", net.conv(net.input(1, 3, 224, 224), 24, 3, 2)), 3, 2, 1)
    for out, times in ((116, 4), (232, 8), (464, 4)):
        for k in range(times):
            c, half = net.shapes[x][1], out // 2
            stride = 2 if k == 0 else 1
            if stride == 2:
                left = net.act("Relu", net.conv(net.conv(x, c, 3, 2, c), half))
                right = x
            else:
                left, right = net.slice(x, 1, 0, half), net.slice(x, 1, half, out)
            right = net.act("Relu", net.conv(right, half))
            right = net.act("Relu", net.conv(net.conv(right, half, 3, stride, half), half))
            x = net.concat(left, right)
            _, c, h, w = net.shapes[x]
            x = net.transpose(net.reshape(x, 1, 2, c // 2, h, w), 0, 2, 1, 3, 4)
            x = net.reshape(x, 1, c, h, w)
    x = net.act("Relu", net.conv(x, 1024))
    net.write(path, net.linear(net.reshape(net.mean(x), 1, 1024), 1000))


def squeezenet(path: Path) -> None:
    """Iandola et al. 2016, version 1.1."""
    net = Net()
    x = net.pool(net.act("Relu", net.conv(net.input(1, 3, 224, 224), 64, 3, 2, pad=0)), 3, 2, ceil=1)
    for inner, out, pooled in (
        (16, 64, 0), (16, 64, 1), (32, 128, 0), (32, 128, 1), (48, 192, 0), (48, 192, 0), (64, 256, 0), (64, 256, 0),
    ):  # fmt: skip
        y = net.act("Relu", net.conv(x, inner))
        x = net.concat(net.act("Relu", net.conv(y, out)), net.act("Relu", net.conv(y, out, 3)))
        x = net.pool(x, 3, 2, ceil=1) if pooled else x
    net.write(path, net.reshape(net.mean(net.act("Relu", net.conv(x, 1000))), 1, 1000))


def _twice(net: Net, x: str, out: int) -> str:
    for _ in range(2):
        x = net.act("Relu", net.conv(x, out, 3))
    return x


def unetpp(path: Path) -> None:
    """U-Net++ (Zhou et al. 2018) on EfficientNet-B0, decoder of 256, 128, 64, 32 and 16 channels."""
    net = Net()
    ends = _efficientnet(net, net.input(1, 3, 256, 256))
    features = [ends[7], ends[5], ends[3], ends[2], ends[0]]
    channels = (256, 128, 64, 32)
    x: dict[tuple[int, int], str] = {}
    for layer in range(4):
        for depth in range(4 - layer):
            level = depth + layer
            out = channels[level] if depth == 0 else net.shapes[features[level + 1]][1]
            skips = [x[k, level] for k in range(depth + 1, level + 1)] if layer else []
            below = x[depth, level - 1] if layer else features[depth]
            skip = net.concat(*skips, features[level + 1]) if skips else features[level + 1]
            x[depth, level] = _twice(net, net.concat(net.upsample(below, 2), skip), out)
    net.write(path, net.conv(_twice(net, net.upsample(x[0, 3], 2), 16), 1, 3))


def fpn(path: Path) -> None:
    """A feature pyramid (Kirillov et al. 2019) on MobileNetV2, its four maps stacked and summed."""
    net = Net()
    x = net.act("Relu6", net.conv(net.input(1, 3, 256, 256), 32, 3, 2))
    maps = []
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for ratio, out, times, stride in rows:
        for k in range(times):
            before, c = x, net.shapes[x][1]
            x = net.act("Relu6", net.conv(x, ratio * c)) if ratio > 1 else x
            x = net.act("Relu6", net.conv(x, ratio * c, 3, stride if k == 0 else 1, ratio * c))
            x = net.conv(x, out)
            x = net.alike("Add", x, before) if net.shapes[before] == net.shapes[x] else x
        maps.append(x)
    top = net.conv(net.act("Relu6", net.conv(maps[-1], 1280)), 256)
    pyramid = [top]
    for skip in (maps[4], maps[2], maps[1]):
        pyramid.append(net.alike("Add", net.upsample(pyramid[-1], 2), net.conv(skip, 256)))
    parts = []
    for ups, x in zip((3, 2, 1, 0), pyramid, strict=True):
        for k in range(max(1, ups)):
            x = net.conv(x, 128, 3)
            _, c, h, w = net.shapes[x]
            groups = [net.constant([1.0] * 32), net.constant([0.0] * 32)]
            y = net.alike("InstanceNormalization", net.reshape(x, 1, 32, c // 32 * h * w), *groups)
            y = net.alike("Mul", net.reshape(y, 1, c, h, w), net.weight(c, 1, 1))
            x = net.act("Relu", net.alike("Add", y, net.weight(c, 1, 1)))
            x = net.upsample(x, 2, "linear") if k < ups else x
        parts.append(net.reshape(x, 1, *net.shapes[x]))
    stacked = net.concat(*parts, axis=0)
    total = net.node("ReduceSum", [stacked, net.constant([0], np.int64)], net.shapes[stacked][1:], keepdims=0)
    net.write(path, net.upsample(net.conv(total, 1), 4, "linear"))


def segformer(path: Path) -> None:
    """SegFormer-B0 (Xie et al. 2021) at 512 x 512, of the zoo: its head up to the scores of 150 classes."""
    path.write_bytes(build("segformer_b0").onnx().SerializeToString())


def yolov5n(path: Path) -> None:
    """YOLOv5n (Ultralytics, release 6) at 640 x 640, up to the raw maps of 255 channels."""
    net = Net()

    def conv(x: str, out: int, kernel: int = 1, stride: int = 1, pad: int | None = None) -> str:
        return net.act("SiLU", net.conv(x, out, kernel, stride, pad=pad))

    def c3(x: str, out: int, times: int, *, add: bool = True) -> str:
        y = conv(x, out // 2)
        for _ in range(times):
            z = conv(conv(y, out // 2), out // 2, 3)
            y = net.alike("Add", y, z) if add else z
        return conv(net.concat(y, conv(x, out // 2)), out)

    x = conv(conv(net.input(1, 3, 640, 640), 16, 6, 2, pad=2), 32, 3, 2)
    third = c3(conv(c3(x, 32, 1), 64, 3, 2), 64, 2)
    fourth = c3(conv(third, 128, 3, 2), 128, 3)
    x = conv(c3(conv(fourth, 256, 3, 2), 256, 1), 128)
    pools = [x]
    for _ in range(3):
        pools.append(net.pool(pools[-1], 5, 1, 2))
    top = conv(conv(net.concat(*pools), 256), 128)
    middle = conv(c3(net.concat(net.upsample(top, 2), fourth), 128, 1, add=False), 64)
    small = c3(net.concat(net.upsample(middle, 2), third), 64, 1, add=False)
    wide = c3(net.concat(conv(small, 64, 3, 2), middle), 128, 1, add=False)
    large = c3(net.concat(conv(wide, 128, 3, 2), top), 256, 1, add=False)
    net.write(path, *(net.conv(x, 255) for x in (small, wide, large)))


def gpt2(path: Path) -> None:
    """GPT-2 (124 million) over 256 tokens, embedded before, the scores of the last one alone."""
    net = Net()
    x = net.input(1, 256, 768)
    mask = net.weight(1, 1, 256, 256)
    for _ in range(12):
        y = net.linear(net.norm(x), 3 * 768)
        heads = [net.reshape(net.slice(y, 2, 768 * k, 768 * (k + 1)), 1, 256, 12, 64) for k in range(3)]
        q, v = (net.transpose(heads[k], 0, 2, 1, 3) for k in (0, 2))
        scores = net.alike("Div", net.matmul(q, net.transpose(heads[1], 0, 2, 3, 1)), net.constant(8.0))
        y = net.matmul(net.alike("Softmax", net.alike("Add", scores, mask), axis=-1), v)
        y = net.linear(net.reshape(net.transpose(y, 0, 2, 1, 3), 1, 256, 768), 768)
        x = net.alike("Add", x, y)
        h = net.linear(net.norm(x), 3072)
        half = net.alike("Mul", h, net.constant(0.5))
        y = net.alike("Mul", net.alike("Pow", h, net.constant(3.0)), net.constant(0.044715))
        y = net.alike("Tanh", net.alike("Mul", net.alike("Add", h, y), net.constant(0.79788456)))
        y = net.alike("Mul", half, net.alike("Add", y, net.constant(1.0)))
        x = net.alike("Add", x, net.linear(y, 768))
    last = net.slice(net.norm(x), 1, 255, 256)
    net.write(path, net.node("MatMul", [last, net.weight(768, 50257)], (1, 1, 50257)))


MODELS: dict[str, Callable[[Path], None]] = {
    "mobilenet_v3_large": mobilenet_v3_large,
    "efficientnet_b0": efficientnet_b0,
    "ssdlite320_mobilenet_v3": ssdlite320,
    "shufflenet_v2_x1_0": shufflenet_v2,
    "squeezenet1_1": squeezenet,
    "unetpp_effb0_256": unetpp,
    "fpn_mnv2_256": fpn,
    "segformer_b0_512": segformer,
    "yolov5n_640": yolov5n,
    "gpt2_prefill_256_last": gpt2,
}
"""Name in the study and what writes it."""

STUDY = (
    *MODELS, "mobilenet_v2", "inception_v3_299", "densenet121", "resnet50", "hrnet_w18_small", "fcn_resnet50",
    "deeplabv3_resnet50", "unet_r34_256", "efficientdet_d0_512", "nasnetamobile", "darts_v2_cifar",
    "randwire_ws_seed1", "swin_t", "vit_b_16", "whisper_tiny_encoder", "sd15_unet_64",
)  # fmt: skip
"""The 26 models on which prototypes of all this were tried."""
