"""dsa-solver's public instances: every pool of every document placed, and how many are proved least.

    python bench/dsa.py FOLDER [--time 5] -o bench/results/dsa

FOLDER is `benchmarks` of github.com/tonibohnlein/dsa-solver (Apache-2.0): 860 captures of NPU kernels and minimalloc's
eleven with penalties. Nothing of it is here. Heights are bytes; penalties for reuse are left out, so that these are the
problems that its profile pypto_hard_v1 poses, and lower bounds of the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import lowtide
from lowtide.allocate.dsa_buffers import problem_of
from lowtide.bench.machine import machine
from lowtide.errors import InputError
from lowtide.read.dsa_problem import read_dsa_problem


def main() -> None:
    """Read, place, write."""
    parser = argparse.ArgumentParser(description="Pools of dsa-solver's instances, placed.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", type=float, default=5.0)
    parser.add_argument("-o", dest="out", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    documents = 0
    for path in sorted(options.folder.rglob("*.json")):
        if '"problem"' not in path.read_text(encoding="utf-8"):
            continue
        documents += 1
        try:
            pools = read_dsa_problem(path)
        except InputError as error:
            refused.append(str(error).removeprefix(f"{path}: "))
            continue
        for pool in pools:
            began = time.process_time()
            placed = lowtide.allocate(problem_of(pool), time=options.time)
            rows.append(
                {
                    "document": str(path.relative_to(options.folder).with_suffix("")), "pool": pool.pool,
                    "buffers": len(pool.buffers), "apart": len(pool.apart), "penalties": pool.unweighed,
                    "capacity_bytes": pool.capacity, "height_bytes": placed.height_bytes,
                    "lower_bound_bytes": placed.lower_bound_bytes, "optimal": placed.optimal,
                    "seconds": round(time.process_time() - began, 4),
                }
            )  # fmt: skip
    result = {"machine": dataclasses.asdict(machine()), "documents": documents, "refused": refused, "rows": rows}
    Path(f"{options.out}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{options.out}.md").write_text(page(result, options.time))


def page(result: dict[str, Any], limit: float) -> str:
    """Markdown: a row for each family, and those that are open."""
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in result["rows"]:
        families["/".join(row["document"].split("/")[:4])].append(row)
    rows = result["rows"]
    over = sum(r["capacity_bytes"] is not None and r["height_bytes"] > r["capacity_bytes"] for r in rows)
    lines = [
        "# Instances of dsa-solver", "",
        f"{result['machine']['cpu']}, two cores with much other work; lowtide {result['machine']['commit']}; "
        f"`bench/dsa.py`, at most {limit:g} s a pool. Seconds of the processor.", "",
        f"{result['documents']} documents, {len(result['refused'])} of them refused; {len(rows)} pools with buffers, "
        f"{sum(r['optimal'] for r in rows)} proved least, in {sum(r['seconds'] for r in rows):.1f} s together. "
        f"Over their capacity: {over}. Penalties for reuse are not weighed.", "",
        "| family | pools | buffers, at most | proved least | seconds |", "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    for family, some in sorted(families.items()):
        most, proved, seconds = (max(r["buffers"] for r in some), sum(r["optimal"] for r in some),
                                 sum(r["seconds"] for r in some))  # fmt: skip
        lines.append(f"| {family} | {len(some)} | {most} | {proved} | {seconds:.2f} |")
    apart = [r for r in rows if not r["optimal"] and r["apart"]]
    lines += ["", f"Open: {len([r for r in rows if not r['optimal']])}; {len(apart)} of them keep buffers apart, never "
              "there at once, which the bound (bytes live at once) does not see."]  # fmt: skip
    for text in sorted(set(result["refused"])):
        lines += ["", f"Refused, {result['refused'].count(text)} of them: {text}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
