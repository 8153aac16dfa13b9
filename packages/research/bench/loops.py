"""What row loops reach: .tflite files, MobileNetV2 and ONNX files, planned, verified, replayed.

    python bench/loops.py --tflite FOLDER --onnx A.onnx B.onnx [--time 60] -o results/loops

Of each model, in bytes: the best order of untiled ops; with loops and the input held; with loops and the input handed
over in rows. Arenas, input and output included, under target `loops` (alignment 16). Every plan is verified; .tflite
files are replayed with LiteRT's own tensors, ONNX files with onnxruntime's and random weights.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import lowtide
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.plan import Plan
from lowtide_research.bench.pages import about, document, say, script, table, write
from lowtide_research.bench.tflite_net import mobilenet_v2


def planned(model: Path, seconds: float, *, handed: bool) -> tuple[Plan | None, float]:
    """A plan with loops and the seconds it took; None if no input can be handed over."""
    began = time.perf_counter()
    try:
        plan = lowtide.research.plan(model, target="loops", allow="loops", stream_input=handed, time=seconds)
    except InputError as error:
        if not handed or "--stream-input" not in str(error):
            raise
        return None, time.perf_counter() - began
    return plan, time.perf_counter() - began


def replayed(model: Path, plan: Plan | None) -> str:
    """What verifying and replaying a plan showed."""
    if plan is None or not plan.loops:
        return "-"
    try:
        lowtide.verify(model, plan, run=True, random_weights=model.suffix == ".onnx")
    except InputError as error:
        lowtide.verify(model, plan)
        return f"verified; not replayed: {str(error).removeprefix(f'{model}: ')[:160]}"
    return "verified and replayed"


def row_of(model: Path, seconds: float) -> dict[str, Any]:
    """A model's row."""
    best = lowtide.research.plan(model, target="loops", time=seconds)
    held, held_seconds = planned(model, seconds, handed=False)
    handed, handed_seconds = planned(model, seconds, handed=True)
    graph = lowtide.load(model)
    return {
        "model": model.stem,
        "ops": len(graph.ops),
        "input_bytes": sum(t.size for t in graph.tensors if t.kind is Kind.INPUT),
        "best_order": best.arena_bytes,
        **_figures("held", held, held_seconds, replayed(model, held)),
        **_figures("handed", handed, handed_seconds, replayed(model, handed)),
    }


def _figures(tag: str, plan: Plan | None, seconds: float, shown: str) -> dict[str, Any]:
    loops = [] if plan is None else plan.loops or []
    search = {} if plan is None else plan.search or {}
    return {
        tag: None if plan is None else plan.arena_bytes,
        f"{tag}_peak": None if plan is None else plan.peak_bytes,
        f"{tag}_optimal_order": plan is not None and plan.optimal,
        f"{tag}_path_complete": search.get("loops_path_complete"),
        f"{tag}_loops": len(loops),
        f"{tag}_looped_ops": sum(len(loop.ops) for loop in loops),
        f"{tag}_streams": any(loop.streamed for loop in loops),
        f"{tag}_shown": shown,
        f"{tag}_seconds": seconds,
    }


def cell(row: dict[str, Any], tag: str) -> str:
    """Bytes, and in how many loops."""
    if row[tag] is None:
        return "no input can be"
    word = "" if tag == "held" or row[f"{tag}_streams"] else ", input held"
    loops = row[f"{tag}_loops"]
    return f"{row[tag]:,} ({loops}{word})" if loops else f"{row[tag]:,} (none)"


def proved(row: dict[str, Any]) -> str:
    """What is proved of both plans."""
    complete = all(row[f"{tag}_path_complete"] in (True, None) for tag in ("held", "handed"))
    optimal = row["held_optimal_order"] and (row["handed_optimal_order"] or row["handed"] is None)
    return f"{'all' if complete else 'some'} paths, {'all' if optimal else 'some'} orders"


HEAD = (
    "model", "ops", "input", "best order", "loops, input held", "loops, handed over", "proved", "checked", "seconds",
)  # fmt: skip


def cells(r: dict[str, Any]) -> tuple[Any, ...]:
    """A row of the table."""
    shown = sorted({r[f"{tag}_shown"].partition(":")[0] for tag in ("held", "handed")} - {"-"}) or ["-"]
    return (
        r["model"], r["ops"], r["input_bytes"], r["best_order"], cell(r, "held"), cell(r, "handed"), proved(r),
        "; ".join(shown), f"{r['held_seconds']:.1f}, {r['handed_seconds']:.1f}",
    )  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The page."""
    return [
        "# Row loops",
        "",
        f"{about(results['machine'])}; `bench/loops.py`, {results['seconds']:g} s a plan.",
        "",
        "Bytes of the arena, input and output included, under target `loops` (alignment 16); in brackets how many",
        "loops. *Best order*: untiled ops. *Handed over*: the caller writes the input row by row, as asked for.",
        "*Proved*: the loops are least over all (or some) paths along the order, of those whose line buffers are side",
        "by side; the peak over all orders of these loops. *Replayed*: `verify --run`, a simulation in an array as",
        "large as the arena with the runtime's own tensors. Every row is computed once.",
        "",
        "TiGrIS reports 301 KB (128 fast and 171 slow) for a MobileNetV2-0.35 at 224 x 224 in int8, run on boards;",
        "ours is planned and simulated, and is not the same file (random weights).",
        "",
        *table(HEAD, map(cells, results["rows"])),
    ]


def main() -> None:
    """Rows as JSON and a page."""
    parser = script(__doc__)
    parser.add_argument("--tflite", type=Path, help="a folder of .tflite files")
    parser.add_argument("--onnx", type=Path, nargs="*", default=[])
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each plan")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [] if options.tflite is None else sorted(options.tflite.glob("*.tflite"))
        for size in (224, 144):
            path = Path(folder) / f"mobilenet_v2_0.35_{size}_int8.tflite"
            path.write_bytes(mobilenet_v2(0.35, size).bytes())
            files.append(path)
        for path in (*files, *options.onnx):
            rows.append(row_of(path, options.time))
            say(json.dumps(rows[-1]))
    results = document(seconds=options.time, rows=rows)
    write(options.out, results, page(results))


if __name__ == "__main__":
    main()
