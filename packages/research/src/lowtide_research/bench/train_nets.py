"""PyTorch networks to train, small enough for a CPU, of every kind that a planned step must be right about.

Making one needs torch. `size` scales widths and batches: 1 for tests, more for figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Training:
    """A module, its loss function and a batch."""

    model: Any
    loss_fn: Callable[..., Any]
    batch: tuple[Any, ...]


def training(name: str, size: int = 1, seed: int = 0) -> Training:
    """A network of `NETS` with weights and a batch of that seed."""
    torch = import_module("torch")
    torch.manual_seed(seed)
    return NETS[name](torch, torch.nn, size)


def layer(nn: Any, width: int, heads: int, attend: Callable[[Any, Any, Any], Any]) -> Any:
    """A layer of a transformer with its norms first; `attend` is given queries, keys and values, each batch x `heads` x
    length x rest, and returns as much."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            parts = self.qkv(self.a(x)).split(width, -1)
            q, k, v = (t.view(b, n, heads, width // heads).transpose(1, 2) for t in parts)
            x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(b, n, width))
            return x + self.mlp(self.b(x))

    return Layer()


def _cross_entropy(output: Any, target: Any) -> Any:
    functional = import_module("torch").nn.functional
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def _squares(output: Any, target: Any) -> Any:
    return import_module("torch").nn.functional.mse_loss(output, target)


def _block(nn: Any, inner: int, outer: int, stride: int = 1) -> Any:
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True)
    )


def _resnet(torch: Any, nn: Any, size: int) -> Training:
    """Residual blocks, batch norm, a pooled head."""

    class Residual(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                _block(nn, inner, outer, stride), nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
            )
            self.short = nn.Conv2d(inner, outer, 1, stride, bias=False) if inner != outer else nn.Identity()

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.short(x))

    w = 8 * size
    stages = [(w, w, 1), (w, w, 1), (w, 2 * w, 2), (2 * w, 2 * w, 1), (2 * w, 4 * w, 2), (4 * w, 4 * w, 1)]
    model = nn.Sequential(
        _block(nn, 3, w), nn.MaxPool2d(3, 2, 1), *(Residual(*s) for s in stages), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4 * w, 10),
    )  # fmt: skip
    return Training(model, _cross_entropy, (torch.randn(4 * size, 3, 32, 32), torch.randint(10, (4 * size,))))


def _unet(torch: Any, nn: Any, size: int) -> Training:
    """Two paths with copies between them, batch norm, dropout, transposed convolutions."""

    class UNet(nn.Module):
        def __init__(self, widths: tuple[int, ...]) -> None:
            super().__init__()
            pairs = list(zip((3, *widths[:-1]), widths, strict=True))
            self.down = nn.ModuleList(nn.Sequential(_block(nn, a, b), _block(nn, b, b)) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs[:0:-1])
            self.join = nn.ModuleList(nn.Sequential(_block(nn, 2 * a, a), _block(nn, a, a)) for a, _ in pairs[:0:-1])
            self.drop, self.last = nn.Dropout(0.1), nn.Conv2d(widths[0], 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for k, down in enumerate(self.down):
                x = down(x if k == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            x = self.drop(x)
            for up, join, across in zip(self.up, self.join, kept[-2::-1], strict=True):
                x = join(torch.cat([across, up(x)], 1))
            return self.last(x)

    w = 8 * size
    model = UNet((w, 2 * w, 4 * w, 8 * w))
    return Training(model, _squares, (torch.randn(2 * size, 3, 32, 32), torch.randn(2 * size, 2, 32, 32)))


def _decoder_model(nn: Any, width: int, heads: int, layers: int, *, fused: bool, drop: float) -> Any:
    """A GPT: tied token embedding and head; attention in plain operators, or fused."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.drop = nn.Dropout(drop)

        def attend(self, q: Any, k: Any, v: Any) -> Any:
            if fused:
                return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            n = q.shape[2]
            scores = q @ k.transpose(2, 3) / (width // heads) ** 0.5
            mask = scores.new_ones(n, n, dtype=import_module("torch").bool).triu(1)
            return self.drop(scores.masked_fill(mask, float("-inf")).softmax(-1)) @ v

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = (t.view(b, n, heads, -1).transpose(1, 2) for t in self.qkv(self.a(x)).chunk(3, -1))
            x = x + self.drop(self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, n, width)))
            return x + self.drop(self.mlp(self.b(x)))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(200, width), nn.Embedding(64, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 200, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places.weight[: x.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Decoder()


def _text(torch: Any, size: int) -> tuple[Any, Any]:
    return torch.randint(200, (2 * size, 32)), torch.randint(200, (2 * size, 32))


def _gpt(torch: Any, nn: Any, size: int) -> Training:
    model = _decoder_model(nn, 32 * size, 4, 3, fused=False, drop=0.1)
    return Training(model, _cross_entropy, _text(torch, size))


def _gpt_fused(torch: Any, nn: Any, size: int) -> Training:
    model = _decoder_model(nn, 32 * size, 4, 3, fused=True, drop=0.0)
    return Training(model, _cross_entropy, _text(torch, size))


def _vit(torch: Any, nn: Any, size: int) -> Training:
    """Patches, a class token, torch's own encoder layers."""

    class ViT(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 8, 8)
            self.token, self.places = (nn.Parameter(torch.randn(1, n, width)) for n in (1, 17))
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.layers(x)[:, 0])

    batch = (torch.randn(4 * size, 3, 32, 32), torch.randint(10, (4 * size,)))
    return Training(ViT(32 * size), _cross_entropy, batch)


def _group_norm(torch: Any, nn: Any, size: int) -> Training:
    """The decoder of an image autoencoder: group norm, SiLU, nearest and bilinear upsampling."""

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.conv = nn.GroupNorm(4, width), nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return x + self.conv(nn.functional.silu(self.norm(x)))

    w = 16 * size
    model = nn.Sequential(
        nn.Conv2d(4, w, 3, padding=1), Block(w), nn.Upsample(scale_factor=2), Block(w),
        nn.Upsample(scale_factor=2, mode="bilinear"), Block(w), nn.GroupNorm(4, w), nn.SiLU(), nn.Conv2d(w, 3, 1),
    )  # fmt: skip
    return Training(model, _squares, (torch.randn(2 * size, 4, 8, 8), torch.randn(2 * size, 3, 32, 32)))


def _generator(torch: Any, nn: Any, size: int) -> Training:
    """Transposed convolutions with strides, batch norm, a hyperbolic tangent."""
    w = 8 * size
    widths = [(16, 4 * w, 1, 0), (4 * w, 2 * w, 2, 1), (2 * w, w, 2, 1)]
    layers = [
        nn.Sequential(nn.ConvTranspose2d(a, b, 4, s, p, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
        for a, b, s, p in widths
    ]
    model = nn.Sequential(*layers, nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())
    return Training(model, _squares, (torch.randn(4 * size, 16, 1, 1), torch.randn(4 * size, 3, 32, 32)))


def _swiglu(torch: Any, nn: Any, size: int) -> Training:
    """Many gated feed-forward layers, the first one frozen."""

    class Gated(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.gate, self.up, self.down = (
                nn.Linear(a, b, bias=False) for a, b in ((width, 3 * width), (width, 3 * width), (3 * width, width))
            )

        def forward(self, x: Any) -> Any:
            return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    model = nn.Sequential(*(Gated(32 * size) for _ in range(8)))
    model[0].requires_grad_(False)
    return Training(model, _squares, (torch.randn(16 * size, 32 * size), torch.randn(16 * size, 32 * size)))


NETS: dict[str, Callable[[Any, Any, int], Training]] = {
    "resnet": _resnet,
    "unet": _unet,
    "gpt": _gpt,
    "gpt_fused": _gpt_fused,
    "vit": _vit,
    "group_norm": _group_norm,
    "generator": _generator,
    "swiglu": _swiglu,
}
"""Networks by name."""
