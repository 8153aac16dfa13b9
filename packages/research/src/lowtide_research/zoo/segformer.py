"""SegFormer (Xie et al., NeurIPS 2021): four stages of tokens, and a head that reads all of them at one size."""

from __future__ import annotations

import math

from lowtide_research.zoo.builder import Net, Signal, Value

WIDTHS = (32, 64, 160, 256)
HEADS = (1, 2, 5, 8)
REDUCTIONS = (8, 4, 2, 1)
"""Keys and values of a stage come from an image this many times smaller."""
FEED_FORWARD = 4
HEAD = 256
CLASSES = 150


def build_segformer(name: str, *, batch: int, side: int, depth: int) -> Net:
    """The B0 model: `depth` blocks a stage; its result is a quarter of the image's side."""
    net = Net(name)
    image = net.input("image", (batch, 3, side, side))
    stages = []
    for stage, width in enumerate(WIDTHS):
        with net.scope(f"stage{stage}"):
            if stages:
                image = _image(net, *stages[-1])
            image = net.conv(image, width, *((3, 2) if stages else (7, 4)))
            at = image.shape
            x = net.layer_norm(_tokens(net, image))
            for block in range(depth):
                with net.scope(f"block{block}"):
                    x = net.add(x, _attention(net, net.layer_norm(x), at, HEADS[stage], REDUCTIONS[stage]))
                    x = net.add(x, _feed_forward(net, net.layer_norm(x), at))
            stages.append((net.layer_norm(x), at))
    with net.scope("head"):
        wide = [_widened(net, x, at, 1 << i) for i, (x, at) in enumerate(stages)]
        fused = net.relu(net.conv(net.concat(wide[::-1]), HEAD, 1))
        net.output(net.conv(fused, CLASSES, 1))
    return net


def _widened(net: Net, tokens: Value, at: tuple[int, ...], times: int) -> Value:
    """A stage as the head reads it: of the head's width, at the size of the first."""
    image = _image(net, net.dense(tokens, HEAD), (at[0], HEAD, *at[2:]))
    return net.upsample(image, times) if times > 1 else image


def _tokens(net: Net, image: Value) -> Value:
    batch, channels, height, width = image.shape
    return net.transpose(net.reshape(image, (batch, channels, height * width)), (0, 2, 1))


def _image(net: Net, tokens: Value, shape: tuple[int, ...]) -> Value:
    return net.reshape(net.transpose(tokens, (0, 2, 1)), shape)


def _attention(net: Net, x: Value, at: tuple[int, ...], heads: int, reduction: int) -> Value:
    batch, seq, width = x.shape
    few = x
    if reduction > 1:
        few = net.layer_norm(_tokens(net, _shrink(net, _image(net, x, at), reduction)))
    query = net.transpose(net.reshape(net.dense(x, width), (batch, seq, heads, width // heads)), (0, 2, 1, 3))
    short = (batch, few.shape[1], heads, width // heads)
    key = net.transpose(net.reshape(net.dense(few, width), short), (0, 2, 3, 1))
    value = net.transpose(net.reshape(net.dense(few, width), short), (0, 2, 1, 3))
    scores = net.multiply(net.matmul(query, key, Signal(0.0, width / heads)), net.scalar((width // heads) ** -0.5))
    mixed = net.matmul(net.softmax(scores), value, Signal(0.0, min(1.0, math.sqrt(math.e / few.shape[1]))))
    return net.dense(net.reshape(net.transpose(mixed, (0, 2, 1, 3)), x.shape), width)


def _shrink(net: Net, x: Value, times: int) -> Value:
    """Convolve with a window of `times` by `times` and as large a stride."""
    channels, kernel = x.shape[1], (times, times)
    deviation = (channels * times**2 * max(x.signal.variance, 1e-6)) ** -0.5
    weight = net.weight("weight", (channels, channels, *kernel), deviation, centred=(1, 2, 3))
    shape = (*x.shape[:2], *(d // times for d in x.shape[2:]))
    return net.op(
        "Conv", [x, weight, net.weight("bias", (channels,), 0.05)], shape, kernel_shape=kernel, strides=kernel
    )


def _feed_forward(net: Net, x: Value, at: tuple[int, ...]) -> Value:
    wide = FEED_FORWARD * x.shape[2]
    hidden = _image(net, net.dense(x, wide), (at[0], wide, *at[2:]))
    return net.dense(net.gelu(_tokens(net, net.depthwise(hidden, 3, bias=True))), x.shape[2])
