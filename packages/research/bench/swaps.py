"""Training steps within budgets: ops that run again, tensors that leave memory, and both.

    python bench/swaps.py FOLDER [--time 4] [--captured GRAPH.graph.json ...] -o results/swaps

FOLDER holds the `data` of MOCCASIN's repository, as in `bench/remat.py`: Checkmate's training graphs are taken from it,
and two random ones. Their costs have no common unit, so that of these a bandwidth is taken at which the own order's
peak goes one way in just the time of the step. Of captured graphs ops take what `cost/files/rtx3090.json` says (a
roofline, no measurement), and tensors go at its 12 GB/s each way. Budgets are shares of the own order's peak. A row
has, for each of the three, how much longer the step takes with all its waiting, and what no order takes less than; each
search has `--time` seconds from the best order. Every sequence is played once more by Python's clock.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.api.models import load_own
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.graph import Graph
from lowtide.optimize.recompute.bound import price_bound
from lowtide.optimize.recompute.dropping import peak_of
from lowtide.optimize.recompute.registry import make_recompute
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, search, sequenced
from lowtide.optimize.recompute.swap_bound import swap_time_bound
from lowtide.optimize.recompute.swaps import Bandwidth, clock, in_nanoseconds, with_swaps
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.bench.pages import about, document, say, script, table, write
from remat import best_order, node_link, text, training

INSTANCES = (
    "VGG16", "VGG19", "MobileNet", "ResNet50", "fcn_8_vgg", "segnet", "vgg_unet", "random_layered_n100_",
    "random_layered_n250_",
)  # fmt: skip
WAYS, BUDGETS = ("recompute", "swap", "recompute,swap"), (80, 60, 40, 30)
MOST_ASKED = 64
"""Ops at which the bound is asked for."""


def timed(graph: Graph, own: int) -> tuple[list[int], Bandwidth]:
    """Nanoseconds of the ops, and the bandwidth: by the card's figures, or, where costs are of no unit, in a second in
    all, in which the peak goes one way."""
    if any(op.cost is not None for op in graph.ops):
        total = sum(op.cost or 0 for op in graph.ops)
        return [round(1e9 * (op.cost or 0) / total) for op in graph.ops], Bandwidth(own, own)
    file, _ = stand_in("rtx3090.json")
    assert file.bandwidth is not None
    each = [round(1e9 * (op.cost or 0)) for op in priced(graph, file.families).ops]
    return each, Bandwidth(file.bandwidth.to_host, file.bandwidth.from_host)


def rows(name: str, graph: Graph, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each budget."""
    model = memory_model(graph, BUILT_IN["strict"])
    own = profile(model, range(len(graph.ops))).peak
    order, _, _ = best_order(model, options.order)
    each, bandwidth = timed(graph, own)
    plain = in_nanoseconds(sequenced(model, order), each)
    ways = (plain, with_swaps(plain, bandwidth, recompute=False), with_swaps(plain, bandwidth))
    for percent in BUDGETS:
        budget = own * percent // 100
        row: dict[str, Any] = {
            "seconds": options.time, "instance": name, "ops": len(graph.ops),
            "budget_percent": percent, "own_order_bytes": own,
            "step_seconds": plain.costs.total / 1e9, "card": all(op.cost is None for op in graph.ops),
            "best_order_percent": round(100 * profile(model, order).peak / own, 2),
        }  # fmt: skip
        if least_possible(plain)[0] > budget:
            continue
        for way, problem in zip(WAYS, ways, strict=True):
            row[way] = found(problem, order, budget, bandwidth if way != "recompute" else None, options)
        for method, problem in (("rotor", ways[0]), ("pofo", ways[2])):
            row[method] = by_method(method, problem, order, budget, options)
        yield row


def by_method(
    name: str, problem: Sequenced, order: tuple[int, ...], budget: int, options: argparse.Namespace
) -> float | str:
    """Overhead in per cent of what a published method finds by the same clock, or why there is none."""
    method = make_recompute(name, {})
    if method.supports(problem) is not None:
        return ""
    result = method.repeat(problem, order, budget, Limits(options.method))
    if not result.order:
        return "none"
    assert peak_of(problem, result.order) <= budget, name
    return 100 * (clock(problem, result.order) / problem.costs.total - 1)


def found(
    problem: Sequenced, order: tuple[int, ...], budget: int, bandwidth: Bandwidth | None, options: argparse.Namespace
) -> dict[str, Any]:
    """What one way finds, and the bound."""
    best, total = search(problem, order, budget, Limits(options.time, seed=options.seed)), problem.costs.total
    assert clock(problem, best.order) == best.cost, "the clocks differ"
    n = len(problem.ops)
    moved = [problem.transfer_of(i) for i in best.order if i >= n]
    return {
        "met": best.found,
        "overhead_percent": 100 * (best.cost / total - 1),
        "bound_percent": bounded(problem, order, budget, bandwidth, options),
        "waiting_percent": 100 * (best.cost - sum(problem.costs.units[i] for i in best.order if i < n)) / total,
        "stored_bytes": sum(problem.values[row.value].size for row, load in moved if not load),
        "runs_again": sum(i < n for i in best.order) - n + sum(op.view for op in problem.ops),
    }


def bounded(
    problem: Sequenced, order: tuple[int, ...], budget: int, bandwidth: Bandwidth | None, options: argparse.Namespace
) -> float:
    """Overhead in per cent below which there is no order."""
    limits, footprint = Limits(options.bound), profile(problem.model, order).footprint
    asked = [order[s] for s in sorted(range(len(order)), key=lambda step: -footprint[step])[:MOST_ASKED]]
    if bandwidth is None:
        bound = price_bound(problem, budget, asked, lambda: not limits.over())
    else:
        bound = swap_time_bound(problem, budget, asked, bandwidth, lambda: not limits.over())
    return 100 * bound.units / problem.costs.total


def cell(entry: dict[str, Any]) -> str:
    """Overhead, and the bound in brackets."""
    if not entry["met"]:
        return "not met"
    return f"{entry['overhead_percent']:.2f} ({entry['bound_percent']:.2f})"


HEAD = (
    "instance", "ops", "s", "budget", "again alone", "away alone", "both", "stored", "runs again", "rotor", "pofo",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """Markdown."""
    rows: list[tuple[Any, ...]] = []
    for r in results["rows"]:
        name, both = r["instance"], r["recompute,swap"]
        if r["card"]:
            name += f", {1e3 * r['step_seconds']:.0f} ms, {r['own_order_bytes'] / 1e9:.2f} GB"
        stored = f"{100 * both['stored_bytes'] / r['own_order_bytes']:.0f}"
        rows.append((
            name, r["ops"], f"{r['seconds']:g}", f"{r['budget_percent']} %", *(cell(r[way]) for way in WAYS),
            *((stored, both["runs_again"]) if both["met"] else ("", "")),
            *(text(r.get(method, ""), 2) for method in ("rotor", "pofo")),
        ))  # fmt: skip
    return [
        "# Tensors that leave memory", "",
        f"{about(results['machine'])}, one core of a machine with other work to do; `bench/swaps.py`, seed "
        f"{results['seed']}, *s* seconds of search for each way by the clock on the wall.", "",
        "How much longer a step takes, waiting included, in per cent of running each op once, within shares of the "
        "own order's peak; in brackets what no order takes less than. Of captured graphs, which have a step's time "
        "and a peak here, ops take what a roofline of an RTX 3090's data sheet says, and transfers 12 GB/s each way; "
        "of the others, whose costs have no unit, the peak goes one way in just the time of the step. All of it is "
        "predicted; nothing was run on such a card. *stored*: what of the peak the plan of both stores, in per cent. "
        "*not met*: nothing was found; budgets below what a single op needs are left out. *rotor*, *pofo*: short "
        "implementations of ours of published methods for chains (`docs/methods.md`), without and with transfers, in "
        f"{results['method']:g} s at most; empty: the graph is no chain.", "",
        *table(HEAD, rows),
    ]  # fmt: skip


def main() -> None:
    """Search, row by row, and write."""
    parser = script(__doc__, folder="data of MOCCASIN's repository")
    parser.add_argument("--time", type=float, default=4.0, help="seconds of search for each figure")
    parser.add_argument("--order", type=float, default=5.0, help="seconds for the best order")
    parser.add_argument("--bound", type=float, default=2.0, help="seconds for each bound")
    parser.add_argument("--method", type=float, default=20.0, help="seconds for each published method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--captured", type=Path, nargs="*", default=[], help="training graphs as graph JSON")
    options = parser.parse_args()
    graphs = [
        (prefix.replace("_layered_n", " ").strip("_"), node_link(path)[0])
        for prefix in INSTANCES for path in training(options.folder, prefix)
    ]  # fmt: skip
    graphs += [(path.name.partition(".")[0], load_own(path, {})[0]) for path in options.captured]
    results = document(seed=options.seed, method=options.method, rows=[])
    for name, graph in graphs:
        for row in rows(name, graph, options):
            results["rows"].append(row)
            say(row)
            write(options.out, results, page(results))


if __name__ == "__main__":
    main()
