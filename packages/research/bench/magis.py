"""MAGIS's seven training steps (Chen et al., ASPLOS 2024): parts and runs again together, beside either alone.

    python bench/magis.py -o results/magis [--cost bench/cost/cpu-sizes.json] [--time 60] [--only magis_unet]
    python bench/magis.py --page results/magis

Rows are those of its figures 9 (least peak at 10 and 5 % more time) and 10 (least time at 80 and 40 % of the peak).
Shares are of the peak of the step in its own order, as MAGIS's are; every plan is verified. Each search has `--time`
seconds for the joint one within 10 and 5 %, and `--short` for all others, published methods too. The workloads stand in
no table with captured models. Without `--cost` times are those of a roofline (`rtx3090.json`), under which parts are
nearly free; published figures are of a GPU, and are kept apart.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lowtide
from lowtide.api.problem import Problem
from lowtide.api.rewrites.merging import merged_step
from lowtide.cost.file import read_cost, stand_in
from lowtide.cost.labelled import priced
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.machine import machine

WORKLOADS = ("magis_resnet50", "magis_bert_base", "magis_vit_base", "magis_unet", "magis_unetpp", "magis_gpt_neo",
             "magis_btlm")  # fmt: skip
METHODS = ("chen", "dtr", "fastsa", "torchtitan", "rotor", "pofo")
ALLOW = "recompute,fission"
COST = {
    "magis_resnet50": "0.71", "magis_bert_base": "0.48", "magis_vit_base": "1.00", "magis_unet": "0.81",
    "magis_unetpp": "0.86", "magis_gpt_neo": "1.00", "magis_btlm": "not run",
}  # fmt: skip
"""Shares of the peak at 10 % that MAGIS's released code (commit a332abc) reached in 45 to 198 s on a CPU of ours under
the same roofline, its builders patched; no figure of the paper."""

PUBLISHED = {
    "magis_resnet50": ("80 to 85 % of POFO's, DTR's and XLA's", "75 to 80 %"),
    "magis_bert_base": ("50 to 70 % of the baselines'", "65 to 75 %"),
    "magis_vit_base": ("50 to 70 % of the baselines'", "65 to 75 %"),
    "magis_unet": ("15 to 35 % of the baselines'", "25 to 70 %"),
    "magis_unetpp": ("15 to 35 % of the baselines'", "25 to 70 %"),
    "magis_gpt_neo": ("at most 40 % of PyTorch's", "at most 60 %"),
    "magis_btlm": ("at most 40 % of PyTorch's", "at most 60 %"),
}
"""Peaks at 10 and at 5 % more latency as the paper prints them (section 7.2.1 and figure 9, bars without numbers)."""


class Row:
    """The plans of one workload."""

    def __init__(self, name: str, cost: str | None, seconds: float, short: float) -> None:
        self.name, self.cost, self.seconds, self.short = name, cost, seconds, short
        self.graph = zoo.build(name).graph()
        file, _ = stand_in("rtx3090.json") if cost is None else read_cost(cost)
        self.priced: Graph = priced(self.graph, file.families)
        self.own = 0
        merged, _ = merged_step(self.graph, file.families)
        self.merged: Graph = priced(merged, file.families)

    def measured(self, *, methods: bool) -> dict[str, Any]:
        """Shares of the peak, and overheads."""
        entry: dict[str, Any] = {"name": self.name, "commit": machine().commit}
        joint = self.joint(max_overhead="10%", time=self.seconds)
        entry["own_order_peak_bytes"] = self.own = joint["own"]
        entry["joint_10"], entry["joint_5"] = joint, self.joint(max_overhead="5%", time=self.seconds)
        entry["micro_10"], entry["micro_5"] = self.micro("10%"), self.micro("5%")
        entry["again_10"], entry["again_5"] = self.again(max_overhead="10%"), self.again(max_overhead="5%")
        for share in ("80%", "40%"):
            entry[f"joint_at_{share}"] = self.joint(budget=share, time=self.short)
            entry[f"micro_at_{share}"] = self.joint(budget=share, time=self.short, method="microbatch")
            entry[f"again_at_{share}"] = self.again(budget=share)
            for method in METHODS if methods else ():
                entry[f"{method}_at_{share}"] = self.again(budget=share, method=method)
        return entry

    def cell(self, name: str) -> dict[str, Any]:
        """One of these again, by its name."""
        kind, _, bound = name.rpartition("_")
        how: dict[str, Any] = {"budget": bound} if bound.endswith("%") else {"max_overhead": f"{bound}%"}
        kind, merge = kind.removesuffix("_at"), kind.startswith("merged")
        kind = (kind.removeprefix("merged") or "joint") if merge else kind
        if kind == "again":
            return self.merged_again(bound) if merge else self.again(**how)
        if kind in METHODS:
            return self.again(**how, method=kind)
        extra = {"method": "microbatch"} if kind == "micro" else {}
        allow = ALLOW + (",swap" if kind == "moved" else "") + (",merge" if merge else "")
        seconds = self.seconds if kind in ("joint", "moved") else self.short
        return self.joint(allow, time=seconds, **how, **extra)

    def joint(self, allow: str = ALLOW, **how: Any) -> dict[str, Any]:
        """A plan with parts and runs again; perhaps tensors leave memory."""
        began = time.perf_counter()
        plan = lowtide.plan(self.graph, allow=allow, cost=self.cost, **how)
        assert plan.fission is not None, self.name
        parts = [len(part.ends) for part in plan.fission.parts]
        return {**self._of(plan, began), "overhead": plan.fission.overhead, "parts": parts,
                "floor": plan.fission.floor_bytes, "least_peak": plan.fission.least_peak_bytes,
                "least_seconds": plan.fission.least_seconds, "uncut_seconds": plan.fission.uncut_seconds}  # fmt: skip

    def micro(self, most: str) -> dict[str, Any]:
        """Parts alone."""
        return self.joint(max_overhead=most, time=self.short, method="microbatch")

    def again(self, **how: Any) -> dict[str, Any]:
        """A plan with runs again alone."""
        began = time.perf_counter()
        allow = "recompute,swap" if how.get("method") == "pofo" else "recompute"
        plan = lowtide.plan(self.priced, allow=allow, time=self.short, **how)
        assert plan.recomputation is not None, self.name
        least = plan.recomputation.least_peak_bytes
        return {**self._of(plan, began), "overhead": plan.recomputation.overhead,
                "least_overhead": plan.recomputation.least_overhead, "least_peak": least}  # fmt: skip

    def merged_again(self, most: str) -> dict[str, Any]:
        """Runs again alone where siblings are one, within a bound beside the step as it stands."""
        uncut, wider = (sum(op.cost or 0.0 for op in g.ops) for g in (self.priced, self.merged))
        began, room = time.perf_counter(), (1 + float(most) / 100) * uncut / wider - 1
        plan = lowtide.plan(self.merged, allow="recompute", time=self.short, max_overhead=room)
        assert plan.recomputation is not None, self.name
        overhead = (1 + plan.recomputation.overhead) * wider / uncut - 1
        return {**self._of(plan, began), "overhead": overhead}

    def _of(self, plan: Plan, began: float) -> dict[str, Any]:
        return {
            "own": plan.own_order_peak_bytes, "bytes": plan.required_bytes, "status": plan.status,
            "share": plan.required_bytes / plan.own_order_peak_bytes, "seconds": time.perf_counter() - began,
        }  # fmt: skip


def run(names: list[str], cost: str | None, seconds: float, short: float, out: Path, *, methods: bool) -> None:
    """Measure, and keep after each workload what there is."""
    entries: list[dict[str, Any]] = []
    for name in names:
        entries.append(Row(name, cost, seconds, short).measured(methods=methods))
        document = {"machine": asdict(machine()), "cost": cost and Path(cost).name, "time": seconds, "short": short,
                    "rows": entries}  # fmt: skip
        out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(name, round(entries[-1]["joint_10"]["share"], 3), flush=True)


def begun(names: list[str], cost: str | None, seconds: float, short: float, out: Path) -> None:
    """A file whose rows have no cells yet."""
    rows = []
    for name in names:
        peak = Problem.of(zoo.build(name).graph(), BUILT_IN["generic"]).own_order_peak_bytes
        rows.append({"name": name, "commit": machine().commit, "own_order_peak_bytes": peak})
    document = {"machine": asdict(machine()), "cost": cost and Path(cost).name, "time": seconds, "short": short,
                "rows": rows}  # fmt: skip
    out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _rank(entry: dict[str, Any], cell: str) -> tuple[bool, float, float]:
    """By which the better of two plans within one bound stands."""
    measures = (entry["overhead"], entry["share"])
    met = entry["status"] in ("ok", "unproved")
    return (not met, *(measures if met and cell.endswith("%") else measures[::-1]))


def mend(names: list[str], cost: str | None, seconds: float, short: float, out: Path, cells: list[str]) -> None:
    """Cells of a file measured again, perhaps for longer: the better plan stands."""
    document = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    for entry in document["rows"]:
        if entry["name"] in names:
            row = Row(entry["name"], cost, seconds, short)
            for cell in cells:
                long = cell.startswith(("joint", "moved")) or cell.rpartition("_")[0] == "merged"
                found = {**row.cell(cell), "commit": machine().commit, "time": seconds if long else short}
                print(entry["name"], cell, round(found["share"], 3), found["status"], found["overhead"], flush=True)
                if cell not in entry or _rank(found, cell) <= _rank(entry[cell], cell):
                    entry[cell] = found
            out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _share(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "not run"
    parts = cell.get("parts")
    number = f" ({parts[0]})" if parts else ""
    return f"{cell['share']:.3f}{number}"


def _extra(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "not run"
    parts = cell.get("parts")
    number = f" ({parts[0]})" if parts else ""
    if cell["status"] not in ("ok", "unproved"):
        return f"not found, {cell['share']:.3f}"
    return f"{100 * max(0.0, cell['overhead']):.2f} %{number}"


def _floor(row: dict[str, Any]) -> str:
    return f"{row['joint_10']['floor'] / row['own_order_peak_bytes']:.3f}" if "joint_10" in row else "not run"


def _at_least(row: dict[str, Any], name: str) -> str:
    """What no plan of this cell's bound needs or takes less than, in any parts, runs again and order."""
    cell = row.get(name) or {}
    if cell.get("least_peak"):
        return f"{cell['least_peak'] / row['own_order_peak_bytes']:.3f}"
    if cell.get("least_seconds"):
        return f"{100 * max(0.0, cell['least_seconds'] / cell['uncut_seconds'] - 1):.2f} %"
    return "not run"


def _least(cell: dict[str, Any] | None) -> str:
    return "not run" if cell is None else f"{100 * cell['least_overhead']:.2f} %"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(r) + " |" for r in rows),
        "",
    ]


def page(document: dict[str, Any], title: str) -> list[str]:
    """The tables of a run."""
    here, rows = document["machine"], document["rows"]
    lines = [
        f"## {title}", "",
        f"lowtide {here['lowtide']}, {here['python']}, {here['system']}, {here['cpu']}, "
        f"{here['cores']} cores, other work beside it. {document['time']:g} s for each joint search within a bound "
        f"on time, {document['short']:g} s for every other. All plans verified.", "",
        "Least peak within so much more time, as a share of the own order's peak; in brackets how many parts.", "",
    ]  # fmt: skip
    by_commit: dict[str, list[str]] = {}
    for row in rows:
        by_commit.setdefault(str(row["commit"])[:7], []).append(row["name"].removeprefix("magis_"))
    made = "; ".join(f"{commit}: {', '.join(names)}" for commit, names in by_commit.items())
    lines[2:3] = [lines[2] + f" Rows by commit: {made}."]
    head = ["workload", "own order, GiB"]
    for bound in ("10", "5"):
        head += [f"joint, {bound} %", "at least", f"micro-batches, {bound} %", f"runs again, {bound} %"]
    body = []
    for row in rows:
        cells = [row["name"], f"{row['own_order_peak_bytes'] / 2**30:.2f}"]
        for bound in ("10", "5"):
            joint, *others = [_share(row.get(f"{kind}_{bound}")) for kind in ("joint", "micro", "again")]
            cells += [joint, _at_least(row, f"joint_{bound}"), *others]
        body.append([*cells, _floor(row)])
    lines += _table([*head, "floor"], body)
    lines += _with_swaps(rows)
    lines += _with_siblings(rows)
    again = [
        f"{row['name'].removeprefix('magis_')} {name}: {cell['time']:g} s, {str(cell['commit'])[:7]}"
        for row in rows for name, cell in row.items() if isinstance(cell, dict) and "commit" in cell
    ]  # fmt: skip
    if again and "joint_5" in rows[0]:
        lines += [f"Measured by themselves: {'; '.join(again)}.", ""]
    methods = [m for m in METHODS if f"{m}_at_80%" in rows[0]]
    for share in ("80", "40"):
        if f"joint_at_{share}%" not in rows[0]:
            continue
        lines += [f"Least added time at {share} % of the own order's peak.", ""]
        kinds = ("micro", "again", *methods)
        names = ["workload", "joint", "at least", "micro-batches", "runs again", *methods, "runs again: at least"]
        body = [
            [row["name"], _extra(row.get(f"joint_at_{share}%")), _at_least(row, f"joint_at_{share}%"),
             *(_extra(row.get(f"{kind}_at_{share}%")) for kind in kinds),
             _least(row.get(f"again_at_{share}%"))]
            for row in rows
        ]  # fmt: skip
        lines += _table(names, body)
    return lines


def _with_swaps(rows: list[dict[str, Any]]) -> list[str]:
    """The table of plans whose tensors may leave memory, if some were made (`--cells moved_10 moved_5`)."""
    kinds = [f"{kind}_{bound}" for bound in ("10", "5") for kind in ("joint", "moved")]
    if not any("moved_10" in row for row in rows):
        return []
    told = "The same where tensors may leave memory at 12 GB/s each way, as MAGIS's may."
    body = [[row["name"], *(_share(row.get(kind)) for kind in kinds)] for row in rows]
    head = ["workload", "joint, 10 %", "with swaps, 10 %", "joint, 5 %", "with swaps, 5 %"]
    return [told, "", *_table(head, body)]


def _with_siblings(rows: list[dict[str, Any]]) -> list[str]:
    """The table of steps whose sibling products are one, if some were made (`--cells merged_10 mergedmicro_10`)."""
    there = [row for row in rows if "merged_10" in row]
    if not there:
        return []
    told = (
        "The same at 10 % where products that read the same are one, for all alike, the time beside the step as it "
        "stands; the other workloads have none that pay."
    )
    kinds = ("joint", "merged", "micro", "mergedmicro", "again", "mergedagain")
    head = ["workload", "joint", "merged", "micro-batches", "merged", "runs again", "merged"]
    return [told, "", *_table(head, [[row["name"], *(_share(row.get(f"{k}_10")) for k in kinds)] for row in there])]


def published() -> list[str]:
    """What others print, and what MAGIS's code gave; none of it measured here on a GPU."""
    lines = [
        "## Published, and MAGIS's released code", "",
        "Peaks within 10 and 5 % more latency: MAGIS, section 7.2.1 and figure 9 (bars without numbers; the text gives "
        "ranges), measured on an RTX 3090. Latency (section 7.2.2, figure 10): at most 5 % more at 80 % of PyTorch's "
        "peak, 15 % at 40 %; POFO at most 20 % (40 % on BTLM) and 40 %, DTR 15 % and 45 % (U-Net 70 %), XLA 20 % and "
        "70 %. In the last column shares of the peak at 10 % that its released code reached on a CPU under the "
        "roofline used above; no figure of the paper.",
        "",
    ]  # fmt: skip
    body = [[name, *PUBLISHED[name], COST[name]] for name in WORKLOADS]
    return [*lines, *_table(["workload", "within 10 %", "within 5 %", "released code, 10 %"], body)]


def main() -> None:
    """Measure, or write the page of what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--cost")
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--short", type=float, default=20.0)
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--no-methods", action="store_true")
    parser.add_argument("--cells", nargs="*", help="only these again, in a file that is there: joint_at_40%% again_10")
    parser.add_argument("--page", type=Path, help="write PAGE.md from PAGE.json and PAGE-cpu.json")
    options = parser.parse_args()
    if options.cells:
        if not options.out.with_suffix(".json").exists():
            begun(options.only, options.cost, options.time, options.short, options.out)
        mend(options.only, options.cost, options.time, options.short, options.out, options.cells)
        return
    if options.page is None:
        run(options.only, options.cost, options.time, options.short, options.out, methods=not options.no_methods)
        return
    lines = ["# MAGIS's training steps", "", *(__doc__ or "").split("\n\n")[2].splitlines(), ""]
    for suffix, title in (("", "Under the roofline of an RTX 3090, fixed before the search"),
                          ("-cpu", "Under times of ops measured by size on a CPU")):  # fmt: skip
        file = options.page.with_name(options.page.name + suffix + ".json")
        if file.exists():
            lines += page(json.loads(file.read_text(encoding="utf-8")), title)
    options.page.with_suffix(".md").write_text("\n".join([*lines, *published()]).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
