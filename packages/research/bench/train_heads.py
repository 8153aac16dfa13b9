"""Loss heads that others cut by hand, cut by a budget: planned at full size without memory, and executed small.

    python bench/train_heads.py -o results/train-heads [--roofline]

Models are those of `bench.heads`. Seconds are those of the cost file beside the page, which `--roofline` writes
anew: a roofline of the data sheet of an accelerator, no measurement. Needs torch; ten minutes on a CPU.
"""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

from lowtide.torch import Costs, Step, StepOptions, StepPlan, compile_step
from lowtide.torch.cost import OpCost, Rates, read_costs, roofline, signature
from lowtide.torch.costed import Costed, costed, seconds_in_parts
from lowtide.torch.cutting import FINER_PARTS
from lowtide.torch.planning import PlanOptions, plan_program
from lowtide.torch.program import Action, Program
from lowtide.torch.rows import regions
from lowtide.torch.search import largest_op
from lowtide.torch.slices import sliced
from lowtide.torch.work import operations_of
from lowtide_research.bench.heads import HEADS, Head
from lowtide_research.bench.pages import about, document, script, table, write

MIB, GIB = 2**20, 2**30
H100 = Rates(bytes=3.35e12, operations=989e12)
"""By the data sheet of NVIDIA's H100 SXM: bytes, and dense products in bfloat16."""

PARTS, OVERHEADS, SECONDS = (2, 4, 8, 16, 32, 64), (0.01, 0.05), 20.0

REPORTED = {"gpt2": ("12,603 MiB", 12603 * MIB), "head": ("2.07 GB", 2_070_000_000)}
"""What #136702 reports for 64 parts, with weights and the optimizer's state (32 parts took 206.2 ms, 64 242.6); and
trl#5575 for its head in parts."""


def by_data_sheet(torch: Any, program: Program, known: dict[str, OpCost]) -> None:
    """Add what each op of a program would take, and its head in parts."""
    for action, operations in zip(program.actions, operations_of(torch, program), strict=True):
        if signature(program, action) not in known:
            _add(program, action, roofline(program, action, operations, H100), known)
    own = costed(torch, program, None)
    for region in regions(torch, program, own.graph, largest_op(own.graph)[1]):
        for parts in FINER_PARTS:
            cut = sliced(program, own.graph, [region], parts)
            for name, body in cut.bodies.items():
                action = next(a for a in cut.actions if a.name == name)
                seconds = seconds_in_parts(torch, cut, body, [True] * len(body.actions), H100)
                _add(cut, action, seconds, known, max(body.live_bytes))


def _add(program: Program, action: Action, seconds: float, known: dict[str, OpCost], workspace: int = 0) -> None:
    sizes = [program.forms[name].extent_bytes if name is not None else 0 for name in action.outputs]
    key = signature(program, action)
    known[key] = OpCost(key, float(f"{seconds:.4g}"), workspace, sizes)


def cut_by_hand(torch: Any, program: Program, costs: Costs | None, parts: int) -> Costed:
    """A step in own order with its head in so many parts."""
    own = costed(torch, program, costs)
    seed = largest_op(own.graph)[1]
    best = None
    for region in regions(torch, own.program, own.graph, seed):
        found = costed(torch, sliced(own.program, own.graph, [region], parts), costs)
        if best is None or found.own.peak_bytes < best.own.peak_bytes:
            best = found
    if best is None:
        raise RuntimeError(f"the head of {program.name} is no region")
    return best


class Bench:
    """A model at full size, its step in own order, and the bytes that are there before it."""

    def __init__(self, torch: Any, head: Head, costs: Costs | None) -> None:
        self.torch, self.head, self.costs = torch, head, costs
        with torch.device("meta"):
            self.net = head.full()
        self.optimizer = self.adamw(self.net.model)
        begun = time.perf_counter()
        self.own = self.step(self.net, self.optimizer, StepOptions(costs=self.costs, measure=False, time=0))
        self.seconds = time.perf_counter() - begun
        tensors = [*self.net.model.parameters(), *self.net.model.buffers()]
        self.there = sum(t.numel() * t.element_size() for t in tensors)
        if head.optimizer:
            self.there += 2 * sum(p.numel() * p.element_size() for p in self.net.model.parameters())

    def adamw(self, model: Any) -> Any:
        """The optimizer, if there is one."""
        return self.torch.optim.AdamW(model.parameters(), fused=True) if self.head.optimizer else None

    def step(self, net: Any, optimizer: Any, options: StepOptions | None = None, **asked: Any) -> Step:
        """A planned step of a model."""
        torch, options = self.torch, options or StepOptions(costs=self.costs, measure=False)
        with torch.autocast("cpu", dtype=torch.bfloat16) if self.head.autocast else nullcontext():
            return compile_step(net.model, net.loss_fn, net.batch, optimizer=optimizer, options=options, **asked)

    def row(self, plan: StepPlan) -> dict[str, Any]:
        """What a plan takes."""
        ratio = plan.seconds / plan.own_order_seconds
        return {"peak": plan.peak_bytes, "time": ratio, "parts": [cut.parts for cut in plan.cuts]}

    def full(self) -> dict[str, Any]:
        """All rows at full size."""
        plan = self.own.plan
        rows: dict[str, Any] = {"own": plan.peak_bytes, "there": self.there, "ops": len(plan.ops), "hand": []}
        rows |= {"capture_seconds": self.seconds, "own_seconds": plan.seconds, "words": self.head.words}
        for parts in PARTS:
            cut = cut_by_hand(self.torch, self.own.program, self.costs, parts)
            time_ratio = cut.seconds_of(cut.graph.own_order) / plan.own_order_seconds
            rows["hand"].append({"parts": parts, "peak": cut.own.peak_bytes, "time": time_ratio})
        options = PlanOptions(costs=self.costs, measure=False, time=SECONDS, allow=("recompute", "fission"))
        rows["found"] = []
        for overhead in OVERHEADS:
            planned = plan_program(self.torch, self.own.program, replace(options, slower=overhead))
            rows["found"].append({"overhead": overhead, **self.row(planned.plan)})
        if self.head.name in REPORTED:
            budget = REPORTED[self.head.name][1] - self.there
            rows["within"] = self.row(plan_program(self.torch, self.own.program, replace(options, budget=budget)).plan)
        return rows

    def small(self) -> dict[str, Any]:
        """The same model small, executed: parts, and how far loss and gradients are from eager's."""
        torch = self.torch
        torch.manual_seed(0)
        net = self.head.small()
        eager = copy.deepcopy(net.model)
        own = self.step(net, None, StepOptions(measure=False, time=0))
        budget = own.plan.peak_bytes - (own.plan.peak_bytes - own.plan.floor_bytes // 4) // 3
        step = self.step(net, None, StepOptions(measure=False), budget=budget, allow="recompute,fission")
        with torch.autocast("cpu", dtype=torch.bfloat16) if self.head.autocast else nullcontext():
            loss = step(*net.batch)
            expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
        expected.backward()
        pairs = [(loss, expected.detach())]
        pairs += [(a.grad, b.grad) for a, b in zip(net.model.parameters(), eager.parameters(), strict=True)]
        furthest = max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs)
        return {"own": own.plan.peak_bytes, "furthest": furthest, **self.row(step.plan)}


HEAD = """Bytes allocated at once by a step that is traced at full size without memory, beside parameters, buffers,
batch and the optimizer's state, which are *there before*. `time` is predicted, and no measurement: seconds of the cost
file ([{costs}]({costs})) over those of own order. It is a roofline of the data sheet of
an H100 (989 TFLOP/s in bfloat16, 3.35 TB/s) with 5 us for each op: ops are ATen's on the CPU, unfused, without
workspace. *By hand*: own order with the head in so many parts. *Found*: the least bytes within so much more time, by
running ops again and by parts."""


def page(results: dict[str, Any], costs: str) -> list[str]:
    """The rows as Markdown."""
    lines = ["# Loss heads in parts", "", f"{about(results['machine'])}; torch {results['torch']}.", ""]
    lines.append(HEAD.format(costs=costs))
    for name, rows in results["heads"].items():
        full, small = rows["full"], rows["small"]
        every = [(f"by hand, {r['parts']} parts", r, [r["parts"]]) for r in full["hand"]]
        every += [(f"found, at most {r['overhead']:+.1%} time", r, r["parts"]) for r in full["found"]]
        if "within" in full:
            words = f"found, {REPORTED[name][0]} with what is there before"
            every.append((words, full["within"], full["within"]["parts"]))
        cells = [("own order", f"{full['own'] / MIB:,.0f}", "", "x1.0000", "")]
        cells += [
            (words, f"{r['peak'] / MIB:,.0f}", f"{(full['own'] - r['peak']) / GIB:.2f} GiB", f"x{r['time']:.4f}",
             str(parts or ""))
            for words, r, parts in every
        ]  # fmt: skip
        furthest = "equal bits" if small["furthest"] == 0 else f"{small['furthest']:.0e} of a tensor's largest value"
        lines += [
            "", f"## {name}", "", f"{full['words']}. {full['ops']:,} ops, captured and planned in own order in "
            f"{full['capture_seconds']:.0f} s; {full['there'] / MIB:,.0f} MiB are there before.", "",
            *table(("", "MiB", "lower by", "time", "parts"), cells), "",
            f"Executed small, on the CPU: {small['own']:,} -> {small['peak']:,} B, parts {small['parts']}; furthest "
            f"from eager's loss and gradients: {furthest}.",
        ]  # fmt: skip
    return lines


def main() -> None:
    """Write the page, the rows, and the cost file if it is asked for."""
    parser = script(__doc__)
    parser.add_argument("--roofline", action="store_true", help="write the cost file anew")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    path = given.out.with_name(given.out.name + "-costs.json")
    if given.roofline:
        known: dict[str, OpCost] = {}
        for head in reversed(HEADS):
            by_data_sheet(torch, Bench(torch, head, None).own.program, known)
        entries = sorted(known.values(), key=lambda entry: entry.signature)
        Costs("an H100 by its data sheet", str(torch.__version__), 0, entries).save(path)
    results = document(torch=torch.__version__, heads={})
    for head in reversed(HEADS):
        bench = Bench(torch, head, read_costs(path))
        results["heads"][head.name] = {"full": bench.full(), "small": bench.small()}
        write(given.out, results, page(results, path.name))


if __name__ == "__main__":
    main()
