"""Time against bytes of MAGIS's seven training steps (Chen et al., ASPLOS 2024, figures 11 and 12).

    python bench/magis_curves.py -o results/magis-curves [--cost bench/cost/cpu-sizes.json] [--only magis_unet]
    python bench/magis_curves.py -o results/magis-curves --kinds pofo rotor --short 40
    python bench/magis_curves.py -o results/magis-curves --kinds pofo8 pofo16 pofo32 --only magis_vit_base
    python bench/magis_curves.py -o results/magis-curves --kinds again --joint 60 --again unmet
    python bench/magis_curves.py --page results/magis-curves

For each budget, a share of the peak of the step in its own order, the least added time of a plan within it: parts and
runs again together, the same with tensors that leave memory (`moved`), either alone, and published methods. `--joint`
seconds for the first two and for runs again alone, `--short` for each other; every plan is verified. A plan within less
is one within more: each cell is the least time of all plans of its kind within that share, those of the page of least
peaks under the same times among them. Without `--cost` times are a roofline's (`rtx3090.json`), under which parts are
nearly free; a CPU has no other memory, so that nothing moves there, and POFO is what it is without transfers, `rotor`.
`moved` and `pofo` move tensors to the host at 12 GB/s each way; `pofo8` is figure 12's: POFO on one of eight parts of
the batch, all one behind the other.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.api.problem import Problem
from lowtide.api.rewrites.swapping import numbers
from lowtide.cost.file import read_cost, stand_in
from lowtide.cost.labelled import estimated
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.plan import Plan
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.fission import body_of
from lowtide_research.bench.machine import machine
from magis import ALLOW, WORKLOADS, Row

SHARES = (80, 60, 40, 30, 20, 15, 10)
KINDS = ("joint", "again", "micro", "dtr", "fastsa", "chen", "torchtitan")
NAMES = {
    "joint": "together",
    "moved": "with swaps",
    "again": "runs again alone",
    "micro": "micro-batches alone",
    "torchtitan": "knapsack",
}
"""Of kinds that are no method's name; the knapsack is torchtitan's, greedy."""

COLOURS = {
    "joint": "#e8743b", "moved": "#b3261e", "again": "#56b4e9", "micro": "#22a884", "dtr": "#cc79a7",
    "fastsa": "#e69f00", "chen": "#8a8a92", "torchtitan": "#444444", "pofo": "#7a5cc4", "rotor": "#b8a1e3",
}  # fmt: skip
PARTS = {"pofo8": 8, "pofo16": 16, "pofo32": 32}
"""POFO on a part of the batch (figure 12)."""

COLOURS |= dict(zip(PARTS, ("#3b7dd8", "#00a0b0", "#8f5b00"), strict=True))

Plans = dict[str, list[tuple[float, float]]]
"""Of each kind its plans: shares of the peak, and the time that they add."""

MOST = 0.5
"""Added time at the top of the pictures."""


def of_parts(row: Row, count: int, share: int, seconds: float) -> dict[str, Any]:
    """POFO on one part of the batch of so many, by the times of that part; what runs around the parts as it stands."""
    from lowtide.optimize.parted import parted
    from lowtide.optimize.step_regions import step_regions
    from lowtide.schedule.exact import Exact

    file, _ = stand_in("rtx3090.json") if row.cost is None else read_cost(row.cost)
    target, region = BUILT_IN["generic"], step_regions(row.priced).regions[0]

    def order(graph: Graph) -> tuple[int, ...]:
        return Exact().schedule(memory_model(graph, target), Limits(seconds / 4)).order

    assert file.bandwidth is not None
    bandwidth = Bandwidth(file.bandwidth.to_host, file.bandwidth.from_host)
    (choice,) = parted(row.priced, target, region, [count], file.families, order, bandwidth)
    assert choice.fission is not None
    assert choice.clock is not None
    part = body_of(row.priced, region, choice.fission.searched, estimated(file.families)).graph
    problem = Problem.of(row.priced, target)
    room = problem.own_order_peak_bytes * share // 100
    if choice.rest > room or choice.base >= room:
        return {"status": "over_budget", "share": 1.0, "overhead": 0.0, "parts": [count], "commit": machine().commit}
    plan = lowtide.plan(part, allow="recompute,swap", method="pofo", budget=room - choice.base, time=seconds)
    ran = choice.clock.seconds(numbers(choice.sequence, plan.rewrites or (), plan.order))
    uncut = sum(op.cost or 0.0 for op in row.priced.ops)
    return {
        "status": plan.status, "share": (choice.base + plan.required_bytes) / problem.own_order_peak_bytes,
        "overhead": (choice.outside_seconds + ran) / uncut - 1, "parts": [count], "commit": machine().commit,
    }  # fmt: skip


def cell(row: Row, kind: str, share: int, joint: float, short: float) -> dict[str, Any]:
    """One plan: what it takes, or that none was found."""
    if kind in PARTS:
        return of_parts(row, PARTS[kind], share, short)
    began = time.perf_counter()
    how: dict[str, Any] = {"budget": f"{share}%", "time": joint if kind in ("joint", "moved", "again") else short}
    parted = kind in ("joint", "moved", "micro")
    if kind == "micro":
        how["method"] = "microbatch"
    elif kind not in ("joint", "moved", "again"):
        how["method"] = kind
    try:
        graph = row.graph if parted else row.priced
        allow = ALLOW if parted else "recompute"
        allow = f"{allow},swap" if kind in ("moved", "pofo") else allow
        plan = lowtide.plan(graph, allow=allow, cost=row.cost if parted else None, **how)
    except InputError as error:
        return {"status": "refused", "why": str(error)[:200], "commit": machine().commit}
    return {**_figures(plan), "seconds": round(time.perf_counter() - began, 1), "limit": how["time"],
            "commit": machine().commit}  # fmt: skip


def _figures(plan: Plan) -> dict[str, Any]:
    told = plan.fission or plan.recomputation
    assert told is not None, plan.graph
    parts = [] if plan.fission is None else [len(part.ends) for part in plan.fission.parts]
    return {
        "status": plan.status, "share": plan.required_bytes / plan.own_order_peak_bytes, "overhead": told.overhead,
        "parts": parts,
    }  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Measure what the file has not, and keep each cell."""
    out = options.out.with_suffix(".json")
    known: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    document: dict[str, Any] = {
        "machine": asdict(machine()), "cost": options.cost and Path(options.cost).name,
        "joint": known.get("joint", options.joint), "short": known.get("short", options.short),
        "note": known.get("note", ""), "rows": known.get("rows", {}),
    }  # fmt: skip
    for name in options.only:
        row, cells = Row(name, options.cost, options.joint, options.short), document["rows"].setdefault(name, {})
        for kind in options.kinds:
            for share in options.shares:
                former = cells.get(f"{kind}_{share}")
                if former is not None and not _wanted(former, options.again):
                    continue
                found = cell(row, kind, share, options.joint, options.short)
                cells[f"{kind}_{share}"] = found if former is None or _rank(found) <= _rank(former) else former
                out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            plans = plans_of(cells, {})
            print(name, kind, [_text(cells, plans, kind, share) for share in SHARES], flush=True)


def _met(entry: dict[str, Any]) -> bool:
    return entry["status"] in ("ok", "unproved")


def _wanted(former: dict[str, Any], again: str | None) -> bool:
    """Whether a cell that the file has is measured again."""
    return again == "all" or (again == "unmet" and former["status"] == "over_budget")


def _rank(entry: dict[str, Any]) -> tuple[bool, float]:
    """By which the better of two plans within one budget stands."""
    met = _met(entry)
    return not met, entry["overhead"] if met else entry.get("share", math.inf)


def plans_of(cells: dict[str, Any], least: dict[str, Any]) -> Plans:
    """The plans of one workload, whatever they were sought for; `least`: its row of the page of least peaks."""
    plans: Plans = {}
    of_kinds = [*cells.items(), *((name.replace("_at_", "_"), entry) for name, entry in least.items())]
    for name, entry in of_kinds:
        kind, _, _ = name.rpartition("_")
        if kind in COLOURS and entry["status"] != "refused":
            plans.setdefault(kind, []).append((entry["share"], max(0.0, entry["overhead"])))
    return plans


def least_time(plans: Plans, kind: str, share: int) -> float | None:
    """The least added time within a share of the peak; None: no plan is known."""
    return min((added for size, added in plans.get(kind, ()) if 100 * size <= share * (1 + 1e-9)), default=None)


def _text(cells: dict[str, Any], plans: Plans, kind: str, share: int) -> str:
    entry = cells.get(f"{kind}_{share}")
    if entry is None or entry["status"] == "refused":
        return "not run" if entry is None else "refused"
    least = least_time(plans, kind, share)
    return "not found" if least is None else f"{100 * least:.2f}"


def _front(plans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Plans that none of the others beats in both, by share."""
    front: list[tuple[float, float]] = []
    for share, added in sorted(plans):
        if not front or added < front[-1][1]:
            front.append((share, added))
    return front


def svg(name: str, plans: Plans, kinds: list[str]) -> str:
    """A picture of one workload: added time, cut off at half, over shares of the peak."""
    width, height, left, foot = 360, 240, 44, 30

    def at(share: float, overhead: float) -> tuple[float, float]:
        x = left + (width - left - 10) * share / 100
        return round(x, 1), round(20 + (height - foot - 20) * (1 - min(overhead, MOST) / MOST), 1)

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-size="10" '
             f'font-family="sans-serif"><title>{name}: added time over share of the own order\'s peak</title>',
             f'<text x="{left}" y="12">{name}: added time, %, over % of the peak</text>']  # fmt: skip
    for tick in (0, 10, 20, 30, 40, 50):
        y = at(0, tick / 100)[1]
        lines.append(f'<path d="M{left} {y}H{width - 10}" stroke="#8a8a92" stroke-opacity=".3"/>'
                     f'<text x="{left - 6}" y="{y + 3}" text-anchor="end">{tick}</text>')  # fmt: skip
    for tick in (20, 40, 60, 80, 100):
        lines.append(f'<text x="{at(tick, 0)[0]}" y="{height - 12}" text-anchor="middle">{tick}</text>')
    for i, kind in enumerate(kinds):
        points = [at(100 * share, added) for share, added in _front(plans.get(kind, []))]
        if points:
            path = " ".join(f"{x},{y}" for x, y in points)
            lines.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[kind]}" stroke-width="1.5"/>')
            lines += [f'<circle cx="{x}" cy="{y}" r="2" fill="{COLOURS[kind]}"/>' for x, y in points]
        lines.append(f'<text x="{width - 14}" y="{32 + 12 * i}" text-anchor="end" fill="{COLOURS[kind]}">'
                     f"{NAMES.get(kind, kind)}</text>")  # fmt: skip
    return "\n".join([*lines, "</svg>"]) + "\n"


def _below(rows: dict[str, Any], known: dict[str, Plans], ours: list[str], others: list[str]) -> list[str]:
    """Where a plan of other kinds takes less time than the best of ours, by more than 0.01 points."""
    told = []
    for name, cells in rows.items():
        for share in SHARES:
            added = {k: o for k in (*ours, *others) if f"{k}_{share}" in cells
                     and (o := least_time(known[name], k, share)) is not None}  # fmt: skip
            best = min((o for k, o in added.items() if k in ours), default=None)
            if best is None:
                told += [f"{name} at {share} %: {k} meets it" for k in added]
            else:
                told += [f"{name} at {share} %: {k} {100 * (best - o):.2f} points" for k, o in added.items()
                         if o < best - 1e-4]  # fmt: skip
    return told


def _least_gain(rows: dict[str, Any], known: dict[str, Plans]) -> list[str]:
    """Where the joint plan is not below every other one, and what it gains over micro-batches."""
    methods = [k for k in COLOURS if k not in ("joint", "moved")]
    above = _below(rows, known, ["joint", "moved"], methods)
    told = (
        f"Below it lie: {'; '.join(above)}." if above else
        "Nothing lies below the better of *together* and *with swaps* by more than 0.01 points, as far as these "
        "searches went."
    )  # fmt: skip
    still = _below(rows, known, ["joint"], [k for k in methods if k not in ("pofo", *PARTS)])
    if still and still != above:
        told += f" Of plans that move nothing, below *together*: {'; '.join(still)}."
    lines = []
    for name, cells in rows.items():
        gains = []
        for share in SHARES:
            micro, *ours = (least_time(known[name], kind, share) for kind in ("micro", "joint", "moved"))
            ours = min((o for o in ours if o is not None), default=None)
            if ours is not None and f"micro_{share}" in cells:
                gain = "not met by micro-batches" if micro is None else f"{100 * max(0.0, micro - ours):.2f}"
                gains.append(f"{share} %: {gain}")
        lines.append(f"- {name}: {'; '.join(gains)}")
    return [told, "", "Percentage points of time that it gains over micro-batches alone, by share of the peak:", "",
            *lines, ""]  # fmt: skip


def _limits(document: dict[str, Any]) -> list[str]:
    """Cells whose searches had another time than the others, by that time and their kind."""
    told = []
    limits = {e["limit"] for cells in document["rows"].values() for e in cells.values() if "limit" in e}
    for limit in sorted(limits):
        for kind in COLOURS:
            usual = document["joint"] if kind in ("joint", "moved", "again") else document["short"]
            where = []
            for name, cells in document["rows"].items():
                shares = [s for s in SHARES if cells.get(f"{kind}_{s}", {}).get("limit", usual) == limit != usual]
                at = "" if len(shares) == len(SHARES) else f" at {', '.join(map(str, shares))} %"
                where += [f"{name.removeprefix('magis_')}{at}"] if shares else []
            if where:
                told.append(f"{NAMES.get(kind, kind)} {limit:g} s on {', '.join(where)}")
    return [f"Searched for another time: {'; '.join(told)}.", ""] if told else []


def _least_peaks(path: Path, cost: str | None) -> dict[str, dict[str, Any]]:
    """Cells of the page of least peaks under the same times, by workload."""
    beside = path.with_name(path.name.replace("magis-curves", "magis"))
    if beside == path or not beside.exists():
        return {}
    document = json.loads(beside.read_text(encoding="utf-8"))
    if document["cost"] != cost:
        return {}
    return {row["name"]: {k: e for k, e in row.items() if isinstance(e, dict)} for row in document["rows"]}


def page(path: Path, title: str) -> list[str]:
    """Tables of one cost file, and a picture of each workload beside the page."""
    document = json.loads(path.read_text(encoding="utf-8"))
    m, rows = document["machine"], document["rows"]
    kinds = [k for k in COLOURS if any(f"{k}_{s}" in cells for cells in rows.values() for s in SHARES)]
    commits = sorted({str(e["commit"])[:7] for cells in rows.values() for e in cells.values()})
    lines = [
        f"## {title}", "",
        f"lowtide {m['lowtide']}, {m['python']}, {m['system']}, {m['cpu']}, {m['cores']} cores, other "
        f"work beside it; {document['joint']:g} s for each plan with runs again, together or alone, "
        f"{document['short']:g} s for each other one. Commits {', '.join(commits)}. All plans verified. Added time "
        f"in %. {document.get('note', '')}".rstrip(), "",
    ]  # fmt: skip
    every, least = kinds, _least_peaks(path, document["cost"])
    known = {name: plans_of(cells, least.get(name, {})) for name, cells in rows.items()}
    lines += _limits(document)
    for name, cells in rows.items():
        kinds = [k for k in every if any(f"{k}_{s}" in cells for s in SHARES)]
        picture = path.with_name(f"{path.stem}-{name.removeprefix('magis_')}.svg")
        picture.write_text(svg(name, known[name], kinds), encoding="utf-8")
        lines += [f"### {name}", "", f"![{name}]({picture.name})", "",
                  f"| share of the peak | {' | '.join(NAMES.get(k, k) for k in kinds)} |",
                  f"| --- |{' --- |' * len(kinds)}"]  # fmt: skip
        for share in SHARES:
            lines.append(f"| {share} % | {' | '.join(_text(cells, known[name], k, share) for k in kinds)} |")
        lines.append("")
    return [*lines, *_least_gain(rows, known)]


def main() -> None:
    """Measure, or write the page of what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--cost")
    parser.add_argument("--joint", type=float, default=12.0)
    parser.add_argument("--short", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=[*COLOURS])
    parser.add_argument("--shares", nargs="*", type=int, default=list(SHARES), choices=SHARES)
    parser.add_argument("--again", choices=["unmet", "all"], help="cells of the file, too; the better plan stands")
    parser.add_argument("--page", type=Path, help="write PAGE.md from PAGE.json and PAGE-cpu.json")
    options = parser.parse_args()
    if options.page is None:
        run(options)
        return
    lines = ["# MAGIS's training steps: time against bytes", "", *(__doc__ or "").split("\n\n")[2].splitlines(), ""]
    for suffix, title in (("", "Under the roofline of an RTX 3090, fixed before the search"),
                          ("-cpu", "Under times of ops measured by size on a CPU")):  # fmt: skip
        file = options.page.with_name(f"{options.page.name}{suffix}.json")
        if file.exists():
            lines += page(file, title)
    options.page.with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
