"""Networks and steps written plainly in JAX, for `bench/xla.py`: what anybody's program looks like.

A network is a function of `get`, which hands out parameters by shape, and of its inputs. Nothing is trained and no
number matters: programs are lowered from shapes alone. Images are NHWC.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

Get = Callable[..., Array]
Net = Callable[..., Array]
"""Of `get` and inputs."""


def shapes_of(net: Net, *inputs: Any) -> list[jax.ShapeDtypeStruct]:
    """The parameters that a network asks for, in its order."""
    asked: list[jax.ShapeDtypeStruct] = []

    def get(*shape: int) -> Array:
        asked.append(jax.ShapeDtypeStruct(shape, jnp.float32))
        return jnp.zeros(shape)

    jax.eval_shape(lambda *given: net(get, *given), *inputs)
    return asked


def applied(net: Net, weights: Sequence[Array], *inputs: Array) -> Array:
    """The network with these parameters."""
    rest = iter(weights)
    return net(lambda *_: next(rest), *inputs)


# Layers.


def conv(get: Get, x: Array, channels: int, size: int = 3, stride: int = 1, groups: int = 1) -> Array:
    """Convolution without bias, padded to keep the picture."""
    weights = get(size, size, x.shape[-1] // groups, channels)
    return lax.conv_general_dilated(
        x, weights, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def batch_norm(get: Get, x: Array) -> Array:
    """Of this batch."""
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * get(x.shape[-1]) + get(x.shape[-1])


def scaled(get: Get, x: Array) -> Array:
    """A norm of inference: an affine map of channels."""
    return x * get(x.shape[-1]) + get(x.shape[-1])


def layer_norm(get: Get, x: Array) -> Array:
    """Over the last axis."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * get(x.shape[-1]) + get(x.shape[-1])


def dense(get: Get, x: Array, width: int) -> Array:
    """A linear layer."""
    return x @ get(x.shape[-1], width) + get(width)


def pooled(x: Array, size: int = 2, stride: int = 2) -> Array:
    """Largest of windows."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), "SAME")


def averaged(x: Array, size: int = 2) -> Array:
    """Mean of windows that do not overlap."""
    total = lax.reduce_window(x, 0.0, lax.add, (1, size, size, 1), (1, size, size, 1), "SAME")
    return total / size**2


def grown(x: Array) -> Array:
    """Twice as high and wide, by repeating."""
    return jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)


def attention(get: Get, x: Array, heads: int, causal: bool) -> Array:
    """Of every position to all, or to those before it."""
    batch, length, width = x.shape
    q, k, v = jnp.split(dense(get, x, 3 * width), 3, axis=-1)
    q, k, v = (t.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // heads)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return dense(get, mixed, width)


def transformer(get: Get, x: Array, layers: int, heads: int, causal: bool) -> Array:
    """Blocks with norms in front."""
    for _ in range(layers):
        x = x + attention(get, layer_norm(get, x), heads, causal)
        x = x + dense(get, jax.nn.gelu(dense(get, layer_norm(get, x), 4 * x.shape[-1])), x.shape[-1])
    return layer_norm(get, x)


# Networks.


def mlp(get: Get, x: Array) -> Array:
    """Four wide layers."""
    for _ in range(4):
        x = jax.nn.relu(dense(get, x, 2048))
    return dense(get, x, 10)


def unet(get: Get, x: Array, norm: Callable[[Get, Array], Array]) -> Array:
    """Three levels down, three up, with what was kept beside."""
    kept: list[Array] = []
    for channels in (32, 64, 128):
        x = jax.nn.relu(norm(get, conv(get, jax.nn.relu(norm(get, conv(get, x, channels))), channels)))
        kept.append(x)
        x = pooled(x)
    x = jax.nn.relu(norm(get, conv(get, x, 256)))
    for channels, beside in zip((128, 64, 32), reversed(kept), strict=True):
        x = jnp.concatenate((grown(x), beside), axis=-1)
        x = jax.nn.relu(norm(get, conv(get, jax.nn.relu(norm(get, conv(get, x, channels))), channels)))
    return conv(get, x, 3, size=1)


def resnet(get: Get, x: Array, blocks: Sequence[int], deep: bool, norm: Callable[[Get, Array], Array]) -> Array:
    """Basic blocks, or bottlenecks where `deep`."""
    x = pooled(jax.nn.relu(norm(get, conv(get, x, 64, 7, 2))), 3, 2)
    for level, count in enumerate(blocks):
        for number in range(count):
            stride = 2 if level and not number else 1
            width = 64 * 2**level
            inner = ((1, width, 1), (3, width, stride), (1, 4 * width, 1)) if deep else (
                (3, width, stride), (3, width, 1))  # fmt: skip
            y = x
            for k, (size, channels, by) in enumerate(inner):
                y = norm(get, conv(get, y, channels, size, by))
                y = jax.nn.relu(y) if k + 1 < len(inner) else y
            short = x if x.shape == y.shape else norm(get, conv(get, x, y.shape[-1], 1, stride))
            x = jax.nn.relu(y + short)
    return dense(get, x.mean((1, 2)), 1000)


def mobilenet_v2(get: Get, x: Array, norm: Callable[[Get, Array], Array]) -> Array:
    """Inverted bottlenecks."""
    x = jax.nn.relu6(norm(get, conv(get, x, 32, 3, 2)))
    for grow, channels, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            by, wide = (1 if number else stride), grow * x.shape[-1]
            y = jax.nn.relu6(norm(get, conv(get, x, wide, 1))) if grow > 1 else x
            y = jax.nn.relu6(norm(get, conv(get, y, wide, 3, by, groups=wide)))
            y = norm(get, conv(get, y, channels, 1))
            x = x + y if x.shape == y.shape else y
    x = jax.nn.relu6(norm(get, conv(get, x, 1280, 1)))
    return dense(get, x.mean((1, 2)), 1000)


def densenet(get: Get, x: Array, blocks: Sequence[int], norm: Callable[[Get, Array], Array]) -> Array:
    """Each layer sees all before it in its block."""
    x = pooled(jax.nn.relu(norm(get, conv(get, x, 64, 7, 2))), 3, 2)
    for level, count in enumerate(blocks):
        for _ in range(count):
            y = conv(get, jax.nn.relu(norm(get, x)), 128, 1)
            x = jnp.concatenate((x, conv(get, jax.nn.relu(norm(get, y)), 32)), axis=-1)
        if level + 1 < len(blocks):
            x = averaged(conv(get, jax.nn.relu(norm(get, x)), x.shape[-1] // 2, 1))
    return dense(get, jax.nn.relu(norm(get, x)).mean((1, 2)), 1000)


def vgg(get: Get, x: Array) -> Array:
    """VGG-11."""
    for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        x = jax.nn.relu(conv(get, x, channels) + get(channels)) if channels else pooled(x)
    x = x.reshape(x.shape[0], -1)
    for _ in range(2):
        x = jax.nn.relu(dense(get, x, 1024))
    return dense(get, x, 10)


def inception(get: Get, x: Array) -> Array:
    """GoogLeNet's modules: four branches, joined."""
    x = pooled(jax.nn.relu(conv(get, x, 64, 7, 2)), 3, 2)
    x = pooled(jax.nn.relu(conv(get, jax.nn.relu(conv(get, x, 64, 1)), 192)), 3, 2)
    for one, three_in, three, five_in, five, pool, ends in (
        (64, 96, 128, 16, 32, 32, False), (128, 128, 192, 32, 96, 64, True), (192, 96, 208, 16, 48, 64, False),
        (160, 112, 224, 24, 64, 64, False), (128, 128, 256, 24, 64, 64, False), (112, 144, 288, 32, 64, 64, False),
        (256, 160, 320, 32, 128, 128, True), (256, 160, 320, 32, 128, 128, False), (384, 192, 384, 48, 128, 128, False),
    ):  # fmt: skip
        a = jax.nn.relu(conv(get, x, one, 1))
        b = jax.nn.relu(conv(get, jax.nn.relu(conv(get, x, three_in, 1)), three))
        c = jax.nn.relu(conv(get, jax.nn.relu(conv(get, x, five_in, 1)), five, 5))
        d = jax.nn.relu(conv(get, pooled(x, 3, 1), pool, 1))
        x = jnp.concatenate((a, b, c, d), axis=-1)
        x = pooled(x, 3, 2) if ends else x
    return dense(get, x.mean((1, 2)), 1000)


def squeezenet(get: Get, x: Array) -> Array:
    """Fire modules."""
    x = pooled(jax.nn.relu(conv(get, x, 64, 3, 2)), 3, 2)
    for number, narrow in enumerate((16, 16, 32, 32, 48, 48, 64)):
        wide = 4 * narrow
        y = jax.nn.relu(conv(get, x, narrow, 1))
        x = jnp.concatenate((jax.nn.relu(conv(get, y, wide, 1)), jax.nn.relu(conv(get, y, wide, 3))), axis=-1)
        x = pooled(x, 3, 2) if number in (1, 3) else x
    return conv(get, x, 1000, 1).mean((1, 2))


def randwire(get: Get, x: Array, nodes: int, seed: int) -> Array:
    """A random DAG: each node sums up to four earlier ones, convolves depthwise and pointwise."""
    draw = Random(seed)
    x = jax.nn.relu(conv(get, x, 32, 3, 2))
    values, unread = [x], {0}
    for number in range(1, nodes + 1):
        before = sorted(draw.sample(range(number), min(number, draw.randint(1, 4))))
        unread -= set(before)
        unread.add(number)
        total = sum((values[k] * jax.nn.sigmoid(get()) for k in before[1:]), start=values[before[0]])
        values.append(conv(get, conv(get, jax.nn.relu(total), 32, 3, groups=32), 32, 1))
    ends: Any = sum((values[k] for k in sorted(unread)), start=jnp.zeros_like(x))
    return dense(get, ends.mean((1, 2)), 10)


def nas_cells(get: Get, x: Array, cells: int) -> Array:
    """Cells of five blocks whose inputs are the two cells before, as NASNet's and AmoebaNet's."""
    draw = Random(7)
    x = jax.nn.relu(conv(get, x, 32, 3, 2))
    before, last = x, x
    for _ in range(cells):
        values = [conv(get, jax.nn.relu(v), 32, 1) for v in (before, last)]
        used: set[int] = set()
        for _ in range(5):
            pair = [draw.randrange(len(values)) for _ in range(2)]
            used.update(pair)
            values.append(sum((_cell_op(get, values[k], draw) for k in pair), start=jnp.zeros_like(values[0])))
        loose = [v for k, v in enumerate(values) if k not in used]
        before, last = last, jnp.concatenate(loose, axis=-1)
    return dense(get, jax.nn.relu(last).mean((1, 2)), 10)


def _cell_op(get: Get, x: Array, draw: Random) -> Array:
    kind = draw.choice(("separable 3", "separable 5", "pool", "identity"))
    if kind == "identity":
        return x
    if kind == "pool":
        return pooled(x, 3, 1)
    return conv(get, conv(get, jax.nn.relu(x), 32, int(kind[-1]), groups=32), 32, 1)


def gpt(get: Get, tokens: Array, layers: int, width: int, words: int) -> Array:
    """Logits of the next word at every position."""
    table = get(words, width)
    x = table[tokens] + get(tokens.shape[1], width)
    return transformer(get, x, layers, width // 64, causal=True) @ table.T


def gpt_scanned(get: Get, tokens: Array, layers: int, width: int, words: int) -> Array:
    """The same as a loop over stacked layers."""
    table = get(words, width)
    x = table[tokens] + get(tokens.shape[1], width)
    shapes = shapes_of(lambda g, y: transformer(g, y, 1, width // 64, causal=True), x)
    stacked = [get(layers, *s.shape) for s in shapes]

    def layer(y: Array, weights: list[Array]) -> tuple[Array, None]:
        return applied(lambda g, z: transformer(g, z, 1, width // 64, causal=True), weights, y), None

    return lax.scan(layer, x, stacked)[0] @ table.T


def bert(get: Get, tokens: Array) -> Array:
    """A class for a text."""
    x = get(8192, 256)[tokens] + get(tokens.shape[1], 256)
    return dense(get, transformer(get, x, 6, 4, causal=False)[:, 0], 2)


def vit(get: Get, x: Array) -> Array:
    """Patches of 16 by 16."""
    x = lax.conv_general_dilated(x, get(16, 16, 3, 192), (16, 16), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = x.reshape(x.shape[0], -1, 192)
    x = x + get(x.shape[1], 192)
    return dense(get, transformer(get, x, 8, 3, causal=False).mean(1), 1000)


def mixer(get: Get, x: Array) -> Array:
    """MLPs over patches, then over channels."""
    x = lax.conv_general_dilated(x, get(16, 16, 3, 256), (16, 16), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = x.reshape(x.shape[0], -1, 256)
    for _ in range(8):
        y = layer_norm(get, x).transpose(0, 2, 1)
        x = x + dense(get, jax.nn.gelu(dense(get, y, 128)), y.shape[-1]).transpose(0, 2, 1)
        x = x + dense(get, jax.nn.gelu(dense(get, layer_norm(get, x), 1024)), 256)
    return dense(get, layer_norm(get, x).mean(1), 1000)


def lstm(get: Get, x: Array) -> Array:
    """Two layers over time, each a loop."""
    for _ in range(2):
        width = 256
        mixed, recurrent = dense(get, x, 4 * width), get(width, 4 * width)
        start = jnp.zeros((x.shape[0], width))

        def step(state: tuple[Array, Array], at: Array, by: Array = recurrent) -> tuple[tuple[Array, Array], Array]:
            i, f, g, o = jnp.split(at + state[0] @ by, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        x = lax.scan(step, (start, start), mixed.transpose(1, 0, 2))[1].transpose(1, 0, 2)
    return dense(get, x[:, -1], 10)


def decoder(get: Get, x: Array) -> Array:
    """Of a variational autoencoder: residual blocks, four times as large at the end of each level."""
    x = conv(get, x, 128)
    for channels in (128, 128, 64, 32):
        for _ in range(2):
            y = conv(get, jax.nn.silu(scaled(get, x)), channels)
            y = conv(get, jax.nn.silu(scaled(get, y)), channels)
            x = (x if x.shape == y.shape else conv(get, x, channels, 1)) + y
        x = conv(get, grown(x), channels)
    return conv(get, jax.nn.silu(scaled(get, x)), 3)


def experts(get: Get, x: Array) -> Array:
    """Four experts of which every token takes what a gate gives, two layers."""
    for _ in range(2):
        gate = jax.nn.softmax(dense(get, x, 4))
        y = [dense(get, jax.nn.gelu(dense(get, x, 2048)), 512) * gate[..., k : k + 1] for k in range(4)]
        x = layer_norm(get, x + sum(y[1:], start=y[0]))
    return dense(get, x, 512)
