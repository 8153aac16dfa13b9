"""U-Net's bytes over time, as it stands and within 80, 60 and 20 % of its peak (MAGIS, ASPLOS 2024, figure 16).

    python bench/magis_trace.py -o results/magis-trace

Each step's bytes are those that the plan has live while it runs, parts one behind the other; seconds are those of the
cost file's roofline, not measured. The plans are verified.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import msgspec

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import estimated, priced
from lowtide.graph import Graph
from lowtide.ops.labels import word_of
from lowtide.plan import Plan
from lowtide.rewrites import Recompute
from lowtide.target import BUILT_IN
from lowtide.transform.fission import PARTS, Fission, Loop, access_of, body_of, outer_of, region_of
from lowtide.verify.check.rewrites import with_ops
from lowtide_research import zoo
from lowtide_research.bench.machine import machine

MODEL, SHARES = "magis_unet", (80, 60, 20)
FAMILIES = stand_in("rtx3090.json")[0].families
COLOURS = {"own order": "#8a8a92", "80 %": "#56b4e9", "60 %": "#e8743b", "20 %": "#22a884"}

Trace = list[tuple[float, int]]
"""Of each step its seconds, and bytes live meanwhile."""


def _steps(graph: Graph, order: list[int], of: dict[int, int], costs: dict[int, float]) -> Trace:
    """Of an order of ids."""
    model = memory_model(graph, BUILT_IN["generic"])
    footprint = profile(model, [graph.index_of[v] for v in order]).footprint

    def cost(op: int) -> float:
        while op in of:
            op = of[op]
        return costs.get(op, 0.0)

    return [(cost(v), size) for v, size in zip(order, footprint, strict=True)]


def _of(plan: Plan) -> dict[int, int]:
    return {r.op: r.of for r in plan.rewrites or () if isinstance(r, Recompute)}


def trace(graph: Graph, plan: Plan) -> Trace:
    """A plan's bytes over time; where ops run in parts, of each part all that runs."""
    assert plan.fission is not None, plan.graph
    inner = msgspec.structs.replace(plan, fission=None)
    loops, bodies = [], {}
    for part in plan.fission.parts:
        body_plan = msgspec.convert(part.body, Plan)
        axes = {}
        for op_id, word in part.ops:
            op = graph.op_by_id[op_id]
            access = access_of(graph, op)
            axes[op_id] = next(a for a in range(len(access.sizes)) if word_of(op, access, a) == word)
        region = region_of(graph, axes)
        body = body_of(graph, region, Fission(region.axes, tuple(part.ends)).all, estimated(FAMILIES)).graph
        costs = {op.id: (op.cost or 0.0) / len(part.ends) for op in body.ops}
        bodies[part.op] = _steps(with_ops(body, body_plan), list(body_plan.order), _of(body_plan), costs)
        loops.append(Loop(region, body_plan.required_bytes, None))
    ends = {part.op: len(part.ends) for part in plan.fission.parts}
    whole = with_ops(outer_of(graph, loops) if loops else graph, inner)
    costs = {op.id: op.cost or 0.0 for op in whole.ops}
    result: Trace = []
    for v, (seconds, size) in zip(plan.order, _steps(whole, list(plan.order), _of(plan), costs), strict=True):
        op = whole.op_by_id[v]
        if op.type != PARTS:
            result.append((seconds, size))
            continue
        for _ in range(ends[v]):
            result += [(s, size - op.workspace + b) for s, b in bodies[v]]
    return result


def svg(traces: dict[str, Trace]) -> str:
    """All of them in one picture."""
    width, height, left, foot = 720, 300, 60, 34
    longest = max(sum(s for s, _ in t) for t in traces.values())
    most = max(b for t in traces.values() for _, b in t)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-size="11" '
             f'font-family="sans-serif"><title>{MODEL}: bytes live over time</title>']  # fmt: skip
    for k in range(5):
        y = 10 + (height - foot - 10) * (1 - k / 4)
        lines.append(f'<path d="M{left} {y:.1f}H{width - 10}" stroke="#8a8a92" stroke-opacity=".3"/>'
                     f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{most * k / 4 / 2**30:.1f} GiB</text>'
                     f'<text x="{left + (width - left - 10) * k / 4:.0f}" y="{height - 14}" text-anchor="middle">'
                     f"{1000 * longest * k / 4:.0f} ms</text>")  # fmt: skip
    for i, (name, steps) in enumerate(traces.items()):
        at, points = 0.0, []
        for seconds, size in steps:
            y = 10 + (height - foot - 10) * (1 - size / most)
            for moment in (at, at + seconds):
                points.append(f"{left + (width - left - 10) * moment / longest:.1f},{y:.1f}")
            at += seconds
        lines.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLOURS[name]}" '
                     f'stroke-width="1.3"/><text x="{width - 14}" y="{22 + 14 * i}" text-anchor="end" '
                     f'fill="{COLOURS[name]}">{name}</text>')  # fmt: skip
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Plan, draw, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--time", type=float, default=30.0)
    given = parser.parse_args()
    graph = priced(zoo.build(MODEL).graph(), FAMILIES)
    own = [op.id for op in graph.ops]
    traces = {"own order": _steps(graph, own, {}, {op.id: op.cost or 0.0 for op in graph.ops})}
    m = machine()
    lines = [
        "# U-Net's bytes over time", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
        f"lowtide {m.lowtide}, {m.python}, {m.system}, {m.cpu}, {m.cores} cores, other work beside it; commit "
        f"{str(m.commit)[:7]}; {given.time:g} s of search for each plan.", "",
        f"![bytes over time]({given.out.name}.svg)", "",
        "| | steps | seconds | peak, GiB | of own order's | parts | ops again | peaks within 1 % of the highest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    rows = []
    peak = max(b for _, b in traces["own order"])
    for share in SHARES:
        plan = lowtide.plan(zoo.build(MODEL).graph(), allow="recompute,fission", budget=f"{share}%", time=given.time)
        traces[f"{share} %"] = trace(graph, plan)
        assert max(b for _, b in traces[f"{share} %"]) <= plan.required_bytes
        assert plan.fission is not None
        again = len(plan.rewrites or ()) + sum(len(p.body.get("rewrites") or ()) for p in plan.fission.parts)
        rows.append((f"{share} %", [len(p.ends) for p in plan.fission.parts] or [1], again))
    for name, parts, again in [("own order", [1], 0), *rows]:
        steps = traces[name]
        top = max(b for _, b in steps)
        high = [b >= 0.99 * top for _, b in steps]
        times = sum(h and not before for h, before in zip(high, [False, *high], strict=False))
        lines.append(
            f"| {name} | {len(steps)} | {sum(s for s, _ in steps):.4f} | {top / 2**30:.2f} | {top / peak:.3f} | "
            f"{parts[0]} | {again} | {times} |"
        )
    given.out.with_suffix(".svg").write_text(svg(traces), encoding="utf-8")
    given.out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    document = {"machine": asdict(m), "time": given.time, "traces": traces}
    given.out.with_suffix(".json").write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
