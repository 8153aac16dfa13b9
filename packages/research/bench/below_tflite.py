"""What cuts reach below the best order in TFLM: .tflite files of a folder, and a MobileNetV2, planned and measured.

    python bench/below_tflite.py FOLDER [--time 30] [--many 12] -o results/below_tflite

Of each model the head and the whole arena, in bytes: of the file as it stands, by TFLM's own planner; of the best
order; with cuts that need the fewest bytes in all, and with those of the lowest head among plans that still need fewer
in all, of at most so many ops to one of the model. What is planned with cuts runs in TFLM and in LiteRT: outputs bit by
bit, head and arena as TFLM reports them. `--kernels reference` plans for the reference kernels alone, whose outputs may
lie over inputs further.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lowtide
from lowtide.plan import Plan
from lowtide.run_reports import TfliteRunReport
from lowtide_research.bench.machine import machine
from lowtide_research.bench.tflite_net import SAME, VALID, Net, s

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""MobileNetV2's inverted residuals: expansion, channels, how many, first stride (Sandler et al. 2018, table 2)."""


def channels_of(width: float, channels: int) -> int:
    """Channels at a width: a multiple of 8, no more than a tenth less than asked for."""
    scaled = width * channels
    made = max(8, int(scaled + 4) // 8 * 8)
    return made + 8 if made < 0.9 * scaled else made


def mobilenet_v2(width: float = 0.35, size: int = 224, classes: int = 1000) -> Net:
    """MobileNetV2 in int8 with random weights."""
    net = Net(seed=0)
    given = net.tensor((1, size, size, 3))
    x = net.conv(given, channels_of(width, 32), (3, 3), (2, 2))
    for expansion, channels, count, stride in BLOCKS:
        for k in range(count):
            step = stride if k == 0 else 1
            depth = net.shape(x)[3]
            y = net.conv(x, depth * expansion, (1, 1)) if expansion > 1 else x
            y = net.conv(
                net.conv(y, 1, (3, 3), (step, step), SAME, depthwise=True), channels_of(width, channels), (1, 1)
            )
            x = net.add(x, y) if step == 1 and net.shape(y)[3] == depth else y
    x = net.conv(x, 1280, (1, 1))
    x = net.pool(x, "AVERAGE_POOL_2D", (net.shape(x)[1], net.shape(x)[2]), (1, 1), VALID)
    x = net.conv(x, classes, (1, 1))
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    net.ends([given], [net.unary("SOFTMAX", net.reshape(x, (1, classes)), o, scale=1 / 256, zero=-128)])
    return net


def measured(path: Path, plan: Plan, tag: str) -> dict[str, Any]:
    """A plan's figures, and whether the runtimes agree with them."""
    report = lowtide.run(path, None, plan)
    assert isinstance(report, TfliteRunReport)
    seen = None if report.tflm is None else report.tflm.planned
    return {
        f"{tag}_head": plan.arena_bytes,
        f"{tag}_arena": plan.runtime_arena_bytes,
        f"{tag}_ops": len(plan.order),
        f"{tag}_equal": all(o.equal for o in report.outputs),
        f"{tag}_as_planned": seen is not None
        and (seen.head_bytes, seen.smallest_arena_bytes) == (plan.arena_bytes, plan.runtime_arena_bytes),
    }


def row_of(path: Path, target: str, seconds: float, many: float) -> dict[str, Any]:
    """A model's row."""
    began = time.perf_counter()
    best = lowtide.plan(path, target=target, time=seconds)
    figures = {f.what: f.default_bytes for f in best.runtime_figures or ()}
    least = lowtide.plan(path, target=target, time=seconds, allow="fission")
    most = int(many * len(best.order))
    lowest = lowtide.plan(path, target=target, time=seconds, allow="fission", max_ops=most)
    return {
        "model": path.stem,
        "ops": len(best.order),
        "own_head": figures.get("head"),
        "own_arena": figures.get("kTensorArenaSize"),
        "best_head": best.arena_bytes,
        "best_arena": best.runtime_arena_bytes,
        **measured(path, least, "least"),
        **measured(path, lowest, "lowest"),
        "seconds": time.perf_counter() - began,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown."""
    lines = [
        "| model | ops | as it stands | best order | fewest bytes in all | lowest head | as planned |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for r in rows:
        cells = [f"{r[f'{k}_head']:,} / {r[f'{k}_arena']:,}" for k in ("own", "best", "least", "lowest")]
        cells[2] += f" ({r['least_ops']})"
        cells[3] += f" ({r['lowest_ops']})"
        held = all(r[f"{k}_{what}"] for k in ("least", "lowest") for what in ("equal", "as_planned"))
        lines.append(f"| {r['model']} | {r['ops']} | {' | '.join(cells)} | {'yes' if held else 'NO'} |")
    return lines


def main() -> int:
    """Rows as JSON and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", type=float, default=30.0, help="seconds for each plan")
    parser.add_argument("--many", type=float, default=12.0, help="ops of the lowest head to one of the model")
    parser.add_argument("--kernels", default="any", help="whose kernels run")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    target = f"tflm,kernels={options.kernels}"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "mobilenet_v2_0.35_224_int8.tflite"
        made.write_bytes(mobilenet_v2().bytes())
        for path in (*sorted(options.folder.glob("*.tflite")), made):
            rows.append(row_of(path, target, options.time, options.many))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    own = machine()
    text = [
        "# Cuts in TFLM",
        "",
        f"{own.cpu}, lowtide {(own.commit or '')[:7]}; `bench/below_tflite.py`, {options.time:g} s a plan, `{target}`.",
        "",
        "Bytes of the head / of the whole arena (`kTensorArenaSize`), with cuts the ops that run. `as it stands`: by",
        "TFLM's own planner; `as planned`: both plans' outputs equal bit by bit in TFLM and LiteRT, head and arena as",
        f"measured. Lowest head: of plans whose arena falls, with at most {options.many:g} ops to one of the model.",
        "",
        *table(rows),
        "",
    ]
    options.out.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")
    options.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
