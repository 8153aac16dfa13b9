"""Training steps under `torch.compile`, what is kept between forward and backward chosen by torch, its knob, or a plan.

    python bench/compiled.py -o results/compiled [--nets swiglu] [--rounds 9]

Of each network (`bench.train_known`): MiB that the allocator gives out at once in forward, loss and backward
beside what is there before, by its own events (gradients count), and processor seconds of a step. All ways of a backend
are compiled first; then each takes one step in turn, round by round, in one process. *s* is the least of all rounds,
*of torch's* and *of the knob's* are medians of the rounds' ratios, so that what disturbs a round disturbs both sides of
it. Ways: eager; torch's own partitioner; its `activation_memory_budget`; `lowtide.torch.partitioner` at parts of what a
step takes with each op once. Needs torch and, for inductor, a compiler, which takes minutes for each way.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from statistics import median
from types import FunctionType
from typing import Any

from lowtide.torch import partitioner
from lowtide.torch.meter import allocator_peak
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write
from lowtide_research.bench.train_known import KNOWN, known_training

KNOB = "knob 0.05"  # the setting of torch's knob that pytorch#197838 is about

RATIOS, PARTS = (0.5, 0.05), ("67%", "50%", "30%")
MIB = 2**20


def ways() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Names, settings of torch, and a partitioner of ours."""
    yield "eager", {}, None
    yield "torch", {}, None
    for ratio in RATIOS:
        yield f"knob {ratio}", {"activation_memory_budget": ratio}, None
    for part in PARTS:
        yield f"plan {part}", {}, partitioner(part)


def compiled(net: Any, backend: str, settings: dict[str, Any], partition: Any) -> Callable[[], Any]:
    """A step: loss and gradients. It is a function of its own to torch, whose caches go by code objects."""
    torch, config = import_module("torch"), import_module("torch._functorch.config")
    inductor = import_module("torch._inductor.config")
    kind: Any = backend
    if backend == "aot_eager" and partition is not None:
        # What torch's own aot_eager runs halves by: saved values die behind their last reader.
        boxed = import_module("torch._dynamo.backends.debugging").boxed_nop
        half = dict.fromkeys(("fw_compiler", "bw_compiler"), boxed)
        kind = import_module("torch._dynamo.backends.common").aot_autograd(**half, partition_fn=partition)
    elif backend == "aot_eager":
        kind = "aot_eager_decomp_partition"

    def forward(*batch: Any) -> Any:
        return net.loss_fn(net.model(batch[0]), *batch[1:])

    own = FunctionType(forward.__code__.replace(), globals(), "forward", None, forward.__closure__)
    whole = own if backend == "eager" else torch.compile(own, backend=kind, dynamic=False)
    parameters = list(net.model.parameters())

    def run() -> Any:
        with contextlib.ExitStack() as stack:
            # Halves from torch's cache come without the partitioner's report.
            stack.enter_context(config.patch(**settings, enable_autograd_cache=False))
            if backend == "inductor" and partition is not None:
                stack.enter_context(inductor.patch(custom_partitioner_fn=partition))
            loss = whole(*net.batch)
            return loss.detach(), torch.autograd.grad(loss, parameters)

    run()
    return run


def rows(name: str, backend: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each way."""
    net = known_training(name)
    result: list[dict[str, Any]] = []
    runs: list[Callable[[], Any]] = []
    for way, settings, partition in ways():
        began = time.perf_counter()
        run = compiled(net, "eager" if way == "eager" else backend, settings, partition)
        row: dict[str, Any] = {
            "net": name,
            "backend": backend,
            "way": way,
            "compile_seconds": time.perf_counter() - began,
        }
        (loss, _), row["peak_bytes"] = allocator_peak(run)
        row["loss"] = float(loss)
        if partition is not None:
            (report,) = partition.reports
            row |= {"planned_bytes": report.peak_bytes, "again": report.recomputed, "met": report.met}
            row["overhead"] = report.overhead
        say(row)
        result.append(row)
        runs.append(run)
    for row, seconds in zip(result, in_turn(runs, rounds), strict=True):
        row["seconds"] = seconds
    return result


def in_turn(runs: list[Callable[[], Any]], rounds: int) -> list[list[float]]:
    """Processor seconds of each way in each round, begun at another way each time."""
    seconds: list[list[float]] = [[0.0] * rounds for _ in runs]
    for number in range(rounds):
        for k in range(len(runs)):
            at = (k + number) % len(runs)
            began = time.process_time()
            runs[at]()
            seconds[at][number] = time.process_time() - began
    return seconds


def ratio(row: dict[str, Any], base: dict[str, Any] | None) -> str:
    """The median of the rounds' ratios to another way's, as a cell."""
    if base is None:
        return ""
    return f"x{median(a / b for a, b in zip(row['seconds'], base['seconds'], strict=True)):.3f}"


HEAD = (
    "net", "backend", "kept by", "MiB", "of torch's", f"of {KNOB}'s", "s", "of torch's", f"of {KNOB}'s", "planned, MiB",
    "runs again", "time planned",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """Markdown."""
    ways = {(r["net"], r["backend"], r["way"]): r for r in results["rows"]}
    cells = list[tuple[Any, ...]]()
    for r in results["rows"]:
        bases = [ways.get((r["net"], r["backend"], way)) for way in ("torch", KNOB)]
        sizes = ["" if base is None else f"{r['peak_bytes'] / base['peak_bytes']:.3f}" for base in bases]
        planned = ("", "", "")
        if "planned_bytes" in r:
            planned = (f"{r['planned_bytes'] / MIB:.1f}", r["again"], f"x{1 + r['overhead']:.3f}")
        cells.append((
            r["net"], r["backend"], r["way"], f"{r['peak_bytes'] / MIB:.1f}", *sizes, f"{min(r['seconds']):.3f}",
            *(ratio(r, base) for base in bases), *planned,
        ))  # fmt: skip
    return [
        "# Training steps under torch.compile", "",
        f"{about(results['machine'])}; torch {results['torch']}, one thread of a machine with other work to do; "
        f"`bench/compiled.py`, {results['rounds']} rounds.", "", *method_of(__doc__), *table(HEAD, cells),
    ]  # fmt: skip


def main() -> None:
    """Measure, backend by backend, and write."""
    parser = script(__doc__)
    parser.add_argument("--nets", nargs="*", default=["swiglu"], choices=list(KNOWN))
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    results = document(torch=torch.__version__, rounds=given.rounds, rows=[])
    for name, backend in product(given.nets, ("aot_eager", "inductor")):
        results["rows"] += rows(name, backend, given.rounds)
        write(given.out, results, page(results))


if __name__ == "__main__":
    main()
