"""What cuts cost in time: predicted and measured, for bounds on the predicted overhead.

    python bench/overhead.py FOLDER [--only NAME ...] [--measure 40] [--time 6] -o results/overhead

Each model gets random weights and goes through onnxruntime's optimiser (level extended). Its ops are timed, plans for
at most 0, 5, 10 and 30 % more time are tried (`lowtide measure --max-overhead`), and by the cost file the model is
planned within each. Then the file in parts runs in turn with the one that was cut, in the same kernels and order. With
--blocked NAME ... models are cut for the blocked kernels of level all as well: the file in parts goes through the
optimiser at that level, is put in order, and runs in turn with the model as onnxruntime runs it by its defaults. Times
are of the processor, on one thread: other work on the machine is not in them, but for what it takes of the caches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lowtide
from below import table
from lowtide.cost.file import CostFile, Level
from lowtide.errors import InputError
from lowtide.run.ort_session import AS_SHIPPED, PLANNED, SessionSettings
from lowtide.run_reports import RunReport
from lowtide_research.bench.in_turn import milliseconds_in_turn
from lowtide_research.bench.machine import machine
from lowtide_research.bench.networks import models_named

BOUNDS = (0.0, 0.05, 0.07, 0.08, 0.1, 0.3)
"""Parts by which a plan may take longer, if the call names none."""
MODELS = (
    "mobilenet_v2", "resnet50", "densenet121", "whisper_tiny_encoder", "swin_t", "inception_v3_299", "nasnetamobile",
)  # fmt: skip
ROUNDS = 3
"""Measurements of a pair."""


def overhead(
    before: tuple[Path, SessionSettings], after: tuple[Path, SessionSettings]
) -> tuple[float, float, list[float]]:
    """Milliseconds of both, as medians of the middle round, and the ratio of each round less 1."""
    rounds = sorted(milliseconds_in_turn((before, after), ROUNDS), key=lambda pair: pair[1] / pair[0])
    middle = rounds[ROUNDS // 2]
    return middle[0], middle[1], [pair[1] / pair[0] - 1 for pair in rounds]


def same_kernels(
    path: Path, cost: CostFile, bounds: Sequence[float], seconds: float, folder: Path
) -> list[dict[str, Any]]:
    """A model's rows: what each bound reaches, predicted and measured."""
    rows: list[dict[str, Any]] = []
    for bound in bounds:
        plan = lowtide.plan(
            path, target="onnxruntime", allow="fission", cost=cost, max_overhead=bound, time=seconds
        )  # fmt: skip
        assert plan.cost is not None
        out = folder / "cut.onnx"
        plan.apply(path, out)
        ran = lowtide.run(path, out, plan)
        assert isinstance(ran, RunReport)
        before, after, ratios = overhead((path, PLANNED), (out, PLANNED))
        row = _row(path.name.partition(".")[0], "extended", bound, plan, ran, (before, after, ratios))
        rows.append(row | {"in_use_before_bytes": ran.original.peak_bytes})
        _say(rows[-1])
    return rows


def blocked_kernels(
    source: Path, path: Path, cost: CostFile, bounds: Sequence[float], seconds: float, folder: Path
) -> list[dict[str, Any]]:
    """The same for level all, beside the model as onnxruntime runs it by its defaults."""
    rows = []
    for bound in bounds:
        plan = lowtide.plan(
            path, target="onnxruntime", allow="fission", cost=cost, max_overhead=bound, time=seconds
        )  # fmt: skip
        cut, blocked, out = (folder / name for name in ("cut.onnx", "blocked.onnx", "ordered.onnx"))
        plan.apply(path, cut)
        lowtide.runtime_optimized(cut, blocked, level="all")
        ordered = lowtide.plan(blocked, target="onnxruntime", time=seconds)
        ordered.apply(blocked, out)
        ran = lowtide.run(blocked, out, ordered)
        assert isinstance(ran, RunReport)
        times = overhead((source, AS_SHIPPED), (out, PLANNED))
        row = _row(source.stem, "all", bound, plan, ran, times)
        rows.append(row | {"ops": len(ordered.order), "peak_bytes": ordered.peak_bytes})
        shipped = lowtide.run(source, None, lowtide.plan(source, target="onnxruntime", method="own"))
        assert isinstance(shipped, RunReport)
        rows[-1]["in_use_before_bytes"] = shipped.shipped.peak_bytes
        _say(rows[-1])
    return rows


def _row(name: str, level: str, bound: float, plan: Any, ran: RunReport, times: tuple[Any, ...]) -> dict[str, Any]:
    before, after, ratios = times
    return {
        "model": name,
        "level": level,
        "max_overhead": bound,
        "peak_bytes": plan.peak_bytes,
        "in_use_bytes": ran.planned.peak_bytes,
        "as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes),
        "ops": len(plan.order),
        "predicted": plan.cost.overhead,
        "measured_ops": plan.cost.measured,
        "between_ops": plan.cost.between,
        "roofline_ops": plan.cost.roofline,
        "before_ms": before,
        "after_ms": after,
        "measured": ratios,
    }


def _say(row: dict[str, Any]) -> None:
    middle = statistics.median(row["measured"])
    what = f"{row['in_use_bytes']:,} B, {row['predicted']:+.1%} predicted, {middle:+.1%} measured"
    print(f"{row['model']}, {row['level']}, at most {row['max_overhead']:.0%}: {what}", file=sys.stderr, flush=True)


HEAD = (
    "model", "kernels", "bound", "in use before", "in use", "ops", "predicted", "measured", "from", "to", "ms before",
    "ms after", "ops measured / between / reckoned",
)  # fmt: skip


def lines(document: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    rows = [
        (
            r["model"], r["level"], f"{r['max_overhead']:.0%}", r["in_use_before_bytes"], r["in_use_bytes"], r["ops"],
            f"{r['predicted']:+.1%}", f"{statistics.median(r['measured']):+.1%}", f"{r['measured'][0]:+.1%}",
            f"{r['measured'][-1]:+.1%}", f"{r['before_ms']:.1f}", f"{r['after_ms']:.1f}",
            f"{r['measured_ops']} / {r['between_ops']} / {r['roofline_ops']}",
        )
        for r in document["rows"]
    ]  # fmt: skip
    runs: dict[tuple[str, float, float], list[str]] = {}
    for r in document["rows"]:
        models = runs.setdefault((r["commit"], r["measure_seconds"], r["search_seconds"]), [])
        models += [r["model"]] if r["model"] not in models else []
    return [
        "# What cuts cost in time",
        "",
        f"{document['machine']['cpu']}, {document['machine']['cores']} cores, other work beside it; "
        "`bench/overhead.py`, one thread (a search that",
        "time ends may cut less than the bound allows).",
        "",
        *(
            f"- {', '.join(models)}: ops timed and plans tried for about {measured:g} s, {searched:g} s of search a "
            f"plan, lowtide {commit}"
            for (commit, measured, searched), models in runs.items()
        ),
        "",
        "Bytes are what onnxruntime has in use, as measured.",
        "",
        "*extended*: the file in parts beside the file that was cut, in the same kernels. *all*: cut for the blocked",
        "kernels, then optimised at that level and put in order, beside the model as onnxruntime runs it by its",
        "defaults. *bound*: as `--max-overhead` has it. *predicted*: by the cost file with its trials. *measured*: the",
        "median of three ratios, each of medians of 15 runs in turn (fewer if they take over 2 s), in processor time;",
        "*from*, *to*: the least and the largest.",
        "",
        *table(HEAD, rows),
    ]


def main() -> int:
    """Plan and measure the models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=MODELS, metavar="NAME", help="models (default: seven)")
    parser.add_argument("--blocked", nargs="*", default=[], metavar="NAME", help="models to cut for level all too")
    parser.add_argument("--bounds", type=float, nargs="+", default=BOUNDS, metavar="PART", help="on the time added")
    parser.add_argument("--measure", type=float, default=120.0, help="seconds to time a model's ops (default: 120)")
    parser.add_argument("--time", type=float, default=20.0, help="seconds of search for each plan (default: 20)")
    parser.add_argument("--keep", action="store_true", help="rows of other models stay in the results")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    from lowtide.run.random_weights import with_random_weights

    out = arguments.output.with_suffix(".json")
    rows = json.loads(out.read_text())["rows"] if arguments.keep and out.exists() else []
    try:
        paths = models_named(arguments.folder, arguments.only)
    except InputError as error:
        parser.error(str(error))
    for path in paths:
        began = measured = time.perf_counter()
        rows = [r for r in rows if r["model"] != path.stem]
        with tempfile.TemporaryDirectory(prefix="lowtide-overhead-") as folder:
            weighted, optimised = Path(folder) / f"{path.stem}.onnx", Path(folder) / f"{path.stem}.opt.onnx"
            with_random_weights(path, weighted)
            lowtide.runtime_optimized(weighted, optimised)
            levels: list[Level] = ["extended", "all"] if path.stem in arguments.blocked else ["extended"]
            for level in levels:
                cost = lowtide.measure(optimised, time=arguments.measure, level=level, max_overhead=arguments.bounds)
                measured = time.perf_counter()
                how = (arguments.bounds, arguments.time, Path(folder))
                found = same_kernels(optimised, cost, *how) if level == "extended" else blocked_kernels(
                    weighted, optimised, cost, *how
                )  # fmt: skip
                limits = {"measure_seconds": arguments.measure, "search_seconds": arguments.time}
                rows += [row | limits | {"commit": machine().commit} for row in found]
        print(
            f"{path.stem}: {time.perf_counter() - began:.0f} s, the cost file {measured - began:.0f} s of it",
            file=sys.stderr,
        )
        document = {"machine": asdict(machine()), "rows": rows}
        out.write_text(json.dumps(document, indent=1) + "\n")
        arguments.output.with_suffix(".md").write_text("\n".join(lines(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
