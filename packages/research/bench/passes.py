"""Norms and means over the rows that are cut, added up in passes: what runs again, and what that gains.

    python bench/passes.py [--full] [--time 60] [--only NAME...] [--bounds 220%] -o results/passes

Networks of `bench/alias_models.py` with squeeze-and-excite blocks, and the decoder of Stable Diffusion's autoencoder
from the zoo, smaller unless --full, each as onnxruntime's optimiser leaves it. Each is planned under onnxruntime's
rules: its best order, with cuts, and with ops that run again within bounds on the operations; the lowest plan is run:
what is in use beside what was planned, and how far results differ.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lowtide
from alias_models import MODELS
from lowtide.api.writing import write_zoo
from lowtide.plan import Plan
from lowtide.run.random_weights import with_random_weights
from lowtide.run_reports import RunReport
from lowtide_research.bench.in_turn import optimised_model
from lowtide_research.bench.pages import about, document, script, table, write

BUILT = ("efficientnet_b0", "mobilenet_v3_large")
BOUNDS = ("10%", "30%", "100%")
"""On the operations that are added."""
SMALL = "vae_decoder:side=16,filters=32"


def rows_of(name: str, path: Path, seconds: float, bounds: Sequence[str] = BOUNDS) -> list[dict[str, Any]]:
    """A model within each bound, and the lowest of its plans run."""
    best = lowtide.research.plan(path, target="onnxruntime", time=seconds)
    cuts = lowtide.research.plan(path, target="onnxruntime", time=seconds, allow="fission")
    whole = {
        "model": name,
        "ops": len(best.order),
        "own_bytes": best.own_order_peak_bytes,
        "best_bytes": best.peak_bytes,
    }
    rows: list[dict[str, Any]] = []
    plans: list[Plan] = []
    for bound in bounds:
        began = time.perf_counter()
        plan = lowtide.research.plan(
            path, target="onnxruntime", time=seconds, allow="fission,recompute", max_overhead=bound
        )
        again = plan.recomputation
        plans.append(plan)
        rows.append(
            {
                **whole,
                "cut_bytes": cuts.peak_bytes,
                "bound": bound,
                "peak_bytes": plan.peak_bytes,
                "plan_ops": len(plan.order),
                "added": 0.0 if again is None else again.planned / again.once - 1,
                "seconds": time.perf_counter() - began,
            }
        )
    lowest = min(range(len(plans)), key=lambda k: plans[k].peak_bytes)
    ran = lowtide.verify(path, plans[lowest], run=True).run
    assert isinstance(ran, RunReport)
    rows[lowest] |= {
        "before_bytes": ran.original.peak_bytes,
        "after_bytes": ran.planned.peak_bytes,
        "as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes),
        "difference": max((o.max_abs_difference or 0.0) / o.largest for o in ran.outputs),
    }
    return rows


def page(results: dict[str, Any]) -> list[str]:
    """The table as Markdown."""
    rows = results["rows"]
    head = (
        "model", "ops", "own order", "best order", "cuts", "bound", "passes", "its ops", "added", "s", "in use",
        "as planned", "differs by",
    )  # fmt: skip
    cells = [
        (
            r["model"], r["ops"], r["own_bytes"], r["best_bytes"], r["cut_bytes"], r["bound"], r["peak_bytes"],
            r["plan_ops"], f"{r['added']:+.1%}", f"{r['seconds']:.0f}", r.get("after_bytes", ""),
            {True: "yes", False: "no"}.get(r.get("as_planned"), ""),
            f"{r['difference']:.1e}" if "difference" in r else "",
        )
        for r in rows
    ]  # fmt: skip
    return [
        "# Norms and means in passes",
        "",
        f"{about(results['machine'])}; `bench/passes.py`, at most {results['seconds']:g} s a plan.",
        "",
        "Bytes live at once under onnxruntime's rules, of the file that its optimiser writes, or as exported. *added*:",
        "floating-point operations beside the model's, within the bound; *in use*: as measured, of the lowest plan;",
        "*differs by*: of the largest magnitude.",
        "",
        *table(head, cells),
    ]


def main() -> None:
    """Plan and run the models."""
    parser = script(__doc__)
    parser.add_argument("--full", action="store_true", help="the decoder at its own size, too: minutes")
    parser.add_argument("--time", type=float, default=60.0, help="seconds of search for each plan (default: 60)")
    parser.add_argument("--bounds", nargs="+", default=BOUNDS, metavar="PERCENT", help="on the operations added")
    parser.add_argument("--as-exported", action="store_true", help="without onnxruntime's optimiser beforehand")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="models to plan (default: all)")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="lowtide-passes-") as name:
        folder = Path(name)
        models = [*BUILT, SMALL, *(["vae_decoder"] if arguments.full else [])]
        for model in models if arguments.only is None else [m for m in models if m in arguments.only]:
            path = folder / "model.onnx"
            if model in BUILT:
                MODELS[model](folder / "plain.onnx")
                with_random_weights(folder / "plain.onnx", path)
            else:
                write_zoo(model, path, 0)
            shown = f"{model}, as exported" if arguments.as_exported else model
            made = path if arguments.as_exported else optimised_model(path, folder)
            rows += rows_of(shown, made, arguments.time, arguments.bounds)
    results = document(seconds=arguments.time, rows=rows)
    write(arguments.out, results, page(results))


if __name__ == "__main__":
    main()
