"""What each part of the search is worth on BERT, and what is best after how long (MAGIS, ASPLOS 2024, figure 13).

    python bench/magis_ablation.py -o results/magis-ablation [--seconds 12]

MAGIS leaves out its fission tree (regions at random instead) and its choice of what runs again, and tries levels 2, 4
and 8. Here: tensors leave memory, too; one region at once; regions at random instead of the tree's; 2 and 8 levels
instead of 4; no regions but the tree's; no parts; nothing again; and products that read the same as one. The curve is
of searches of their own, each for so many seconds. The machine has other work; all plans are verified.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import lowtide
from lowtide.analyse.model import MemoryModel
from lowtide.api.rewrites.fissioning import _Step
from lowtide.graph import Graph
from lowtide.ops.links import axis_classes
from lowtide.ops.meaning import meaning
from lowtide.optimize import fission_tree, step_regions
from lowtide.optimize.parted import Parted
from lowtide.optimize.step_regions import StepRegions
from lowtide.transform.fission import NoFission, Region, region_of
from lowtide_research import zoo
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write

MODEL, ALLOW = "magis_bert_base", "recompute,fission"
GOALS: tuple[dict[str, Any], ...] = ({"max_overhead": "10%"}, {"max_overhead": "5%"}, {"budget": "40%"})
CURVE, CURVE_SECONDS = ("magis_bert_base", "magis_vit_base", "magis_unet"), (1, 2, 5, 10, 20, 60)
"""Workloads of the curve, within 10 % more time, and how long each is searched."""

REGIONS = 6  # random ones that are tried, as many as of the tree's


def random_regions(graph: Graph, model: MemoryModel, order: object, levels: int = 4) -> list[Region]:
    """Stretches of ops along any class of dimensions, as they come."""
    random = Random(0)
    meanings = {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}
    classes = axis_classes(graph, windows=False, meanings=lambda _, op: meanings.get(op.id))
    links, found = step_regions.links_of(graph, meanings), list[Region]()
    for _ in range(2000):
        try:
            axes = step_regions.axes_of_class(graph, random.choice(classes), links)
            begin, end = sorted(random.sample(range(len(axes) + 1), 2)) if axes else (0, 0)
            found.append(region_of(graph, dict(list(axes.items())[begin:end])))
        except (NoFission, KeyError):
            continue
        if len(found) == REGIONS:
            break
    return found


def _levels(count: int) -> Callable[[Graph, MemoryModel, Any], list[Region]]:
    real = fission_tree.tree_regions
    return lambda graph, model, order: real(graph, model, order, count)


def _none(graph: Graph) -> StepRegions:
    return StepRegions((), ())


def _untiled(_: _Step, whole: Parted) -> list[Parted]:
    return [whole]


@contextmanager
def without(name: str) -> Iterator[None]:
    """The search changed."""
    tree = "lowtide.optimize.fission_tree.tree_regions"
    regions, step = "lowtide.optimize.step_regions", "lowtide.api.rewrites.fissioning._Step"
    changes: dict[str, dict[str, Any]] = {
        "regions at random": {tree: random_regions},
        "2 levels": {tree: _levels(2)},
        "8 levels": {tree: _levels(8)},
        "tree alone": {f"{regions}.step_regions": _none, f"{regions}.stretches": lambda *_: []},
        "one region": {f"{step}._several": lambda *_: []},
        "no parts": {f"{step}._joint": _untiled},
    }
    with ExitStack() as stack:
        for place, instead in changes.get(name, {}).items():
            stack.enter_context(patch(place, instead))
        yield


SETTINGS = (
    "all", "with swaps", "one region", "regions at random", "2 levels", "8 levels", "tree alone", "no parts",
    "nothing again", "siblings as one",
)  # fmt: skip
MORE = {"with swaps": ",swap", "siblings as one": ",merge"}
"""Words of what is allowed besides."""


def measured(seconds: float) -> list[dict[str, Any]]:
    """Each setting within each bound."""
    graph, rows = zoo.build(MODEL).graph(), []
    for setting, goal in product(SETTINGS, GOALS):
        how: dict[str, Any] = {"method": "microbatch"} if setting == "nothing again" else {}
        with without(setting):
            plan = lowtide.research.plan(graph, allow=ALLOW + MORE.get(setting, ""), time=seconds, **goal, **how)
        assert plan.fission is not None
        rows.append({
            "setting": setting, "goal": goal, "status": plan.status,
            "share": plan.required_bytes / plan.own_order_peak_bytes, "overhead": plan.fission.overhead,
            "parts": [len(p.ends) for p in plan.fission.parts], "load": os.getloadavg()[0],
        })  # fmt: skip
        say(rows[-1])
    return rows


def curve() -> list[dict[str, Any]]:
    """Of each workload the best within 10 % more time after so long."""
    rows = []
    for name in CURVE:
        graph = zoo.build(name).graph()
        for most in CURVE_SECONDS:
            plan = lowtide.research.plan(graph, allow=ALLOW, time=most, max_overhead="10%")
            assert plan.fission is not None
            share = plan.required_bytes / plan.own_order_peak_bytes
            took = None if plan.seconds is None else plan.seconds.total
            rows.append({"name": name, "seconds": most, "took": took, "share": share, "load": os.getloadavg()[0]})
            say(rows[-1])
    return rows


def _text(row: dict[str, Any]) -> str:
    parts = f" ({row['parts'][0]})" if row["parts"] else ""
    if "budget" in row["goal"]:
        met = row["status"] in ("ok", "unproved")
        return f"{100 * row['overhead']:.2f} %{parts}" if met else f"not found, {row['share']:.3f}"
    return f"{row['share']:.3f}{parts}"


def page(results: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    rows, points = results["rows"], results["curve"]
    heads = [f"{next(iter(goal))} {next(iter(goal.values()))}" for goal in GOALS]
    by = {(r["setting"], *r["goal"].items()): _text(r) for r in rows}
    settings = [(setting, *(by[setting, *goal.items()] for goal in GOALS)) for setting in SETTINGS]
    took = {(r["name"], r["seconds"]): f"{r['share']:.3f} ({r['took']:.0f})" for r in points}
    seconds = sorted({r["seconds"] for r in points})
    loads = [r["load"] for r in (*rows, *points)]
    return [
        "# What each part of the search is worth", "", *method_of(__doc__),
        f"{about(results['machine'])}, {results['machine']['cores']} cores, {min(loads):.0f} to {max(loads):.0f} "
        f"processes wanted them; {results['seconds']:g} s of search. Within a bound on time the share of the file "
        "order's peak, within bytes the added time; in brackets how many parts.", "",
        *table(("", *heads), settings), "",
        "## What is best after how long", "",
        "Share of the file order's peak within 10 % more time; in brackets the seconds that the call took in all, "
        "reading, placing and checking with it.", "",
        *table(("", *(f"{s:g} s" for s in seconds)), [(name, *(took[name, s] for s in seconds)) for name in CURVE]),
    ]  # fmt: skip


def main() -> None:
    """Measure, and write the page."""
    parser = script(__doc__)
    parser.add_argument("--seconds", type=float, default=12.0)
    given = parser.parse_args()
    results = document(seconds=given.seconds, rows=measured(given.seconds), curve=curve())
    write(given.out, results, page(results))


if __name__ == "__main__":
    main()
