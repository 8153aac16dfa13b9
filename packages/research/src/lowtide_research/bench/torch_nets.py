"""Small PyTorch networks whose order matters, exported to archives. Making one needs torch."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

SHAPES = {"branches": (1, 3, 72, 72), "wired": (1, 3, 32, 32), "encoder": (1, 32, 64)}
"""Networks, and the shape of the input of each."""


def export(name: str, path: Path, seed: int = 0) -> None:
    """Write a network, with weights of that seed, as `torch.export.save` does."""
    torch = import_module("torch")
    torch.manual_seed(seed)
    network = _networks(torch, torch.nn)[name]().eval()
    torch.export.save(torch.export.export(network, (torch.randn(SHAPES[name]),)), path)


def _networks(torch: Any, nn: Any) -> dict[str, Any]:
    """The classes; they have a base of torch's, so that they cannot stand outside."""

    class Branches(nn.Module):
        """Wide branches from one input, written breadth-first, each shrunk to a narrow tensor and added."""

        def __init__(self, count: int = 4, wide: int = 64, narrow: int = 8) -> None:
            super().__init__()
            self.widen = nn.ModuleList(nn.Conv2d(3, wide, 3, padding=1) for _ in range(count))
            self.shrink = nn.ModuleList(nn.Conv2d(wide, narrow, 1) for _ in range(count))

        def forward(self, x: Any) -> Any:
            wide = [torch.relu(layer(x)) for layer in self.widen]
            narrow = [layer(w) for layer, w in zip(self.shrink, wide, strict=True)]
            total = narrow[0]
            for other in narrow[1:]:
                total = total + other
            return total

    class Wired(nn.Module):
        """Nodes wired at random, each reading up to three earlier ones, by number; the mean of what nobody reads."""

        def __init__(self, nodes: int = 24, channels: int = 16, seed: int = 0) -> None:
            super().__init__()
            draw = Random(seed)
            self.reads = [sorted(draw.sample(range(i), min(i, draw.randrange(1, 4)))) for i in range(1, nodes)]
            self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in self.reads)
            self.first = nn.Conv2d(3, channels, 3, padding=1)

        def forward(self, x: Any) -> Any:
            outputs = [self.first(x)]
            for layer, reads in zip(self.layers, self.reads, strict=True):
                outputs.append(layer(torch.relu(sum(outputs[k] for k in reads[1:]) + outputs[reads[0]])))
            read = {k for reads in self.reads for k in reads}
            ends = [m for k, m in enumerate(outputs) if k not in read]
            return sum(ends[1:], ends[0]) / len(ends)

    class Encoder(nn.Module):
        """Transformer layers in converter order: nothing to gain."""

        def __init__(self, layers: int = 2, width: int = 64, heads: int = 4) -> None:
            super().__init__()
            self.heads = heads
            self.layers = nn.ModuleList(
                nn.ModuleDict(
                    {
                        "q": nn.Linear(width, width), "k": nn.Linear(width, width), "v": nn.Linear(width, width),
                        "out": nn.Linear(width, width), "up": nn.Linear(width, 4 * width),
                        "down": nn.Linear(4 * width, width), "a": nn.LayerNorm(width), "b": nn.LayerNorm(width),
                    }
                )
                for _ in range(layers)
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            n, steps, width = x.shape
            for layer in self.layers:
                h = layer["a"](x)
                q, k, v = (layer[p](h).view(n, steps, self.heads, -1).transpose(1, 2) for p in "qkv")
                mixed = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, -1) @ v
                x = x + layer["out"](mixed.transpose(1, 2).reshape(n, steps, width))
                x = x + layer["down"](torch.relu(layer["up"](layer["b"](x))))
            return x

    return {"branches": Branches, "wired": Wired, "encoder": Encoder}
