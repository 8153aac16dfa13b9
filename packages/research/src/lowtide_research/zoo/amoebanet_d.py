"""AmoebaNet-D as in torchgpipe: 18 layers, 256 filters (Real et al., AAAI 2019; Kim et al., torchgpipe, 2020).

The cell concatenates its own first input (``0`` is the newer one here), batch normalisation stays an op of
its own, repeated ops are kept, and the 3x3 "max" pool takes the mean: all as torchgpipe runs it.
"""

from __future__ import annotations

from functools import partial

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.cells import genotype_of

CLASSES = 1000

BOTTLENECK = 4  # channels of a cell over those of its 1x7 and 3x3 convolutions

_KERNELS: dict[str, tuple[tuple[int, int], ...]] = {
    "1x1": ((1, 1),),
    "1x7 and 7x1": ((1, 1), (1, 7), (7, 1), (1, 1)),
    "3x3": ((1, 1), (3, 3), (1, 1)),
}


def build_amoebanet_d(name: str, *, layers: int, filters: int, side: int) -> Net:
    """Stem, two reduction cells, and three stacks of `layers` / 3 normal cells with a reduction cell between."""
    net = Net(name, merge=False)
    channels = filters // 4
    x = net.relu(net.input("image", (1, 3, side, side)))
    older = newer = net.batch_norm(net.conv(x, channels, 3, 2, bias=False))
    stack = ["normal"] * (layers // 3)
    kinds = ["reduction", "reduction", *stack, "reduction", *stack, "reduction", *stack]
    before = "normal"
    for i, kind in enumerate(kinds):
        channels *= 2 if kind == "reduction" else 1
        with net.scope(f"cell{i}"):
            newest = _cell(net, newer, older, channels, kind, reduced=before == "reduction")
        newer, older, before = newest, newer, kind
    with net.scope("head"):
        batch, width, *rest = newer.shape
        whole = tuple(rest)
        pooled = net.op("AveragePool", [newer], (batch, width, 1, 1), newer.signal, kernel_shape=whole, strides=whole)
        net.output(net.gemm(net.reshape(pooled, (batch, width)), CLASSES))
    return net


def _cell(net: Net, newer: Value, older: Value, channels: int, kind: str, *, reduced: bool) -> Value:
    states = [_normalised(net, newer, channels, ((1, 1),)), _fit(net, older, channels, reduced)]
    return genotype_of("amoebanet_d").cell(net, states, partial(_apply, net, channels=channels), kind == "reduction")


def _fit(net: Net, older: Value, channels: int, reduced: bool) -> Value:
    """Bring the older input to the newer one's height and width, by a factorised reduction, and to `channels`."""
    if not reduced:
        return older if older.shape[1] == channels else _normalised(net, older, channels, ((1, 1),))
    x = net.relu(older)
    batch, width, height, length = x.shape
    even = net.conv(x, channels // 2, 1, 2, bias=False)
    shifted = net.slice(x, (0, 0, 1, 0), x.shape)
    shifted = net.slice(shifted, (0, 0, 0, 1), (batch, width, height - 1, length))
    shifted = net.pad(shifted, (0, 0, 0, 0), (0, 0, 1, 1))
    return net.batch_norm(net.concat([even, net.conv(shifted, channels // 2, 1, 2, bias=False)]))


def _apply(net: Net, x: Value, what: str, stride: int, *, channels: int) -> Value:
    if what == "skip":
        return x
    if what == "average pool":
        return net.average_pool(x, 3, stride)
    if what == "max pool 2x2":
        return net.max_pool(x, 2, stride)
    return _normalised(net, x, channels, _KERNELS[what], stride)


def _normalised(net: Net, x: Value, channels: int, kernels: tuple[tuple[int, int], ...], stride: int = 1) -> Value:
    """ReLU, convolution, batch normalisation for each kernel; the inner ones are narrow; 3x3 takes the stride."""
    for i, kernel in enumerate(kernels):
        width = channels if i == len(kernels) - 1 else channels // BOTTLENECK
        step = stride if kernel == (3, 3) else 1
        x = net.batch_norm(net.conv(net.relu(x), width, kernel, step, bias=False))
    return x
