"""How far gradients of loss heads in parts are from eager's in bfloat16, and both from float64's.

    python bench/bfloat16.py -o results/bfloat16

The heads of `bench.heads`, small, in own order with the head in 2 to 32 parts, executed. A distance is the
largest difference over the largest value of the tensor, the greatest over loss and all gradients, and over the seeds.
Float64 is the same weights and batch in eager mode, float32 where the model asks for it. Needs torch; some seconds.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from lowtide.torch import compile_step
from lowtide.torch.generate import executable, source_of
from lowtide_research.bench.heads import HEADS, Head
from lowtide_research.bench.pages import about, document, method_of, script, table, write
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


def page(results: dict[str, Any]) -> list[str]:
    """The greatest of all seeds, as Markdown."""
    worst: dict[tuple[str, int], list[float]] = {}
    for r in results["rows"]:
        found = [r["from_eager"], r["from_float64"], r["eager_from_float64"]]
        worst[r["head"], r["parts"]] = list(map(max, worst.get((r["head"], r["parts"]), found), found))
    return [
        "# Gradients of heads in parts, in bfloat16", "",
        f"{about(results['machine'])}; torch {results['torch']}, one thread; `bench/bfloat16.py`, {len(SEEDS)} seeds.",
        "", *method_of(__doc__),
        *table(("head", "parts", "from eager's", "from float64's", "eager's from float64's"),
               [(*key, *(f"{value:.1e}" for value in values)) for key, values in worst.items()]),
    ]  # fmt: skip


def main() -> None:
    """Run and write."""
    given = script(__doc__).parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    rows = [row for head in HEADS for seed in SEEDS for row in rows_of(torch, head, seed)]
    results = document(torch=torch.__version__, rows=rows)
    write(given.out, results, page(results))


if __name__ == "__main__":
    main()
