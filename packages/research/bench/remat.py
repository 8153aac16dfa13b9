"""Ops that run again, on the graphs of MOCCASIN's repository and others: our plans beside what is published.

    python bench/remat.py FOLDER --methods moccasin,checkmate,fastsa,dtr,chen,torchtitan,rotor --bound 0 \\
        -o results/remat-methods
    python bench/remat.py FOLDER [--time 10] [--solver 20] [--captured GRAPH.graph.json ...] -o results/remat

FOLDER holds the `data` of MOCCASIN's repository (haoming-codes/moccasin: node-link JSON, Checkmate's graphs and random
layered ones), which its user fetches: nothing of it is here. Budgets are shares of the peak of each instance's own
order as that repository counts it, parts of a byte dropped (it rounds up). A row has the least overhead found within
`--time` seconds of counted work after the best order is known, the bound over all orders, the bound over orders with
these first runs, what CP-SAT proves in the same first runs with two runs of an op (up to 110 ops, `--solver` seconds),
and what papers print. Every sequence is walked once more by the plain code of `lowtide.verify`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.api.models import load_own
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.bound import first_run_bound, price_bound
from lowtide.optimize.recompute.registry import make_recompute
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, search, sequenced
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.recompute import footprints_of_runs
from lowtide_research.bench.pages import about, document, say, script, table, write
from lowtide_research.recompute.moccasin import moccasin, why_not

PUBLISHED: dict[str, tuple[str, dict[int, tuple[str, str, str]]]] = {
    "random_layered_n100_": ("RL1", {90: ("0.8", "0.8", "0.0"), 80: ("2.3", "2.3", "0.3"), 70: ("", "", "2.2")}),
    "random_layered_n250_": ("RL2", {90: ("0.9", "0.9", "0"), 80: ("timeout", "4.9", "0"), 70: ("", "", "2.6")}),
    "random_layered_n500_": (
        "RL3", {90: ("timeout", "0.7", "0.03"), 80: ("timeout", "3.4", "2.3"), 70: ("", "", "4.8, at 73.5 %")},
    ),
    "random_layered_n1000_": (
        "RL4", {90: ("timeout", "0.7", "0.4"), 80: ("timeout", "3.4", "2.5"), 70: ("", "", "7.4")},
    ),
    "fcn_8_vgg": ("CM1", {90: ("0.0", "0.0", "0.1"), 80: ("0.1", "0.1", "0.1"), 70: ("", "", "3.0")}),
    "ResNet50": ("CM2", {90: ("0.1", "0.2", "0.2"), 80: ("0.3", "0.3", "0.4"), 70: ("", "", "0.8")}),
}  # fmt: skip
"""Overheads in per cent that papers print for a budget in per cent of the own order's peak: Checkmate's MILP and
MOCCASIN (the latter's paper, ICML 2023, table 1), FastSA (Preferred Networks)."""

BUDGETS = (90, 80, 70, 60, 50)  # for all but the published rows

OTHERS = ("VGG16", "VGG19", "MobileNet", "segnet", "vgg_unet")  # Checkmate's other training graphs


def node_link(path: Path) -> tuple[Graph, list[int]]:
    """A graph of that repository, and its own order in positions: what the file gives, else by generations."""
    document = json.loads(path.read_text())
    random = "random_layered" in path.name
    name, size, cost, ends = (
        ("name", "out_cost", "duration", ("0", "1")) if random else ("id", "cost_ram", "cost_cpu", ("source", "target"))
    )
    nodes = {node[name]: node for node in document["nodes"]}
    before: dict[Any, list[Any]] = {v: [] for v in nodes}
    after: dict[Any, list[Any]] = {v: [] for v in nodes}
    for link in document["links"]:
        before[link[ends[1]]].append(link[ends[0]])
        after[link[ends[0]]].append(link[ends[1]])
    order = document["graph"].get("order") or list(_generations(before, after))
    at = {v: i for i, v in enumerate(order)}
    tensors = tuple(Tensor(i, nodes[v][size], Kind.ACTIVATION) for i, v in enumerate(order))
    ops = tuple(Op(at[v], tuple(at[u] for u in before[v]), (at[v],), str(v), cost=nodes[v][cost]) for v in order)
    return Graph(path.stem, tensors, ops), list(range(len(ops)))


def _generations(before: dict[Any, list[Any]], after: dict[Any, list[Any]]) -> Iterator[Any]:
    """Nodes whose predecessors are all there, generation by generation, in the order of the file."""
    waiting = {v: len(u) for v, u in before.items()}
    ready = [v for v, count in waiting.items() if not count]
    while ready:
        following = []
        for v in ready:
            yield v
            for w in after[v]:
                waiting[w] -= 1
                if not waiting[w]:
                    following.append(w)
        ready = following


def counted_limits(seconds: float, seed: int = 0) -> Limits:
    """So much counted work; on a busy machine the clock leaves it a hundred times as long."""
    return Limits(100 * seconds, work_seconds=seconds, seed=seed)


def within_cpu_seconds(seconds: float) -> Callable[[], bool]:
    """Whether fewer processor seconds passed since this call."""
    end = time.process_time() + seconds
    return lambda: time.process_time() < end


def best_order(model: MemoryModel, seconds: float) -> tuple[tuple[int, ...], int, float]:
    """Of least peak; the bound on that, and the seconds it took."""
    began = time.perf_counter()
    schedule = Exact().schedule(model, counted_limits(seconds))
    return schedule.order, schedule.lower_bound, time.perf_counter() - began


def rows(name: str, graph: Graph, budgets: tuple[int, ...], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each budget."""
    model = memory_model(graph, BUILT_IN["strict"])
    own = profile(model, range(len(graph.ops))).peak
    order, least_peak, seconds = best_order(model, options.order)
    problem = sequenced(model, order)
    for percent in budgets:
        budget = own * percent // 100
        yield {
            "instance": name,
            "ops": len(graph.ops),
            "seconds": options.time,
            "budget_percent": percent,
            "counted": problem.costs.counted,
            "order_seconds": round(seconds, 3),
            "best_order_percent": round(100 * profile(model, order).peak / own, 2),
            "order_bound_percent": round(100 * least_peak / own, 2),
            **row(problem, order, budget, options),
        }


def row(problem: Sequenced, order: tuple[int, ...], budget: int, options: argparse.Namespace) -> dict[str, Any]:
    """What is found and proved for a budget."""
    total, (least, op) = problem.costs.total, least_possible(problem)
    if least > budget:
        label = problem.model.graph.ops[op].label
        return {"impossible": f"{label} alone needs {least:,} B of {budget:,}"}
    limits = counted_limits(options.time, options.seed)
    quick = search(problem, order, budget, limits, steps=0)
    first = options.time - limits.left_seconds
    found = search(problem, order, budget, counted_limits(options.time, options.seed))
    graph = problem.model.graph
    whole = problem.with_views(found.order)
    walked = footprints_of_runs(graph, work_out(graph, BUILT_IN["strict"]), [graph.ops[i].id for i in whole])
    assert max(walked) <= found.peak, "the plain walk needs more"
    spent = sum(problem.costs.units[i] for i in whole)
    result: dict[str, Any] = {
        "met": found.found and max(walked) <= budget,
        "peak_bytes": max(walked),
        "budget_bytes": budget,
        "overhead_percent": 100 * (spent / total - 1),
        "first_plan_percent": 100 * (quick.cost / total - 1) if quick.found else None,
        "first_plan_seconds": round(first, 3),
        "runs_again": len(whole) - len(graph.ops),
        "repairs": found.steps,
        "chains": found.chains,
    }
    if spent > total and options.bound:
        result |= bounds(problem, order, list(found.order), budget, options)
    if options.methods:
        result["methods"] = {name: by_method(name, problem, order, budget, options) for name in options.methods}
    return result


def by_method(
    name: str, problem: Sequenced, order: tuple[int, ...], budget: int, options: argparse.Namespace
) -> str | float:
    """Overhead in per cent of what a published method finds, as it is implemented here; or why there is none."""
    method = make_recompute(name, {})
    if method.supports(problem) is not None:
        return ""
    result = method.repeat(problem, order, budget, Limits(options.time, seed=options.seed))
    if not result.order:
        return {"infeasible": "none in its class", "time": "time"}.get(result.ended, "none")
    assert max(problem.core().footprints(problem.without_views(result.order))) <= budget, name
    return 100 * (sum(problem.costs.units[i] for i in result.order) / problem.costs.total - 1)


def bounds(
    problem: Sequenced, order: tuple[int, ...], found: list[int], budget: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Over all orders; over those with the first runs of the sequence that was found; and by CP-SAT."""
    total, footprint = problem.costs.total, profile(problem.model, order).footprint
    steps = sorted(range(len(order)), key=lambda step: -footprint[step])
    price = price_bound(problem, budget, [order[s] for s in steps], within_cpu_seconds(options.bound))
    result: dict[str, Any] = {"bound_percent": 100 * price.units / total}
    if not any(op.view for op in problem.ops):
        first_runs = first_run_bound(problem, budget, found, within_cpu_seconds(options.bound))
        result["first_run_bound_percent"] = 100 * first_runs / total
    if options.solver and len(order) <= 110 and why_not(problem) is None:
        exact = moccasin(problem, order, budget, Limits(options.solver))
        result["solver_percent"] = 100 * (exact.cost / total - 1) if exact.order else None
        result["solver_proved"] = exact.proved
    return result


def text(value: Any, digits: int = 3) -> str:
    """A figure in a table."""
    return "" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def methods_page(results: dict[str, Any]) -> list[str]:
    """Markdown of what published methods find."""
    names = results["methods"]
    rows = [
        (
            r["instance"], r["ops"], f"{r['seconds']:g}", f"{r['budget_percent']} %",
            text(r["overhead_percent"]) if r["met"] else "not met", *(text(r["methods"][name]) for name in names),
        )
        for r in results["rows"] if "methods" in r
    ]  # fmt: skip
    return [
        "# Ops that run again: published methods beside ours", "",
        f"{about(results['machine'])}, one core of a machine with other work to do; `bench/remat.py --methods`, seed "
        f"{results['seed']}.", "",
        "Overheads in per cent of the time of running each op once, each search with the same limit (seconds, by the "
        "clock on the wall), all from the best order. The methods are short implementations of ours "
        "(`docs/methods.md`). *none*: nothing was found within the budget; *time*: not in this time; empty: the "
        "graph is too large for the method, or its ops share storages.", "",
        *table(("instance", "ops", "limit", "budget", "ours", *names), rows),
    ]  # fmt: skip


def _with_first_runs(row: dict[str, Any]) -> float | None:
    """The bound for first runs as they are in the plan: what holds for all orders holds for these."""
    shown = row.get("first_run_bound_percent")
    return None if shown is None else max(shown, row["bound_percent"])


HEAD = (
    "instance", "ops", "limit", "budget", "best order", "found", "first", "s", "all orders", "first runs", "CP-SAT",
    "Checkmate", "MOCCASIN", "FastSA",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """Markdown."""
    rows: list[tuple[Any, ...]] = []
    for r in results["rows"]:
        start = (r["instance"], r["ops"], f"{r['seconds']:g}", f"{r['budget_percent']} %")
        start = (*start, f"{r['best_order_percent']:.2f} %")
        if "impossible" in r:
            rows.append((*start, f"impossible: {r['impossible']}", *[""] * (len(HEAD) - len(start) - 1)))
            continue
        found = text(r["overhead_percent"]) if r["met"] else "not met"
        rows.append((
            *start, "0 (proved)" if r["met"] and not r["overhead_percent"] else found,
            text(r["first_plan_percent"]), text(r["first_plan_seconds"]), text(r.get("bound_percent")),
            text(_with_first_runs(r)), text(r.get("solver_percent")) + (" =" if r.get("solver_proved") else ""),
            *(r.get("published") or ("", "", "")),
        ))  # fmt: skip
    return [
        "# Ops that run again", "",
        f"{about(results['machine'])}, one core; `bench/remat.py`, seed {results['seed']}.", "",
        "Overheads in per cent of the time of running each op once. *limit*: of the search, work of so many seconds on "
        "a quiet machine; *found*: what is found within it after the best order; *first*: the first plan, and the "
        "seconds of work until it was there. "
        "*all orders*: no plan costs less; *first runs*: none with the first runs of the plan found. *CP-SAT*: "
        "retention intervals, two runs of an op, first runs in the best order; `=`: proved. *Checkmate*, *MOCCASIN*, "
        "*FastSA*: printed in papers.", "",
        *table(HEAD, rows),
    ]  # fmt: skip


def main() -> None:
    """Measure, row by row, and write."""
    parser = script(__doc__, folder="data of MOCCASIN's repository")
    parser.add_argument("--time", type=float, default=10.0, help="seconds of counted work for each budget")
    parser.add_argument("--order", type=float, default=10.0, help="the same for the best order")
    parser.add_argument("--bound", type=float, default=10.0, help="processor seconds for each bound")
    parser.add_argument("--solver", type=float, default=20.0, help="seconds for CP-SAT; 0: without")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--captured", type=Path, nargs="*", default=[], help="training graphs as graph JSON")
    parser.add_argument("--methods", default="", help="published methods to run too, with commas: a page of its own")
    options = parser.parse_args()
    options.methods = [name for name in options.methods.split(",") if name]
    results = document(seed=options.seed, methods=options.methods, rows=[])
    for name, graph, published in instances(options):
        for r in rows(name, graph, tuple(published) or BUDGETS, options):
            results["rows"].append(r | ({"published": published[r["budget_percent"]]} if published else {}))
            say(results["rows"][-1])
            write(options.out, results, (methods_page if options.methods else page)(results))


def instances(options: argparse.Namespace) -> Iterator[tuple[str, Graph, dict[int, tuple[str, str, str]]]]:
    """Names, graphs and what is published of them."""
    for prefix, (name, published) in [*PUBLISHED.items(), *((other, (other, {})) for other in OTHERS)]:
        for path in training(options.folder, prefix):
            yield name, node_link(path)[0], published
    for path in options.captured:
        yield path.name.partition(".")[0], load_own(path, {})[0], {}


def training(folder: Path, prefix: str) -> list[Path]:
    """The instance whose file begins so: of Checkmate's, the one for training."""
    return [p for p in sorted(folder.glob(f"{prefix}*.json")) if "random_layered" in p.name or "_train_" in p.name]


if __name__ == "__main__":
    main()
