"""Attention op for op as torch exports it: torch's Transformer and torchvision's ViT, of COSMA's Figure 3."""

from __future__ import annotations

import math

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.values import check_multiple

CLASSES = 1000


def _attention(net: Net, x: Value, memory: Value, heads: int) -> Value:
    """Multi-head attention of `x`, time first, to `memory`, which is `x` itself or an encoder's."""
    time, batch, width = x.shape
    length, each = memory.shape[0], width // heads
    if memory is x:
        query, key, value = _projected(net, x, 3)
    else:
        query = net.dense(x, width)
        key, value = _projected(net, memory, 2)
    flat: list[Value] = []
    for y, steps in ((query, time), (key, length), (value, length)):
        y = net.reshape(y, (steps, batch * heads, each))
        flat.append(net.transpose(y, (1, 0, 2)))
    steps = (time, length, length)
    q, k, v = (net.reshape(y, (batch, heads, s, each)) for y, s in zip(flat, steps, strict=True))
    k = net.transpose(net.reshape(k, (batch * heads, length, each)), (0, 2, 1))
    k = net.reshape(k, (batch, heads, each, length))
    scale = net.scalar(each**-0.25)
    q, k = net.multiply(q, scale), net.multiply(k, scale)
    shares = net.softmax(net.matmul(q, k))
    mixed = net.transpose(net.matmul(shares, v), (2, 0, 1, 3))
    mixed = net.gemm(net.reshape(mixed, (time * batch, width)), width)
    return net.reshape(mixed, (time, batch, width))


def _projected(net: Net, x: Value, parts: int) -> list[Value]:
    """Several projections as one product, taken apart."""
    y = net.dense(x, parts * x.shape[-1])
    y = net.unsqueeze(net.reshape(y, (*x.shape[:-1], parts, x.shape[-1])), 0)
    y = net.squeeze(net.transpose(y, (3, 1, 2, 0, 4)), (3,))
    return [net.select(y, i) for i in range(parts)]


def build_transformer(name: str, *, layers: int, width: int, heads: int) -> Net:
    """Encoder and decoder of `layers` layers, normalised after each block; 32 sequences of 10 and 20 tokens. Raises
    `InputError`: `width` is no multiple of `heads`."""
    check_multiple(name, width, heads, "width", "heads")
    net = Net(name, merge=False)
    memory, x = net.input("source", (10, 32, width)), net.input("target", (20, 32, width))
    for layer in range(layers):
        with net.scope(f"encoder{layer}"):
            memory = net.layer_norm(net.add(memory, _attention(net, memory, memory, heads)))
            memory = _fed(net, memory)
    memory = net.layer_norm(memory)
    for layer in range(layers):
        with net.scope(f"decoder{layer}"):
            x = net.layer_norm(net.add(x, _attention(net, x, x, heads)))
            x = net.layer_norm(net.add(x, _attention(net, x, memory, heads)))
            x = _fed(net, x)
    net.output(net.layer_norm(x))
    return net


def _fed(net: Net, x: Value) -> Value:
    return net.layer_norm(net.add(x, net.dense(net.relu(net.dense(x, 4 * x.shape[-1])), x.shape[-1])))


def build_vit(name: str, *, layers: int, width: int, heads: int) -> Net:
    """ViT with 16x16 patches of a 224x224 image and a class token. Raises `InputError`: `width` is no multiple of
    `heads`."""
    check_multiple(name, width, heads, "width", "heads")
    net = Net(name, merge=False)
    y = net.padded_conv(net.input("image", (1, 3, 224, 224)), width, (16, 16), (16, 16), (0, 0))
    patches = math.prod(y.shape[2:])
    y = net.transpose(net.reshape(y, (1, width, patches)), (0, 2, 1))
    x = net.add(
        net.concat([net.weight("token", (1, 1, width), 1.0), y], 1), net.weight("place", (1, patches + 1, width), 0.1)
    )
    for layer in range(layers):
        with net.scope(f"layer{layer}"):
            y = net.transpose(net.layer_norm(x), (1, 0, 2))
            x = net.add(net.transpose(_attention(net, y, y, heads), (1, 0, 2)), x)
            y = net.dense(net.layer_norm(x), 4 * width)
            x = net.add(x, net.dense(net.op("Gelu", [y], y.shape, y.signal.rectified()), width))
    net.output(net.gemm(net.select(net.layer_norm(x), 0, 1), CLASSES))
    return net
