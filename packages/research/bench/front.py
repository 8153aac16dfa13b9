"""What `lowtide plan MODEL` gains where models run: process memory and time beside onnxruntime's defaults.

    python bench/front.py MODEL.onnx[,NAME=SIZE,...] ... [--random-weights] [--for T] -o results/front
    python bench/front.py MODEL.onnx[,NAME=SIZE,...] ... --slower 20% -o results/front-slower

Each model is planned by the default command alone, without an option but `--slower` if it is given; sizes that a file
leaves free are assumed.
Both sides are measured in fresh processes, in turn, on the same random inputs. With --random-weights models without
weights are given some. A model that cannot be planned is a row with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from math import exp, log, prod
from pathlib import Path
from typing import Any

import msgspec
import onnx

from lowtide.api.default import Request, plan_request
from lowtide.api.default.process import bytes_read, empty_session_bytes
from lowtide.errors import LowtideError
from lowtide.read.onnx.proto import all_graphs
from lowtide.report.first_screen import size_text
from lowtide.run.random_weights import missing_weights, with_random_weights
from lowtide_research.bench.machine import machine

NEAR = 0.05
"""Part of what is measured that a prediction may be off."""


def row(model: Path, dims: dict[str, int], slower: str | None, target: str | None) -> dict[str, Any]:
    """A model's row."""
    began = time.perf_counter()
    made: dict[str, Any] = {"model": model.stem}
    try:
        plan = plan_request(Request.of(model, None, slower, target, dims, None, ()))
    except LowtideError as error:
        return made | {"error": str(error), "seconds": time.perf_counter() - began}
    seen = plan.comparison
    assert seen is not None
    return made | {
        "runtime": seen.runtime,
        "sizes": seen.sizes,
        "today_bytes": seen.today_bytes,
        "planned_bytes": seen.planned_bytes,
        "base_bytes": seen.base_bytes,
        "tensors_bytes": seen.tensors_bytes,
        "bound_bytes": seen.tensors_bound_bytes,
        "predicted_bytes": None if seen.predicted is None else seen.predicted.total_bytes,
        "empty_bytes": empty_session_bytes() if seen.measured else None,
        "parts": None if seen.predicted is None else msgspec.to_builtins(seen.predicted),
        "read_bytes": weights_read(model),
        "ops": len(plan.order),
        "weights": None
        if plan.weights is None
        else {"mapped": plan.weights.mapped, "prepacked": plan.weights.prepacked},
        "measured": seen.measured,
        "today_seconds": seen.today_seconds,
        "slowdown": seen.slowdown,
        "outputs": seen.outputs,
        "better": seen.better,
        "changed": bool(plan.rewrites),
        "seconds": time.perf_counter() - began,
    }


def weights_read(model: Path) -> int:
    """Bytes of weights that a run of a model reads, each counted once."""
    graphs = list(all_graphs(onnx.load(str(model), load_external_data=False).graph))
    sizes = {
        name: onnx.helper.tensor_dtype_to_np_dtype(t.data_type).itemsize * prod(t.dims)
        for each in graphs
        for name, t in [
            *((t.name, t) for t in each.initializer),
            *((node.output[0], a.t) for node in each.node for a in node.attribute if a.HasField("t")),
        ]
    }
    return bytes_read(graphs[0], sizes)


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return exp(sum(map(log, values)) / len(values))


def page(rows: Sequence[dict[str, Any]], words: str, at: dict[str, Any]) -> str:
    """The rows as a table. `at`: the machine that they were measured on."""
    done = [r for r in rows if r.get("measured")]
    lines = [
        "# The default command in onnxruntime",
        "",
        f"{at['cpu']}, {at['cores']} cores; lowtide {at['commit']}; "
        + (f"{done[0]['runtime']}." if done else "unmeasured."),
        f"Repeat with `bench/front.py {words}`.",
        "",
        "Memory of the process above that of an empty one, and time of a run: onnxruntime's defaults, then the plan",
        "in its session, each in a fresh process, in turn. Where no plan is better, the model stays as it is, and",
        "both sides count as equal in the means. Predicted: how far what was predicted of the planned process is from",
        "what was measured.",
        "",
        "| model | inputs | today | planned | ratio | predicted | tensors | their bound | tiles | today ms | time "
        "| outputs | plan s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        if "error" in r:
            lines.append(f"| {r['model']} | {r['error']} | | | | | | | | | | | {r['seconds']:.1f} |")
            continue
        ratio = r["planned_bytes"] / r["today_bytes"]
        kept = "" if r["better"] else " (kept as it is)"
        sizes = ", ".join(f"{name} {shape}" for name, shape in list(r["sizes"].items())[:2])
        seconds = f"{1000 * r['today_seconds']:.3g}" if r["today_seconds"] else ""
        times = f"{r['slowdown']:.2f}" if r["slowdown"] else ""
        off = f"{r['predicted_bytes'] / r['planned_bytes'] - 1:+.1%}" if r["predicted_bytes"] else ""
        lines.append(
            f"| {r['model']} | {sizes} | {size_text(r['today_bytes'])} | {size_text(r['planned_bytes'])} "
            f"| {ratio:.2f}{kept} | {off} | {_known(r['tensors_bytes'])} | {_known(r['bound_bytes'])} "
            f"| {'yes' if r['changed'] else ''} | {seconds} | {times} "
            f"| {r['outputs'] or 'differ'} | {r['seconds']:.1f} |"
        )
    if done:
        memory = geometric_mean([r["planned_bytes"] / r["today_bytes"] if r["better"] else 1.0 for r in done])
        speed = geometric_mean([r["slowdown"] if r["better"] else 1.0 for r in done])
        slowest = max(r["slowdown"] if r["better"] else 1.0 for r in done)
        lines += [
            "",
            f"Geometric means over {len(done)} of {len(rows)} models: memory **{memory:.3f}**, time **{speed:.3f}**; "
            f"slowest {slowest:.2f}.",
            *_sentences(done),
        ]
    return "\n".join([*lines, ""])


def _sentences(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How many predictions are near, and what an empty session takes of both sides."""
    foreseen = [r for r in rows if r["predicted_bytes"]]
    least = [
        min(
            1.0, (r["empty_bytes"] + r["read_bytes"] + r["bound_bytes"] + r["parts"]["values_bytes"]) / r["today_bytes"]
        )
        for r in foreseen
    ]
    near = sum(abs(r["predicted_bytes"] / r["planned_bytes"] - 1) <= NEAR for r in foreseen)
    empty = [r["empty_bytes"] for r in rows]
    above = [
        max(1, r["planned_bytes"] - r["empty_bytes"]) / max(1, r["today_bytes"] - r["empty_bytes"])
        if r["better"]
        else 1.0
        for r in rows
    ]
    return [
        f"Predicted within {NEAR:.0%} of measured: {near} of {len(foreseen)}. A session of one Relu takes "
        f"{size_text(max(empty))}, most of it onnxruntime's own code: no plan changes that. Of what models add to it, "
        f"plans need **{geometric_mean(above):.3f}** (geometric mean).",
        *least_sentence(least),
    ]


def least_sentence(ratios: Sequence[float]) -> list[str]:
    """What no plan goes below that keeps each weight in memory once."""
    if not ratios:
        return []
    return [
        f"An empty session, each weight once, the proved bound of the tensors and the inputs together are "
        f"**{geometric_mean(ratios):.3f}** of today's memory over {len(ratios)} models: only smaller sessions "
        "or weights that are not in memory go below that."
    ]


def _known(size: int | None) -> str:
    return "" if size is None else size_text(size)


def main() -> int:
    """Plan every model and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--random-weights", action="store_true")
    parser.add_argument("--slower")
    parser.add_argument("--for", dest="target", metavar="TARGET")
    parser.add_argument("-o", dest="out", type=Path, required=True)
    options = parser.parse_args()
    rows, at = list[dict[str, Any]](), asdict(machine())
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        for text in options.models:
            name, *sizes = text.split(",")
            model = path = Path(name)
            dims = {key: int(size) for key, _, size in (one.rpartition("=") for one in sizes)}
            if options.random_weights and missing_weights(model):
                path = Path(folder) / model.name
                with_random_weights(model, path)
            rows.append(row(path, dims, options.slower, options.target))
            print(json.dumps(rows[-1]), file=sys.stderr)
    words = "MODEL.onnx ..." + (" --random-weights" if options.random_weights else "")
    words += f" --slower {options.slower}" if options.slower else ""
    words += f" --for {options.target}" if options.target else ""
    document = {"machine": at, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(page(rows, words, at))
    return 0


if __name__ == "__main__":
    sys.exit(main())
