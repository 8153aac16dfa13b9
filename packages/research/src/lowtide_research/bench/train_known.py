"""Networks whose memory others have measured, at the sizes at which they did: a U-Net, a GPT, a stack of SwiGLU layers.

Making one needs torch. Peaks of eager's step, beside parameters and batch: 341.5, 340.2 and 487.9 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from lowtide_research.bench.train_nets import Training


def known_training(name: str, seed: int = 0) -> Training:
    """A network of `KNOWN` with weights and a batch of that seed."""
    torch = import_module("torch")
    torch.manual_seed(seed)
    return KNOWN[name](torch, torch.nn)


def _twice(nn: Any, inner: int, outer: int) -> Any:
    layers = []
    for a in (inner, outer):
        layers += [nn.Conv2d(a, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def unet_batch_norm(torch: Any, nn: Any, batch: int = 8, side: int = 128, width: int = 32, levels: int = 4) -> Training:
    """A U-Net with batch norm and transposed convolutions."""

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width << k for k in range(levels)]
            falling = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
            self.down = nn.ModuleList(_twice(nn, a, b) for a, b in zip([3, *widths], widths, strict=False))
            self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in falling)
            self.join = nn.ModuleList(_twice(nn, 2 * b, b) for _, b in falling)
            self.last = nn.Conv2d(width, 1, 1)

        def forward(self, x: Any) -> Any:
            across = []
            for k, down in enumerate(self.down):
                x = down(x if k == 0 else nn.functional.max_pool2d(x, 2))
                across.append(x)
            for up, join, y in zip(self.up, self.join, across[-2::-1], strict=True):
                x = join(torch.cat([y, up(x)], 1))
            return self.last(x)

    sides = (batch, 3, side, side), (batch, 1, side, side)
    return Training(UNet(), nn.functional.mse_loss, (torch.randn(sides[0]), torch.randn(sides[1])))


def gpt_plain(
    torch: Any, nn: Any, layers: int = 6, width: int = 256, batch: int = 8, length: int = 256, words: int = 4096
) -> Training:
    """A GPT with attention of four heads in plain operators, a head of its own and no dropout."""
    heads = 4

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            parts = self.qkv(self.a(x)).split(width, -1)
            q, k, v = (t.view(b, n, heads, width // heads).transpose(1, 2) for t in parts)
            weights = (q @ k.transpose(-1, -2) * (width // heads) ** -0.5 + self.mask).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(b, n, width))
            return x + self.mlp(self.b(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Training(GPT(), word_loss(nn, words), word_pairs(torch, words, batch, length))


def word_loss(nn: Any, words: int) -> Callable[[Any, Any], Any]:
    """The cross-entropy of scores of words."""

    def loss_fn(output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output.view(-1, words), target.view(-1))

    return loss_fn


def word_pairs(torch: Any, words: int, batch: int, length: int) -> tuple[Any, Any]:
    """Random words, and those that are to be predicted of them."""
    return torch.randint(words, (batch, length)), torch.randint(words, (batch, length))


def swiglu_stack(torch: Any, nn: Any, layers: int = 32, width: int = 256, tokens: int = 1024) -> Training:
    """Gated feed-forward layers with their norms, one after the other."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(width)
            self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    model = nn.Sequential(*(Gated() for _ in range(layers)))
    return Training(model, nn.functional.mse_loss, (torch.randn(tokens, width), torch.randn(tokens, width)))


KNOWN: dict[str, Callable[[Any, Any], Training]] = {
    "unet": unet_batch_norm,
    "gpt": gpt_plain,
    "swiglu": swiglu_stack,
}
"""Networks by name."""
