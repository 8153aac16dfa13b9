"""Cached halos compared with recomputed halos: peak, ops, multiplications, and milliseconds in onnxruntime.

    python bench/halos.py FOLDER [--only NAME ...] -o results/halos

Each ONNX file gets random weights (networks of the zoo have theirs), goes through onnxruntime's optimiser (level
extended) and is planned under its rules with `--allow fission` and with `--allow fission,halos`: as low as it gets, and
MobileNetV2 also with a bound on the ops that run and within 10 % more time by a cost file. Each time the untiled model
and both plans run in turn in one process, on one thread: times are medians of the processor's, and bytes what
onnxruntime has in use.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lowtide
from lowtide.api.writing import write_zoo
from lowtide.plan import Plan
from lowtide.run.ort_session import PLANNED
from lowtide.run_reports import RunReport
from lowtide_research.bench.in_turn import milliseconds_in_turn, optimised_model
from lowtide_research.bench.networks import models_named
from lowtide_research.bench.pages import about, document, say, script, table, write

MODELS = ("mobilenet_v2", "resnet50", "unet_r34_256")
ZOO = ("mobilenet_v2_035:side=224", "mcunet_v2_vww", "mcunet_320kb")
BOUNDED, WITHIN, OPS, MEASURE_SECONDS = ("mobilenet_v2",), 0.1, 300, 40.0
"""Models planned within so many ops and within so much more time, by a cost file, as well."""
WAYS = ("fission", "fission,halos")


def in_onnxruntime(path: Path, bounds: Mapping[str, Any], seconds: float, folder: Path) -> list[dict[str, Any]]:
    """Both ways within a bound, which arguments of `lowtide.research.plan` say."""
    files, rows = [path], list[dict[str, Any]]()
    for allow in WAYS:
        plan = lowtide.research.plan(path, target="onnxruntime", allow=allow, time=seconds, **bounds)
        files.append(folder / f"{allow}.onnx")
        plan.apply(path, files[-1])
        ran = lowtide.verify(path, plan, run=True, timed=False).run
        assert isinstance(ran, RunReport)
        most, within = bounds.get("max_ops", 0), bounds.get("max_overhead")
        rows.append(
            _row(path.name.partition(".")[0], allow, plan)
            | {"max_ops": most, "max_overhead": within, "whole_in_use_bytes": ran.original.peak_bytes}
            | {"in_use_bytes": ran.planned.peak_bytes, "predicted": None if plan.cost is None else plan.cost.overhead}
            | {"as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes)}
        )
    whole, *both = milliseconds_in_turn([(file, PLANNED) for file in files])[0]
    rows = [row | {"whole_ms": whole, "ms": ms} for row, ms in zip(rows, both, strict=True)]
    for row in rows:
        say(row)
    return rows


def _row(name: str, allow: str, plan: Plan) -> dict[str, Any]:
    halos = plan.halos
    return {
        "model": name, "allow": allow, "peak_bytes": plan.peak_bytes, "ops": len(plan.order), "optimal": plan.optimal,
        "extra": 0.0 if halos is None else halos.overhead,
    }  # fmt: skip


HEAD = (
    "model", "bound", "untiled", "cached", "recomputed", "recomputed / cached", "ops cached", "ops recomputed",
    "more multiplications", "ms untiled", "ms cached", "ms recomputed",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    both = list(zip(results["rows"][::2], results["rows"][1::2], strict=True))
    rows = [
        (
            kept["model"], _bound(kept), kept["whole_in_use_bytes"], kept["in_use_bytes"], again["in_use_bytes"],
            f"{again['in_use_bytes'] / kept['in_use_bytes']:.3f}", kept["ops"], again["ops"], f"{again['extra']:+.1%}",
            f"{kept['whole_ms']:.1f}", f"{kept['ms']:.1f}", f"{again['ms']:.1f}",
        )
        for kept, again in both
    ]  # fmt: skip
    held = sum(row["as_planned"] for row in results["rows"])
    return [
        "# Cached halos and recomputed halos",
        "",
        f"{about(results['machine'])}, other work on the machine; `bench/halos.py`, {results['seconds']:g} s a plan.",
        "",
        "*cached*: `--allow fission`. *recomputed*: `--allow fission,halos`. Bytes are what onnxruntime has in use,",
        f"measured, and as planned at every op in {held} of {len(results['rows'])} runs. Milliseconds are the",
        "processor's, on one thread, medians of runs in turn.",
        "",
        *table(HEAD, rows),
    ]


def _bound(row: dict[str, Any]) -> str:
    if row["max_overhead"] is not None:
        return f"{row['max_overhead']:.0%} more time"
    return f"{row['max_ops']:,} ops" if row["max_ops"] else ""


def optimised(model: str, folder: Path, made: Path) -> Path:
    """A network with weights, as onnxruntime's optimiser leaves it. Raises `InputError` if there is no such file."""
    if model not in ZOO:
        return optimised_model(models_named(folder, [model])[0], made)
    built = made / f"{model.partition(':')[0]}.zoo.onnx"
    write_zoo(model, built)
    return optimised_model(built, made)


def main() -> None:
    """Plan and measure the models."""
    parser = script(__doc__, folder="models as .onnx")
    parser.add_argument("--only", nargs="*", default=(*MODELS, *ZOO), metavar="NAME", help="models (default: six)")
    parser.add_argument("--time", type=float, default=30.0, help="seconds of search for each plan (default: 30)")
    given = parser.parse_args()
    results = document(seconds=given.time, rows=[])
    with tempfile.TemporaryDirectory(prefix="lowtide-halos-") as name:
        for model in given.only:
            path = optimised(model, given.folder, Path(name))
            bounds: list[dict[str, Any]] = [{}]
            if model in BOUNDED:
                cost = lowtide.research.measure(path, time=MEASURE_SECONDS, max_overhead=[WITHIN])
                bounds += [{"max_ops": OPS}, {"cost": cost, "max_overhead": WITHIN}]
            for bound in bounds:
                results["rows"] += in_onnxruntime(path, bound, given.time, Path(name))
            write(given.out, results, page(results))


if __name__ == "__main__":
    main()
