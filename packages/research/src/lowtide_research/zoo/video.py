"""Video classification, op for op as torch exports torchvision's R(2+1)D-18 and S3D: COSMA's Figure 3."""

from __future__ import annotations

from lowtide_research.zoo.builder import MAX_POOL_GAIN, Net, Value
from lowtide_research.zoo.values import Ints, Signal

CLASSES = 400

INCEPTIONS = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
     (256, 160, 320, 32, 128, 128)),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)  # fmt: skip
"""S3D's channels: of the first branch, of the second and third inside and outside, of the fourth."""


def _started(name: str, side: int) -> tuple[Net, Value]:
    net = Net(name, merge=False)
    return net, net.input("video", (1, 3, 16, side, side))


def _conv(net: Net, x: Value, filters: int, kernel: Ints, stride: Ints = (1, 1, 1)) -> Value:
    return net.batch_norm(net.padded_conv(x, filters, kernel, stride, tuple(k // 2 for k in kernel)))


def _apart(net: Net, x: Value, filters: int, kernel: int, stride: int = 1, inner: int = 0) -> Value:
    """Convolve over height and width, then over time."""
    y = net.relu(_conv(net, x, inner or filters, (1, kernel, kernel), (1, stride, stride)))
    return _conv(net, y, filters, (kernel, 1, 1), (stride, 1, 1))


def build_r2plus1d(name: str, *, side: int) -> Net:
    """R(2+1)D-18."""
    net, x = _started(name, side)
    x = net.relu(_conv(net, x, 45, (1, 7, 7), (1, 2, 2)))
    x = net.relu(_conv(net, x, 64, (3, 1, 1)))
    for stage in range(4):
        for block in range(2):
            filters, stride, before = 64 << stage, 2 if stage and not block else 1, x.shape[1]
            inner = 27 * before * filters // (9 * before + 3 * filters)  # as many weights as a full 3x3x3 convolution
            y = net.relu(_apart(net, x, filters, 3, stride, inner))
            y = _apart(net, y, filters, 3, 1, inner)
            x = net.relu(net.add(y, x if stride == 1 else _conv(net, x, filters, (1, 1, 1), (stride,) * 3)))
    pooled = net.mean(x)
    net.output(net.gemm(net.reshape(pooled, pooled.shape[:2]), CLASSES))
    return net


def _pool(net: Net, x: Value, kernel: Ints, stride: Ints, pads: Ints, kind: str = "MaxPool") -> Value:
    lengths = zip(x.shape[2:], kernel, stride, pads, strict=True)
    shape = (*x.shape[:2], *((d + 2 * p - k) // s + 1 for d, k, s, p in lengths))
    signal = Signal(x.signal.mean, MAX_POOL_GAIN * x.signal.variance)
    return net.op(kind, [x], shape, signal, kernel_shape=kernel, strides=stride, pads=pads + pads)


def build_s3d(name: str, *, side: int) -> Net:
    """S3D."""
    net, x = _started(name, side)
    x = net.relu(_conv(net, x, 64, (1, 7, 7), (1, 2, 2)))
    x = net.relu(_conv(net, x, 64, (7, 1, 1), (2, 1, 1)))
    x = _pool(net, x, (1, 3, 3), (1, 2, 2), (0, 1, 1))
    x = net.relu(_apart(net, net.relu(_conv(net, x, 64, (1, 1, 1))), 192, 3))
    x = _pool(net, x, (1, 3, 3), (1, 2, 2), (0, 1, 1))
    for group, inceptions in enumerate(INCEPTIONS):
        if group:
            x = _pool(net, x, (4 - group,) * 3, (2, 2, 2), (2 - group,) * 3)
        for first, a, b, c, d, last in inceptions:
            branches = [net.relu(_conv(net, x, first, (1, 1, 1)))]
            for inside, outside in ((a, b), (c, d)):
                branches.append(net.relu(_apart(net, net.relu(_conv(net, x, inside, (1, 1, 1))), outside, 3)))
            pooled = _pool(net, x, (3, 3, 3), (1, 1, 1), (1, 1, 1))
            x = net.concat([*branches, net.relu(_conv(net, pooled, last, (1, 1, 1)))])
    x = _pool(net, x, (2, side // 32, side // 32), (1, 1, 1), (0, 0, 0), "AveragePool")
    net.output(net.mean(net.conv(x, CLASSES, 1), keep=False))
    return net
