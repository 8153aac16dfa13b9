"""Training steps of networks whose largest op is a convolution's gradient: how low a budget can be, with it in parts.

    python bench/train_parts.py -o results/train-parts

Of each step AdamW updates the parameters, and all figures are parts of eager's peak. *Largest op*: no plan without
parts is lower; *in parts*: what the largest op takes with the steps' largest regions in parts. Of each budget what was
found, its time over eager's as it is predicted from single ops, how many ops run in how many parts, the allocator's
peak when the plan was executed, and how far loss and parameters are from eager's behind one step, as a share of the
largest value of their tensor. Needs torch, timm and transformers; ten minutes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lowtide.errors import InputError
from lowtide.torch import Step, StepOptions, compile_step
from lowtide.torch.costed import costed
from lowtide.torch.cutting import least_largest_op
from lowtide.torch.meter import allocator_peak
from lowtide_research.bench.pages import about, document, method_of, script, table, write
from lowtide_research.bench.train_nets import Training

BUDGETS = (None, "40%", "30%", "20%")
ALLOWED = ("recompute", "recompute,fission")


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
    "mixer_s32, 2 images of 224": lambda torch: _of_timm(torch, "mixer_s32_224", 2, 224),
    "hrnet_w18_small, 2 images of 128": lambda torch: _of_timm(torch, "hrnet_w18_small", 2, 128),
    "CLIP, 8 images of 64": _clip,
}


def rows_of(torch: Any, name: str) -> dict[str, Any]:
    """The figures of a network."""
    torch.manual_seed(0)
    net = NETS[name](torch)
    own = compile_step(net.model, net.loss_fn, net.batch, optimizer=_adamw(net.model), options=StepOptions(time=0))
    least, at = least_largest_op(torch, costed(torch, own.program, own.costs), own.costs)
    plan = own.plan
    found = [_row(net, own, budget, allow) for budget in BUDGETS for allow in ALLOWED]
    return {
        "net": name, "ops": len(own.graph.ops), "eager": plan.eager_peak_bytes, "own": plan.peak_bytes,
        "largest": plan.floor_bytes, "in_parts": least, "at": at, "found": found,
    }  # fmt: skip


def _adamw(model: Any) -> Any:
    return import_module("torch").optim.AdamW(model.parameters())


def _row(net: Training, own: Step, budget: str | None, allow: str) -> dict[str, Any]:
    """What is found within a budget, and executed."""
    model, row = copy.deepcopy(net.model), {"budget": budget, "allow": allow}
    options = StepOptions(costs=own.costs)
    try:
        step = compile_step(
            model, net.loss_fn, net.batch, budget=budget, allow=allow, optimizer=_adamw(model), options=options
        )
    except InputError:
        return row
    row |= {"peak": step.plan.peak_bytes, "slower": step.plan.slower}
    row |= {"parts": [(len(cut.ops), cut.parts) for cut in step.plan.cuts]}
    far = _from_eager(net, step, model)
    return row | {"far": far, "measured": allocator_peak(step.prepare(*net.batch))[1]}


def _from_eager(net: Training, step: Step, model: Any) -> float:
    """How far loss and parameters are from eager's behind one step."""
    torch, eager = import_module("torch"), copy.deepcopy(net.model)
    optimizer = _adamw(eager)
    torch.manual_seed(1)
    loss = step(*net.batch)
    torch.manual_seed(1)
    first = net.batch[0]
    expected = net.loss_fn(eager(**first) if isinstance(first, dict) else eager(first), *net.batch[1:])
    expected.backward()
    optimizer.step()
    pairs = [(loss, expected.detach()), *zip(model.state_dict().values(), eager.state_dict().values(), strict=True)]
    return max(float((a - b).abs().max()) / max(1e-30, float(b.abs().max())) for a, b in pairs)


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    nets, cells = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for r in results["rows"]:
        eager = r["eager"]
        shares = [f"{r[key] / eager:.1%}" for key in ("own", "largest", "in_parts")]
        nets.append((r["net"], r["ops"], eager, *shares))
        for f in r["found"]:
            start = (r["net"], f["budget"] or "none", f["allow"])
            if "peak" not in f:
                cells.append((*start, "not met", "", "", "", ""))
                continue
            parts = ", ".join(f"{ops} in {parts}" for ops, parts in f["parts"])
            far = "equal" if f["far"] == 0 else f"{f['far']:.0e}"
            peaks = f"{f['peak'] / eager:.1%}", f"{f['slower']:+.1%}", parts, f["measured"] - f["peak"], far
            cells.append((*start, *peaks))
    heads = ("net", "ops", "eager, B", "file order", "largest op", "in parts")
    columns = ("net", "budget", "allow", "found", "time", "ops in parts", "measured - predicted, B", "from eager's")
    return [
        "# Convolutions in parts", "", f"{about(results['machine'])}; torch {results['torch']}, one thread.", "",
        *method_of(__doc__), *table(heads, nets), "", *table(columns, cells),
    ]  # fmt: skip


def main() -> None:
    """Plan and execute, network by network, and write."""
    parser = script(__doc__)
    parser.add_argument("--only", default="", help="beginning of a network's name: adds to what PATH has")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    results = document(torch=torch.__version__, rows=[])
    if given.only and given.out.with_suffix(".json").exists():
        results["rows"] = json.loads(given.out.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    for name in [name for name in NETS if name.startswith(given.only)]:
        results["rows"].append(rows_of(torch, name))
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
