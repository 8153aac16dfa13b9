"""What no plan of MAGIS's training steps needs or takes less than, whatever runs in parts, again, and in what order.

    python bench/magis_least.py -o results/magis-least [--seconds 60]

Bounds of `lowtide plan --allow recompute,fission` (`docs/proofs.md`, section 18), looked for by themselves for so long
a cell: the least peak within 10 and 5 % more time, as a share of the peak of the step in its own order, and the least
added time at 80 and 40 % of it. `verify`'s own code shows each again. Times are a roofline's (`rtx3090.json`).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lowtide.analyse.liveness import profile
from lowtide.api.problem import Problem
from lowtide.api.rewrites.fissioning import floor_bytes
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.fission_plan import PlanFamily
from lowtide.optimize.joint_bound import JointBound, JointProblem, Shown, joint_bound, within_bytes, within_units
from lowtide.target import BUILT_IN
from lowtide.verify.check.fission import _cost
from lowtide.verify.check.joint_bound import CheckedStep, least_bytes, least_seconds
from lowtide_research import zoo
from lowtide_research.bench.machine import machine

WORKLOADS = ("magis_resnet50", "magis_bert_base", "magis_vit_base", "magis_unet", "magis_unetpp", "magis_gpt_neo",
             "magis_btlm")  # fmt: skip
MORE, SHARES, OPS = (0.1, 0.05), (0.8, 0.4), 24


def measured(name: str, seconds: float) -> dict[str, Any]:
    """Bounds of one workload; each is shown again by the checker."""
    file, _ = stand_in("rtx3090.json")
    graph = priced(zoo.build(name).graph(), file.families)
    problem = Problem.of(graph, BUILT_IN["generic"])
    once, own = sum(op.cost or 0.0 for op in graph.ops), problem.own_order_peak_bytes
    joint = JointProblem(problem.memory, file.families)
    footprint = profile(problem.memory, graph.own_order).footprint
    steps = sorted(range(len(footprint)), key=lambda step: -footprint[step])
    ops = [graph.own_order[step] for step in steps[:: -(-len(steps) // OPS)]]
    names = PlanFamily.__struct_fields__
    told = {kind: PlanFamily(**{n: getattr(f, n) for n in names}) for kind, f in file.families.items()}
    step = CheckedStep(graph, BUILT_IN["generic"], told, partial(_cost, told))

    def at(shown: Shown) -> JointBound:
        until = time.perf_counter() + seconds
        return joint_bound(joint, ops, shown, lambda: time.perf_counter() > until)

    row: dict[str, Any] = {"name": name, "own_order_peak_bytes": own, "floor_bytes": floor_bytes(problem.memory)}
    for more in MORE:
        bound = at(within_units(joint, once * (1 + more)))
        assert least_bytes(step, once * (1 + more), list(bound.cuts)) == bound.value, name
        row[f"within {more}"] = {"bytes": max(bound.value, row["floor_bytes"]), "cuts": msgspec.to_builtins(bound.cuts)}
    for share in SHARES:
        bound = at(within_bytes(joint, int(share * own)))
        least = bound.value / joint.scale
        assert least_seconds(step, int(share * own), list(bound.cuts)) == least, name
        row[f"at {share}"] = {"added": max(0.0, least / once - 1), "cuts": msgspec.to_builtins(bound.cuts)}
    return row


def page(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    m = document["machine"]
    heads = ["workload", "floor", "within 10 %", "within 5 %", "at 80 %", "at 40 %"]
    lines = ["# MAGIS's training steps: at least", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
             f"lowtide {m['lowtide']}, {m['python']}, {m['system']}, {m['cpu']}, {m['cores']} cores, other work beside "
             f"it; commit {str(m['commit'])[:7]}; {document['seconds']:g} s at most for each cell.", "",
             f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]  # fmt: skip
    for row in document["rows"]:
        own = row["own_order_peak_bytes"]
        cells = [row["name"], f"{row['floor_bytes'] / own:.3f}"]
        cells += [f"{row[f'within {more}']['bytes'] / own:.3f}" for more in MORE]
        cells += [f"{100 * row[f'at {share}']['added']:.2f} %" for share in SHARES]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    rows = []
    for name in WORKLOADS:
        rows.append(measured(name, options.seconds))
        print(name, {k: v.get("bytes", v.get("added")) for k, v in rows[-1].items() if isinstance(v, dict)}, flush=True)
    document = {"machine": asdict(machine()), "seconds": options.seconds, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(document), encoding="utf-8")


if __name__ == "__main__":
    main()
