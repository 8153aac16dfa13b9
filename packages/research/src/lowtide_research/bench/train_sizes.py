"""The networks of MAGIS's evaluation (Chen et al., ASPLOS 2024, table 2) as PyTorch models, whole and at its sizes.

`zoo.magis` has the graphs of its released code, which leave out norms, embeddings, masks and heads; these have
them, as the networks are trained. Making one needs torch; on the meta device it takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lowtide_research.bench.train_known import unet_batch_norm, word_loss, word_pairs
from lowtide_research.bench.train_nets import Training


@dataclass(frozen=True)
class Sized:
    """A network by name, at full size and small; `words`: what it is, with its sizes."""

    name: str
    full: Callable[[], Training]
    small: Callable[[], Training]
    words: str


def resnet(batch: int, side: int, width: int, blocks: tuple[int, ...], classes: int) -> Training:
    """A ResNet of bottlenecks with batch norm, trained on classes."""
    torch = import_module("torch")
    nn = torch.nn

    def convolution(inner: int, outer: int, kernel: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outer)]

    class Bottleneck(nn.Module):
        def __init__(self, inner: int, middle: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *convolution(inner, middle, 1), nn.ReLU(inplace=True), *convolution(middle, middle, 3, stride),
                nn.ReLU(inplace=True), *convolution(middle, 4 * middle, 1),
            )  # fmt: skip
            same = inner == 4 * middle and stride == 1
            self.short = nn.Identity() if same else nn.Sequential(*convolution(inner, 4 * middle, 1, stride))

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.body(x) + self.short(x), inplace=True)

    layers = [*convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = width
    for stage, count in enumerate(blocks):
        for k in range(count):
            layers.append(Bottleneck(inner, width << stage, 2 if stage and k == 0 else 1))
            inner = 4 * (width << stage)
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))
    batch_of = torch.randn(batch, 3, side, side), torch.randint(classes, (batch,))
    return Training(model, nn.functional.cross_entropy, batch_of)


def _encoder(nn: Any, width: int, heads: int, drop: float, first: bool) -> Any:
    """A layer of attention in plain operators and two dense layers, norms first or after the sums."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.drop = nn.Dropout(drop)

        def attend(self, x: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            shares = self.drop((q @ k.transpose(2, 3) / (width // heads) ** 0.5).softmax(-1))
            return self.drop(self.out((shares @ v).transpose(1, 2).reshape(b, n, width)))

        def forward(self, x: Any) -> Any:
            if first:
                x = x + self.attend(self.a(x))
                return x + self.drop(self.mlp(self.b(x)))
            x = self.a(x + self.attend(x))
            return self.b(x + self.drop(self.mlp(x)))

    return Layer()


def bert(batch: int, length: int, layers: int, width: int, words: int, size: int = 64) -> Training:
    """BERT with embeddings, dropout and its head over all words, which is the embedding."""
    torch = import_module("torch")
    nn = torch.nn

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
            self.layers = nn.Sequential(*(_encoder(nn, width, width // size, 0.1, False) for _ in range(layers)))
            self.last = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
            self.head = nn.Linear(width, words)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places(torch.arange(length, device=x.device))
            return self.head(self.last(self.layers(self.drop(self.norm(y)))))

    return Training(Bert(), word_loss(nn, words), word_pairs(torch, words, batch, length))


def vit(batch: int, side: int, patch: int, layers: int, width: int, classes: int, size: int = 64) -> Training:
    """A vision transformer with a class token and learned positions, without dropout."""
    torch = import_module("torch")
    nn = torch.nn

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = nn.Conv2d(3, width, patch, patch)
            self.kind = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
            self.layers = nn.Sequential(*(_encoder(nn, width, width // size, 0.0, True) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            y = self.cut(x).flatten(2).transpose(1, 2)
            y = torch.cat([self.kind.expand(y.shape[0], -1, -1), y], 1) + self.places
            return self.head(self.norm(self.layers(y))[:, 0])

    batch_of = torch.randn(batch, 3, side, side), torch.randint(classes, (batch,))
    return Training(ViT(), nn.functional.cross_entropy, batch_of)


def unet_nested(batch: int, side: int, width: int, levels: int) -> Training:
    """A U-Net++: between both paths nodes of two convolutions, each of all before it at its level and one below."""
    torch = import_module("torch")
    nn = torch.nn
    widths = [width << k for k in range(levels)]

    def twice(inner: int, outer: int) -> Any:
        layers: list[Any] = []
        for a in (inner, outer):
            layers += [nn.Conv2d(a, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList(twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
            self.join = nn.ModuleDict(
                {
                    f"{row}_{k}": twice(k * widths[row] + widths[row + 1], widths[row])
                    for k in range(1, levels)
                    for row in range(levels - k)
                }
            )
            self.last = nn.Conv2d(width, 1, 1)

        def forward(self, x: Any) -> Any:
            rows: list[list[Any]] = []
            for level, down in enumerate(self.down):
                x = down(x if level == 0 else nn.functional.max_pool2d(x, 2))
                rows.append([x])
                for k in range(1, level + 1):
                    row = level - k
                    up = nn.functional.interpolate(rows[row + 1][k - 1], scale_factor=2, mode="bilinear")
                    rows[row].append(self.join[f"{row}_{k}"](torch.cat([*rows[row], up], 1)))
            return self.last(rows[0][-1])

    batch_of = torch.randn(batch, 3, side, side), torch.randn(batch, 1, side, side)
    return Training(Nested(), nn.functional.mse_loss, batch_of)


def gpt_neo(batch: int, length: int, layers: int, width: int, words: int, window: int, heads: int) -> Training:
    """GPT-Neo in bfloat16: attention in float32, in every second layer to a window; its embedding is its head."""
    torch = import_module("torch")
    nn, kind = torch.nn, torch.bfloat16

    def linear(a: int, b: int, *, bias: bool = True) -> Any:
        return nn.Linear(a, b, bias=bias, dtype=kind)

    class Block(nn.Module):
        def __init__(self, local: bool) -> None:
            super().__init__()
            self.a, self.b = (nn.LayerNorm(width, dtype=kind) for _ in range(2))
            self.q, self.k, self.v = (linear(width, width, bias=False) for _ in range(3))
            self.out, self.up, self.down = linear(width, width), linear(width, 4 * width), linear(4 * width, width)
            seen = torch.ones(length, length, dtype=torch.bool).tril()
            self.register_buffer("hidden", ~(seen.triu(1 - window) if local else seen))

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            y = self.a(x)
            q, k, v = (f(y).view(b, n, heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            scores = (q.float() @ k.float().transpose(2, 3)).masked_fill(self.hidden, torch.finfo(torch.float32).min)
            x = x + self.out((scores.softmax(-1).to(kind) @ v).transpose(1, 2).reshape(b, n, width))
            return x + self.down(nn.functional.gelu(self.up(self.b(x)), approximate="tanh"))

    class GPTNeo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = (nn.Embedding(count, width, dtype=kind) for count in (words, length))
            self.blocks = nn.Sequential(*(Block(bool(k % 2)) for k in range(layers)))
            self.norm, self.head = nn.LayerNorm(width, dtype=kind), linear(width, words, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places(torch.arange(length, device=x.device))
            return self.head(self.norm(self.blocks(y))).float()

    return Training(GPTNeo(), word_loss(nn, words), word_pairs(torch, words, batch, length))


def unet(batch: int, side: int, width: int) -> Training:
    """The U-Net of `lowtide_research.bench.train_known`, with five levels."""
    torch = import_module("torch")
    return unet_batch_norm(torch, torch.nn, batch, side, width, 5)


SIZES = (
    Sized(
        "resnet50", lambda: resnet(64, 224, 64, (3, 4, 6, 3), 1000), lambda: resnet(2, 32, 4, (1, 2, 1), 10),
        "ResNet-50, 64 images of 224, float32",
    ),
    Sized(
        "bert", lambda: bert(32, 512, 12, 768, 30522), lambda: bert(2, 16, 2, 16, 50, 8),
        "BERT-base, 32 sequences of 512 tokens, dropout, its head over 30,522 words, float32",
    ),
    Sized(
        "vit", lambda: vit(64, 224, 16, 12, 768, 1000), lambda: vit(2, 16, 4, 2, 16, 10, 8),
        "ViT-B/16, 64 images of 224, float32",
    ),
    Sized(
        "unet", lambda: unet(32, 256, 64), lambda: unet(2, 32, 4),
        "U-Net, five levels from 64 channels, batch norm, 32 images of 256, float32",
    ),
    Sized(
        "unet++", lambda: unet_nested(16, 256, 32, 5), lambda: unet_nested(2, 16, 4, 3),
        "U-Net++, five levels from 32 channels, batch norm, 16 images of 256, float32",
    ),
    Sized(
        "gpt-neo", lambda: gpt_neo(32, 512, 24, 2048, 50257, 256, 16), lambda: gpt_neo(2, 16, 2, 16, 50, 4, 2),
        "GPT-Neo-1.3B, 32 sequences of 512 tokens, loss in float32, the rest bfloat16",
    ),
)  # fmt: skip
"""As MAGIS's table 2 has them, its BTLM-3B left out."""
