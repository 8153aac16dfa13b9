"""What row loops reach: .tflite files, MobileNetV2, msf-CNN's networks and ONNX files, planned, verified, replayed.

    python bench/loops.py --tflite FOLDER --onnx A.onnx B.onnx [--time 60] -o results/loops

Of each model, in bytes: the best order of whole ops; with loops and the input held; with loops and the input handed
over in rows. Arenas, input and output included, under target `loops` (alignment 16). Every plan is verified; .tflite
files are replayed with LiteRT's own tensors, ONNX files with onnxruntime's and random weights. msf-CNN's networks are
chains of convolutions with 8-bit elements, at alignment 1, beside its own accounting and `bench/msf.py`'s.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

import lowtide
from below_tflite import mobilenet_v2
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.transform.narrow import eight_bits
from lowtide_research import zoo
from lowtide_research.bench.machine import machine
from lowtide_research.msf_cnn import chain, least
from msf import NETWORKS, points


def planned(model: Path | Graph, seconds: float, target: str, *, handed: bool) -> tuple[Plan | None, float]:
    """A plan with loops and the seconds it took; None if no input can be handed over."""
    began = time.perf_counter()
    try:
        plan = lowtide.plan(model, target=target, allow="loops", stream_input=handed, time=seconds)
    except InputError as error:
        if not handed or "--stream-input" not in str(error):
            raise
        return None, time.perf_counter() - began
    return plan, time.perf_counter() - began


def replayed(model: Path | Graph, plan: Plan | None, *, random_weights: bool) -> str:
    """What verifying and replaying a plan showed."""
    if plan is None or not plan.loops:
        return "-"
    if isinstance(model, Graph):
        lowtide.verify(model, plan)
        return "verified"
    try:
        lowtide.verify(model, plan, run=True, random_weights=random_weights)
    except InputError as error:
        lowtide.verify(model, plan)
        return f"verified; not replayed: {str(error).removeprefix(f'{model}: ')[:160]}"
    return "verified and replayed"


def row_of(model: Path | Graph, name: str, seconds: float, target: str = "loops") -> dict[str, Any]:
    """A model's row."""
    best = lowtide.plan(model, target=target, time=seconds)
    held, held_seconds = planned(model, seconds, target, handed=False)
    handed, handed_seconds = planned(model, seconds, target, handed=True)
    graph = model if isinstance(model, Graph) else lowtide.load(model)
    weights = isinstance(model, Path) and model.suffix == ".onnx"
    return {
        "model": name,
        "ops": len(graph.ops),
        "input_bytes": sum(t.size for t in graph.tensors if t.kind is Kind.INPUT),
        "best_order": best.arena_bytes,
        **_figures("held", held, held_seconds, replayed(model, held, random_weights=weights)),
        **_figures("handed", handed, handed_seconds, replayed(model, handed, random_weights=weights)),
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


def msf_graph(name: str, folder: Path) -> tuple[Graph, Graph]:
    """A network of msf-CNN's as it is read, and with 8-bit elements."""
    path = folder / f"{name}.onnx"
    onnx.save(zoo.build(name).onnx(), path)
    graph = lowtide.load(path)
    narrow = eight_bits(graph)
    int8 = tuple(replace(t, dtype="int8") if t.dtype == "float32" else t for t in narrow.tensors)
    return graph, replace(narrow, tensors=int8)


def msf_row(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """A network of msf-CNN's: our accounting beside its own."""
    graph, narrow = msf_graph(name, folder)
    layers = chain(graph)
    published = points(name)
    once = min(multiplied for _, _, multiplied in published)
    return {
        **row_of(narrow, f"{name} (int8)", seconds, "loops,alignment=1"),
        "msf_1x": min(peak for _, peak, multiplied in published if multiplied == once),
        "msf_rows": least(layers, ("rows",)).peak_bytes,
        "msf_pixels": least(layers, ("pixels",)).peak_bytes,
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


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown."""
    lines = [
        "| model | ops | input | best order | loops, input held | loops, handed over | proved | checked | seconds |",
        "|---|--:|--:|--:|--:|--:|---|---|--:|",
    ]
    for r in rows:
        shown = sorted({r[f"{tag}_shown"].partition(":")[0] for tag in ("held", "handed")} - {"-"}) or ["-"]
        lines.append(
            f"| {r['model']} | {r['ops']} | {r['input_bytes']:,} | {r['best_order']:,} | {cell(r, 'held')} "
            f"| {cell(r, 'handed')} | {proved(r)} | {'; '.join(shown)} "
            f"| {r['held_seconds']:.1f}, {r['handed_seconds']:.1f} |"
        )
    return lines


def msf_table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown of msf-CNN's networks."""
    lines = [
        "| network | best order | loops, input held | loops, handed over | msf-CNN at 1.00x | rows | pixels |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['model']} | {r['best_order']:,} | {cell(r, 'held')} | {cell(r, 'handed')} | {r['msf_1x']:,} "
            f"| {r['msf_rows']:,} | {r['msf_pixels']:,} |"
        )
    return lines


def page(rows: list[dict[str, Any]], msf: list[dict[str, Any]], note: str) -> str:
    """The page."""
    return "\n".join(
        [
            "# Row loops",
            "",
            note,
            "",
            "Bytes of the arena, input and output included, under target `loops` (alignment 16); in brackets how many",
            "loops. *Best order*: whole ops. *Handed over*: the caller writes the input row by row, as asked for.",
            "*Proved*: the loops are least over all (or some) paths along the order, of those whose rings lie side by",
            "side; the peak over all orders of these loops. *Replayed*: `verify --run`, a simulation in an array as",
            "large as the arena with the runtime's own tensors. Every row is computed once.",
            "",
            "TiGrIS reports 301 KB (128 fast and 171 slow) for a MobileNetV2-0.35 at 224 x 224 in int8, run on boards;",
            "ours is planned and simulated, and is not the same file (random weights).",
            "",
            *table(rows),
            "",
            "## msf-CNN's networks",
            "",
            "Chains of convolutions, 8-bit elements, alignment 1. The first columns are in the accounting above: input",
            "(held, or a ring of it) and output count, a loop holds what it reads and makes whole, a ring as many rows",
            "or pixels as are ever there at once. The last three are in msf-CNN's accounting (`bench/msf.py`): network",
            "input and output are free, and each tensor between has the rows, or pixels, that one window spans.",
            "",
            *msf_table(msf),
            "",
        ]
    )


def main() -> int:
    """Rows as JSON and a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tflite", type=Path, help="a folder of .tflite files")
    parser.add_argument("--onnx", type=Path, nargs="*", default=[])
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each plan")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    rows, msf = [], []
    with tempfile.TemporaryDirectory() as folder:
        nets = {"mobilenet_v2_0.35_224_int8": (0.35, 224), "mobilenet_v2_0.35_144_int8": (0.35, 144)}
        files = [] if options.tflite is None else sorted(options.tflite.glob("*.tflite"))
        for name, (width, size) in nets.items():
            path = Path(folder) / f"{name}.tflite"
            path.write_bytes(mobilenet_v2(width, size).bytes())
            files.append(path)
        for path in (*files, *options.onnx):
            rows.append(row_of(path, path.stem, options.time))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        for name in NETWORKS:
            msf.append(msf_row(name, Path(folder), options.time))
            print(json.dumps(msf[-1]), file=sys.stderr, flush=True)
    own = machine()
    note = f"{own.cpu}, lowtide {(own.commit or '')[:7]}; `bench/loops.py`, {options.time:g} s a plan."
    options.out.with_suffix(".md").write_text(page(rows, msf, note), encoding="utf-8")
    text = json.dumps({"models": rows, "msf": msf}, indent=1)
    options.out.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
