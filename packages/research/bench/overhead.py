"""What cuts cost in time: predicted and measured, for bounds on the predicted overhead.

    python bench/overhead.py FOLDER [--only NAME ...] [--measure 40] [--time 6] -o results/overhead

Each model gets random weights and goes through onnxruntime's optimiser (level extended). Its ops are timed, plans for
at most 0, 5, 10 and 30 % more time are tried (`lowtide research measure --max-overhead`), and by the cost file the
model is planned within each. Then the file in parts runs in turn with the one that was cut, in the same kernels and
order.
Times are of the processor, on one thread: other work on the machine is not in them, but for what it takes of the
caches.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import lowtide
from lowtide.cost.file import CostFile
from lowtide.run.ort_session import PLANNED
from lowtide.run_reports import RunReport
from lowtide_research.bench.in_turn import milliseconds_in_turn
from lowtide_research.bench.networks import models_named
from lowtide_research.bench.pages import about, document, say, script, table, write

BOUNDS = (0.0, 0.05, 0.07, 0.08, 0.1, 0.3)
"""Parts by which a plan may take longer."""
MODELS = (
    "mobilenet_v2", "resnet50", "densenet121", "whisper_tiny_encoder", "swin_t", "inception_v3_299", "nasnetamobile",
)  # fmt: skip
ROUNDS = 3
"""Measurements of a pair."""


def same_kernels(path: Path, cost: CostFile, seconds: float, folder: Path) -> list[dict[str, Any]]:
    """A model's rows: what each bound reaches, predicted and measured."""
    rows: list[dict[str, Any]] = []
    for bound in BOUNDS:
        plan = lowtide.research.plan(
            path, target="onnxruntime", allow="fission", cost=cost, max_overhead=bound, time=seconds
        )  # fmt: skip
        assert plan.cost is not None
        out = folder / "cut.onnx"
        plan.apply(path, out)
        ran = lowtide.run(path, out, plan)
        assert isinstance(ran, RunReport)
        rounds = sorted(milliseconds_in_turn([(path, PLANNED), (out, PLANNED)], ROUNDS), key=lambda p: p[1] / p[0])
        rows.append({
            "model": path.name.partition(".")[0], "max_overhead": bound, "peak_bytes": plan.peak_bytes,
            "in_use_before_bytes": ran.original.peak_bytes, "in_use_bytes": ran.planned.peak_bytes,
            "as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes),
            "ops": len(plan.order), "predicted": plan.cost.overhead, "measured_ops": plan.cost.measured,
            "between_ops": plan.cost.between, "roofline_ops": plan.cost.roofline,
            "before_ms": rounds[ROUNDS // 2][0], "after_ms": rounds[ROUNDS // 2][1],
            "measured": [pair[1] / pair[0] - 1 for pair in rounds],
        })  # fmt: skip
        say(rows[-1])
    return rows


HEAD = (
    "model", "bound", "in use before", "in use", "ops", "predicted", "measured", "from", "to", "ms before",
    "ms after", "ops measured / between / reckoned",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    rows = [
        (
            r["model"], f"{r['max_overhead']:.0%}", r["in_use_before_bytes"], r["in_use_bytes"], r["ops"],
            f"{r['predicted']:+.1%}", f"{statistics.median(r['measured']):+.1%}", f"{r['measured'][0]:+.1%}",
            f"{r['measured'][-1]:+.1%}", f"{r['before_ms']:.1f}", f"{r['after_ms']:.1f}",
            f"{r['measured_ops']} / {r['between_ops']} / {r['roofline_ops']}",
        )
        for r in results["rows"]
    ]  # fmt: skip
    return [
        "# What cuts cost in time",
        "",
        f"{about(results['machine'])}, {results['machine']['cores']} cores, other work on the machine;",
        f"`bench/overhead.py`, one thread. Ops timed and plans tried for {results['measure']:g} s,",
        f"{results['seconds']:g} s of search a plan (a search that time ends may cut less than the bound allows).",
        "",
        "Bytes are what onnxruntime has in use, as measured, of the file in parts and of the file that was cut, in the",
        "same kernels (level extended). *bound*: as `--max-overhead` has it. *predicted*: by the cost file with its",
        "trials. *measured*: the median of three ratios, each of medians of 15 runs in turn (fewer if they take over",
        "2 s), in processor time; *from*, *to*: the least and the largest.",
        "",
        *table(HEAD, rows),
    ]


def main() -> None:
    """Plan and measure the models."""
    from lowtide.run.random_weights import with_random_weights

    parser = script(__doc__, folder="models as .onnx")
    parser.add_argument("--only", nargs="*", default=MODELS, metavar="NAME", help="models (default: seven)")
    parser.add_argument("--measure", type=float, default=120.0, help="seconds to time a model's ops (default: 120)")
    parser.add_argument("--time", type=float, default=20.0, help="seconds of search for each plan (default: 20)")
    given = parser.parse_args()
    results = document(measure=given.measure, seconds=given.time, rows=[])
    for path in models_named(given.folder, given.only):
        with tempfile.TemporaryDirectory(prefix="lowtide-overhead-") as folder:
            weighted, optimised = Path(folder) / f"{path.stem}.onnx", Path(folder) / f"{path.stem}.opt.onnx"
            with_random_weights(path, weighted)
            lowtide.research.runtime_optimized(weighted, optimised)
            cost = lowtide.research.measure(optimised, time=given.measure, max_overhead=BOUNDS)
            results["rows"] += same_kernels(optimised, cost, given.time, Path(folder))
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
