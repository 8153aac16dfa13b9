"""A stack of transformer encoder layers (Vaswani et al., NeurIPS 2017), normalised before each block."""

from __future__ import annotations

import math

from lowtide.errors import InputError
from lowtide_research.zoo.builder import Net, Signal, Value
from lowtide_research.zoo.network import Network, Parameter

FEED_FORWARD = 4  # width of the feed-forward block over the model's width


def build_transformer(name: str, *, layers: int, width: int, heads: int, seq: int) -> Net:
    """Stack `layers` encoder layers of 33 ops on an input of shape (1, `seq`, `width`). Raises `InputError`: `heads`
    does not divide `width`."""
    if width % heads:
        raise InputError(f"width {width} is no multiple of heads {heads}; change one of them", f"zoo:{name}")
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


NETWORKS = (
    Network(
        "transformer",
        "Transformer encoder: Vaswani et al., Attention Is All You Need, NeurIPS 2017",
        "float32, batch 1, normalised before each block, GELU as five ops (opset 17), "
        "feed-forward 4 x width; layers=2430 makes 80,191 ops",
        build_transformer,
        {
            "layers": Parameter(6, 1, 20_000, "encoder layers"),
            "width": Parameter(256, 1, 16_384, "model width"),
            "heads": Parameter(4, 1, 1024, "attention heads"),
            "seq": Parameter(128, 1, 65_536, "tokens"),
        },
    ),
)
