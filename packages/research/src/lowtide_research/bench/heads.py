"""Language models at the sizes at which others cut the loss head by hand, and the same ones small enough to run.

Sizes are those that the threads state, or, where they are silent, those that reproduce their bytes; `Head.words` says
which. Making one needs torch; on the meta device it takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lowtide_research.bench.train_known import word_loss, word_pairs
from lowtide_research.bench.train_nets import Training, layer


@dataclass(frozen=True)
class Head:
    """A model by name, at full size and small; `autocast`: whether it is trained under autocast to bfloat16;
    `optimizer`: whether AdamW updates parameters within the step; `words`: the sizes, in words."""

    name: str
    full: Callable[[], Training]
    small: Callable[[], Training]
    autocast: bool
    optimizer: bool
    words: str


def gpt2(layers: int, width: int, words: int, batch: int, length: int) -> Training:
    """GPT-2 with fused attention and its embedding as its head, as it is commonly trained: no dropout."""
    torch = import_module("torch")
    nn, heads = torch.nn, width // 64

    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    class GPT2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(layer(nn, width, heads, attend) for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                y = block(y)
            return self.head(self.norm(y))

    return Training(GPT2(), word_loss(nn, words), word_pairs(torch, words, batch, length))


def llama(layers: int, width: int, inner: int, words: int, length: int) -> Training:
    """A Llama 3 in bfloat16: grouped queries, rotary positions, SwiGLU, a head of its own; the loss in float32."""
    torch = import_module("torch")
    nn, size, kind = torch.nn, min(128, width // 4), torch.bfloat16
    heads, groups = width // size, max(1, width // size // 4)

    def linear(a: int, b: int) -> Any:
        return nn.Linear(a, b, bias=False, dtype=kind)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.RMSNorm(width, dtype=kind) for _ in range(2))
            self.q, self.out = linear(width, width), linear(width, width)
            self.k, self.v = linear(width, groups * size), linear(width, groups * size)
            self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)

        def forward(self, x: Any, turn: tuple[Any, Any]) -> Any:
            y = self.a(x)
            q, k, v = (f(y).view(1, length, -1, size).transpose(1, 2) for f in (self.q, self.k, self.v))
            q, k = (t * turn[0] + torch.cat([-t[..., size // 2 :], t[..., : size // 2]], -1) * turn[1] for t in (q, k))
            k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(1, length, width))
            y = self.b(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(words, width, dtype=kind)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.RMSNorm(width, dtype=kind)
            self.head = linear(width, words)
            angle = torch.arange(length)[:, None] / 500000 ** (torch.arange(0, size, 2) / size)
            angle = torch.cat([angle, angle], -1)
            self.register_buffer("cosine", angle.cos().to(kind))
            self.register_buffer("sine", angle.sin().to(kind))

        def forward(self, x: Any) -> Any:
            y = self.tokens(x)
            for block in self.blocks:
                y = block(y, (self.cosine, self.sine))
            return self.head(self.norm(y)).float()

    return Training(Llama(), word_loss(nn, words), word_pairs(torch, words, 1, length))


def head_alone(width: int, words: int, tokens: int) -> Training:
    """A head in bfloat16 and its loss in float32, on hidden states that want a gradient."""
    torch = import_module("torch")
    nn = torch.nn

    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Parameter(torch.randn(tokens, width, dtype=torch.bfloat16))
            self.head = nn.Linear(width, words, bias=False, dtype=torch.bfloat16)

        def forward(self, target: Any) -> Any:
            return nn.functional.cross_entropy(self.head(self.hidden).float(), target)

    def whole(output: Any) -> Any:
        return output

    return Training(Alone(), whole, (torch.randint(words, (tokens,)),))


HEADS = (
    Head(
        "llama3-8b", lambda: llama(32, 4096, 14336, 128256, 8192), lambda: llama(2, 64, 128, 2000, 256), False, False,
        "32 layers, width 4,096, 128,256 words, one sequence of 8,192 tokens, bfloat16, loss in float32; one device",
    ),
    Head(
        "gpt2", lambda: gpt2(12, 768, 50257, 32, 1024), lambda: gpt2(2, 128, 2000, 2, 128), True, True,
        "12 layers, width 768, 50,257 words, 32 sequences of 1,024 tokens, float32 under autocast to bfloat16, AdamW",
    ),
    Head(
        "head", lambda: head_alone(1024, 151936, 4096), lambda: head_alone(64, 4000, 512), False, False,
        "the head alone: width 1,024, 151,936 words, 4,096 tokens, bfloat16, loss in float32",
    ),
)  # fmt: skip
"""By what others measured: pytorch/torchtitan#996, pytorch/pytorch#136702, huggingface/trl#5575."""
