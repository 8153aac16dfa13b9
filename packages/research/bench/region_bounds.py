"""Bounds over regions of every ONNX model of a folder, and of the networks built here; beside those of another version.

    python bench/region_bounds.py FOLDER [--time 8] [--only NAME ...] -o results/region-bounds
    PYTHONPATH=OTHER/src python bench/region_bounds.py FOLDER -o before
    python bench/region_bounds.py FOLDER --before before.json -o results/region-bounds

Of every model under `generic`: what no choice of regions needs less than (`optimize/region_bound.py`), and what none
needs less than whose regions join what others read, each within `--bounds` seconds; with `--time`, the peak of the best
plan with cuts that so many seconds find. With `--before` the page says which bounds are others, and only those models
are planned whose are. With `--keep` peaks and bounds of models that are not worked out now stay as they were.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lowtide
from alias_models import MODELS
from below import FREE, table
from lowtide.analyse.liveness import profile
from lowtide.api.models import load_own
from lowtide.api.problem import Problem
from lowtide.optimize.region_bound import region_bound
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide_research.bench.machine import machine

HEAD = ("model", "ops", "any regions", "", "joined", "", "plan", "", "proved over", "")


def bounds(path: Path, seconds: float) -> dict[str, Any]:
    """A model's bounds, and whether time was enough for all of its ops."""
    graph, _ = load_own(path, FREE)
    problem = Problem.of(graph, BUILT_IN["generic"])
    footprint = profile(problem.memory, range(len(problem.graph.ops))).footprint
    row: dict[str, Any] = {"model": path.stem, "ops": len(problem.graph.ops)}
    for name, joined in (("any", False), ("joined", True)):
        limits = Limits(seconds)
        found = region_bound(Cutter(problem.graph), problem.memory, footprint, 2**62, limits, materialised=joined)
        row[name] = found.bytes
        row[f"{name}_complete"] = not limits.over()
    return row


def plan(path: Path, seconds: float) -> dict[str, Any]:
    """What the best plan with cuts needs, and over what that is proved least."""
    graph, _ = load_own(path, FREE)
    found = lowtide.research.plan(graph, target="generic", time=seconds, allow="fission")
    proved = found.proved_over if found.optimal and found.proved_over else "no"
    return {"peak": found.peak_bytes, "proved": proved, "stopped": found.stopped}


def changed(row: dict[str, Any], before: dict[str, Any] | None) -> bool:
    """Whether a bound is another one than before."""
    return before is None or any(row[key] != before[key] for key in ("any", "joined"))


def lines(document: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    on = document["machine"]
    page = [
        "# Bounds over regions",
        "",
        f"{on['cpu']}, lowtide {on['commit']}; `bench/region_bounds.py`, target `generic`, bytes. A bound had "
        f"{document['bounds_seconds']:g} s (*in part*: not all ops were looked at), a plan {document['seconds']:g} s.",
        "",
    ]
    before = {r["model"]: r for r in document["before"]}
    rows = document["rows"]
    if before:
        other = [r for r in rows if changed(r, before.get(r["model"]))]
        page += [
            f"Each pair: before, and now. {len(other)} of {len(rows)} models have another bound; the others are below.",
            "Peaks also differ by what else ran on the machine.",
            "",
            *table(HEAD, [_cells(r, before[r["model"]]) for r in other if r["model"] in before]),
            "",
        ]
        rows = [r for r in rows if not changed(r, before.get(r["model"]))]
    plain = [(r["model"], r["ops"], _bound(r, "any"), _bound(r, "joined"), r.get("peak", "")) for r in rows]
    return [*page, *table(("model", "ops", "any regions", "joined", "plan"), plain)]


def _bound(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:,}" + ("" if row[f"{name}_complete"] else " in part")


def _cells(row: dict[str, Any], before: dict[str, Any]) -> tuple[Any, ...]:
    pairs = [(_bound(before, name), _bound(row, name)) for name in ("any", "joined")]
    pairs += [(before.get(key, ""), row.get(key, "")) for key in ("peak", "proved")]
    return (row["model"], row["ops"], *(cell for pair in pairs for cell in pair))


def main() -> int:
    """Bounds of every model, plans of those that it concerns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bounds", type=float, default=3.0, help="seconds for each bound (default: 3)")
    parser.add_argument("--time", type=float, default=0.0, help="seconds for each plan (default: none is made)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="models (default: all)")
    parser.add_argument("--before", type=Path, metavar="FILE", help="results of another version")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="results whose rows stay for what is not run now")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    before = json.loads(arguments.before.read_text())["rows"] if arguments.before else []
    earlier = {r["model"]: r for r in before}
    kept = {r["model"]: r for r in json.loads(arguments.keep.read_text())["rows"]} if arguments.keep else {}
    rows: dict[str, dict[str, Any]] = dict(kept)
    with tempfile.TemporaryDirectory(prefix="lowtide-regions-") as folder:
        paths = sorted(arguments.folder.rglob("*.onnx")) + [Path(folder) / f"{name}.onnx" for name in MODELS]
        for path in (p for p in paths if not arguments.only or p.stem in arguments.only):
            if path.stem in MODELS:
                MODELS[path.stem](path)
            began = time.perf_counter()
            try:
                row = kept.get(path.stem) or bounds(path, arguments.bounds)
                if arguments.time and changed(row, earlier.get(path.stem)):
                    row |= plan(path, arguments.time)
            except lowtide.LowtideError as error:
                print(f"{path.stem}: left out: {error}", flush=True)
                continue
            rows[path.stem] = row
            print(row, f"{time.perf_counter() - began:.1f} s", flush=True)
    document = {"machine": asdict(machine()), "bounds_seconds": arguments.bounds, "seconds": arguments.time}
    document |= {"rows": list(rows.values()), "before": before}
    arguments.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(lines(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
