"""Whole commands on what is large or hard to prove: how long they take, and how near their bound they come.

    python bench/scale.py MODELS -o results/scale

`lowtide research plan` as a process of its own, one after another: a NASNet of 50,256 ops; the schedules of XLA in
MODELS/graphs/xla; RandWires of 128 nodes. Searches have the default limits, which count work.
Seconds are processor time of the complete process, all threads.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from lowtide_research.bench.pages import about, document, method_of, say, script, table, write

SEEDS = 5


def asked(models: Path) -> list[tuple[str, str]]:
    """What is planned, and under which target."""
    xla = sorted((models / "graphs" / "xla").glob("*.graph.json"))
    randwires = [(f"zoo:randwire_ws_one_stage:nodes=128,seed={seed}", "strict") for seed in range(SEEDS)]
    return [("zoo:nasnet_a_cifar:n=440", "strict"), *((str(path), "strict") for path in xla), *randwires]


def row(model: str, target: str) -> dict[str, Any]:
    """One command: processor seconds, and its result."""
    command = [sys.executable, "-m", "lowtide", "research", "plan", model, "--target", target, "--json", "-q"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 6):
        raise SystemExit(f"{model}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    plan = json.loads(done.stdout)
    return {
        "model": Path(model).name.removesuffix(".graph.json") if "/" in model else model,
        "target": target,
        "ops": len(plan["order"]),
        "own_bytes": plan["own_order_peak_bytes"],
        "peak_bytes": plan["peak_bytes"],
        "bound_bytes": plan["lower_bound_bytes"],
        "proved": plan["optimal"],
        "arena_bytes": plan["arena_bytes"],
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


HEAD = ("model", "ops", "own order", "peak", "bound", "gap", "arena above peak", "s")


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    rows = [
        (
            r["model"], r["ops"], r["own_bytes"], r["peak_bytes"], r["bound_bytes"],
            "proved" if r["proved"] else f"{100 * (r['peak_bytes'] - r['bound_bytes']) / r['peak_bytes']:.2f} %",
            f"{100 * (r['arena_bytes'] - r['peak_bytes']) / r['peak_bytes']:.2f} %", f"{r['cpu_seconds']:.1f}",
        )
        for r in results["rows"]
    ]  # fmt: skip
    return [
        "# Whole commands on what is large or hard",
        "",
        f"{about(results['machine'])}; `bench/scale.py`. Bytes.",
        "",
        *method_of(__doc__),
        *table(HEAD, rows),
    ]


def main() -> None:
    """Run every command, and write the table."""
    given = script(__doc__, folder="with graphs/xla").parse_args()
    rows = []
    for model, target in asked(given.folder):
        rows.append(row(model, target))
        say(f"{rows[-1]['model']}: {rows[-1]['cpu_seconds']:.1f} s")
    results = document(rows=rows)
    write(given.out, results, page(results))


if __name__ == "__main__":
    main()
