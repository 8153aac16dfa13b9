"""The exact search on real graphs and on HMCOS's networks: peaks, proofs, arenas and seconds.

    python bench/orders.py MODELS -o results/orders

Every *.graph.json of MODELS/graphs, and HMCOS's networks of the zoo; target `strict`, alignment 1, at most 60 s of
search each. Seconds are processor time of the search for an order alone, the least of three runs where below 0.5 s. The
arena is that of the plan, which is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.api.models import load
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research.bench.machine import quickest
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write
from lowtide_research.zoo.published.cases import HMCOS

SECONDS = 60.0
HEAD = ("graph", "ops", "file order", "peak", "lower bound", "arena", "states", "CPU s")


def groups(models: Path) -> dict[str, list[str]]:
    """What is planned, by heading."""
    return {
        "Real graphs": [str(path) for path in sorted((models / "graphs").glob("*.graph.json"))],
        "HMCOS's networks": [f"zoo:{case.network}" for case in HMCOS],
    }


def row(model: str) -> dict[str, Any]:
    """A graph's order by the search alone, and the plan's arena."""
    graph = load(model)
    memory = memory_model(graph, resolve("strict"))
    schedule, seconds, _ = quickest(lambda: Exact().schedule(memory, Limits(SECONDS)), lambda s: s.stopped, 3)
    plan = lowtide.research.plan(graph, target="strict", time=SECONDS)
    return {
        "model": Path(model).name.removesuffix(".graph.json") if "/" in model else model,
        "ops": len(graph.ops),
        "own_bytes": plan.own_order_peak_bytes,
        "peak_bytes": plan.peak_bytes,
        "bound_bytes": max(plan.lower_bound_bytes, schedule.lower_bound),
        "arena_bytes": plan.arena_bytes,
        "states": schedule.counters.get("states"),
        "seconds": seconds,
    }


def page(results: dict[str, Any]) -> Iterator[str]:
    """A table for each group, and its sum."""
    yield from ("# Orders", "", f"{about(results['machine'])}; `bench/orders.py`. Bytes.", "", *method_of(__doc__))
    for title, rows in results["groups"].items():
        cells = [
            (
                r["model"], r["ops"], r["own_bytes"], r["peak_bytes"],
                "reached" if r["bound_bytes"] == r["peak_bytes"] else r["bound_bytes"],
                "the peak" if r["arena_bytes"] == r["peak_bytes"] else r["arena_bytes"], r["states"],
                f"{r['seconds']:.4f}",
            )
            for r in rows
        ]  # fmt: skip
        proved = sum(r["bound_bytes"] == r["peak_bytes"] for r in rows)
        tight = sum(r["arena_bytes"] == r["peak_bytes"] for r in rows)
        above = max((r["own_bytes"] / r["peak_bytes"] - 1 for r in rows), default=0)
        yield from (f"## {title}", "", *table(HEAD, cells), "")
        yield f"{proved} of {len(rows)} proved, {sum(r['seconds'] for r in rows):.2f} s of search in total, at most"
        yield f"{max((r['seconds'] for r in rows), default=0):.2f} s. The arena is the peak for {tight} of {len(rows)}."
        yield from (f"The file's order is at most {above:.0%} above the best one.", "")
    yield from (f"Left out: {name}: {why}" for name, why in results["left_out"].items())


def main() -> None:
    """Search every graph, and write the page."""
    given = script(__doc__, folder="with graphs and graphs/xla").parse_args()
    results = document(groups={}, left_out={})
    for title, models in groups(given.folder).items():
        rows = results["groups"].setdefault(title, [])
        for model in models:
            try:
                rows.append(row(model))
            except lowtide.InputError as error:
                results["left_out"][Path(model).name] = str(error)
                continue
            say(f"{rows[-1]['model']}: {rows[-1]['seconds']:.2f} s")
        write(given.out, results, list(page(results)))


if __name__ == "__main__":
    main()
