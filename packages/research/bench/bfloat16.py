"""How far gradients of loss heads in parts are from eager's in bfloat16, and both from float64's.

    python bench/bfloat16.py -o results/bfloat16

The heads of `bench.heads`, small, in own order with the head in 2 to 32 parts, executed. A distance is the
largest difference over the largest value of the tensor, the greatest over loss and all gradients, and over the seeds.
Float64 is the same weights and batch in eager mode, float32 where the model asks for it. Needs torch; some seconds.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.torch import compile_step
from lowtide.torch.generate import executable, source_of
from lowtide_research.bench.heads import HEADS, Head
from lowtide_research.bench.machine import machine
from train_heads import cut_by_hand

PARTS, SEEDS = (2, 4, 8, 16, 32), range(3)


def distance(values: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The greatest of all tensors."""
    pairs = zip((v.double() for v in values), (w.double() for w in wanted), strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs)


def rows_of(torch: Any, head: Head, seed: int) -> list[dict[str, Any]]:
    """A row for each number of parts."""
    torch.manual_seed(seed)
    net = head.small()
    exact = copy.deepcopy(net.model).double()
    wanted = _eager(torch, net, exact)
    with torch.autocast("cpu", dtype=torch.bfloat16) if head.autocast else nullcontext():
        eager = _eager(torch, net, net.model)
        step = compile_step(net.model, net.loss_fn, net.batch, measure=False)
    given = step.given(*net.batch)
    rows = []
    for parts in PARTS:
        cut = cut_by_hand(torch, step.program, None, parts)
        with torch.no_grad():
            results = executable(source_of(cut.program, cut.own), "head in parts")(given, {})
        of = dict(zip([(r.kind, r.target) for r in cut.program.results], results, strict=True))
        names = {tensor: name for name, tensor in step._tensors.items()}
        (loss,) = (value for (kind, _), value in of.items() if kind == "loss")
        mine = [loss, *(of["gradient", names[p]] for p in net.model.parameters())]
        row = {"head": head.name, "seed": seed, "parts": parts, "from_eager": distance(mine, eager)}
        rows.append(row | {"from_float64": distance(mine, wanted), "eager_from_float64": distance(eager, wanted)})
    return rows


def _eager(torch: Any, net: Any, model: Any) -> list[Any]:
    loss = net.loss_fn(model(net.batch[0]), *net.batch[1:])
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


def page(document: dict[str, Any]) -> list[str]:
    """The greatest of all seeds, as Markdown."""
    here = document["machine"]
    lines = [
        "# Gradients of heads in parts, in bfloat16", "",
        f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {document['torch']}, one thread; "
        f"`bench/bfloat16.py`, {len(SEEDS)} seeds.", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
        "| head | parts | from eager's | from float64's | eager's from float64's |", "|---" * 5 + "|",
    ]  # fmt: skip
    figures = ("from_eager", "from_float64", "eager_from_float64")
    for head in HEADS:
        for parts in PARTS:
            rows = [r for r in document["rows"] if (r["head"], r["parts"]) == (head.name, parts)]
            cells = [f"{max(r[name] for r in rows):.1e}" for name in figures]
            lines.append(f"| {head.name} | {parts} | {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="path without ending; .md and .json")
    options = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    rows = [row for head in HEADS for seed in SEEDS for row in rows_of(torch, head, seed)]
    document = {"machine": asdict(machine()), "torch": torch.__version__, "rows": rows}
    options.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    options.output.with_suffix(".md").write_text("\n".join(page(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
