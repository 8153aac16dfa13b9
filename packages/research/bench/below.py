"""What cuts reach below the best order: every model of a folder, and some of them measured in onnxruntime.

    python bench/below.py FOLDER [--time 60] [--built] [--measure NAME ...] -o results/below
    python bench/below.py FOLDER --built --study --loops --cuts-of results/below.json -o results/below-loops

Planned under `generic` without weights: the own order's peak, the least peak of any order, and with `--allow fission`.
Models named by --measure are given random weights, go through onnxruntime's optimiser, are planned under its rules with
cuts, and run: what was planned beside what is in use, the arena, and the time beside that of onnxruntime's defaults;
once with as many ops as need be, and once with few. With --built the networks of `bench/alias_models.py` are planned,
too. --loops adds row loops (`--allow loops`, input held), which no ONNX file can carry: planned and verified, not run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from alias_models import MODELS, STUDY
from lowtide_research.bench.in_turn import optimised_model

import lowtide
from lowtide.api.models import load_own
from lowtide.run_reports import RunReport
from lowtide_research.bench.pages import about, document, mean_ratio, milliseconds, say, script, table, write

FREE = {"batch": 1, "seq": 16, "N": 1}  # sizes of the free dimensions that models of ../shared have
FEW = 3.0  # ops of the plan with few of them, beside those of the model


def planned(path: Path, seconds: float) -> dict[str, Any]:
    """A model's row: peaks, arena and bound, all in bytes."""
    graph, _ = load_own(path, FREE)
    strict = lowtide.research.plan(graph, target="strict", time=seconds)
    best = lowtide.research.plan(graph, target="generic", time=seconds)
    began, running = time.perf_counter(), time.process_time()
    plan = lowtide.research.plan(graph, target="generic", time=seconds, allow="fission")
    ran = time.process_time() - running
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
        "proved_over": plan.proved_over,
        "region_bound_bytes": None if plan.region_bound is None else plan.region_bound.bytes,
        "region_bound_joined": plan.region_bound is not None and plan.region_bound.joined,
        "stopped": plan.stopped,
        "arena_bytes": plan.arena_bytes,
        "exactness": plan.exactness,
        "floor_bytes": None if floor is None else floor.floor_bytes,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": ran,
        "rounds": 1 + len(plan.rounds or ()),
    }


def looped(path: Path, seconds: float) -> dict[str, Any]:
    """A model's row of loops: peak, whether it is proved for all orders of these loops, and seconds, in
    which the plan is checked, too."""
    graph, _ = load_own(path, FREE)
    began, running = time.perf_counter(), time.process_time()
    plan = lowtide.research.plan(graph, target="generic", time=seconds, allow="loops")
    spent, ran = time.perf_counter() - began, time.process_time() - running
    return {
        "loop_bytes": plan.peak_bytes,
        "loop_optimal": plan.optimal,
        "loop_path_complete": (plan.search or {}).get("loops_path_complete"),
        "loop_reordered": (plan.search or {}).get("loops_reordered"),
        "loops": len(plan.loops or ()),
        "looped_ops": sum(len(loop.ops) for loop in plan.loops or ()),
        "loop_exactness": plan.exactness,
        "loop_stopped": plan.stopped,
        "loop_seconds": spent,
        "loop_cpu_seconds": ran,
    }


def measured(path: Path, seconds: float, folder: Path) -> list[dict[str, Any]]:
    """What onnxruntime has in use for a model in parts, as many as need be and few, beside what was planned."""
    optimised = optimised_model(path, folder)
    ops = len(lowtide.load(optimised).ops)
    rows = []
    for most in (0, int(FEW * ops)):
        plan = lowtide.research.plan(optimised, target="onnxruntime", time=seconds, allow="fission", max_ops=most)
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


LOOPED = (
    "model", "strict", "with cuts", "of strict", "+ loops", "of strict", "best of both", "loops", "their ops", "proved",
    "s",
)  # fmt: skip
PLANNED = (
    "model", "ops", "strict", "own order", "best order", "with cuts", "of strict", "of best", "bound", "any regions",
    "its ops", "class", "floor", "s",
)  # fmt: skip
RUN = (
    "model", "ops", "in use before", "by its defaults", "with cuts", "as planned", "arena", "its ops", "differs by",
    "of", "ms before", "ms after",
)  # fmt: skip


def tables(results: dict[str, Any]) -> list[str]:
    """Both tables as Markdown."""
    rows, runs = results["rows"], results["runs"]
    lines = [
        "# Below the best order: cuts",
        "",
        f"{about(results['machine'])}; `bench/below.py`, at most {results['seconds']:g} s a plan. Sizes are bytes.",
        "",
        "*strict*: the least peak of any order without views and in place. Cuts are under `generic`; the bound is that",
        "of all orders of these parts (`=`: reached), *any regions* that of all choices of regions and orders (`=`:",
        "reached, so that no cut by regions needs less; *joined*: of regions whose results are put together; open: not",
        "worked out), the floor that of any cut along one axis an op.",
        "`bits`, `kernel`, `sum`: what outputs may differ by.",
        "",
    ]
    planned_rows = [
        (
            r["model"], r["ops"], r["strict_bytes"], r["own_bytes"], r["best_bytes"], r["cut_bytes"],
            _ratio(r, "strict_bytes"), _ratio(r, "best_bytes"), "=" if r["cut_optimal"] else r["cut_bound_bytes"],
            _any_regions(r), r["cut_ops"], r["exactness"] or "not cut", r["floor_bytes"] or "", f"{r['seconds']:.1f}",
        )
        for r in rows
    ]  # fmt: skip
    if any("loop_bytes" in r for r in rows):
        lines += [*loop_table(rows), *_left_out(results)]
        if results["cuts_of"]:
            return [*lines, f"Cuts are of {results['cuts_of']}."]
    lines += [*table(PLANNED, planned_rows), ""]
    strict, best = mean_ratio(rows, "cut_bytes", "strict_bytes"), mean_ratio(rows, "cut_bytes", "best_bytes")
    proved = sum(r["strict_optimal"] and r["best_optimal"] for r in rows)
    lines += [
        f"Geometric means over {len(rows)} models: {strict:.3f} of the strict optimum, {best:.3f} of the best order",
        f"under `generic`; both of these are proved for {proved} of them.",
        "",
    ]
    study = [r for r in rows if r["model"] in STUDY]
    lines += [
        f"All {len(rows)} took {sum(r['seconds'] for r in rows):,.0f} s, the {len(study)} of the study before "
        f"{sum(r['seconds'] for r in study):,.0f} s.",
        "",
    ]
    if len(study) == len(STUDY):
        lines += [
            f"Over the {len(study)} models of the study before: "
            f"{mean_ratio(study, 'cut_bytes', 'strict_bytes'):.3f} of the strict",
            "optimum.",
            "",
        ]
    lines += _left_out(results)
    run_rows = [
        (
            r["model"], r["ops"], r["before_bytes"], r["defaults_bytes"], r["after_bytes"],
            "yes" if r["as_planned"] else "no", r["arena_bytes"] or "", r["cut_ops"], f"{r['difference']:.1e}",
            f"{r['largest']:.3g}", milliseconds(r["before_seconds"]), milliseconds(r["after_seconds"]),
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


def _any_regions(row: dict[str, Any]) -> str:
    """The bound over all regions and orders, and which those are."""
    if row.get("region_bound_bytes") is None:
        return "open"
    joined = " joined" if row["region_bound_joined"] else ""
    reached = row["region_bound_bytes"] == row["cut_bytes"]
    return "=" + joined if reached else f"{row['region_bound_bytes']:,}{joined}"


def _left_out(results: dict[str, Any]) -> list[str]:
    return [line for name, reason in results["left_out"].items() for line in (f"Left out: {name}: {reason}", "")]


def loop_table(rows: list[dict[str, Any]]) -> list[str]:
    """Loops beside cuts, and the geometric means; what ONNX can carry and what it cannot is said apart."""
    cells, best = [], []
    for r in rows:
        peak = min(r["cut_bytes"], r["loop_bytes"])
        best.append(r | {"cut_bytes": peak})
        least = "all paths, all orders" if r["loop_path_complete"] else "all orders"
        proved = (least if r["loop_optimal"] else "no") if r["loops"] else "-"
        cells.append(
            (
                r["model"], r["strict_bytes"], r["cut_bytes"], _ratio(r, "strict_bytes"), r["loop_bytes"],
                f"{r['loop_bytes'] / r['strict_bytes']:.4f}", f"{peak / r['strict_bytes']:.4f}", r["loops"],
                r["looped_ops"], proved, f"{r['loop_cpu_seconds']:.1f} ({r['loop_seconds']:.1f})",
            )
        )  # fmt: skip
    only = [r | {"cut_bytes": r["loop_bytes"]} for r in rows]
    cut, loop, both = (mean_ratio(which, "cut_bytes", "strict_bytes") for which in (rows, only, best))
    return [
        "Row loops (`--target generic --allow loops`, input held, no row twice) beside cuts. Loops are for compilers",
        "that can loop: no ONNX file carries them. Every plan was played by the checker; none of these was run.",
        "*Proved*: the peak over all orders of these loops, and over all paths of loops along the order if said, of",
        "loops whose rings lie side by side.",
        "Seconds of one processor, of those in brackets: other work ran beside it.",
        "",
        *table(LOOPED, cells),
        "",
        f"Geometric means over {len(rows)} models, of the strict optimum: {cut:.3f} with cuts, which ONNX can carry;",
        f"{loop:.3f} with loops, which it cannot; {both:.3f} the lesser of the two.",
        "",
    ]


def _ratio(row: dict[str, Any], beside: str) -> str:
    return f"{row['cut_bytes'] / row[beside]:.3f}"


def cuts_of(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The rows of the results file whose cuts are taken, by model; none without one."""
    rows = json.loads(arguments.cuts_of.read_text())["rows"] if arguments.cuts_of else []
    return {r["model"]: r for r in rows}


def _write(
    arguments: argparse.Namespace,
    rows: list[dict[str, Any]],
    left_out: dict[str, str],
    runs: list[dict[str, Any]],
) -> None:
    """Both files of what is there by now."""
    results = document(
        seconds=arguments.time, rows=rows, left_out=left_out, runs=runs,
        cuts_of=arguments.cuts_of and arguments.cuts_of.name,
    )  # fmt: skip
    write(arguments.out, results, tables(results))


def row_of(path: Path, arguments: argparse.Namespace, cuts: dict[str, Any] | None) -> dict[str, Any]:
    """A model's row, with loops where these are asked for; `cuts`: what is known of it already."""
    row = planned(path, arguments.time) if cuts is None else cuts
    return row | looped(path, arguments.time) if arguments.loops else row


def main() -> int:
    """Plan every model of the folder, and measure some."""
    parser = script(__doc__, folder="models as .onnx")
    parser.add_argument("--time", type=float, default=60.0, help="seconds of search for each plan (default: 60)")
    parser.add_argument("--measure", nargs="*", default=[], metavar="NAME", help="models to run in onnxruntime")
    parser.add_argument("--built", action="store_true", help="networks built here, too")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="models to plan (default: all)")
    parser.add_argument("--study", action="store_true", help="only the models of the study before")
    parser.add_argument("--loops", action="store_true", help="row loops, too")
    parser.add_argument("--cuts-of", type=Path, metavar="FILE", help="take cuts from a results file, and plan none")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.rglob("*.onnx"))
    rows, runs, left_out = [], [], {}
    with tempfile.TemporaryDirectory(prefix="lowtide-below-") as folder:
        wanted = [name for name in MODELS if not arguments.only or name in arguments.only]
        built = [Path(folder) / f"{name}.onnx" for name in wanted] if arguments.built else []
        for path in built:
            MODELS[path.stem](path)
        chosen = [
            path
            for path in (*paths, *built)
            if (not arguments.only or path.stem in arguments.only) and (not arguments.study or path.stem in STUDY)
        ]
        cuts = cuts_of(arguments)
        for path in chosen:
            try:
                row = row_of(path, arguments, cuts[path.stem] if arguments.cuts_of else None)
            except lowtide.LowtideError as error:
                left_out[path.stem] = str(error)
                say(f"{path.name}: left out: {error}")
                continue
            rows.append(row)
            shown = row.get("loop_bytes", row["cut_bytes"])
            say(f"{path.name}: {shown / row['best_bytes']:.3f}")
            _write(arguments, rows, left_out, runs)
        for path in paths:
            if path.stem in arguments.measure:
                runs += measured(path, arguments.time, Path(folder))
                say(f"{path.name}: {runs[-2]['after_bytes']:,} B in use")
                _write(arguments, rows, left_out, runs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
