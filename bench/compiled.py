"""Training steps under `torch.compile`, what is kept between forward and backward chosen by torch, its knob, or a plan.

    python bench/compiled.py -o bench/results/compiled [--nets swiglu] [--backends aot_eager inductor] [--runs 5]

Of each network (`lowtide.bench.train_known`): MiB that the allocator gives out at once in forward, loss and backward
beside what is there before, by its own events (gradients count), and the least seconds of some runs, each way taken in
turn. Ways: torch's own partitioner; its `activation_memory_budget` at some ratios; `lowtide.torch.partitioner` at parts
of what a step takes with each op once. Needs torch and, for inductor, a compiler; minutes for each row.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide.bench.machine import machine
from lowtide.bench.train_known import KNOWN, known_training
from lowtide.torch import partitioner
from lowtide.torch.meter import allocator_peak

RATIOS, PARTS = (0.5, 0.1), ("77%", "67%", "50%")
MIB = 2**20


def ways() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Names, settings of torch, and a partitioner of ours."""
    yield "torch", {}, None
    for ratio in RATIOS:
        yield f"knob {ratio}", {"activation_memory_budget": ratio}, None
    for part in PARTS:
        yield f"plan {part}", {}, partitioner(part)


def compiled(net: Any, backend: str, settings: dict[str, Any], partition: Any) -> Callable[[], Any]:
    """A step: loss and gradients."""
    torch, config = import_module("torch"), import_module("torch._functorch.config")
    inductor = import_module("torch._inductor.config")
    kind: Any = backend
    if backend == "aot_eager" and partition is not None:
        boxed = import_module("functorch.compile").make_boxed_func
        half = {name: lambda module, _: boxed(module.forward) for name in ("fw_compiler", "bw_compiler")}
        kind = import_module("torch._dynamo.backends.common").aot_autograd(**half, partition_fn=partition)
    elif backend == "aot_eager":
        kind = "aot_eager_decomp_partition"
    torch._dynamo.reset()
    whole = torch.compile(lambda *batch: net.loss_fn(net.model(batch[0]), *batch[1:]), backend=kind, dynamic=False)
    parameters = list(net.model.parameters())

    def run() -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(config.patch(**settings))
            if backend == "inductor" and partition is not None:
                stack.enter_context(inductor.patch(custom_partitioner_fn=partition))
            loss = whole(*net.batch)
            return loss.detach(), torch.autograd.grad(loss, parameters)

    run()
    return run


def rows(name: str, backend: str, runs: int, only: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each way, or for those whose names begin so."""
    net = known_training(name)
    for way, settings, partition in ways():
        if only and not way.startswith(tuple(only)):
            continue
        began = time.perf_counter()
        run = compiled(net, backend, settings, partition)
        ready = time.perf_counter() - began
        (loss, _), peak = allocator_peak(run)
        seconds = []
        for _ in range(runs):
            began = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - began)
        row = {"net": name, "backend": backend, "way": way, "peak_bytes": peak, "seconds": min(seconds)}
        row |= {"loss": float(loss), "compile_seconds": ready}
        if partition is not None:
            (report,) = partition.reports
            row |= {"planned_bytes": report.peak_bytes, "again": report.again, "met": report.met}
        yield row


def page(document: dict[str, Any]) -> str:
    """Markdown."""
    here = document["machine"]
    lines = [
        "# Training steps under torch.compile", "",
        f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {document['torch']}, one thread of a "
        f"machine with other work to do; `bench/compiled.py`, the least of {document['runs']} runs.", "",
        *(__doc__ or "").split("\n\n")[2].splitlines(), "",
        "| net | backend | kept by | MiB | of torch's | s | of torch's | planned, MiB | runs again |", "|---" * 9 + "|",
    ]  # fmt: skip
    if document["runs"] == 1:
        lines[-3:-3] = ["One run of each, under a load that changed: seconds of different rows do not compare.", ""]
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for r in document["rows"]:
        base = first.setdefault((r["net"], r["backend"]), r)
        planned = f"{r['planned_bytes'] / MIB:.1f} | {r['again']}" if "planned_bytes" in r else " | "
        lines.append(
            f"| {r['net']} | {r['backend']} | {r['way']} | {r['peak_bytes'] / MIB:.1f} | "
            f"{r['peak_bytes'] / base['peak_bytes']:.3f} | {r['seconds']:.3f} | "
            f"{'' if document['runs'] == 1 else 'x' + format(r['seconds'] / base['seconds'], '.3f')} | {planned} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, row by row, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="out", type=Path, required=True, help="path of the .md and the .json")
    parser.add_argument("--nets", nargs="*", default=["swiglu"], choices=list(KNOWN))
    parser.add_argument("--backends", nargs="*", default=["aot_eager", "inductor"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="ways whose names begin so: torch knob 'plan 77'")
    options = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    done: list[dict[str, Any]] = []
    for name in options.nets:
        for backend in options.backends:
            for row in rows(name, backend, options.runs, options.only):
                done.append(row)
                print(json.dumps(row), flush=True)
                document = {"machine": asdict(machine()), "torch": torch.__version__, "runs": options.runs}
                document["rows"] = done
                options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
                options.out.with_suffix(".md").write_text(page(document))


if __name__ == "__main__":
    main()
