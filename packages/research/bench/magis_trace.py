"""U-Net's bytes over time, as it stands and within 80, 60 and 20 % of its peak (MAGIS, ASPLOS 2024, figure 16).

    python bench/magis_trace.py -o results/magis-trace

Each step's bytes are those that the plan has live while it runs, parts one behind the other; seconds are those of the
cost file's roofline, not measured. The plans are verified.
"""

from __future__ import annotations

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
from lowtide_research.bench.pages import about, document, method_of, script, table, write
from magis_pictures import Trace, trace_svg

MODEL, SHARES = "magis_unet", (80, 60, 20)
FAMILIES = stand_in("rtx3090.json")[0].families
COLOURS = {"file order": "#8a8a92", "80 %": "#56b4e9", "60 %": "#e8743b", "20 %": "#22a884"}


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


HEAD = (
    "", "steps", "seconds", "peak, GiB", "of file order's", "parts", "ops recomputed", "peaks within 1 % of the top",
)  # fmt: skip


def main() -> None:
    """Plan, draw, and write the page."""
    parser = script(__doc__)
    parser.add_argument("--time", type=float, default=30.0)
    given = parser.parse_args()
    graph = priced(zoo.build(MODEL).graph(), FAMILIES)
    own = [op.id for op in graph.ops]
    traces = {"file order": _steps(graph, own, {}, {op.id: op.cost or 0.0 for op in graph.ops})}
    peak = max(b for _, b in traces["file order"])
    counts = {"file order": (1, 0)}
    for share in SHARES:
        plan = lowtide.research.plan(
            zoo.build(MODEL).graph(), allow="recompute,fission", budget=f"{share}%", time=given.time
        )
        traces[f"{share} %"] = trace(graph, plan)
        assert max(b for _, b in traces[f"{share} %"]) <= plan.required_bytes
        assert plan.fission is not None
        again = len(plan.rewrites or ()) + sum(len(p.body.get("rewrites") or ()) for p in plan.fission.parts)
        counts[f"{share} %"] = (len(plan.fission.parts[0].ends) if plan.fission.parts else 1, again)
    rows = []
    for name, steps in traces.items():
        top = max(b for _, b in steps)
        high = [b >= 0.99 * top for _, b in steps]
        times = sum(h and not before for h, before in zip(high, [False, *high], strict=False))
        seconds = f"{sum(s for s, _ in steps):.4f}"
        rows.append((name, len(steps), seconds, f"{top / 2**30:.2f}", f"{top / peak:.3f}", *counts[name], times))
    given.out.with_suffix(".svg").write_text(trace_svg(f"{MODEL}: bytes live over time", traces, COLOURS), "utf-8")
    results = document(time=given.time, traces=traces)
    how = f"{about(results['machine'])}, other work on the machine; {given.time:g} s of search for each plan."
    picture = f"![bytes over time]({given.out.name}.svg)"
    title = "# U-Net's bytes over time"
    write(given.out, results, [title, "", *method_of(__doc__), how, "", picture, "", *table(HEAD, rows)])


if __name__ == "__main__":
    main()
