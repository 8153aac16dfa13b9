"""The decoder of a latent diffusion model's autoencoder (Rombach et al., CVPR 2022): a latent becomes an image."""

from __future__ import annotations

import math

from lowtide_research.zoo.builder import Net, Signal, Value

LEVELS = (512, 512, 256, 128)  # channels of the levels, the smallest image first, in units of filters = 128
BLOCKS = 3  # of a level
GROUPS = 32


def build_vae_decoder(name: str, *, batch: int, side: int, filters: int) -> Net:
    """A block, attention and a block in the middle; four levels of three blocks; eight times the latent's side."""
    net = Net(name)
    widths = [level * filters // LEVELS[-1] for level in LEVELS]
    x = net.conv(net.input("latent", (batch, 4, side, side)), widths[0], 3)
    with net.scope("mid"):
        x = _block(net, _attention(net, _block(net, x, widths[0])), widths[0])
    for level, width in enumerate(widths):
        with net.scope(f"up{level}"):
            for _ in range(BLOCKS):
                x = _block(net, x, width)
            if level + 1 < len(widths):
                x = net.conv(net.upsample(x, 2), width, 3)
    with net.scope("head"):
        net.output(net.conv(_silu(net, _group_norm(net, x)), 3, 3))
    return net


def _block(net: Net, x: Value, width: int) -> Value:
    y = net.conv(_silu(net, _group_norm(net, x)), width, 3)
    y = net.conv(_silu(net, _group_norm(net, y)), width, 3)
    return net.add(net.conv(x, width, 1) if x.shape[1] != width else x, y)


def _group_norm(net: Net, x: Value) -> Value:
    """As exporters write it: normalise the groups of a reshaped tensor, then scale and shift channels."""
    batch, channels, *image = x.shape
    groups = min(GROUPS, channels)
    rows = net.reshape(x, (batch, groups, channels // groups * math.prod(image)))
    ones = [net.weight(role, (groups,), 0.0, mean, trained=False) for role, mean in (("ones", 1.0), ("zeros", 0.0))]
    even = net.reshape(net.op("InstanceNormalization", [rows, *ones], rows.shape, epsilon=1e-6), x.shape)
    scale, shift = (net.weight(role, (channels, 1, 1), 0.1, mean) for role, mean in (("scale", 1.0), ("shift", 0.0)))
    return net.add(net.multiply(even, scale), shift)


def _silu(net: Net, x: Value) -> Value:
    return net.multiply(x, net.op("Sigmoid", [x], x.shape, Signal(0.5, 0.04)))


def _attention(net: Net, x: Value) -> Value:
    batch, channels, height, width = x.shape
    even = _group_norm(net, x)
    rows = net.transpose(net.reshape(even, (batch, channels, height * width)), (0, 2, 1))
    query, key, value = (net.dense(rows, channels) for _ in range(3))
    scores = net.matmul(query, net.transpose(key, (0, 2, 1)), Signal(0.0, channels))
    shares = net.softmax(net.multiply(scores, net.scalar(channels**-0.5)))
    mixed = net.dense(net.matmul(shares, value, Signal(0.0, min(1.0, math.sqrt(math.e / (height * width))))), channels)
    return net.add(net.reshape(net.transpose(mixed, (0, 2, 1)), x.shape), x)
