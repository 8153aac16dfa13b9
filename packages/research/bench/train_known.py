"""Training steps of networks that others have measured: planned, executed, beside PyTorch's `activation_memory_budget`.

    python bench/train_known.py -o results/train-nets

Of each network (`bench.train_known`): what eager takes; what torch's own knob takes at seven ratios, and the
plan within the same bytes; a front of 20 budgets, each executed; budgets that others reached. Time is counted in
operations, torch's own count of products and one for each element of all else, so that figures hold on any machine.
Needs torch; half an hour on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from lowtide.errors import InputError
from lowtide.run.torch import storages_peak
from lowtide.torch import Costs, Step, StepOptions, compile_step, curve
from lowtide.torch.meter import allocator_peak
from lowtide.torch.work import by_operations
from lowtide_research.bench.activation_budget import halves
from lowtide_research.bench.pages import about, document, script, table, write
from lowtide_research.bench.train_known import KNOWN, known_training
from lowtide_research.bench.train_nets import Training

RATIOS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.0)
POINTS, SEARCH_SECONDS, SWEEP_SECONDS = 20, 10.0, 60.0
MIB = 2**20

GOALS = {
    "unet": [("storages", 164.5, ""), ("storages", 152, ""), ("storages", 119, ""), ("allocator", 165, "")],
    "gpt": [("allocator", 112, ""), ("allocator", 61, "tile"), ("allocator", 117, "tile")],
    "swiglu": [("allocator", 0.67, ""), ("allocator", 0.5, "")],
}
"""By network: what is counted, MiB (below 1: a part of eager's), and what may be done beside running ops again."""


class Bench:
    """A network, what eager computes, and tables of its ops in operations: with workspace, and without."""

    def __init__(self, torch: Any, net: Training, seconds: float = SEARCH_SECONDS) -> None:
        self.net, self.seconds = net, seconds
        self.given = [*net.batch, *net.model.parameters(), *net.model.buffers()]
        self.buffers = [b.clone() for b in net.model.buffers()]
        own = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(time=0))
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
        net, options = self.net, StepOptions(costs=self.tables[counted], measure=False, time=self.seconds)
        return compile_step(net.model, net.loss_fn, net.batch, budget=budget, plan=plan, allow=allow, options=options)

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
        found = curve(
            net.model,
            net.loss_fn,
            net.batch,
            options=StepOptions(costs=costs, measure=False, time=SWEEP_SECONDS),
            points=POINTS,
        )
        return [self.executed(self.step("allocator", None, plan=p.plan), "allocator") for p in found.points]


def network(torch: Any, name: str, keep: Callable[[], None], row: dict[str, Any]) -> None:
    """All of a network, kept as it comes."""
    bench = Bench(torch, known_training(name))
    row |= {"net": name, "eager": bench.peaks(bench.eager), "goals": [], "knob": [], "front": []}
    for counted, mib, allow in GOALS[name]:
        budget = int((row["eager"][counted] if mib < 1 else MIB) * mib)
        found = bench.within(counted, budget, f"recompute,{allow}" if allow else "recompute")
        row["goals"].append({"counted": counted, "allow": allow, **found})
        keep()
    for ratio in RATIOS:
        row["knob"].append(bench.knob(ratio))
        keep()
    row["front"] = bench.front(bench.tables["allocator"])
    keep()


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


KNOB = (
    "ratio", "knob, storages", "ours", "time", "bits", "knob, allocator", "ours", "time", "bits", "products",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    lines = [
        "# Training steps of networks at known sizes",
        "",
        f"{about(results['machine'])}; torch {results['torch']}, one thread.",
        "",
        HEAD,
    ]
    for net in results["nets"]:
        eager = net["eager"]
        goals = [
            (row["counted"], _mib(row["budget"]), row["allow"], *_ours(row), row.get("parts") or "")
            for row in net["goals"]
        ]
        knob = [
            (row["ratio"], *(cell for counted in ("storages", "allocator")
                             for cell in (_mib(row[counted]), *_ours(row[f"ours_{counted}"]))),
             f"x{row['products']:.3f}")
            for row in net["knob"]
        ]  # fmt: skip
        front = [(_mib(row["planned"]), *_ours(row), row["ops"]) for row in net["front"]]
        lines += [
            "", f"## {net['net']}", "",
            f"Eager: {_mib(eager['storages'])} by storages, {_mib(eager['allocator'])} by the allocator.", "",
            *table(("counted", "budget", "also", "took", "time", "bits", "parts"), goals), "", *table(KNOB, knob), "",
            f"A front of {POINTS} budgets, by the allocator:", "",
            *table(("planned", "took", "time", "bits", "runs"), front),
        ]  # fmt: skip
    return lines


def main() -> None:
    """Write the tables and the rows."""
    given = script(__doc__).parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    results = document(torch=torch.__version__, nets=[])
    for name in KNOWN:
        results["nets"].append({})
        network(torch, name, lambda: write(given.out, results, page(results)), results["nets"][-1])


if __name__ == "__main__":
    main()
