"""What cuts reach below the best order: every model of a folder, and some of them measured in onnxruntime.

    python bench/below.py FOLDER [--time 60] [--built] [--measure NAME ...] -o bench/results/below

Planned under `generic` without weights: the own order's peak, the least peak of any order, and with `--allow fission`.
Models named by --measure are given random weights, go through onnxruntime's optimiser, are planned under its rules with
cuts, and run: what was planned beside what is in use, the arena, and the time beside that of onnxruntime's defaults;
once with as many ops as need be, and once with few. With --built the networks of `bench/alias_models.py` are planned,
too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from typing import Any

import lowtide
from alias_models import MODELS, STUDY
from lowtide.api.models import load_own
from lowtide.bench.machine import machine
from lowtide.run_reports import RunReport

FREE = {"batch": 1, "seq": 16, "N": 1}
"""Sizes of the free dimensions that models of ../shared have."""
FEW = 3.0
"""Ops of the plan with few of them, beside those of the model."""


def planned(path: Path, seconds: float) -> dict[str, Any]:
    """A model's row: peaks, arena and bound, all in bytes."""
    graph, _ = load_own(path, FREE)
    strict = lowtide.plan(graph, target="strict", time=seconds)
    best = lowtide.plan(graph, target="generic", time=seconds)
    began = time.perf_counter()
    plan = lowtide.plan(graph, target="generic", time=seconds, allow="fission")
    floor = lowtide.inspect(graph, target="generic", time=1.0).fission
    return {
        "model": path.stem,
        "ops": len(graph.ops),
        "own_bytes": best.own_order_peak_bytes,
        "strict_bytes": strict.peak_bytes,
        "strict_optimal": strict.optimal,
        "best_bytes": best.peak_bytes,
        "best_optimal": best.optimal,
        "cut_bytes": plan.peak_bytes,
        "cut_bound_bytes": plan.lower_bound_bytes,
        "cut_optimal": plan.optimal,
        "cut_ops": len(plan.order),
        "arena_bytes": plan.arena_bytes,
        "exactness": plan.exactness,
        "floor_bytes": None if floor is None else floor.floor_bytes,
        "seconds": time.perf_counter() - began,
    }


def measured(path: Path, seconds: float, folder: Path) -> list[dict[str, Any]]:
    """What onnxruntime has in use for a model in parts, as many as need be and few, beside what was planned."""
    from lowtide.run.random_weights import with_random_weights

    weighted, optimised = folder / f"{path.stem}.onnx", folder / f"{path.stem}.opt.onnx"
    with_random_weights(path, weighted)
    lowtide.runtime_optimized(weighted, optimised)
    ops = len(lowtide.load(optimised).ops)
    rows = []
    for most in (0, int(FEW * ops)):
        plan = lowtide.plan(optimised, target="onnxruntime", time=seconds, allow="fission", max_ops=most)
        ran = lowtide.verify(optimised, plan, run=True, timed=True).run
        assert isinstance(ran, RunReport)
        exact = all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes)
        timing = ran.timing
        rows.append(
            {
                "model": path.stem,
                "ops": ops,
                "cut_ops": len(plan.order),
                "before_bytes": ran.original.peak_bytes,
                "defaults_bytes": ran.shipped.peak_bytes,
                "after_bytes": ran.planned.peak_bytes,
                "as_planned": exact,
                "arena_bytes": plan.runtime_arena_bytes,
                "peak_bytes": plan.peak_bytes,
                "optimal": plan.optimal,
                "exactness": plan.exactness,
                "difference": max(o.max_abs_difference or 0.0 for o in ran.outputs),
                "largest": max(o.largest for o in ran.outputs),
                "before_seconds": None if timing is None else timing.original_seconds,
                "after_seconds": None if timing is None else timing.planned_seconds,
            }
        )
    return rows


def mean_ratio(rows: list[dict[str, Any]], beside: str) -> float:
    """Geometric mean of the peak with cuts beside another figure."""
    return exp(sum(log(r["cut_bytes"] / r[beside]) for r in rows) / max(1, len(rows)))


PLANNED = (
    "model", "ops", "strict", "own order", "best order", "with cuts", "of strict", "of best", "bound", "its ops",
    "class", "floor", "s",
)  # fmt: skip
RUN = (
    "model", "ops", "in use before", "by its defaults", "with cuts", "as planned", "arena", "its ops", "differs by",
    "of", "ms before", "ms after",
)  # fmt: skip


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    """A Markdown table; whole numbers in groups of three."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(f"{c:,}" if isinstance(c, int) else str(c) for c in row) + " |")
    return lines


def tables(document: dict[str, Any]) -> list[str]:
    """Both tables as Markdown."""
    rows, runs = document["rows"], document["runs"]
    lines = [
        "# Below the best order: cuts",
        "",
        f"{document['machine']['cpu']}, lowtide {document['machine']['commit']}; `bench/below.py`, at most "
        f"{document['seconds']:g} s a plan. Sizes are bytes.",
        "",
        "*strict*: the least peak of any order without views and in place. Else under `generic`; the bound is that of",
        "all orders of these parts (`=`: reached), the floor that of any cut",
        "along one axis an op. `bits`, `kernel`, `sum`: what outputs may differ by.",
        "",
    ]
    planned_rows = [
        (
            r["model"], r["ops"], r["strict_bytes"], r["own_bytes"], r["best_bytes"], r["cut_bytes"],
            _ratio(r, "strict_bytes"), _ratio(r, "best_bytes"), "=" if r["cut_optimal"] else r["cut_bound_bytes"],
            r["cut_ops"], r["exactness"] or "not cut", r["floor_bytes"] or "", f"{r['seconds']:.1f}",
        )
        for r in rows
    ]  # fmt: skip
    lines += [*table(PLANNED, planned_rows), ""]
    strict, best = mean_ratio(rows, "strict_bytes"), mean_ratio(rows, "best_bytes")
    proved = sum(r["strict_optimal"] and r["best_optimal"] for r in rows)
    lines += [
        f"Geometric means over {len(rows)} models: {strict:.3f} of the strict optimum, {best:.3f} of the best order",
        f"under `generic`; both of these are proved for {proved} of them.",
        "",
    ]
    study = [r for r in rows if r["model"] in STUDY]
    if len(study) == len(STUDY):
        lines += [
            f"Over the {len(study)} models of the study before: {mean_ratio(study, 'strict_bytes'):.3f} of the strict",
            "optimum.",
            "",
        ]
    for name, reason in document["left_out"].items():
        lines += [f"Left out: {name}: {reason}", ""]
    run_rows = [
        (
            r["model"], r["ops"], r["before_bytes"], r["defaults_bytes"], r["after_bytes"],
            "yes" if r["as_planned"] else "no", r["arena_bytes"] or "", r["cut_ops"], f"{r['difference']:.1e}",
            f"{r['largest']:.3g}", _ms(r["before_seconds"]), _ms(r["after_seconds"]),
        )
        for r in runs
    ]  # fmt: skip
    if runs:
        lines += [
            "Measured in onnxruntime: tensors in use; its optimiser beforehand (level extended), one thread; *as",
            "planned*: at every op. Each model with as many ops as need be, then with few.",
            "",
            *table(RUN, run_rows),
        ]
    return lines


def _ratio(row: dict[str, Any], beside: str) -> str:
    return f"{row['cut_bytes'] / row[beside]:.3f}"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.1f}"


def main() -> int:
    """Plan every model of the folder, and measure some."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", type=float, default=60.0, help="seconds of search for each plan (default: 60)")
    parser.add_argument("--measure", nargs="*", default=[], metavar="NAME", help="models to run in onnxruntime")
    parser.add_argument("--built", action="store_true", help="networks built here, too")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="models to plan (default: all)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.rglob("*.onnx"))
    rows, runs, left_out = [], [], {}
    with tempfile.TemporaryDirectory(prefix="lowtide-below-") as folder:
        built = [Path(folder) / f"{name}.onnx" for name in MODELS] if arguments.built else []
        for path in built:
            MODELS[path.stem](path)
        for path in (*paths, *built):
            if arguments.only and path.stem not in arguments.only:
                continue
            try:
                rows.append(planned(path, arguments.time))
            except lowtide.LowtideError as error:
                left_out[path.stem] = str(error)
                print(f"{path.name}: left out: {error}", file=sys.stderr, flush=True)
                continue
            print(f"{path.name}: {rows[-1]['cut_bytes'] / rows[-1]['best_bytes']:.3f}", file=sys.stderr, flush=True)
        for path in paths:
            if path.stem in arguments.measure:
                runs += measured(path, arguments.time, Path(folder))
                print(f"{path.name}: {runs[-2]['after_bytes']:,} B in use", file=sys.stderr, flush=True)
    document = {"machine": asdict(machine()), "seconds": arguments.time}
    document |= {"rows": rows, "left_out": left_out, "runs": runs}
    arguments.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(tables(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
