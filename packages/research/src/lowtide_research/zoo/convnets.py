"""Convolutional networks that people designed, op for op as torch exports torchvision's: COSMA's Figure 3.

Batch normalisation is not folded, and every convolution has a bias, which the exporter adds. COSMA cites the
fully convolutional DenseNet (Jegou et al., CVPRW 2017) for its DenseNet and gives no size; FC-DenseNet103 is that
paper's own network, with the layers, growth and transitions of its Table 2.
"""

from __future__ import annotations

from lowtide_research.zoo.builder import Net, Value

CLASSES, SEGMENTS = 1000, 21
EXPANSION = 4
GROWTH = 32

TIRAMISU = ((4, 5, 7, 10, 12), 15, 16, 48, 11)
"""FC-DenseNet103: layers of each dense block down, of the one at the bottom; growth; first filters; classes."""

# Kernel, expanded channels, channels, whether squeeze and excitation, activation, stride, dilation.
MOBILENET_V3 = (
    (3, 16, 16, False, "Relu", 1, 1), (3, 64, 24, False, "Relu", 2, 1), (3, 72, 24, False, "Relu", 1, 1),
    (5, 72, 40, True, "Relu", 2, 1), (5, 120, 40, True, "Relu", 1, 1), (5, 120, 40, True, "Relu", 1, 1),
    (3, 240, 80, False, "HardSwish", 2, 1), (3, 200, 80, False, "HardSwish", 1, 1),
    (3, 184, 80, False, "HardSwish", 1, 1), (3, 184, 80, False, "HardSwish", 1, 1),
    (3, 480, 112, True, "HardSwish", 1, 1), (3, 672, 112, True, "HardSwish", 1, 1),
    (5, 672, 160, True, "HardSwish", 1, 2), (5, 960, 160, True, "HardSwish", 1, 2),
    (5, 960, 160, True, "HardSwish", 1, 2),
)  # fmt: skip
LOW_LEVEL = 3  # block whose result L-RASPP reads beside the last one


def _started(name: str, side: int) -> tuple[Net, Value]:
    net = Net(name, merge=False)
    return net, net.input("image", (1, 3, side, side))


def _act(net: Net, x: Value, kind: str = "Relu") -> Value:
    return net.relu(x) if kind == "Relu" else net.op(kind, [x], x.shape, x.signal.rectified())


def _conv(
    net: Net, x: Value, filters: int, kernel: int, stride: int = 1, *, groups: int = 1, dilation: int = 1
) -> Value:
    pads = (kernel // 2 * dilation,) * 2
    y = net.padded_conv(x, filters, (kernel,) * 2, (stride,) * 2, pads, groups=groups, dilation=dilation)
    return net.batch_norm(y)


def _classified(net: Net, x: Value) -> Net:
    y = net.mean(x)
    net.output(net.gemm(net.reshape(y, y.shape[:2]), CLASSES))
    return net


def _resnet(net: Net, x: Value, *, groups: int = 1, width: int = 64, dilated: bool = False) -> Value:
    """ResNet-50 without its head. `dilated`: the last two stages dilate where they would stride."""
    x = net.max_pool(net.relu(_conv(net, x, 64, 7, 2)), 3, 2)
    dilation = 1
    for stage, blocks in enumerate((3, 4, 6, 3)):
        grown = 2 if dilated and stage > 1 else 1
        for block in range(blocks):
            stride = 2 if stage and grown == 1 and not block else 1
            inner = width * groups << stage
            with net.scope(f"stage{stage}/block{block}"):
                y = net.relu(_conv(net, x, inner, 1))
                y = net.relu(_conv(net, y, inner, 3, stride, groups=groups, dilation=dilation))
                y = _conv(net, y, EXPANSION * 64 << stage, 1)
                x = net.relu(net.add(y, x if block else _conv(net, x, EXPANSION * 64 << stage, 1, stride)))
            dilation *= 1 if block else grown
    return x


def build_resnet50(name: str, *, side: int, groups: int = 1, width: int = 64) -> Net:
    """ResNet-50, or ResNeXt-50 with `groups` groups of `width` channels."""
    net, image = _started(name, side)
    return _classified(net, _resnet(net, image, groups=groups, width=width))


def build_fcn(name: str, *, side: int) -> Net:
    """FCN on ResNet-50."""
    net, image = _started(name, side)
    y = net.relu(_conv(net, _resnet(net, image, dilated=True), 512, 3))
    net.output(net.resize(net.conv(y, SEGMENTS, 1), (side, side)))
    return net


def build_deeplab(name: str, *, side: int) -> Net:
    """DeepLabV3 on ResNet-50."""
    net, image = _started(name, side)
    x = _resnet(net, image, dilated=True)
    found = [net.relu(_conv(net, x, 256, 1))]
    found += [net.relu(_conv(net, x, 256, 3, dilation=dilation)) for dilation in (12, 24, 36)]
    found.append(net.resize(net.relu(_conv(net, net.mean(x), 256, 1)), x.shape[2:]))
    y = net.relu(_conv(net, net.relu(_conv(net, net.concat(found), 256, 1)), 256, 3))
    net.output(net.resize(net.conv(y, SEGMENTS, 1), (side, side)))
    return net


def build_lraspp(name: str, *, side: int) -> Net:
    """L-RASPP on MobileNetV3-Large."""
    net, image = _started(name, side)
    x = _act(net, _conv(net, image, 16, 3, 2), "HardSwish")
    low = x
    for block, (kernel, expanded, channels, squeezed, act, stride, dilation) in enumerate(MOBILENET_V3):
        y = x if expanded == x.shape[1] else _act(net, _conv(net, x, expanded, 1), act)
        y = _act(net, _conv(net, y, expanded, kernel, stride, groups=expanded, dilation=dilation), act)
        y = _conv(net, _excited(net, y) if squeezed else y, channels, 1)
        x = net.add(y, x) if y.shape == x.shape else y
        low = x if block == LOW_LEVEL else low
    x = _act(net, _conv(net, x, 960, 1), "HardSwish")
    y = net.relu(_conv(net, x, 128, 1))
    gate = net.conv(net.mean(x), 128, 1)
    y = net.multiply(y, net.op("Sigmoid", [gate], gate.shape))
    y = net.resize(y, low.shape[2:])
    net.output(net.resize(net.add(net.conv(low, SEGMENTS, 1), net.conv(y, SEGMENTS, 1)), (side, side)))
    return net


def _excited(net: Net, x: Value) -> Value:
    """Squeeze and excitation; channels are a quarter, to a multiple of eight that is no less than nine tenths of it."""
    quarter = x.shape[1] // 4
    eighths = (quarter + 4) // 8 * 8
    y = net.relu(net.conv(net.mean(x), eighths + 8 * (10 * eighths < 9 * quarter), 1))
    y = net.conv(y, x.shape[1], 1)
    return net.multiply(net.op("HardSigmoid", [y], y.shape, alpha=1 / 6, beta=0.5), x)


def build_densenet121(name: str, *, side: int) -> Net:
    """DenseNet-121."""
    net, image = _started(name, side)
    x = net.max_pool(net.relu(_conv(net, image, 64, 7, 2)), 3, 2)
    for block, layers in enumerate((6, 12, 24, 16)):
        features = [x]
        for _ in range(layers):
            x = net.concat(features) if len(features) > 1 else x
            y = net.conv(net.relu(net.batch_norm(x)), 4 * GROWTH, 1)
            features.append(net.conv(net.relu(net.batch_norm(y)), GROWTH, 3))
        x = net.relu(net.batch_norm(net.concat(features)))
        if block < 3:
            x = net.average_pool(net.conv(x, x.shape[1] // 2, 1), 2, 2)
    return _classified(net, x)


def build_fc_densenet(name: str, *, side: int) -> Net:
    """FC-DenseNet103: dense blocks down and up, joined at each resolution."""
    net, image = _started(name, side)
    down, bottom, growth, filters, classes = TIRAMISU
    x, skips = net.conv(image, filters, 3), list[Value]()
    for layers in down:
        x, new = _dense(net, x, layers, growth)
        skips.append(x := net.concat([x, new[-1]]))
        x = net.max_pool(net.conv(net.relu(net.batch_norm(x)), x.shape[1], 1), 2, 2)
    x, new = _dense(net, x, bottom, growth)
    for layers, skip in zip(reversed(down), reversed(skips), strict=True):
        y = net.concat(new)
        weight = net.weight("weight", (y.shape[1], y.shape[1], 3, 3), (9 / 4 * y.shape[1] * y.signal.variance) ** -0.5)
        y = net.op(
            "ConvTranspose", [y, weight, net.weight("bias", (y.shape[1],), 0.05)], (*y.shape[:2], *skip.shape[2:]),
            kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1),
        )  # fmt: skip
        x, new = _dense(net, net.concat([y, skip]), layers, growth)
    net.output(net.conv(net.concat([x, new[-1]]), classes, 1))
    return net


def _dense(net: Net, x: Value, layers: int, growth: int) -> tuple[Value, list[Value]]:
    """What the last layer read, and what each layer made."""
    new: list[Value] = []
    for layer in range(layers):
        x = net.concat([x, new[-1]]) if layer else x
        new.append(net.conv(net.relu(net.batch_norm(x)), growth, 3))
    return x, new
