"""Training steps of whole networks at MAGIS's sizes, traced without memory: what a part of their peak costs in time.

    python bench/train_sizes.py -o results/train-sizes [--only bert vit]

Networks are those of `bench.train_sizes`, with norms, embeddings, dropout and heads, without an optimizer: all
gradients live at the end. Time is counted in operations, torch's own count of products and one for each element of all
else. Of each part of own order's peak: what is found in so many seconds, what no sequence of the ops adds less than
(the price cut, over all orders and any number of runs), and the processor seconds until the first plan is there.
Needs torch; ten minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.torch.costed import Costed, costed
from lowtide.torch.search import largest_op, least_more, search
from lowtide.torch.sequence import sequence_of
from lowtide.torch.work import by_operations
from lowtide_research.bench.machine import machine
from lowtide_research.bench.train_sizes import SIZES, Sized
from speeds import traced

PARTS = (0.8, 0.6, 0.5, 0.4, 0.3)
GIB = 2**30


def rows_of(torch: Any, sized: Sized, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each part of own order's peak."""
    program, seconds = traced(torch, sized.full)
    step = costed(torch, program, by_operations(torch, program))
    given = sum(g.form.extent_bytes for g in program.givens)
    about = {
        "net": sized.name, "words": sized.words, "ops": len(program.actions), "capture_seconds": seconds,
        "given_bytes": given, "own_bytes": step.own.peak_bytes, "floor_bytes": largest_op(step.graph)[0],
    }  # fmt: skip
    return [about | _row(step, part, options) for part in PARTS]


def _row(step: Costed, part: float, options: argparse.Namespace) -> dict[str, Any]:
    budget, once = int(step.own.peak_bytes * part), step.seconds_of(step.graph.own_order)
    row: dict[str, Any] = {"part": part, "budget": budget}
    if largest_op(step.graph)[0] > budget:
        at = step.graph.op_by_id[largest_op(step.graph)[1]]
        return row | {"impossible": f"{at.label} alone takes {largest_op(step.graph)[0] / GIB:.2f} GiB"}
    first, began = list[tuple[float, float]](), time.process_time()

    def report(seconds: float) -> None:
        first.append((seconds / once - 1, time.process_time() - began))

    order = tuple(search(step.graph, step.seconds, budget, options.time, report=report))
    peak = sequence_of(step.graph, order).peak_bytes
    return row | {
        "met": peak <= budget, "peak_bytes": peak, "more": step.seconds_of(order) / once - 1,
        "bound": least_more(step.graph, step.seconds, budget, options.bound) / once,
        "first_more": first[0][0] if first else None, "first_seconds": first[0][1] if first else None,
        "runs_again": len(order) - len(step.graph.ops),
    }  # fmt: skip


def page(document: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    here, rows = document["machine"], document["rows"]
    lines = [
        "# Training steps of whole networks at MAGIS's sizes", "",
        f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {document['torch']}; "
        f"`bench/train_sizes.py --time {document['time']:g}`.", "",
        "Traced without memory, nothing was run: bytes allocated at once beside parameters, buffers and batch "
        "(*given*), by the shapes, without workspace; gradients count and live to the end. *capture*: processor "
        "seconds, nearly all of them torch's tracing. Time is counted in operations, torch's own count of products and "
        "one for each element of all else. *found*: how much more of it within a part of own order's peak, in "
        f"{document['time']:g} s of search by the clock on the wall of a machine with other work to do; *bound*: no "
        "sequence adds less, whatever its order; *first*: the first plan, and the processor seconds of the search "
        "until it was there.", "",
        "| net | ops | capture, s | given, GiB | own order, GiB | part | found | bound | first | s | runs again |",
        "|---" * 11 + "|",
    ]  # fmt: skip
    for r in rows:
        start = f"| {r['net']} | {r['ops']:,} | {r['capture_seconds']:.1f} | {r['given_bytes'] / GIB:.2f} | "
        start += f"{r['own_bytes'] / GIB:.2f} | {r['part']:.0%} | "
        if "impossible" in r:
            lines.append(f"{start}impossible: {r['impossible']} | | | | |")
            continue
        found = f"{r['more']:+.3%}" if r["met"] else f"not met: {r['peak_bytes'] / r['own_bytes']:.1%} reached"
        first = ("", "") if r["first_more"] is None else (f"{r['first_more']:+.3%}", f"{r['first_seconds']:.2f}")
        lines.append(f"{start}{found} | {r['bound']:+.3%} | {' | '.join(first)} | {r['runs_again']} |")
    return [*lines, "", *dict.fromkeys(f"* {r['net']}: {r['words']}." for r in rows)]


def main() -> int:
    """Search, network by network, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="path without ending; .md and .json")
    parser.add_argument("--only", nargs="*", default=[sized.name for sized in SIZES], help="some of the networks")
    parser.add_argument("--time", type=float, default=10.0, help="seconds of search for each row")
    parser.add_argument("--bound", type=float, default=5.0, help="seconds for each bound")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    document: dict[str, Any] = {"machine": asdict(machine()), "torch": torch.__version__, "time": given.time}
    document["rows"] = []
    for sized in SIZES:
        if sized.name in given.only:
            document["rows"] += rows_of(torch, sized, given)
            given.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
            given.output.with_suffix(".md").write_text("\n".join(page(document)) + "\n")
            print(f"{sized.name}: written", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
