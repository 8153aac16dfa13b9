"""Training steps of eight PyTorch networks under byte budgets: planned, executed, measured, held against eager.

    python bench/train.py -o results/train [--size 2]

Of each network (`bench.train_nets`): what the allocator gives out for eager's step, for the step in its own
order, and for plans within shares of that. Each is trained for three steps beside eager with the same random numbers:
losses, parameters, buffers and the optimizer's state must be equal bit by bit. Needs torch; a few minutes on a CPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.run.live_storages import storages_peak
from lowtide.torch import Costs, Step, compile_step
from lowtide.torch.meter import allocator_peak
from lowtide_research.bench.machine import machine
from lowtide_research.bench.train_nets import NETS, training

SHARES = (0.75, 0.5, 0.3, 0.15)
"""Budgets, as parts of the way from what the largest op takes alone to what own order takes."""

STEPS, RUNS = 3, 5


class Run:
    """A network beside its twin that eager trains; both with AdamW."""

    def __init__(self, torch: Any, name: str, size: int, search_seconds: float) -> None:
        self.torch, self.search_seconds = torch, search_seconds
        self.net = training(name, size)
        self.eager = copy.deepcopy(self.net.model)
        self.optimizer, self.other = (torch.optim.AdamW(m.parameters()) for m in (self.net.model, self.eager))

    def step(self, budget: int | None, costs: Costs | None) -> Step:
        """The planned step; every op is measured once for all budgets."""
        net = self.net
        return compile_step(
            net.model,
            net.loss_fn,
            net.batch,
            optimizer=self.optimizer,
            budget=budget,
            costs=costs,
            time=self.search_seconds,
        )

    def eager_step(self) -> Any:
        """Eager's step: the loss."""
        self.other.zero_grad()
        loss = self.net.loss_fn(self.eager(self.net.batch[0]), *self.net.batch[1:])
        loss.backward()
        self.other.step()
        return loss.detach()

    def equal(self, step: Step) -> bool:
        """Whether some steps of both give the same bits."""
        equal, torch = True, self.torch
        for k in range(STEPS):
            torch.manual_seed(k)
            loss = step(*self.net.batch)
            torch.manual_seed(k)
            equal &= torch.equal(loss, self.eager_step())
        pairs = list(zip(self.net.model.state_dict().values(), self.eager.state_dict().values(), strict=True))
        states = zip(self.optimizer.state.values(), self.other.state.values(), strict=True)
        pairs += [(own[key], value) for own, state in states for key, value in state.items()]
        return equal and all(torch.equal(a, b) for a, b in pairs)


def seconds(function: Any) -> float:
    """Median of a few runs."""
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def rows_of(torch: Any, name: str, size: int, search_seconds: float) -> list[dict[str, Any]]:
    """Own order, then each budget."""
    rows: list[dict[str, Any]] = []
    costs, own, floor = None, 0, 0
    for share in (None, *SHARES):
        run = Run(torch, name, size, search_seconds)
        row: dict[str, Any] = {"net": name, "budget_share": share}
        began = time.perf_counter()
        try:
            budget = None if share is None else floor + int(share * (own - floor))
            row["budget_of_own"] = None if budget is None else budget / own
            step = run.step(budget, costs)
        except InputError as error:
            rows.append(row | {"refused": str(error)})
            continue
        row["compile_seconds"] = time.perf_counter() - began
        costs, plan = step.costs, step.plan
        own, floor = plan.own_order_peak_bytes, plan.floor_bytes
        row |= {"ops": len(step.graph.ops), "runs": len(plan.ops), "planned_bytes": plan.peak_bytes}
        row |= {"floor_bytes": plan.floor_bytes, "predicted_time": plan.seconds / plan.own_order_seconds}
        row["bits_equal"] = run.equal(step)
        batch = run.net.batch
        _, row["allocator_bytes"] = allocator_peak(step.prepare(*batch))
        _, row["storages_bytes"] = storages_peak(step.prepare(*batch), step.given(*batch))
        row["seconds"] = seconds(lambda step=step, batch=batch: step(*batch))
        row["eager_seconds"] = seconds(run.eager_step)
        run.other.zero_grad()

        def whole(run: Run = run) -> None:
            run.eager_step()
            run.other.zero_grad()

        _, row["eager_bytes"] = allocator_peak(whole)
        rows.append(row)
    return rows


HEAD = """
{equal} of {runs} runs equal eager bit by bit after {steps} steps (losses, parameters, buffers, state). The allocator's
own peak is what was planned to the byte in {exact}, and at most {apart:.3%} off. Bytes are those allocated at once,
beside parameters, buffers, batch and state.

Budgets are shares of own order's peak, 75, 50, 30 and 15 % of the way up from `floor`: what the largest op takes
alone, which no plan is below. `ops` are the step's, `runs` how many run. `time`: the ops' measured seconds over own
order's, predicted; seconds of whole steps are in the JSON, from a machine that others used too: they say little. Ops
that run again come from the search for sequences, which proves nothing.
"""
COLUMNS = (
    "net", "budget", "ops", "runs", "planned", "allocator", "storages", "eager's", "floor", "time", "bits",
)  # fmt: skip


def tables(text: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    here, rows = text["machine"], text["rows"]
    run = [row for row in rows if "refused" not in row]
    apart = max(abs(row["allocator_bytes"] / row["planned_bytes"] - 1) for row in run)
    equal = sum(row["bits_equal"] for row in run)
    exact = sum(row["allocator_bytes"] == row["planned_bytes"] for row in run)
    where = f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {text['torch']}"
    lines = [
        "# Training steps within a budget",
        "",
        f"{where}, one thread; size {text['size']}; AdamW; {text['time']:g} s of search each.",
        HEAD.format(equal=equal, runs=len(run), steps=STEPS, exact=exact, apart=apart),
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for row in rows:
        budget = "own order" if row["budget_share"] is None else f"{row['budget_of_own']:.0%}"
        if "refused" in row:
            cells = [f"refused: {row['refused'].partition(': ')[2]}", *[""] * (len(COLUMNS) - 3)]
        else:
            sizes = ("planned", "allocator", "storages", "eager", "floor")
            cells = [
                row["ops"], row["runs"], *(f"{row[name + '_bytes']:,}" for name in sizes),
                f"x{row['predicted_time']:.3f}", "equal" if row["bits_equal"] else "differ",
            ]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, [row['net'], budget, *cells]))} |")
    return lines


def main() -> int:
    """Write the tables and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="path without ending: .md and .json are written"
    )
    parser.add_argument("--size", type=int, default=2, help="scale of widths and batches (default 2)")
    parser.add_argument("--time", type=float, default=8.0, help="seconds of search for each budget (default 8)")
    parser.add_argument("--nets", nargs="*", default=list(NETS), help="some of them")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)  # threads that wait for each other on a shared machine tell nothing
    rows: list[dict[str, Any]] = []
    for name in given.nets:
        rows += rows_of(torch, name, given.size, given.time)
        text = {"machine": asdict(machine()), "torch": torch.__version__, "size": given.size}
        text |= {"time": given.time, "rows": rows}
        given.output.with_suffix(".json").write_text(json.dumps(text, indent=1) + "\n")
        given.output.with_suffix(".md").write_text("\n".join(tables(text)) + "\n")
        print(f"{name}: written", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
