"""Training steps of eight PyTorch networks under byte budgets: planned, executed, measured, held against eager.

    python bench/train.py -o results/train [--size 2]

Of each network (`bench.train_nets`): what the allocator gives out for eager's step, for the step in its own
order, and for plans within shares of that. Each is trained for three steps beside eager with the same random numbers:
losses, parameters, buffers and the optimizer's state must be equal bit by bit. Needs torch; a few minutes on a CPU.
"""

from __future__ import annotations

import copy
import statistics
import time
from importlib import import_module
from typing import Any

from lowtide.errors import InputError
from lowtide.run.torch import storages_peak
from lowtide.torch import Costs, Step, StepOptions, compile_step
from lowtide.torch.meter import allocator_peak
from lowtide_research.bench.pages import about, document, script, table, write
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
            allow="recompute",
            options=StepOptions(costs=costs, time=0 if budget is None else self.search_seconds),
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


HEAD = """{equal} of {runs} runs equal eager bit by bit after {steps} steps (losses, parameters, buffers, state). The
allocator's own peak is what was planned to the byte in {exact}, and at most {apart:.3%} off. Bytes are those allocated
at once, in addition to parameters, buffers, batch and state.

Budgets are shares of the file order's peak, 75, 50, 30 and 15 % of the way up from `floor`: what the largest op takes
alone, which no plan is below. `ops` are the step's, `runs` how many run. `time`: the ops' measured seconds over the
file order's, predicted; seconds of whole steps are in the JSON, from a machine that others used too: they say little.
Ops that run again come from the search for sequences, which proves nothing."""
COLUMNS = (
    "net", "budget", "ops", "runs", "planned", "allocator", "storages", "eager's", "floor", "time", "bits",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    rows, cells = results["rows"], list[tuple[Any, ...]]()
    run = [row for row in rows if "refused" not in row]
    apart = max(abs(row["allocator_bytes"] / row["planned_bytes"] - 1) for row in run)
    equal = sum(row["bits_equal"] for row in run)
    exact = sum(row["allocator_bytes"] == row["planned_bytes"] for row in run)
    for row in rows:
        budget = "own order" if row["budget_share"] is None else f"{row['budget_of_own']:.0%}"
        if "refused" in row:
            refused = f"refused: {row['refused'].partition(': ')[2]}"
            cells.append((row["net"], budget, refused, *[""] * (len(COLUMNS) - 3)))
            continue
        sizes = [row[f"{name}_bytes"] for name in ("planned", "allocator", "storages", "eager", "floor")]
        bits = "equal" if row["bits_equal"] else "differ"
        cells.append((row["net"], budget, row["ops"], row["runs"], *sizes, f"x{row['predicted_time']:.3f}", bits))
    return [
        "# Training steps within a budget",
        "",
        f"{about(results['machine'])}; torch {results['torch']}, one thread; size {results['size']}; AdamW; "
        f"{results['time']:g} s of search each.",
        "",
        HEAD.format(equal=equal, runs=len(run), steps=STEPS, exact=exact, apart=apart),
        "",
        *table(COLUMNS, cells),
    ]


def main() -> None:
    """Write the tables and the rows."""
    parser = script(__doc__)
    parser.add_argument("--size", type=int, default=2, help="scale of widths and batches (default 2)")
    parser.add_argument("--time", type=float, default=8.0, help="seconds of search for each budget (default 8)")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)  # threads that wait for each other on a shared machine tell nothing
    results = document(torch=torch.__version__, size=given.size, time=given.time, rows=[])
    for name in NETS:
        results["rows"] += rows_of(torch, name, given.size, given.time)
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
