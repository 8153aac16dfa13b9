"""Recomputation on the graphs of MOCCASIN's repository: overheads within budgets, bounds, and what papers print.

    python bench/remat.py FOLDER -o results/remat

FOLDER is the `data` of github.com/haoming-codes/moccasin (node-link JSON, Checkmate's graphs and random layered ones);
nothing of it is in this repository. Budgets are shares of the peak of each graph's own order. Overheads are in per cent
of the time of running each op once: what `lowtide research plan --allow recompute --budget` finds within `--time`
seconds, each plan checked, and the bound over all orders and recomputations. *Checkmate* (its MILP), *MOCCASIN* (ICML
2023, table 1) and *FastSA* are as printed; nothing where a paper prints nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write

PRINTED: dict[str, tuple[str, dict[int, tuple[str, str, str]]]] = {
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
"""The beginning of a file's name, the papers' name, and by budget in per cent what Checkmate, MOCCASIN, FastSA need."""
HEAD = ("graph", "ops", "budget", "best order alone", "found", "bound", "Checkmate", "MOCCASIN", "FastSA")


def node_link(path: Path) -> Graph:
    """A graph of that repository in its own order: what the file gives, else by generations."""
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
    return Graph(path.stem, tensors, ops)


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


def row(name: str, graph: Graph, percent: int, seconds: float) -> dict[str, Any]:
    """A graph within a share of the peak of its own order."""
    best = lowtide.research.plan(graph, target="strict", time=seconds)
    budget = best.own_order_peak_bytes * percent // 100
    plan = lowtide.research.plan(graph, target="strict", allow="recompute", budget=budget, time=seconds)
    again = plan.recomputation
    return {
        "graph": name, "ops": len(graph.ops), "percent": percent, "met": plan.peak_bytes <= budget,
        "best": best.peak_bytes / best.own_order_peak_bytes, "found": 100 * (0.0 if again is None else again.overhead),
        "bound": 100 * (0.0 if again is None else again.least_overhead),
    }  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The table as Markdown."""
    printed = dict(PRINTED.values())
    rows = [
        (
            r["graph"], r["ops"], f"{r['percent']} %", f"{r['best']:.1%}", f"{r['found']:.3f}" if r["met"] else "none",
            f"{r['bound']:.3f}", *printed[r["graph"]][r["percent"]],
        )
        for r in results["rows"]
    ]  # fmt: skip
    made = f"`bench/remat.py`, at most {results['seconds']:g} s a plan"
    return ["# Recomputation", "", f"{about(results['machine'])}; {made}.", "", *method_of(__doc__), *table(HEAD, rows)]


def main() -> None:
    """Plan every graph within every budget, and write the page."""
    parser = script(__doc__, folder="data of MOCCASIN's repository")
    parser.add_argument("--time", type=float, default=10.0, help="seconds of search for each plan (default: 10)")
    given = parser.parse_args()
    results = document(seconds=given.time, rows=[])
    for prefix, (name, budgets) in PRINTED.items():
        files = (p for p in sorted(given.folder.glob(f"{prefix}*.json")) if "_test_" not in p.name)
        graph = node_link(next(files))
        for percent in budgets:
            results["rows"].append(last := row(name, graph, percent, given.time))
            say(f"{name} within {percent} %: {last['found']:.3f} %, bound {last['bound']:.3f} %")
            write(given.out, results, page(results))


if __name__ == "__main__":
    main()
