"""How fast regions are tried: footprints of regions along an order, a second of the processor.

    python bench/regions.py FOLDER -o results/regions

Of every model its own order, and along it the search for the way to cut of the lowest peak (`optimize/regions.py`, in
the core `core/cut/path.h`): a region is an interval of the order, an axis, a number of stripes and a pace, and is tried
when its footprint and ops are worked out, or so much of them that it is known to be above the limit: *given up*. None
is counted that was not looked at. Seconds are of the processor, on one thread; *with the model* has what the core is
told of the graph beforehand, in Python. The best of three.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from below import table
from lowtide import _core
from lowtide.api import load
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.optimize.regions import LONGEST, MOST_STRIPES, cut_model
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide_research.bench.machine import machine
from lowtide_research.bench.networks import models_named

MODELS = (
    "mobilenet_v2",
    "resnet50",
    "densenet121",
    "whisper_tiny_encoder",
    "swin_t",
    "nasnetamobile",
    "hrnet_w18_small",
)
SECONDS, TRIES, ASKED = 20.0, 3, 100_000


def row(path: Path) -> dict[str, Any]:
    """Regions along a model's own order."""
    graph = load(path)
    memory = Problem.of(graph, BUILT_IN["strict"]).memory
    order, best = list(range(len(graph.ops))), dict[str, Any]()
    for _ in range(TRIES):
        began = time.process_time()
        model = cut_model(Cutter(graph), memory, order)
        told = time.process_time()
        way = _core.best_path(
            model, LONGEST, MOST_STRIPES, 0, 0, lambda told=told: time.process_time() > told + SECONDS, 0, []
        )
        spent = time.process_time() - told
        if not best or way.evaluated / spent > best["evaluated"] / best["core_seconds"]:
            best = {"evaluated": way.evaluated, "core_seconds": spent, "model_seconds": told - began}
            best |= {"complete": way.complete, "given_up": way.given_up, "peak": way.peak}
    return {"model": path.stem, "ops": len(graph.ops), **best}


def lines(document: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    on = document["machine"]
    head = (
        "model", "ops", "regions tried", "given up", "seconds", "a second", "with the model", "peak", "all of them",
        "asked",
    )  # fmt: skip
    rows = [
        (
            r["model"], r["ops"], r["evaluated"], r["given_up"], f"{r['core_seconds']:.2f}",
            round(r["evaluated"] / r["core_seconds"]),
            round(r["evaluated"] / (r["core_seconds"] + r["model_seconds"])), r["peak"],
            "yes" if r["complete"] else "no", ASKED,
        )
        for r in document["rows"]
    ]  # fmt: skip
    return [
        "# Regions a second",
        "",
        f"{on['cpu']}, {on['cores']} cores, other work beside it, lowtide {on['commit']};",
        "`bench/regions.py`, one thread.",
        "",
        *(__doc__ or "").split("\n\n")[2].strip().splitlines(),
        "",
        *table(head, rows),
    ]


def main() -> int:
    """Time the models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=MODELS, metavar="NAME", help="models (default: seven)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    try:
        paths = models_named(arguments.folder, arguments.only)
    except InputError as error:
        parser.error(str(error))
    document = {"machine": asdict(machine()), "rows": [row(path) for path in paths]}
    arguments.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(lines(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
