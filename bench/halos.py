"""Halos kept beside halos computed again: peak, ops, multiplications, and milliseconds in onnxruntime.

    python bench/halos.py FOLDER [--only NAME ...] [--timed NAME ...] -o bench/results/halos

Each ONNX file gets random weights (networks of the zoo have theirs), goes through onnxruntime's optimiser (level
extended) and is planned under its rules with `--allow fission` and with `--allow fission,halos`: as low as it gets,
with a bound on the ops that run, and for models named by --timed within 10 % more time by a cost file. Each time the
model whole and both plans run in turn in one process, on one thread: times are medians of the processor's, and bytes
what onnxruntime has in use. MobileNetV2-0.35 as an int8 .tflite is planned for TFLM, where each operator and tensor
takes bytes beside the head, and run there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lowtide
from below import table
from below_tflite import mobilenet_v2
from lowtide.api.writing import write_zoo
from lowtide.bench.machine import machine
from lowtide.bench.networks import models_named
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.run.onnx import draw
from lowtide.run.ort_session import PLANNED, open_session
from lowtide.run_reports import RunReport, TfliteRunReport

MODELS = ("mobilenet_v2", "resnet50", "densenet121", "inception_v3_299", "unet_r34_256", "hrnet_w18_small")
ZOO = ("mobilenet_v2_035:side=224", "mcunet_v2_vww", "mcunet_320kb")
TIMED, WITHIN = ("mobilenet_v2", "resnet50"), 0.1
"""Models planned within so much more time, by a cost file, as well."""
WAYS = ("fission", "fission,halos")
RUNS, SECONDS = 15, 4.0
"""Runs of each model in turn, and the time after which there are fewer, 4 at least."""


def milliseconds(paths: Sequence[Path]) -> list[float]:
    """Medians of the processor's time of models that run in turn, in a process of their own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_milliseconds, list(paths)).result()


def _milliseconds(paths: list[Path]) -> list[float]:
    sessions = [open_session(path, replace(PLANNED, profiled=False), "", "") for path in paths]
    feeds, _ = draw(sessions[0], paths[0], 0, 1, {})
    taken: list[list[float]] = [[] for _ in paths]
    began = time.perf_counter()
    while len(taken[0]) < 4 or (len(taken[0]) < RUNS and time.perf_counter() - began < SECONDS):
        for session, seconds in zip(sessions, taken, strict=True):
            start = time.process_time()
            session.run(None, feeds[0])
            seconds.append(time.process_time() - start)
    return [1e3 * statistics.median(seconds) for seconds in taken]


def in_onnxruntime(path: Path, bounds: Mapping[str, Any], seconds: float, folder: Path) -> list[dict[str, Any]]:
    """Both ways within a bound, which arguments of `lowtide.plan` say."""
    files, rows = [path], list[dict[str, Any]]()
    for allow in WAYS:
        plan = lowtide.plan(path, target="onnxruntime", allow=allow, time=seconds, **bounds)
        files.append(folder / f"{allow}.onnx")
        plan.apply(path, files[-1])
        ran = lowtide.verify(path, plan, run=True).run
        assert isinstance(ran, RunReport)
        most, within = bounds.get("max_ops", 0), bounds.get("max_overhead")
        rows.append(
            _row(path.name.partition(".")[0], allow, plan)
            | {"max_ops": most, "max_overhead": within, "whole_in_use_bytes": ran.original.peak_bytes}
            | {"in_use_bytes": ran.planned.peak_bytes, "predicted": None if plan.cost is None else plan.cost.overhead}
            | {"as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes)}
        )
    whole, *both = milliseconds(files)
    rows = [row | {"whole_ms": whole, "ms": ms} for row, ms in zip(rows, both, strict=True)]
    for row in rows:
        _say(row)
    return rows


def in_tflm(path: Path, seconds: float) -> list[dict[str, Any]]:
    """Both ways for TFLM, planned and measured there."""
    rows = []
    for allow in WAYS:
        plan = lowtide.plan(path, target="tflm", allow=allow, time=seconds)
        ran = lowtide.verify(path, plan, run=True).run
        assert isinstance(ran, TfliteRunReport)
        tflm = ran.tflm
        assert tflm is not None
        assert tflm.original is not None
        assert tflm.planned is not None
        rows.append(
            _row(path.stem, allow, plan)
            | {"whole_arena_bytes": tflm.original.smallest_arena_bytes, "head_bytes": tflm.planned.head_bytes}
            | {"arena_bytes": tflm.planned.smallest_arena_bytes, "required_bytes": plan.required_bytes}
        )
        _say(rows[-1])
    return rows


def _row(name: str, allow: str, plan: Plan) -> dict[str, Any]:
    halos = plan.halos
    return {
        "model": name, "allow": allow, "peak_bytes": plan.peak_bytes, "ops": len(plan.order), "optimal": plan.optimal,
        "extra": 0.0 if halos is None else halos.overhead,
    }  # fmt: skip


def _say(row: dict[str, Any]) -> None:
    bytes_in_use = row.get("in_use_bytes", row.get("arena_bytes"))
    took = f", {row['ms']:.1f} ms ({row['whole_ms']:.1f} whole)" if "ms" in row else ""
    what = f"{bytes_in_use:,} B, {row['ops']:,} ops, {row['extra']:+.1%} multiplications{took}"
    print(f"{row['model']}, {row['allow']}: {what}", file=sys.stderr, flush=True)


HEAD = (
    "model", "bound", "whole", "kept", "again", "again / kept", "ops kept", "ops again", "more multiplications",
    "ms whole", "ms kept", "ms again",
)  # fmt: skip
TFLM_HEAD = ("model", *HEAD[2:5], "head kept", "head again", *HEAD[6:9])


def lines(document: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    pairs = list(zip(document["rows"][::2], document["rows"][1::2], strict=True))
    rows = [
        (
            kept["model"], _bound(kept), kept["whole_in_use_bytes"], kept["in_use_bytes"], again["in_use_bytes"],
            f"{again['in_use_bytes'] / kept['in_use_bytes']:.3f}", kept["ops"], again["ops"], f"{again['extra']:+.1%}",
            f"{kept['whole_ms']:.1f}", f"{kept['ms']:.1f}", f"{again['ms']:.1f}",
        )
        for kept, again in pairs
    ]  # fmt: skip
    kept, again = document["tflm"]
    tflm = (
        kept["model"], kept["whole_arena_bytes"], kept["arena_bytes"], again["arena_bytes"], kept["head_bytes"],
        again["head_bytes"], kept["ops"], again["ops"], f"{again['extra']:+.1%}",
    )  # fmt: skip
    missed = sum(not row["as_planned"] for row in document["rows"])
    return [
        "# Halos kept and halos computed again",
        "",
        f"{document['machine']['cpu']}, lowtide {document['machine']['commit']}, other work beside it;",
        f"`python bench/halos.py FOLDER -o bench/results/halos`, {document['seconds']:g} s of search a plan.",
        "",
        "*kept*: `--allow fission`. *again*: `--allow fission,halos`. Bytes are what onnxruntime has in use,",
        f"measured, and as planned at every op in {len(document['rows']) - missed} of {len(document['rows'])} runs. "
        "Milliseconds are the processor's, on one thread, medians of runs in turn.",
        "",
        *table(HEAD, rows),
        "",
        "In TFLM, bytes of the smallest arena in which it runs, and of its head:",
        "",
        *table(TFLM_HEAD, [tflm]),
    ]


def _bound(row: dict[str, Any]) -> str:
    if row["max_overhead"] is not None:
        return f"{row['max_overhead']:.0%} more time"
    return f"{row['max_ops']:,} ops" if row["max_ops"] else ""


def optimised(model: str, folder: Path, made: Path) -> Path:
    """A network with weights, as onnxruntime's optimiser leaves it. Raises `InputError` if there is no such file."""
    from lowtide.run.random_weights import with_random_weights

    name = model.partition(":")[0]
    weighted, result = made / f"{name}.onnx", made / f"{name}.opt.onnx"
    if model in ZOO:
        write_zoo(model, weighted)
    else:
        with_random_weights(models_named(folder, [model])[0], weighted)
    lowtide.runtime_optimized(weighted, result)
    return result


def main() -> int:
    """Plan and measure the models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=(*MODELS, *ZOO), metavar="NAME", help="models (default: nine)")
    parser.add_argument(
        "--timed", nargs="*", default=TIMED, metavar="NAME", help="models to plan within 10 %% more, too"
    )
    parser.add_argument("--ops", type=int, default=300, help="bound on the ops that run (default: 300)")
    parser.add_argument("--time", type=float, default=10.0, help="seconds of search for each plan (default: 10)")
    parser.add_argument("--measure", type=float, default=60.0, help="seconds to time a model's ops (default: 60)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="lowtide-halos-") as name:
        folder = Path(name)
        for model in arguments.only:
            try:
                path = optimised(model, arguments.folder, folder)
            except InputError as error:
                parser.error(str(error))
            bounds: list[dict[str, Any]] = [{}, {"max_ops": arguments.ops}]
            if model in arguments.timed:
                cost = lowtide.measure(path, time=arguments.measure, max_overhead=[WITHIN])
                bounds.append({"cost": cost, "max_overhead": WITHIN})
            for bound in bounds:
                rows += in_onnxruntime(path, bound, arguments.time, folder)
        int8 = folder / "mobilenet_v2_0.35_224_int8.tflite"
        int8.write_bytes(mobilenet_v2().bytes())
        tflm = in_tflm(int8, 2 * arguments.time)
    document = {"machine": asdict(machine()), "seconds": arguments.time, "rows": rows, "tflm": tflm}
    arguments.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(lines(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
