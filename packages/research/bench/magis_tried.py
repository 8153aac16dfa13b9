"""What a minute of search tries on ViT (MAGIS, ASPLOS 2024, section 7.2.6, figure 15).

    python bench/magis_tried.py -o results/magis-tried

MAGIS makes a graph by each change, hashes it, drops what it has seen, orders the rest anew and simulates that. Here a
change is a chain of runs again that is put into the sequence of a part; its peak is read at once, and it is taken out
again where it does not pay. Nothing is hashed: no sequence is made anew to see that it was there before. Part graphs
are made and ordered once for each number of parts.
"""

from __future__ import annotations

import os
from typing import Any

import lowtide
from lowtide_research import zoo
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write

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
        plan = lowtide.research.plan(zoo.build(MODEL).graph(), allow=ALLOW, time=SECONDS, **goal)
        assert plan.fission is not None
        share = plan.required_bytes / plan.own_order_peak_bytes
        found.append({"goal": goal, "tried": plan.search, "share": share, "overhead": plan.fission.overhead,
                      "seconds": plan.seconds.total, "load": os.getloadavg()[0]})  # fmt: skip
        say(plan.search)
    return found


def page(results: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    lines = [
        "# What a minute of search tries", "", *method_of(__doc__),
        f"{about(results['machine'])}, {results['machine']['cores']} cores; {MODEL}, {SECONDS:g} s. MAGIS on the same "
        f"workload in 60 s: {MAGIS_GENERATED:,} graphs made in 2.52 s, all hashed in 44.82 s, 6,224 of them dropped as "
        f"seen before, {MAGIS_SIMULATED} ordered in 3.70 s and simulated in 8.71 s (its figure 15, on a machine of its "
        "own).", "",
    ]  # fmt: skip
    for row in results["rows"]:
        ((name, bound),) = row["goal"].items()
        seconds = {kind: row["tried"].get(f"{kind}_seconds", 0.0) for kind in KINDS}
        counts = {kind: row["tried"].get(kind, 0) for kind in KINDS}
        cells = [
            (words, counts[k], f"{seconds[k]:.2f}", f"{counts[k] / seconds[k]:,.0f}" if seconds[k] else "")
            for k, words in KINDS.items()
        ]
        lines += [
            f"Within `{name}` {bound}: {row['share']:.3f} of the file order's peak, {100 * row['overhead']:+.2f} % "
            f"time, {row['seconds']:.0f} s; {row['load']:.0f} processes wanted the cores.", "",
            *table(("", "tried", "seconds", "a second"), cells), "",
        ]  # fmt: skip
    return lines


def main() -> None:
    """Measure, and write the page."""
    given = script(__doc__).parse_args()
    results = document(rows=rows())
    write(given.out, results, page(results))


if __name__ == "__main__":
    main()
