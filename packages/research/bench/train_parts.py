"""Training steps whose largest op is the gradient of large weights: how low a budget alone gets them.

    python bench/train_parts.py -o results/train-parts

Each call is `compile_step(model, loss_fn, batch, budget=, optimizer=AdamW)`, without other words, in a process of its
own; all figures are parts of eager's peak, as torch's profiler measures it over a step with `loss.backward()` and
`optimizer.step()`. *Largest op*: no plan without parts is lower; *in parts*: what the largest op takes with the largest
ops in parts. Of each budget what was found, its time over eager's as it is predicted from single ops, how many ops run
in how many parts, the allocator's peak when the plan was executed, how far loss and parameters are from eager's behind
one step, as a share of the largest value of their tensor, and how far eager's are from those of the same step in
float64. Needs torch, timm and transformers; ten minutes.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, run
from tempfile import TemporaryDirectory
from typing import Any

from lowtide.errors import InputError
from lowtide.torch import Step, StepOptions, compile_step
from lowtide.torch.costed import costed
from lowtide.torch.cutting import least_largest_op
from lowtide.torch.meter import allocator_peak
from lowtide.torch.planning import PlanOptions, measured
from lowtide.torch.search import largest_op
from lowtide_research.bench.pages import about, document, method_of, script, table, write
from lowtide_research.bench.train_nets import Training

BUDGETS = ("30%", "20%")


SECONDS = 30
"""Of search: three times the default, for a machine that runs other work at the same time."""


def _of_timm(torch: Any, name: str, batch: int, side: int) -> Training:
    """A classifier of images."""
    model = import_module("timm").create_model(name)
    images = torch.randn(batch, 3, side, side), torch.randint(1000, (batch,))
    return Training(model, torch.nn.functional.cross_entropy, images)


def _clip(torch: Any) -> Training:
    """A small CLIP: two encoders of three layers, images of 64, 16 tokens."""
    library = import_module("transformers")
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    words = {"vocab_size": 200, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 199}
    config = library.CLIPConfig(
        text_config={**shape, **words}, vision_config={**shape, "image_size": 64, "patch_size": 16}, projection_dim=32
    )
    words = {"input_ids": torch.randint(1, 199, (8, 16)), "attention_mask": torch.ones(8, 16, dtype=torch.long)}
    batch = {**words, "pixel_values": torch.randn(8, 3, 64, 64), "return_loss": True}
    return Training(library.CLIPModel(config).train(), lambda output: output.loss, (batch,))


NETS: dict[str, Callable[[Any], Training]] = {
    "hrnet_w18_small, 2 images of 128": lambda torch: _of_timm(torch, "hrnet_w18_small", 2, 128),
    "CLIP, 8 images of 64": _clip,
    "mixer_s32, 2 images of 224": lambda torch: _of_timm(torch, "mixer_s32_224", 2, 224),
}


def rows_of(name: str) -> dict[str, Any]:
    """The figures of a network, each in a fresh process."""
    with TemporaryDirectory() as folder:
        costs = str(Path(folder) / "costs.json")
        first = _fresh(name, "", costs)
        return {"net": name, **first, "found": [_fresh(name, budget, costs) for budget in BUDGETS]}


def _fresh(name: str, budget: str, costs: str) -> dict[str, Any]:
    """What a process of its own finds within a budget; without one the step as it is."""
    done = run([sys.executable, __file__, "--one", name, budget, costs], check=True, stdout=PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def one(torch: Any, name: str, budget: str, costs: str) -> dict[str, Any]:
    """A network within a budget, planned and executed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = NETS[name](torch)
    if not budget:
        return _as_it_is(torch, net, costs)
    model, row = copy.deepcopy(net.model), {"budget": budget}
    try:
        step = compile_step(
            model,
            net.loss_fn,
            net.batch,
            budget=budget,
            optimizer=_adamw(model),
            options=StepOptions(costs=costs, time=SECONDS),
        )
    except InputError as error:
        return {**row, "why": str(error)}
    row |= {"peak": step.plan.peak_bytes, "slower": step.plan.slower}
    row |= {"parts": [(len(cut.ops), cut.parts) for cut in step.plan.cuts]}
    far, rounding = _from_eager(net, step, model)
    return row | {"far": far, "rounding": rounding, "measured": allocator_peak(step.prepare(*net.batch))[1]}


def _as_it_is(torch: Any, net: Training, costs: str) -> dict[str, Any]:
    """Peaks without a plan, and the table of costs."""
    own = compile_step(net.model, net.loss_fn, net.batch, optimizer=_adamw(net.model), options=StepOptions(time=0))
    assert own.costs is not None
    own.costs.save(costs)
    as_traced = costed(torch, own.program, own.costs)
    least, at = least_largest_op(torch, as_traced, own.costs, partial(measured, torch, PlanOptions()))
    plan, model = own.plan, net.model
    optimizer = _adamw(model)
    _eager(net, model, optimizer)  # makes the optimizer's state
    optimizer.zero_grad()
    peak = allocator_peak(lambda: _eager(net, model, optimizer))[1]
    largest = own.graph.op_by_id[largest_op(own.graph)[1]].name
    return {
        "ops": len(own.graph.ops), "eager": peak, "predicted": plan.eager_peak_bytes, "own": plan.peak_bytes,
        "largest": plan.floor_bytes, "largest_op": largest, "in_parts": least, "at": at,
    }  # fmt: skip


def _adamw(model: Any) -> Any:
    return import_module("torch").optim.AdamW(model.parameters())


def _eager(net: Training, model: Any, optimizer: Any, batch: tuple[Any, ...] | None = None) -> Any:
    """A step of eager mode: its loss."""
    batch = net.batch if batch is None else batch
    first = batch[0]
    loss = net.loss_fn(model(**first) if isinstance(first, dict) else model(first), *batch[1:])
    loss.backward()
    optimizer.step()
    return loss.detach()


def _from_eager(net: Training, step: Step, model: Any) -> tuple[float, float]:
    """How far loss and parameters are from eager's behind one step, and how far eager's are from float64."""
    torch = import_module("torch")
    tree = torch.utils._pytree
    ends = []
    for kind in (torch.float32, torch.float64):
        eager = copy.deepcopy(net.model).to(kind)
        batch = tree.tree_map_only(torch.Tensor, lambda x, k=kind: x.to(k) if x.is_floating_point() else x, net.batch)
        torch.manual_seed(1)
        ends.append([_eager(net, eager, _adamw(eager), batch), *eager.state_dict().values()])
    torch.manual_seed(1)
    planned = [step(*net.batch), *model.state_dict().values()]
    return _distance(planned, ends[0]), _distance(*ends)


def _distance(some: Sequence[Any], others: Sequence[Any]) -> float:
    pairs = zip(some, others, strict=True)
    return max(float((a - b).abs().max()) / max(1e-30, float(b.abs().max())) for a, b in pairs)


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    nets, cells = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for r in results["rows"]:
        eager = r["eager"]
        shares = f"{r['own'] / eager:.1%}", f"{r['largest'] / eager:.1%} ({r['largest_op']})"
        nets.append((r["net"], r["ops"], eager, r["predicted"] - eager, *shares, f"{r['in_parts'] / eager:.1%}"))
        for f in r["found"]:
            if "peak" not in f:
                cells.append((r["net"], f["budget"], "not met", "", "", "", "", ""))
                continue
            parts = ", ".join(f"{ops} in {parts}" for ops, parts in f["parts"])
            far = "equal" if f["far"] == 0 else f"{f['far']:.0e}"
            found = f"{f['peak'] / eager:.1%}", f"{f['slower']:+.1%}", parts, f["measured"] - f["peak"]
            cells.append((r["net"], f["budget"], *found, far, f"{f['rounding']:.0e}"))
    heads = ("net", "ops", "eager, B", "predicted - eager, B", "file order", "largest op", "in parts")
    columns = ("net", "budget", "found", "time", "ops in parts", "measured - predicted, B", "from eager's")
    return [
        "# Training steps in parts", "", f"{about(results['machine'])}; torch {results['torch']}, one thread.", "",
        *method_of(__doc__), *table(heads, nets), "", *table((*columns, "eager's from float64"), cells),
    ]  # fmt: skip


def main() -> None:
    """Plan and execute, network by network, and write."""
    torch = import_module("torch")
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(torch, *sys.argv[2:])))
        return
    given = script(__doc__).parse_args()
    results = document(torch=torch.__version__, rows=[])
    for name in NETS:
        results["rows"].append(rows_of(name))
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
