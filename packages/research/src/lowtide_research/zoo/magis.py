"""The seven training steps on which MAGIS was evaluated (Chen et al., ASPLOS 2024, table 2), rebuilt.

Sizes, ops and their order are those of its released code; what is missing in them, next to the networks whose names
they bear, is missing here too, and stands in each entry's configuration. Every op makes a full tensor, views too;
weights count until their update, and what the update makes of one counts to the end.
"""

from __future__ import annotations

import math

from lowtide.errors import InputError
from lowtide_research.zoo.step_net import StepNet
from lowtide_research.zoo.values import Value, check_multiple

_HALF = "bfloat16"


def _blocks(net: StepNet, x: Value, layers: int, width: int, heads: int) -> Value:
    for _ in range(layers):
        x = net.add(_attention(net, net.norm(x), width, heads), x)
        hidden = net.relu(_dense(net, net.norm(x), 4 * width))
        x = net.add(_dense(net, hidden, width), x)
    return x


def _dense(net: StepNet, x: Value, width: int) -> Value:
    return net.einsum(x, net.parameter((x.shape[-1], width)), "nsd", "df", "nsf")


def _attention(net: StepNet, x: Value, width: int, heads: int) -> Value:
    check_multiple(net.name, width, heads, "width", "heads")
    each = width // heads
    q, k, v = (net.einsum(x, net.parameter((width, heads, each)), "nsd", "dhe", "nshe") for _ in range(3))
    q, k, v = (net.transpose(value, (0, 2, 1, 3)) for value in (q, k, v))
    shares = net.softmax(net.scale(net.einsum(q, k, "nhse", "nhte", "nhst"), 1 / math.sqrt(each)))
    mixed = net.transpose(net.einsum(shares, v, "nhst", "nhte", "nhse"), (0, 2, 1, 3))
    return net.einsum(mixed, net.parameter((heads, each, width)), "nshe", "hed", "nsd")


def _language(name: str, dtype: str, *, batch: int, seq: int, layers: int, width: int, heads: int) -> StepNet:
    net = StepNet(name, dtype)
    net.train(_blocks(net, net.tensor("x", (batch, seq, width)), layers, width, heads))
    return net


def build_bert(name: str, **sizes: int) -> StepNet:
    """Blocks of attention and two dense layers, in float32."""
    return _language(name, "float32", **sizes)


def build_half(name: str, **sizes: int) -> StepNet:
    """The same in bfloat16."""
    return _language(name, _HALF, **sizes)


def build_vit(name: str, *, batch: int, image: int, patch: int, layers: int, width: int, heads: int) -> StepNet:
    """Patches, blocks, and scores of 1,000 classes for each patch. Raises `InputError`: patches do not divide the
    image, or are not as wide as the blocks."""
    check_multiple(name, image, patch, "image", "patch")
    if 3 * patch * patch != width:
        raise InputError(f"width {width} is not 3 patch^2 = {3 * patch * patch}; change one of them", f"zoo:{name}")
    net, side = StepNet(name), image // patch
    x = net.reshape(net.tensor("x", (batch, 3, image, image)), (batch, 3, side, patch, side, patch))
    x = net.reshape(net.transpose(x, (0, 2, 4, 1, 3, 5)), (batch, side * side, 3 * patch * patch))
    net.train(_dense(net, _blocks(net, x, layers, width, heads), 1000))
    return net


def build_resnet50(name: str, *, batch: int, image: int, width: int) -> StepNet:
    """Bottlenecks 3, 4, 6, 3."""
    net = StepNet(name)
    x = net.relu(net.convolve(net.tensor("x", (batch, 3, image, image)), width, 7, 2, 3))
    x = net.mean_pool(x, 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            x = _bottleneck(net, x, width << stage, 2 if stage and not block else 1, widen=not block)
    x = net.mean_pool(x, x.shape[-1])
    net.train(net.convolve(x, 1000, 1))
    return net


def _bottleneck(net: StepNet, x: Value, width: int, stride: int, *, widen: bool) -> Value:
    y = net.relu(net.convolve(x, width, 1))
    y = net.relu(net.convolve(y, width, 3, stride, 1))
    y = net.convolve(y, 4 * width, 1)
    shortcut = net.convolve(x, 4 * width, 1, stride) if widen else x
    return net.relu(net.add(y, shortcut))


def _same(net: StepNet, x: Value, filters: int) -> Value:
    return net.relu(net.convolve(x, filters, 3, 1, 1))


def build_unet(name: str, *, batch: int, image: int, width: int) -> StepNet:
    """Four levels down and up, two convolutions each."""
    check_multiple(name, image, 16, "image", "2^4")
    net = StepNet(name)
    widths = [width << level for level in range(5)]
    x, skips = net.tensor("x", (batch, 1, image, image)), list[Value]()
    for filters in widths[:-1]:
        x = _same(net, _same(net, x, filters), filters)
        skips.append(x)
        x = net.mean_pool(x, 2, 2)
    x = _same(net, _same(net, x, widths[-1]), widths[-1])
    for skip, filters in zip(reversed(skips), reversed(widths[:-1]), strict=True):
        x = net.join([skip, net.enlarge(x, 2)])
        x = _same(net, _same(net, x, filters), filters)
    net.train(net.sigmoid(net.convolve(_same(net, x, 2), 1, 1)))
    return net


def build_unetpp(name: str, *, batch: int, image: int, width: int) -> StepNet:
    """A grid of nodes, one convolution each, every node joined with those of its row."""
    check_multiple(name, image, 32, "image", "2^5")
    net = StepNet(name)
    widths = [width << level for level in range(5)]
    x = net.tensor("x", (batch, 1, image, image))
    grid: list[list[Value]] = []
    for level, filters in enumerate(widths):
        x = _same(net, x, filters)
        grid.append([x])
        x = net.mean_pool(x, 2, 2)
        for j in range(level):
            row = [grid[level - 1 - k][j - k] for k in range(j + 1)][::-1]
            joined = net.join([net.enlarge(grid[level][j], 2), *row])
            grid[level].append(_same(net, joined, widths[level - 1 - j]))
    net.train(net.sigmoid(net.convolve(grid[-1][-1], 1, 1)))
    return net
