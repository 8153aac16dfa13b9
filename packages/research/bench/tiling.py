"""What changes of the graph reach below the best order: networks of the zoo and models of a folder, means by means.

    python bench/tiling.py MODELS -o results/tiling

*strict* is the least peak of any order, nothing in place and no views; the columns are the peak under target `generic`
with the best order alone and with one means each, as a share of it, each plan checked. `+`: the plan is not proved
least over all orders of what it runs. Row streaming, and *last* with channels last, is for code generators; no ONNX
file carries it. Aliases place tensors inside others: *contiguous* concats and slices, *overlap* also results that
overlap their inputs, *fused* also elementwise chains as one kernel. In onnxruntime: bytes in use, measured, with its
optimiser beforehand (level extended); *as planned*: at every op. Limits are of the clock on the wall.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lowtide
from lowtide.api.writing import write_zoo
from lowtide.run_reports import RunReport
from lowtide_research.bench.in_turn import optimised_model
from lowtide_research.bench.networks import models_named
from lowtide_research.bench.pages import about, document, mean_ratio, method_of, say, script, table, write

ZOO = ("mcunet_320kb",)
FILES = ("mobilenet_v2", "resnet50", "densenet121")
WAYS = {
    "order": ("generic", ""),
    "tiling": ("generic", "fission"),
    "streaming": ("generic", "loops"),
    "streaming, last": ("loops,layout=channels_last", "loops"),
    "concat elimination": ("generic", "seams"),
    "contiguous": ("generic", "alias"),
    "overlap": ("generic,overlap=diagonal,layout=either", "alias"),
    "fused": ("generic,overlap=diagonal,layout=either,chains=prologue", "alias"),
}
"""Title of a column, its target, and what is allowed."""
TILES = {
    "tiling or streaming": ("tiling", "streaming"),
    "the same, last": ("tiling", "streaming", "streaming, last"),
}
ALLOWED = ("fission", "fission,halos")
"""What is measured in onnxruntime."""


def peaks(path: Path, seconds: float) -> dict[str, Any]:
    """A model's peak by each means, in bytes, and whether it is proved."""
    graph = lowtide.load(path)
    row: dict[str, Any] = {"model": path.stem, "ops": len(graph.ops)}
    for way, (target, allow) in {"strict": ("strict", ""), **WAYS}.items():
        plan = lowtide.research.plan(graph, target=target, allow=allow, time=seconds)
        row |= {way: plan.peak_bytes, f"{way} proved": plan.optimal}
    return row


def in_onnxruntime(path: Path, allow: str, seconds: float) -> dict[str, Any]:
    """What onnxruntime has in use for a model, in tiles and without."""
    plan = lowtide.research.plan(path, target="onnxruntime", allow=allow, time=seconds)
    ran = lowtide.verify(path, plan, run=True).run
    assert isinstance(ran, RunReport)
    return {
        "model": path.name.partition(".")[0], "allow": allow, "before": ran.original.peak_bytes,
        "after": ran.planned.peak_bytes, "nodes": len(plan.order),
        "products": 0.0 if plan.halos is None else plan.halos.overhead,
        "as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes),
        "difference": max((o.max_abs_difference or 0.0) / o.largest for o in ran.outputs),
    }  # fmt: skip


def page(results: dict[str, Any]) -> Iterator[str]:
    """The tables, and geometric means of the first."""
    rows, seconds = results["rows"], results["seconds"]
    made = f"`bench/tiling.py`, at most {seconds:g} s a plan."
    yield from ("# Below the best order", "", f"{about(results['machine'])}; {made}", "", *method_of(__doc__))
    shown = []
    for r in rows:
        cells = [f"{r[way] / r['strict']:.3f}{'' if r[f'{way} proved'] else '+'}" for way in WAYS]
        shown.append((r["model"], r["ops"], r["strict"], *cells))
    for r in rows:
        r |= {name: min(r[way] for way in ways) for name, ways in TILES.items()}
    means = [f"{mean_ratio(rows, way, 'strict'):.3f}" for way in WAYS]
    yield from table(("model", "ops", "strict, B", *WAYS), [*shown, ("geometric mean", "", "", *means)])
    both = ", ".join(f"{name} {mean_ratio(rows, name, 'strict'):.3f}" for name in TILES)
    yield from ("", f"{len(rows)} models; geometric means of the lesser: {both}.", "", "## In onnxruntime", "")
    head = ("model", "allowed", "before, B", "after, B", "nodes", "added products", "as planned", "differs by")
    cells = [
        (
            r["model"], r["allow"], r["before"], r["after"], r["nodes"], f"{r['products']:+.1%}",
            "yes" if r["as_planned"] else "no", f"{r['difference']:.1e}",
        )
        for r in results["runs"]
    ]  # fmt: skip
    yield from table(head, cells)


def main() -> None:
    """Plan the models, two at a time; then run those of the folder."""
    parser = script(__doc__, folder="with onnx/*.onnx")
    parser.add_argument("--time", type=float, default=24.0, help="seconds of search for each plan (default: 24)")
    given = parser.parse_args()
    results = document(seconds=given.time, rows=[], runs=[])
    files = models_named(given.folder, FILES)
    with tempfile.TemporaryDirectory(prefix="lowtide-tiling-") as name:
        folder = Path(name)
        built = [folder / f"{network}.onnx" for network in ZOO]
        for path in built:
            write_zoo(path.stem, path, 0)
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            for row in pool.map(peaks, [*built, *files], repeat(given.time)):
                results["rows"].append(row)
                say(f"{row['model']}: {row['tiling'] / row['strict']:.3f}")
        for path in files:
            optimised = optimised_model(path, folder)
            for allow in ALLOWED:
                results["runs"].append(run := in_onnxruntime(optimised, allow, given.time))
                say(f"{run['model']}: {run['after']:,} B in use")
                write(given.out, results, list(page(results)))


if __name__ == "__main__":
    main()
