"""What a minute of search tries on ViT (MAGIS, ASPLOS 2024, section 7.2.6, figure 15).

    python bench/magis_tried.py -o results/magis-tried

MAGIS makes a graph by each change, hashes it, drops what it has seen, orders the rest anew and simulates that. Here a
change is a chain of runs again that is put into the sequence of a part; its peak is read at once, and it is taken out
again where it does not pay. Nothing is hashed: no sequence is made anew to see that it was there before. Part graphs
are made and ordered once for each number of parts.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lowtide
from lowtide_research import zoo
from lowtide_research.bench.machine import machine

MODEL, ALLOW, SECONDS = "magis_vit_base", "recompute,fission", 60.0
GOALS: tuple[dict[str, Any], ...] = ({"max_overhead": "10%"}, {"budget": "40%"})
MAGIS_GENERATED, MAGIS_SIMULATED = 7_148, 924
"""In 60 s, of which 2.52 s change graphs, 3.70 order, 8.71 simulate and 44.82 hash."""

KINDS = {
    "part_graphs": "part graphs", "orders": "orders", "chains": "chains put in, peak read", "placements": "arenas",
}  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """What each goal tried."""
    found = []
    for goal in GOALS:
        plan = lowtide.plan(zoo.build(MODEL).graph(), allow=ALLOW, time=SECONDS, **goal)
        assert plan.fission is not None
        share = plan.required_bytes / plan.own_order_peak_bytes
        found.append({"goal": goal, "tried": plan.search, "share": share, "overhead": plan.fission.overhead,
                      "seconds": plan.seconds.total, "load": os.getloadavg()[0]})  # fmt: skip
        print(goal, plan.search, flush=True)
    return found


def page(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    m = document["machine"]
    lines = [
        "# What a minute of search tries", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
        f"lowtide {m['lowtide']}, {m['python']}, {m['system']}, {m['cpu']}, {m['cores']} cores; commit "
        f"{str(m['commit'])[:7]}; {MODEL}, 60 s. MAGIS on the same workload in 60 s: {MAGIS_GENERATED:,} graphs made "
        f"in 2.52 s, all hashed in 44.82 s, 6,224 of them dropped as seen before, {MAGIS_SIMULATED} ordered in 3.70 s "
        "and simulated in 8.71 s (its figure 15, on a machine of its own).", "",
    ]  # fmt: skip
    for row in document["rows"]:
        ((name, bound),) = row["goal"].items()
        tried = row["tried"]
        lines += [
            f"Within `{name}` {bound}: {row['share']:.3f} of the own order's peak, {100 * row['overhead']:+.2f} % "
            f"time, {row['seconds']:.0f} s; {row['load']:.0f} processes wanted the cores.", "",
            "| | tried | seconds | a second |", "| --- | --- | --- | --- |",
        ]  # fmt: skip
        for kind, words in KINDS.items():
            seconds = tried[f"{kind}_seconds"]
            rate = f"{tried[kind] / seconds:,.0f}" if seconds else ""
            lines.append(f"| {words} | {tried[kind]:,} | {seconds:.2f} | {rate} |")
        lines += ["", f"Chains: {tried['chains'] / MAGIS_GENERATED:,.0f} times the graphs that MAGIS made, "
                      f"{tried['chains'] / MAGIS_SIMULATED:,.0f} times those that it simulated.", ""]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    out = parser.parse_args().out
    document = {"machine": asdict(machine()), "rows": rows()}
    out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(page(document), encoding="utf-8")


if __name__ == "__main__":
    main()
