"""What seams gain: SERENITY's cells in its accounting, models under `generic`, and some of them run in onnxruntime.

    python bench/seams.py FOLDER -o results/seams

Writes JSON and Markdown. *own*, *best*, *seams*: the peak of the file's own order, the least of all orders, and the
least of all orders of the parts. SERENITY's ratios are geometric means over the cells that the zoo rebuilds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx

import lowtide
from lowtide.api.models import load_own
from lowtide.plan import Plan
from lowtide.run_reports import RunReport
from lowtide_research.bench.in_turn import optimised_model
from lowtide_research.bench.pages import about, document, mean_ratio, milliseconds, say, script, table, write
from lowtide_research.zoo import build
from lowtide_research.zoo.published.cases import CELLS

FREE = {"batch": 1, "seq": 16, "N": 1}  # sizes of the free dimensions that models of ../shared have
MODELS = (
    "densenet121", "randwire_ws_seed1", "randwire_er_seed1", "nasnetamobile", "nasnetalarge_331", "darts_v2_cifar",
    "darts_v2_imagenet", "amoebanetd_18_256", "unet_r34_256", "inception_v3_299", "hrnet_w18_small",
)  # fmt: skip
NETWORKS = (
    "unet", "unet_plus_plus", "vovnet_39", "segformer_b0", "nasnet_a_cifar", "nasnet_a_imagenet", "amoebanet_a_cifar",
    "amoebanet_a_imagenet", "darts_cifar", "darts_imagenet", "pnasnet_5_cifar",
)  # fmt: skip
MEASURED = ("densenet121", "randwire_ws_seed1", "darts_v2_cifar", "unet_r34_256")
PUBLISHED = {"without rewriting": 1.68, "with rewriting": 1.86}
"""Geometric means of TensorFlow Lite's peak beside SERENITY's (MLSys 2020, section 4.2)."""


def row(path: Path, name: str, target: str, seconds: float) -> dict[str, Any]:
    """Peaks of a model without cuts and at seams, in bytes."""
    graph, _ = load_own(path, FREE)
    best = lowtide.research.plan(graph, target=target, time=seconds)
    plans = {
        way: lowtide.research.plan(graph, target=target, time=seconds, allow=way)
        for way in ("seams", "seams,accumulate")
    }
    return {
        "model": name,
        "ops": len(graph.ops),
        "own_bytes": best.own_order_peak_bytes,
        "best_bytes": best.peak_bytes,
        "best_optimal": best.optimal,
        **{key: value for way, plan in plans.items() for key, value in _figures(way, plan).items()},
    }


def _figures(way: str, plan: Plan) -> dict[str, Any]:
    return {
        f"{way}_bytes": plan.peak_bytes,
        f"{way}_bound_bytes": plan.lower_bound_bytes,
        f"{way}_ops": len(plan.order),
        f"{way}_exactness": plan.exactness,
        f"{way}_seconds": plan.seconds.total,
    }


def measured(path: Path, seconds: float, folder: Path) -> dict[str, Any]:
    """What onnxruntime has in use for a model without cuts and at seams, its optimiser beforehand."""
    optimised = optimised_model(path, folder)
    best = lowtide.research.plan(optimised, target="onnxruntime", time=seconds)
    plan = lowtide.research.plan(optimised, target="onnxruntime", time=seconds, allow="seams")
    ran = lowtide.verify(optimised, plan, run=True, timed=True).run
    assert isinstance(ran, RunReport)
    timing = ran.timing
    return {
        "model": path.stem,
        "ops": len(best.order),
        "cut_ops": len(plan.order),
        "best_bytes": best.peak_bytes,
        "planned_bytes": plan.peak_bytes,
        "optimal": plan.optimal,
        "before_bytes": ran.original.peak_bytes,
        "after_bytes": ran.planned.peak_bytes,
        "as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes),
        "difference": max(o.max_abs_difference or 0.0 for o in ran.outputs),
        "largest": max(o.largest for o in ran.outputs),
        "before_seconds": None if timing is None else timing.original_seconds,
        "after_seconds": None if timing is None else timing.planned_seconds,
    }


def _peaks(r: dict[str, Any]) -> tuple[Any, ...]:
    cells: list[Any] = [r["model"], r["ops"], r["own_bytes"], r["best_bytes"], "yes" if r["best_optimal"] else "no"]
    for way in ("seams", "seams,accumulate"):
        size, bound = r[f"{way}_bytes"], r[f"{way}_bound_bytes"]
        cells += [size, f"{size / r['best_bytes']:.3f}", "=" if size == bound else bound, r[f"{way}_ops"]]
    return (*cells, r["seams_exactness"] or "not cut")


HEAD = (
    "model", "ops", "own order", "best order", "proved", "seams", "of best", "bound", "its ops", "accumulating",
    "of best", "bound", "its ops", "class",
)  # fmt: skip
RUN = (
    "model", "ops", "its ops", "best order", "seams", "of best", "in use before", "after", "as planned",
    "differs by", "of", "ms before", "ms after",
)  # fmt: skip


def tables(results: dict[str, Any]) -> list[str]:
    """All tables as Markdown."""
    cells, rows, runs = results["cells"], results["rows"], results["runs"]
    plain, rewritten = PUBLISHED.values()
    own = mean_ratio(cells, "own_bytes", "best_bytes"), mean_ratio(cells, "own_bytes", "seams_bytes")
    lines = [
        "# Seams",
        "",
        f"{about(results['machine'])}; `bench/seams.py`, at most {results['seconds']:g} s a plan. Sizes are bytes.",
        "",
        "*seams*: in standard ONNX ops; *accumulating*: parts of a convolution are onnxruntime's FusedConv, which adds",
        "to what is there. The bound is that of all orders of these parts (`=`: reached).",
        "",
        "## SERENITY's cells, rebuilt (strict: no views, nothing in place)",
        "",
        *table(HEAD, [_peaks(r) for r in cells]),
        "",
        f"Geometric means over {len(cells)} cells, of the own order's peak: {own[0]:.2f}x by order and {own[1]:.2f}x",
        f"with rewriting; published for SERENITY beside TensorFlow Lite, arenas included: {plain}x and {rewritten}x.",
        f"The rewriting alone: {own[1] / own[0]:.3f}x here, {rewritten / plain:.3f}x published. The cells are rebuilt: "
        "nobody published the graphs,",
        "and their own order here is not TensorFlow Lite's.",
        "",
        "## Models, under `generic`",
        "",
        *table(HEAD, [_peaks(r) for r in rows]),
        "",
    ]
    run_rows = [
        (
            r["model"], r["ops"], r["cut_ops"], r["best_bytes"], r["planned_bytes"],
            f"{r['planned_bytes'] / r['best_bytes']:.3f}", r["before_bytes"], r["after_bytes"],
            "yes" if r["as_planned"] else "no", f"{r['difference']:.1e}", f"{r['largest']:.3g}",
            milliseconds(r["before_seconds"]), milliseconds(r["after_seconds"]),
        )
        for r in runs
    ]  # fmt: skip
    if runs:
        lines += [
            "## Measured in onnxruntime",
            "",
            "Tensors in use; its optimiser beforehand (level extended), one thread; *as planned*: at every op.",
            "",
            *table(RUN, run_rows),
        ]
    return lines


def main() -> None:
    """Plan cells, models and networks of the zoo, and run some."""
    parser = script(__doc__, folder="models as .onnx")
    parser.add_argument("--time", type=float, default=30.0, help="seconds of search for each plan (default: 30)")
    given = parser.parse_args()
    results = document(seconds=given.time, cells=[], rows=[], runs=[])
    with tempfile.TemporaryDirectory(prefix="lowtide-seams-") as folder:
        jobs = [("cells", case.network, "strict") for case in CELLS]
        jobs += [("rows", name, "generic") for name in (*MODELS, *NETWORKS)]
        for key, name, target in jobs:
            path = given.folder / f"{name}.onnx"
            if name not in MODELS:
                path = Path(folder) / f"{name}.onnx"
                onnx.save(build(name).onnx(), path)
            results[key].append(last := row(path, name, target, given.time))
            say(f"{name}: {last['seams,accumulate_bytes'] / last['best_bytes']:.3f}")
        for name in MEASURED:
            results["runs"].append(measured(given.folder / f"{name}.onnx", given.time, Path(folder)))
            say(f"{name}: {results['runs'][-1]['after_bytes']:,} B in use")
    write(given.out, results, tables(results))


if __name__ == "__main__":
    main()
