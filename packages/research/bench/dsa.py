"""dsa-solver's public instances: every pool of every document placed, and how many are proved least.

    python bench/dsa.py FOLDER [--time 5] [--reuse 10] -o results/dsa
    python bench/dsa.py FOLDER --again results/dsa.json --reuse 300 -o results/dsa    # the pairs left open

FOLDER is `benchmarks` of github.com/tonibohnlein/dsa-solver (Apache-2.0): 860 captures of NPU kernels and minimalloc's
eleven with penalties. Nothing of it is here. Heights are bytes, without penalties for reuse: the problems that its
profile pypto_hard_v1 poses, and lower bounds of the others. Then the penalties: the soft one of each of its 204 pairs,
and minimalloc's eleven (10 s each at most), within their capacities.
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
from lowtide.allocate.dsa_buffers import costs_of, problem_of
from lowtide.allocate.reuse import least_reuse
from lowtide.errors import InputError
from lowtide.read.dsa_problem import read_dsa_problem
from lowtide.stop import Limits
from lowtide_research.bench.machine import machine

MINIMALLOC = 10.0
"""Seconds for each of its eleven, which are far from proved in any time."""


def main() -> None:
    """Read, place, write."""
    parser = argparse.ArgumentParser(description="Pools of dsa-solver's instances, placed.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", type=float, default=5.0)
    parser.add_argument("--reuse", type=float, default=10.0, metavar="SECONDS", help="for each with penalties (10)")
    parser.add_argument("-o", dest="out", required=True)
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="take over what it has proved, and the time of a pool"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.again:
        again(options)
        return
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
                    "buffers": len(pool.buffers), "apart": len(pool.apart), "penalties": len(pool.penalties),
                    "capacity_bytes": pool.capacity, "height_bytes": placed.height_bytes,
                    "lower_bound_bytes": placed.lower_bound_bytes, "optimal": placed.optimal,
                    "seconds": round(time.process_time() - began, 4),
                }
            )  # fmt: skip
    reuse = priced(options.folder, options.reuse)
    result = {
        "machine": dataclasses.asdict(machine()), "documents": documents, "refused": refused, "rows": rows,
        "reuse": reuse, "limits": {"pool": options.time, "reuse": options.reuse},
    }  # fmt: skip
    write(result, options.out)


def again(options: argparse.Namespace) -> None:
    """Search the pairs again that a result left open, and write it anew."""
    result = json.loads(options.again.read_text(encoding="utf-8"))
    result["rows"] = [defaultdict(int, {"capacity_bytes": None, **row}) for row in result["rows"]]
    left = {r["document"] for r in result["reuse"] if r["pair"] and not is_proved(r)}
    searched = {
        row["document"]: row | {"again": True, "commit": machine().commit}
        for row in priced(options.folder, options.reuse, [options.folder / f"{name}.json" for name in sorted(left)])
    }
    result["reuse"] = [searched.get(r["document"], r) for r in result["reuse"]]
    result["limits"]["again"] = options.reuse
    write(result, options.out)


def is_proved(row: dict[str, Any]) -> bool:
    """Whether a pair's cost is proved least, or that it does not fit."""
    return row["impossible"] or (row["fits"] and row["cost"] == row["lower_bound"])


def write(result: dict[str, Any], out: str) -> None:
    """The page, and what it is made of."""
    Path(f"{out}.md").write_text(page(result))
    rows = [{key: value for key, value in row.items() if value} for row in result["rows"]]  # what is absent is 0
    Path(f"{out}.json").write_text(json.dumps({**result, "rows": rows}, separators=(",", ":")) + "\n")


def priced(folder: Path, most: float, paths: list[Path] | None = None) -> list[dict[str, Any]]:
    """Documents whose reuse has a price (all, or some): what is paid within the capacities of their pools, and its
    bound."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.rglob("*.json")) if paths is None else paths:
        document = json.loads(path.read_text(encoding="utf-8"))
        soft = document.get("metadata", {}).get("dsa_rp_edge_policy") == "soft_v1"
        if not (soft or document.get("profile") == "dsa_rp_v1"):
            continue
        began = time.process_time()
        limit = most if soft else min(most, MINIMALLOC)
        pools = [
            least_reuse(problem_of(pool), costs_of(pool), pool.capacity or 0, Limits(limit))
            for pool in read_dsa_problem(path)
        ]
        rows.append(
            {
                "document": str(path.relative_to(folder).with_suffix("")), "pair": soft,
                "penalties": len(document["problem"]["cost_model"]["reuse_penalties"]),
                "fits": all(p.fits for p in pools), "impossible": any(p.fits is False for p in pools),
                "cost": sum(p.cost for p in pools), "lower_bound": sum(p.lower_bound for p in pools),
                "seconds": round(time.process_time() - began, 4),
            }
        )  # fmt: skip
    return rows


def reuse_lines(rows: list[dict[str, Any]], limits: dict[str, float]) -> list[str]:
    """What reuse costs: the pairs together, minimalloc's eleven apart."""
    pairs, others = [r for r in rows if r["pair"]], [r for r in rows if not r["pair"]]
    fit = [r for r in pairs if r["fits"]]
    proved, anew = sum(map(is_proved, pairs)), sum("again" in r for r in rows)
    commits = ", ".join(sorted({str(r["commit"])[:7] for r in rows if "again" in r}))
    longer = f"; {anew} again, at most {limits['again']:g} s, lowtide {commits}" if anew else ""
    free = sum(r["cost"] == 0 for r in fit)
    lines = [
        "", "## Reuse as a cost", "",
        f"Least penalties within the capacity, at most {limits['reuse']:g} s a pool (minimalloc's eleven: "
        f"{min(limits['reuse'], MINIMALLOC):g} s{longer}). "
        f"{len(pairs)} problems of its hard and soft pairs: {proved} proved, "
        f"{len(fit)} fit and pay {sum(r['cost'] for r in fit)} together (at least "
        f"{sum(r['lower_bound'] for r in fit)}), {free} of them nothing; {sum(r['impossible'] for r in pairs)} "
        f"proved not to fit; {sum(r['seconds'] for r in pairs):.1f} s of the processor together. dsa-solver's best of "
        "18 methods: 529, 187 proved (its results of commit a8d1257).", "",
        "minimalloc's eleven, which it made from other problems, are far from proved here; its local search pays 306, "
        "364, 402, 250, 403, 129, 471, 497, 928, 657 and 1,461 for A to K.", "",
        "| open, or minimalloc's | penalties | cost | at least | seconds |",
        "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    for r in [r for r in fit if r["cost"] != r["lower_bound"]] + others:
        name = "/".join(r["document"].split("/")[-2:])
        lines.append(f"| {name} | {r['penalties']} | {r['cost']} | {r['lower_bound']} | {r['seconds']:.2f} |")
    return lines


def page(result: dict[str, Any]) -> str:
    """Markdown: a row for each family, those that are open, and what reuse costs."""
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in result["rows"]:
        families["/".join(row["document"].split("/")[:4])].append(row)
    rows = result["rows"]
    over = sum(r["capacity_bytes"] is not None and r["height_bytes"] > r["capacity_bytes"] for r in rows)
    lines = [
        "# Instances of dsa-solver", "",
        f"{result['machine']['cpu']}, two cores with much other work; lowtide {result['machine']['commit']}; "
        f"`bench/dsa.py`, at most {result['limits']['pool']:g} s a pool. Seconds of the processor.", "",
        f"{result['documents']} documents, {len(result['refused'])} of them refused; {len(rows)} pools with buffers, "
        f"{sum(r['optimal'] for r in rows)} proved least, in {sum(r['seconds'] for r in rows):.1f} s together. "
        f"Over their capacity: {over}. Penalties for reuse are not weighed here.", "",
        "| family | pools | buffers, at most | proved least | seconds |", "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    for family, some in sorted(families.items()):
        most, proved, seconds = (max(r["buffers"] for r in some), sum(r["optimal"] for r in some),
                                 sum(r["seconds"] for r in some))  # fmt: skip
        lines.append(f"| {family} | {len(some)} | {most} | {proved} | {seconds:.2f} |")
    left = [f"{r['document']} ({r['height_bytes']:,} B, at least {r['lower_bound_bytes']:,})"
            for r in rows if not r["optimal"]]  # fmt: skip
    lines += ["", f"Open: {len(left)}. {'; '.join(left)}", *reuse_lines(result["reuse"], result["limits"])]
    for text in sorted(set(result["refused"])):
        lines += ["", f"Refused, {result['refused'].count(text)} of them: {text}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
