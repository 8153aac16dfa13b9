"""A stack of transformer encoder layers (Vaswani et al., NeurIPS 2017), normalised before each block."""

from __future__ import annotations

import math

from lowtide_research.zoo.builder import Net, Signal, Value
from lowtide_research.zoo.values import check_multiple

FEED_FORWARD = 4  # width of the feed-forward block over the model's width


def build_transformer(name: str, *, layers: int, width: int, heads: int, seq: int) -> Net:
    """Stack `layers` encoder layers of 33 ops on an input of shape (1, `seq`, `width`). Raises `InputError`: `heads`
    does not divide `width`."""
    check_multiple(name, width, heads, "width", "heads")
    net = Net(name)
    x = net.input("embeddings", (1, seq, width))
    for i in range(layers):
        with net.scope(f"layer{i}"):
            with net.scope("attention"):
                x = net.add(x, _attention(net, net.layer_norm(x), heads))
            with net.scope("feed_forward"):
                hidden = net.gelu(net.dense(net.layer_norm(x), FEED_FORWARD * width))
                x = net.add(x, net.dense(hidden, width))
    with net.scope("head"):
        net.output(net.layer_norm(x))
    return net


def _attention(net: Net, x: Value, heads: int) -> Value:
    batch, seq, width = x.shape
    split = (batch, seq, heads, width // heads)
    query, key, value = (
        net.transpose(net.reshape(net.dense(x, width), split), permutation)
        for permutation in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    scores = net.multiply(net.matmul(query, key, Signal(0.0, width / heads)), net.scalar((width // heads) ** -0.5))
    mixed = net.matmul(net.softmax(scores), value, Signal(0.0, min(1.0, math.sqrt(math.e / seq))))
    return net.dense(net.reshape(net.transpose(mixed, (0, 2, 1, 3)), x.shape), width)
