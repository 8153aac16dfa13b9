"""Heap of onnxruntime-web (WebAssembly, under Node.js) for models as they are, and as planned.

    npm install --prefix FOLDER onnxruntime-web
    python bench/web.py FOLDER MODEL.onnx[,NAME=SIZE,...] ... -o results/front-web

Each model is opened and run in a fresh process of Node.js (`web.mjs`) on one thread: from its bytes with
onnxruntime-web's defaults; the same with its weights as external data; and in two plans, of order alone and with tiles.
These are of the file that onnxruntime's optimiser makes at level extended, which any processor and WebAssembly run,
with weights as external data, opened by the script that `--session js` writes. Bytes of the heap are the same in every
run. Outputs are compared with those of the model as it is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lowtide.api.default import Request
from lowtide.api.optimized import optimized_file
from lowtide.api.planning import plan as research_plan
from lowtide.api.writing import PlanFiles, write_all
from lowtide.comparison import Weights
from lowtide.errors import LowtideError
from lowtide.plan import Plan
from lowtide.report.first_screen import size_text
from lowtide.run.onnx import draw
from lowtide.run_reports import rounding
from lowtide.sizes import Dims
from lowtide.write.lean import move_weights
from lowtide_research.bench.machine import machine

_SCRIPT = Path(__file__).with_suffix(".mjs")
_SECONDS = 10.0
"""Of a search."""
_WAYS = ("today", "external data", "order", "tiles")


@dataclass(frozen=True)
class Opened:
    """A model as it is opened: its file, and, if there are, its external data and the script that lowtide wrote."""

    model: Path
    data: Path | None = None
    session: Path | None = None


def heap(packages: Path, opened: Opened, feeds: Mapping[str, Any], folder: Path, runs: int = 2) -> dict[str, Any]:
    """What a fresh process of Node.js shows: bytes of the heap (`web.mjs`), and the outputs as arrays. Raises
    `RuntimeError`: onnxruntime-web does not open or run it."""
    own = Path(tempfile.mkdtemp(dir=folder))
    given = []
    for k, (name, array) in enumerate(feeds.items()):
        file = own / f"input{k}"
        file.write_bytes(np.ascontiguousarray(array).tobytes())
        given.append({"name": name, "type": str(array.dtype), "dims": list(array.shape), "file": str(file)})
    paths = {"model": opened.model, "data": opened.data, "session": opened.session}
    request = {key: None if path is None else str(path.absolute()) for key, path in paths.items()}
    request |= {"packages": str(packages.absolute()), "options": {}, "feeds": given, "runs": runs, "outputs": str(own)}
    (own / "request.json").write_text(json.dumps(request))
    done = subprocess.run(["node", _SCRIPT, own / "request.json"], capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if "Error:" in line]
        raise RuntimeError(said[0][:200] if said else f"node ends with {done.returncode}")
    seen = json.loads(done.stdout.splitlines()[-1])
    seen["values"] = [np.frombuffer(Path(one["file"]).read_bytes(), one["type"]) for one in seen["outputs"]]
    return seen


def external(model: Path, folder: Path) -> Opened:
    """A model with its weights in a file of their own."""
    out = folder / "external.onnx"
    shutil.copy(model, out)
    data = out.with_name(f"{out.name}.data")
    with data.open("wb") as file:
        move_weights(out, file, data.name)
    return Opened(out, data if data.stat().st_size else None)


def planned(model: Path, folder: Path, dims: Dims, *, tiles: bool) -> tuple[Plan, Opened]:
    """A plan for any processor, and what opens it."""
    folder.mkdir()
    optimised = optimized_file(model, folder / "optimised.onnx", dims, "extended")
    allow = ("tile",) if tiles else ()
    made = research_plan(optimised.path, target="onnxruntime", allow=allow, time=_SECONDS)
    made = msgspec.structs.replace(made, weights=Weights(mapped=True), optimized_from=optimised.origin)
    out, session = folder / "planned.onnx", folder / "planned_session.js"
    write_all(made, model, PlanFiles(out, sessions=(session,)))
    data = out.with_name(f"{out.name}.data")
    return made, Opened(out, data if data.stat().st_size else None, session)


def row(packages: Path, model: Path, dims: dict[str, int], folder: Path) -> dict[str, Any]:
    """A model's row."""
    import onnxruntime

    made: dict[str, Any] = {"model": model.stem}
    try:
        request = Request.of(model, None, None, None, dims, None, ()).with_sizes()
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        feeds = draw(session, model, 0, 1, request.dims)[0][0]
        today = heap(packages, Opened(model), feeds, folder)
        made |= {"empty": today["empty"], "today": _figures(today), "file": model.stat().st_size}
        made["external data"] = _figures(heap(packages, external(model, folder), feeds, folder))
        for way, tiles in (("order", False), ("tiles", True)):
            plan, opened = planned(model, folder / way, request.dims, tiles=tiles)
            if tiles and plan.rewrites is None:
                made[way] = made["order"]
                continue
            seen = heap(packages, opened, feeds, folder)
            same = _agree(today["values"], seen["values"], rounding(t.dtype for t in plan.tensors))
            made[way] = _figures(seen) | {"outputs": same, "tensors": plan.runtime_arena_bytes}
    except (LowtideError, RuntimeError) as error:
        made["error"] = str(error)
    return made


def _figures(seen: Mapping[str, Any]) -> dict[str, Any]:
    return {"loaded": seen["loaded"], "ran": seen["ran"], "seconds": min(seen["seconds"])}


def _agree(first: Sequence[Any], second: Sequence[Any], share: float) -> str:
    """Whether outputs are equal bit for bit, or within rounding; empty: neither."""
    said = "equal"
    for a, b in zip(first, second, strict=True):
        if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not np.abs(a - b).max() <= share * np.abs(a).max():
            return ""
        said = "rounding"
    return said


def page(rows: Sequence[Mapping[str, Any]], version: str) -> str:
    """The rows as a table."""
    m = machine()
    done = [r for r in rows if "error" not in r]
    empty = size_text(done[0]["empty"]) if done else "?"
    lines = [
        "# The heap of onnxruntime-web",
        "",
        f"{m.cpu}; lowtide {m.commit}; onnxruntime-web {version} under Node.js, WebAssembly with SIMD, one thread.",
        "Repeat with `bench/web.py FOLDER MODEL.onnx ...`.",
        "",
        "Bytes of the WebAssembly heap when the model is loaded and when it has run twice, each in a fresh",
        f"process. The heap never shrinks, and is {empty} before a model is there, part of which is free: what",
        "fits there shows no gain. *Today*: the model's bytes and default options. *External data*: the same with",
        "the weights in a file of their own, which onnxruntime-web leaves outside the heap while it loads.",
        "*Order* and *tiles*: plans for any processor, with external data, opened by the script of `--session",
        "js`. Outputs are those of the plans.",
        "",
        "| model | file | today: loaded, ran | external data | order | tiles | ratio | outputs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        if "error" in r:
            lines.append(f"| {r['model']} | {r['error']} | | | | | | |")
            continue
        cells = [f"{size_text(r[way]['loaded'])}, {size_text(r[way]['ran'])}" for way in _WAYS]
        least = min(r[way]["ran"] for way in ("order", "tiles"))
        outputs = ", ".join(dict.fromkeys(r[way].get("outputs") or "differ" for way in ("order", "tiles")))
        ratio = f"{least / r['today']['ran']:.2f}"
        lines.append(f"| {r['model']} | {size_text(r['file'])} | {' | '.join(cells)} | {ratio} | {outputs} |")
    if done:
        ratios = [min(r[way]["ran"] for way in ("order", "tiles")) / r["today"]["ran"] for r in done]
        mean = float(np.exp(np.mean(np.log(ratios))))
        lines += ["", f"Geometric mean of the better plan over {len(done)} of {len(rows)} models: **{mean:.2f}**."]
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure every model and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, metavar="FOLDER")
    parser.add_argument("models", nargs="+")
    parser.add_argument("-o", dest="out", type=Path, required=True)
    options = parser.parse_args()
    installed = options.packages / "node_modules/onnxruntime-web/package.json"
    version = json.loads(installed.read_text())["version"]
    rows = []
    for text in options.models:
        name, *sizes = text.split(",")
        dims = {key: int(size) for key, _, size in (one.rpartition("=") for one in sizes)}
        with tempfile.TemporaryDirectory(prefix="lowtide-web-") as folder:
            rows.append(row(options.packages, Path(name), dims, Path(folder)))
        print(json.dumps(rows[-1]), file=sys.stderr)
        options.out.with_suffix(".md").write_text(page(rows, version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
