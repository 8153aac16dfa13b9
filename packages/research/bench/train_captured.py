"""Training steps captured from PyTorch modules, with batch norm, masks, embeddings and heads: parts and runs again
together, beside runs again alone.

    python bench/train_captured.py -o results/train-captured [--nets gpt reader patches unet swiglu] [--time 30]
    python bench/train_captured.py --page results/train-captured

Each budget is a share of what torch's allocator gives out for eager's step. Every plan is executed: what the allocator
gives out for it stands beside what was planned, and loss and gradients beside eager's. Time is counted in operations,
torch's own count of products and one for each element of all else, over those of one run of every op. These networks
are trained by others as they stand, and are in no table with MAGIS's graphs, which leave out what they have. Needs
torch; some minutes on a CPU.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from lowtide_research.bench.machine import machine
from lowtide_research.bench.train_known import known_training
from lowtide_research.bench.train_nets import Training, layer
from train_known import MIB, Bench

SHARES = {
    "gpt": (0.5, 0.35, 0.25, 0.18), "reader": (0.6, 0.5, 0.45, 0.4), "patches": (0.5, 0.3, 0.2, 0.15),
    "unet": (0.7, 0.5, 0.4, 0.35), "swiglu": (0.5, 0.25, 0.15, 0.1),
}  # fmt: skip
"""Of eager's peak: as far down as the largest op that stays whole lets a plan go."""

WAYS = {"runs again": "recompute", "in parts and again": "recompute,fission"}
NETS = ("gpt", "reader", "patches", "unet", "swiglu")
KINDS = {
    "gpt": "six decoder layers, attention in plain operators with a mask, a head of 4,096 words, batch 8 x 256",
    "reader": "a reader of lines (Shi, Bai and Yao, CRNN, 2015): convolutions with batch norm, and 6,625 signs at each "
    "of 64 places, batch 16; batch norm forbids parts of the batch, and the head is cut",
    "patches": "a ViT behind early convolutions (Xiao et al., 2021) that says one of 8,192 words for each of its 784 "
    "patches, as BEiT is trained (Bao et al., 2021): six layers, attention in plain operators, batch 4; batch norm "
    "forbids parts of the batch as a whole, head and attention are cut",
    "unet": "four levels with batch norm and transposed convolutions, batch 8 at 128 x 128: nothing can be cut",
    "swiglu": "32 gated layers with their norms, 1,024 tokens of 256: no head, and nothing is cut",
}


def reader(torch: Any, nn: Any, batch: int = 16, signs: int = 6625, width: int = 32, columns: int = 256) -> Training:
    """Convolutions with batch norm over lines of 32 rows, a sign at every fourth column."""

    def stage(inner: int, outer: int, pool: tuple[int, int]) -> list[Any]:
        convolution = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(pool)]

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (width, 2 * width, 4 * width, 8 * width)
            pools = ((2, 2), (2, 2), (2, 1), (4, 1))
            layers = [stage(a, b, pool) for a, b, pool in zip((1, *widths), widths, pools, strict=False)]
            self.trunk = nn.Sequential(*(layer for block in layers for layer in block))
            self.head = nn.Linear(widths[-1], signs)

        def forward(self, x: Any) -> Any:
            return self.head(self.trunk(x).squeeze(2).transpose(1, 2).contiguous())

    def loss_fn(output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output.reshape(-1, signs), target.reshape(-1))

    return Training(
        Reader(), loss_fn, (torch.randn(batch, 1, 32, columns), torch.randint(signs, (batch, columns // 4)))
    )


def patches(
    torch: Any, nn: Any, layers: int = 6, width: int = 192, heads: int = 3, batch: int = 4, side: int = 224,
    words: int = 8192,
) -> Training:  # fmt: skip
    """A ViT behind convolutions with batch norm, which says a word for each patch of eight pixels."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        return (q @ k.transpose(-1, -2) * (width // heads) ** -0.5).softmax(-1) @ v

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (3, width // 8, width // 4, width // 2)
            stages = [[nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()] for a, b in pairwise(widths)]
            self.stem = nn.Sequential(*(part for stage in stages for part in stage), nn.Conv2d(widths[-1], width, 1))
            self.places = nn.Parameter(torch.randn((side // 8) ** 2, width) * 0.02)
            self.layers = nn.Sequential(*(layer(nn, width, heads, attend) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            x = self.stem(x).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.layers(x)))

    def loss_fn(output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output.reshape(-1, words), target.reshape(-1))

    target = torch.randint(words, (batch, (side // 8) ** 2))
    return Training(Patches(), loss_fn, (torch.randn(batch, 3, side, side), target))


OWN = {"reader": reader, "patches": patches}
"""Networks of this file."""


def measured(torch: Any, name: str, seconds: float) -> dict[str, Any]:
    """Plans within each share, executed."""
    torch.manual_seed(0)
    bench = Bench(torch, OWN[name](torch, torch.nn) if name in OWN else known_training(name), seconds)
    eager = bench.once(bench.eager)[1]
    row: dict[str, Any] = {"net": name, "eager": eager, "plans": []}
    for share in SHARES[name]:
        for way, allow in WAYS.items():
            row["plans"].append({"share": share, "way": way, **bench.within("allocator", int(share * eager), allow)})
            print(name, row["plans"][-1], flush=True)
    return row


def _cell(row: dict[str, Any], eager: int) -> list[str]:
    """Time, what was planned and measured, equality, parts."""
    if "refused" in row:
        proved = row["way"] == "runs again" and "alone takes" in row["refused"]
        return ["none is" if proved else "none found", "", "", ""]
    bits = "equal" if row["furthest"] == 0 else f"{row['furthest']:.0e}"
    parts = f" ({', '.join(str(n) for n in dict.fromkeys(row['parts']))} parts)" if row["parts"] else ""
    took = f"{row['planned'] / MIB:.1f}, {row['measured'] / MIB:.1f}"
    return [f"x{row['time']:.3f}{parts}", took, f"{row['measured'] / eager:.3f}", bits]


def tables(text: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    here = text["machine"]
    about = (__doc__ or "").split("\n\n")[2]
    lines = [
        "# Captured training steps, in parts and again", "", *about.splitlines(), "",
        f"lowtide {here['lowtide']} ({str(here['commit'])[:7]}), torch {text['torch']}, one thread, {here['cpu']}, "
        f"{here['cores']} cores, other work beside it; {text['time']:g} s of search for each plan. MiB beside "
        "parameters, buffers and batch; gradients are results and count. Bits: the largest difference of loss or a "
        f"gradient from eager's over the largest value of its tensor. None is: an op takes more "
        f"by itself. {text.get('note', '')}".rstrip(),
    ]  # fmt: skip
    head = [
        "of eager",
        "runs again",
        "planned, took",
        "share",
        "bits",
        "in parts and again",
        "planned, took",
        "share",
        "bits",
    ]
    for net in text["nets"]:
        kind, eager = KINDS[net["net"]], net["eager"] / MIB
        lines += ["", f"## {net['net']}", "", f"{kind[0].upper()}{kind[1:]}. Eager: {eager:.1f} MiB.", ""]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for share in dict.fromkeys(row["share"] for row in net["plans"]):
            cells = [c for row in net["plans"] if row["share"] == share for c in _cell(row, net["eager"])]
            lines.append(f"| {share:g} | {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Write the tables and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="path without ending: .md and .json")
    parser.add_argument("--nets", nargs="*", default=list(NETS), choices=NETS)
    parser.add_argument("--time", type=float, default=30.0, help="seconds of search for each plan")
    parser.add_argument("--page", type=Path, help="write PAGE.md from PAGE.json")
    given = parser.parse_args()
    if given.page is not None:
        text = json.loads(given.page.with_suffix(".json").read_text(encoding="utf-8"))
        given.page.with_suffix(".md").write_text("\n".join(tables(text)) + "\n", encoding="utf-8")
        return 0
    torch = import_module("torch")
    torch.set_num_threads(1)
    nets: list[dict[str, Any]] = []
    for name in given.nets:
        nets.append(measured(torch, name, given.time))
        text = {"machine": asdict(machine()), "torch": torch.__version__, "time": given.time, "nets": nets}
        given.output.with_suffix(".json").write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
        given.output.with_suffix(".md").write_text("\n".join(tables(text)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
