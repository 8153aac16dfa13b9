"""Training steps of networks that others have measured: planned, executed, beside PyTorch's `activation_memory_budget`.

    python bench/train_known.py -o results/train-nets [--nets unet gpt swiglu]

Of each network (`bench.train_known`): what eager takes; what torch's own knob takes at seven ratios, and the
plan within the same bytes; a front of 20 budgets, each executed; budgets that others reached. Time is counted in
operations, torch's own count of products and one for each element of all else, so that figures hold on any machine.
Needs torch; half an hour on a CPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.run.live_storages import storages_peak
from lowtide.torch import Costs, Step, compile_step, curve
from lowtide.torch.meter import allocator_peak
from lowtide.torch.work import by_operations
from lowtide_research.bench.activation_budget import halves
from lowtide_research.bench.machine import machine
from lowtide_research.bench.train_known import KNOWN, known_training
from lowtide_research.bench.train_nets import Training

RATIOS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.0)
POINTS, SEARCH_SECONDS, SWEEP_SECONDS = 20, 10.0, 60.0
MIB = 2**20

GOALS = {
    "unet": [("storages", 164.5, ""), ("storages", 152, ""), ("storages", 119, ""), ("allocator", 165, "")],
    "gpt": [("allocator", 112, ""), ("allocator", 61, "fission"), ("allocator", 117, "fission")],
    "swiglu": [("allocator", 0.67, ""), ("allocator", 0.5, "")],
}
"""By network: what is counted, MiB (below 1: a part of eager's), and what may be done beside running ops again."""


class Bench:
    """A network, what eager computes, and tables of its ops in operations: with workspace, and without."""

    def __init__(self, torch: Any, net: Training, seconds: float = SEARCH_SECONDS) -> None:
        self.net, self.seconds = net, seconds
        self.given = [*net.batch, *net.model.parameters(), *net.model.buffers()]
        self.buffers = [b.clone() for b in net.model.buffers()]
        own = compile_step(net.model, net.loss_fn, net.batch)
        self.tables = {
            "allocator": by_operations(torch, own.program, own.costs),
            "storages": by_operations(torch, own.program, own.costs, workspace=False),
        }
        self.tables["measured"] = own.costs or self.tables["allocator"]
        self.torch, self.device = torch, own.program.device

        def eager() -> Any:
            loss = net.loss_fn(net.model(net.batch[0]), *net.batch[1:])
            gradients = torch.autograd.grad(loss, list(net.model.parameters()))
            return [loss.detach(), *gradients]

        self.eager = eager
        self.expected = dict(zip(self._names(), self.once(eager)[0], strict=True))

    def _names(self) -> list[str]:
        return ["loss", *(name for name, _ in self.net.model.named_parameters())]

    def once(self, function: Callable[[], Any], meter: Any = None, *more: Any) -> tuple[Any, int]:
        """What a function returns and takes, from one seed; running statistics are put back."""
        self.torch.manual_seed(0)
        returned, peak = allocator_peak(function, self.device) if meter is None else meter(function, *more)
        for buffer, before in zip(self.net.model.buffers(), self.buffers, strict=True):
            buffer.copy_(before)
        return returned, peak

    def peaks(self, function: Callable[[], Any]) -> dict[str, int]:
        """What a function takes, by both meters."""
        storages = self.once(function, storages_peak, self.given)[1]
        return {"storages": storages, "allocator": self.once(function)[1]}

    def step(self, counted: str, budget: int | None, allow: str = "recompute", plan: Any = None) -> Step:
        """A planned step."""
        net = self.net
        return compile_step(
            net.model, net.loss_fn, net.batch, costs=self.tables[counted], measure=False, budget=budget, plan=plan,
            allow=allow, time=self.seconds,
        )  # fmt: skip

    def executed(self, step: Step, counted: str) -> dict[str, Any]:
        """What a step takes by that meter, and how far losses and gradients are from eager's."""
        batch = self.net.batch
        more = (storages_peak, step.given(*batch)) if counted == "storages" else ()
        returned, peak = self.once(step.prepare(*batch), *more)
        named = dict(zip(self.names_of(step), returned, strict=True))
        plan = step.plan
        row = {"planned": plan.peak_bytes, "measured": peak, "furthest": self.furthest(named), "ops": len(plan.ops)}
        return row | {"time": plan.seconds / plan.own_order_seconds, "parts": [cut.parts for cut in plan.cuts]}

    def names_of(self, step: Step) -> list[str | None]:
        """Of each result of a step: the loss, or the parameter whose gradient it is."""
        names = {tensor: name for name, tensor in self.net.model.named_parameters()}
        named = {"loss": lambda _: "loss", "gradient": lambda target: names[step._tensors[target]]}
        return [named[r.kind](r.target) if r.kind in named else None for r in step.program.results]

    def furthest(self, named: dict[str | None, Any]) -> float:
        """The largest difference of loss or a gradient from eager's, over the largest value of its tensor."""
        furthest = 0.0
        for name, expected in self.expected.items():
            scale = max(float(expected.abs().max()), 1e-30)
            furthest = max(furthest, float((named[name] - expected).abs().max()) / scale)
        return furthest

    def knob(self, ratio: float) -> dict[str, Any]:
        """torch's own at a ratio, and the plans within its bytes, by each meter."""
        function = halves(self.net.model, self.net.loss_fn, self.net.batch, ratio)
        row: dict[str, Any] = {"ratio": ratio, **self.peaks(function)}
        flops = import_module("torch.utils.flop_counter").FlopCounterMode
        counts = []
        for run in (function, self.eager):
            with flops(display=False) as counter:
                self.once(lambda run=run: (run(), 0)[0], lambda f: (f(), 0))
            counts.append(counter.get_total_flops())
        row["products"] = counts[0] / counts[1]
        for counted in ("storages", "allocator"):
            row[f"ours_{counted}"] = self.within(counted, row[counted])
        return row

    def within(self, counted: str, budget: int, allow: str = "recompute") -> dict[str, Any]:
        """A plan within a budget, executed; or why there is none."""
        try:
            return {"budget": budget, **self.executed(self.step(counted, budget, allow), counted)}
        except InputError as error:
            return {"budget": budget, "refused": str(error)}

    def front(self, costs: Costs) -> list[dict[str, Any]]:
        """20 budgets by the allocator, each plan executed."""
        net = self.net
        found = curve(net.model, net.loss_fn, net.batch, costs=costs, measure=False, points=POINTS, time=SWEEP_SECONDS)
        return [self.executed(self.step("allocator", None, plan=p.plan), "allocator") for p in found.points]


def rows_of(torch: Any, name: str, keep: Callable[[dict[str, Any]], None]) -> None:
    """All of a network, kept as it comes."""
    bench = Bench(torch, known_training(name))
    eager = bench.peaks(bench.eager)
    goals = []
    for counted, mib, allow in GOALS[name]:
        budget = int((eager[counted] if mib < 1 else MIB) * mib)
        row = bench.within(counted, budget, f"recompute,{allow}" if allow else "recompute")
        goals.append({"counted": counted, "allow": allow, **row})
    row: dict[str, Any] = {"net": name, "eager": eager, "goals": goals, "front": [], "knob": []}
    keep(row)
    print(f"{name}: goals", flush=True)
    for ratio in RATIOS:
        row["knob"].append(bench.knob(ratio))
        keep(row)
    print(f"{name}: knob", flush=True)
    row["front"] = bench.front(bench.tables["allocator"])
    keep(row)
    print(f"{name}: written", flush=True)


HEAD = """MiB allocated at once beside parameters, buffers and batch; gradients are results and count. `storages`: live
storages of tensors; `allocator`: torch's own events, workspace inside ops too. `time`: operations over those of one run
of every op, by torch's count of products and one for each element of all else. `products`: of torch's knob, products
alone over eager's. `bits`: loss and gradients against eager's; a number is the largest difference over the largest
value of its tensor. Every plan was executed: what stands is what was measured."""


def _mib(size: int) -> str:
    return f"{size / MIB:.1f}"


def _ours(row: dict[str, Any]) -> list[str]:
    if "refused" in row:
        return ["none", "", ""]
    bits = "equal" if row["furthest"] == 0 else f"{row['furthest']:.0e}"
    return [f"{_mib(row['measured'])}", f"x{row['time']:.3f}", bits]


def tables(text: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    here = text["machine"]
    lines = [
        "# Training steps of networks at known sizes",
        "",
        f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {text['torch']}, one thread.",
        "",
        HEAD,
    ]
    for net in text["nets"]:
        eager = net["eager"]
        lines += ["", f"## {net['net']}", "", f"Eager: {_mib(eager['storages'])} by storages, "
                  f"{_mib(eager['allocator'])} by the allocator.", "",
                  "| counted | budget | also | took | time | bits | parts |", "|---" * 7 + "|"]  # fmt: skip
        for row in net["goals"]:
            cells = [row["counted"], _mib(row["budget"]), row["allow"], *_ours(row)]
            lines.append(f"| {' | '.join(cells)} | {row.get('parts') or ''} |")
        head = [
            "ratio",
            "knob, storages",
            "ours",
            "time",
            "bits",
            "knob, allocator",
            "ours",
            "time",
            "bits",
            "products",
        ]
        lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for row in net["knob"]:
            cells = [str(row["ratio"])]
            for counted in ("storages", "allocator"):
                cells += [_mib(row[counted]), *_ours(row[f"ours_{counted}"])]
            lines.append(f"| {' | '.join(cells)} | x{row['products']:.3f} |")
        lines += ["", f"A front of {POINTS} budgets, by the allocator:", "",
                  "| planned | took | time | bits | runs |", "|---|---|---|---|---|"]  # fmt: skip
        for row in net["front"]:
            lines.append(f"| {_mib(row['planned'])} | {' | '.join(_ours(row))} | {row['ops']} |")
    return lines


def main() -> int:
    """Write the tables and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="path without ending: .md and .json are written"
    )
    parser.add_argument("--nets", nargs="*", default=list(KNOWN), help="some of them")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    nets: list[dict[str, Any]] = []
    for name in given.nets:
        nets.append({})

        def keep(row: dict[str, Any]) -> None:
            nets[-1] = row
            text = {"machine": asdict(machine()), "torch": torch.__version__, "nets": nets}
            given.output.with_suffix(".json").write_text(json.dumps(text, indent=1) + "\n")
            given.output.with_suffix(".md").write_text("\n".join(tables(text)) + "\n")

        rows_of(torch, name, keep)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
