"""The programs of `bench/xla.py`: networks of `xla_nets.py`, run forward or trained a step."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import xla_nets as nets
from xla_nets import Net, applied, shapes_of

Shapes = Sequence[jax.ShapeDtypeStruct]


@dataclass(frozen=True)
class Program:
    """A program to lower: `make` gives the function, its arguments' shapes, and which of them it may write over."""

    name: str
    what: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]]


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """Of 32 bits."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def words(*shape: int) -> jax.ShapeDtypeStruct:
    """Numbers of words or classes."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def forward(net: Net, x: jax.ShapeDtypeStruct) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]:
    """Parameters and an input in, the result out."""
    return (lambda weights, given: applied(net, weights, given)), (shapes_of(net, x), x), ()


def mean_square(result: Array, target: Array) -> Array:
    """Of pictures."""
    return ((result - target) ** 2).mean()


def cross_entropy(result: Array, target: Array) -> Array:
    """Of classes: the target holds their numbers."""
    return -jnp.take_along_axis(jax.nn.log_softmax(result), target[..., None], axis=-1).mean()


def gradient(
    net: Net, x: jax.ShapeDtypeStruct, y: jax.ShapeDtypeStruct, loss: Callable[[Array, Array], Array]
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]:
    """The loss and its gradient by all parameters."""

    def run(weights: list[Array], given: Array, target: Array) -> Any:
        return jax.value_and_grad(lambda w: loss(applied(net, w, given), target))(weights)

    return run, (shapes_of(net, x), x, y), ()


def training(
    net: Net, x: jax.ShapeDtypeStruct, y: jax.ShapeDtypeStruct, loss: Callable[[Array, Array], Array], rule: str,
    donated: bool = False,
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]:  # fmt: skip
    """A step of SGD, of momentum, or of Adam."""
    shapes = shapes_of(net, x)
    moments = {"sgd": 0, "momentum": 1, "adam": 2}[rule]

    def run(weights: list[Array], state: list[list[Array]], given: Array, target: Array) -> Any:
        value, slopes = jax.value_and_grad(lambda w: loss(applied(net, w, given), target))(weights)
        if rule == "sgd":
            return value, [w - 0.1 * g for w, g in zip(weights, slopes, strict=True)], state
        first = [0.9 * m + (1.0 if rule == "momentum" else 0.1) * g for m, g in zip(state[0], slopes, strict=True)]
        if rule == "momentum":
            return value, [w - 0.1 * m for w, m in zip(weights, first, strict=True)], [first]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(state[1], slopes, strict=True)]
        moved = [w - 1e-3 * m / (jnp.sqrt(v) + 1e-8) for w, m, v in zip(weights, first, second, strict=True)]
        return value, moved, [first, second]

    return run, (shapes, [shapes] * moments, x, y), (0, 1) if donated else ()


def decoding() -> tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]:
    """One token of a language model of eight layers, whose caches it may write over."""
    layers, batch, length, width, heads = 8, 8, 512, 512, 8
    cache = floats(batch, heads, length, width // heads)

    def net(get: nets.Get, token: Array, at: Array, caches: list[tuple[Array, Array]]) -> Any:
        table = get(16384, width)
        x, kept = table[token], []
        for k, v in caches:
            mixed = nets.dense(get, nets.layer_norm(get, x), 3 * width)
            q, new_k, new_v = (t.reshape(batch, heads, 1, -1) for t in jnp.split(mixed, 3, axis=-1))
            k = jax.lax.dynamic_update_slice(k, new_k, (0, 0, at, 0))
            v = jax.lax.dynamic_update_slice(v, new_v, (0, 0, at, 0))
            scores = jnp.where(jnp.arange(length) <= at, q @ k.transpose(0, 1, 3, 2) / 8.0, -1e9)
            x = x + nets.dense(get, (jax.nn.softmax(scores) @ v).reshape(batch, width), width)
            x = x + nets.dense(get, jax.nn.gelu(nets.dense(get, nets.layer_norm(get, x), 4 * width)), width)
            kept.append((k, v))
        return nets.layer_norm(get, x) @ table.T, kept

    given = (words(batch), words(), [(cache, cache)] * layers)
    return (lambda weights, *rest: applied(net, weights, *rest)), (shapes_of(net, *given), *given), (3,)


def adversarial() -> tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]:
    """A step of a generator and of the critic that judges it."""

    def generator(get: nets.Get, z: Array) -> Array:
        x = jax.nn.relu(nets.dense(get, z, 4 * 4 * 256)).reshape(-1, 4, 4, 256)
        for channels in (128, 64, 32):
            x = jax.nn.relu(nets.batch_norm(get, nets.conv(get, nets.grown(x), channels)))
        return jnp.tanh(nets.conv(get, nets.grown(x), 3))

    def critic(get: nets.Get, x: Array) -> Array:
        for channels in (32, 64, 128, 256):
            x = jax.nn.leaky_relu(nets.conv(get, x, channels, 4, 2), 0.2)
        return nets.dense(get, x.reshape(x.shape[0], -1), 1)

    noise, real = floats(64, 100), floats(64, 64, 64, 3)

    def run(makes: list[Array], judges: list[Array], z: Array, pictures: Array) -> Any:
        def judged(w: list[Array], m: list[Array], sign: float) -> Array:
            fake = applied(critic, w, applied(generator, m, z))
            return sign * fake.mean() - (applied(critic, w, pictures).mean() if sign > 0 else 0.0)

        by_judge = jax.grad(lambda w: judged(w, makes, 1.0))(judges)
        by_maker = jax.grad(lambda m: judged(judges, m, -1.0))(makes)
        step = lambda w, g: [a - 1e-3 * b for a, b in zip(w, g, strict=True)]  # noqa: E731
        return step(makes, by_maker), step(judges, by_judge)

    return run, (shapes_of(generator, noise), shapes_of(critic, real), noise, real), ()


def programs() -> tuple[Program, ...]:
    """All of them."""
    unet = partial(nets.unet, norm=nets.batch_norm)
    gpt = partial(nets.gpt, layers=6, width=512, words=8192)
    wire = partial(nets.randwire, nodes=32, seed=3)
    resnet18 = partial(nets.resnet, blocks=(2, 2, 2, 2), deep=False, norm=nets.batch_norm)
    resnet50 = partial(nets.resnet, blocks=(3, 4, 6, 3), deep=True)
    small = partial(nets.densenet, blocks=(6, 6, 6), norm=nets.batch_norm)
    mobile = partial(nets.mobilenet_v2, norm=nets.scaled)
    one, pictures = floats(1, 224, 224, 3), floats(8, 128, 128, 3)
    texts, text = words(8, 256), words(4, 128)
    rows = (
        ("unet-sgd", "U-Net 128², batch 4, SGD", training,
         (unet, floats(4, 128, 128, 3), floats(4, 128, 128, 3), mean_square, "sgd")),
        ("gpt-momentum", "GPT, 6 layers, 8 x 256, momentum", training, (gpt, texts, texts, cross_entropy, "momentum")),
        ("randwire-grad", "RandWire, 32 nodes, batch 8, gradient", gradient,
         (wire, floats(8, 64, 64, 3), words(8), cross_entropy)),
        ("randwire", "RandWire, 32 nodes", forward, (wire, one)),
        ("nas-cells", "six NAS cells", forward, (partial(nets.nas_cells, cells=6), one)),
        ("unet", "U-Net 256²", forward, (partial(nets.unet, norm=nets.scaled), floats(1, 256, 256, 3))),
        ("mlp-adam", "MLP, four times 2,048, batch 256, Adam", training,
         (nets.mlp, floats(256, 784), words(256), cross_entropy, "adam")),
        ("resnet18-sgd", "ResNet-18, batch 8, SGD", training, (resnet18, pictures, words(8), cross_entropy, "sgd")),
        ("resnet50", "ResNet-50", forward, (partial(resnet50, norm=nets.scaled), one)),
        ("resnet50-momentum", "ResNet-50, batch 8, momentum, donated", training,
         (partial(resnet50, norm=nets.batch_norm), pictures, words(8), cross_entropy, "momentum", True)),
        ("mobilenet", "MobileNetV2", forward, (mobile, one)),
        ("densenet", "DenseNet-121", forward,
         (partial(nets.densenet, blocks=(6, 12, 24, 16), norm=nets.scaled), one)),
        ("densenet-sgd", "DenseNet of 18 layers, batch 8, SGD", training,
         (small, pictures, words(8), cross_entropy, "sgd")),
        ("vgg-momentum", "VGG-11, batch 32 of 32², momentum", training,
         (nets.vgg, floats(32, 32, 32, 3), words(32), cross_entropy, "momentum")),
        ("inception", "GoogLeNet", forward, (nets.inception, one)),
        ("squeezenet", "SqueezeNet", forward, (nets.squeezenet, one)),
        ("bert", "BERT, 6 layers, 4 x 128", forward, (nets.bert, text)),
        ("bert-adam", "BERT, 6 layers, 4 x 128, Adam, donated", training,
         (nets.bert, text, words(4), cross_entropy, "adam", True)),
        ("vit-sgd", "ViT, 8 layers, batch 8, SGD", training,
         (nets.vit, floats(8, 224, 224, 3), words(8), cross_entropy, "sgd")),
        ("mixer-sgd", "MLP-Mixer, 8 layers, batch 8, SGD", training,
         (nets.mixer, floats(8, 224, 224, 3), words(8), cross_entropy, "sgd")),
        ("gpt-scan-sgd", "GPT as a loop over 6 layers, SGD", training,
         (partial(nets.gpt_scanned, layers=6, width=256, words=4096), text, text, cross_entropy, "sgd")),
        ("lstm-sgd", "LSTM, two layers, 16 x 64, SGD", training,
         (nets.lstm, floats(16, 64, 64), words(16), cross_entropy, "sgd")),
        ("gpt-decode", "a token of 8 layers, caches donated", decoding, ()),
        ("gan-step", "a step of a generator and its critic", adversarial, ()),
        ("decoder", "a decoder of pictures, 32² to 512²", forward, (nets.decoder, floats(1, 32, 32, 4))),
        ("experts-adam", "four experts, two layers, Adam", training,
         (nets.experts, floats(8, 128, 512), floats(8, 128, 512), mean_square, "adam")),
    )  # fmt: skip
    return tuple(Program(name, what, partial(make, *given)) for name, what, make, given in rows)
