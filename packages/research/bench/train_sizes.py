"""Training steps of whole networks at MAGIS's sizes, traced without memory: what a part of their peak costs in time.

    python bench/train_sizes.py -o results/train-sizes

Networks are those of `bench.train_sizes`, with norms, embeddings, dropout and heads, without an optimizer: all
gradients live at the end. Time is counted in operations, torch's own count of products and one for each element of all
else. Of each part of own order's peak: what is found in so many seconds, what no sequence of the ops adds less than
(the price cut, over all orders and any number of runs), and the processor seconds until the first plan is there.
Needs torch; ten minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lowtide.torch.costed import Costed, costed
from lowtide.torch.planning import PlanOptions
from lowtide.torch.program import Program
from lowtide.torch.search import largest_op, least_more, search
from lowtide.torch.sequence import sequence_of
from lowtide.torch.step import Job
from lowtide.torch.work import by_operations
from lowtide_research.bench.pages import about, document, script, table, write
from lowtide_research.bench.train_nets import Training
from lowtide_research.bench.train_sizes import SIZES, Sized

PARTS = (0.8, 0.6, 0.5, 0.4, 0.3)
GIB = 2**30


def traced(torch: Any, make: Callable[[], Training]) -> tuple[Program, float]:
    """A step without memory, and the processor seconds of capturing it."""
    with torch.device("meta"):
        net = make()
    began = time.process_time()
    _, program, _ = Job(net.model, net.loss_fn, None, (), PlanOptions(measure=False), True, False).traced(net.batch)
    return program, time.process_time() - began


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


HEAD = (
    "net", "ops", "capture, s", "given, GiB", "own order, GiB", "part", "found", "bound", "first", "s", "runs again",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    cells = list[tuple[Any, ...]]()
    for r in results["rows"]:
        start = (r["net"], r["ops"], f"{r['capture_seconds']:.1f}", f"{r['given_bytes'] / GIB:.2f}")
        start = (*start, f"{r['own_bytes'] / GIB:.2f}", f"{r['part']:.0%}")
        if "impossible" in r:
            cells.append((*start, f"impossible: {r['impossible']}", "", "", "", ""))
            continue
        found = f"{r['more']:+.3%}" if r["met"] else f"not met: {r['peak_bytes'] / r['own_bytes']:.1%} reached"
        first = ("", "") if r["first_more"] is None else (f"{r['first_more']:+.3%}", f"{r['first_seconds']:.2f}")
        cells.append((*start, found, f"{r['bound']:+.3%}", *first, r["runs_again"]))
    return [
        "# Training steps of whole networks at MAGIS's sizes", "",
        f"{about(results['machine'])}; torch {results['torch']}; `bench/train_sizes.py`.", "",
        "Traced without memory, nothing was run: bytes allocated at once in addition to parameters, buffers and batch "
        "(*given*), by the shapes, without workspace; gradients count and live to the end. *capture*: processor "
        "seconds, nearly all of them torch's tracing. Time is counted in operations, torch's own count of products and "
        "one for each element of all else. *found*: how much more of it within a part of own order's peak, in "
        f"{results['time']:g} s of search by the clock on the wall of a machine with other work to do; *bound*: no "
        "sequence adds less, whatever its order; *first*: the first plan, and the processor seconds of the search "
        "until it was there.", "", *table(HEAD, cells), "",
        *dict.fromkeys(f"* {r['net']}: {r['words']}." for r in results["rows"]),
    ]  # fmt: skip


def main() -> None:
    """Search, network by network, and write."""
    parser = script(__doc__)
    parser.add_argument("--time", type=float, default=10.0, help="seconds of search for each row")
    parser.add_argument("--bound", type=float, default=5.0, help="seconds for each bound")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    results = document(torch=torch.__version__, time=given.time, rows=[])
    for sized in SIZES:
        results["rows"] += rows_of(torch, sized, given)
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
