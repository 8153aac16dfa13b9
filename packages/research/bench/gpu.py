"""Training steps on a GPU: eager, torch's own knob, Inductor and plans, each run; predicted beside measured.

    python bench/gpu.py -o results/gpu [--only resnet50 bert unet] [--minutes 10]
    python bench/gpu.py --device cpu --small --ways eager knob plan -o OUT

Networks are those of `bench.train_sizes`, captured whole. Each way computes loss and gradients of the same
batch from the same seed: eager; `activation_memory_budget` at five ratios, its halves run node by node; Inductor;
`compile_step` within parts of what eager takes, times and workspace measured op by op. No way begins after so many
minutes, which is said. Bytes and seconds are the device's (`lowtide.torch.cuda_meter`). It was written where no GPU is:
`--device cpu --small` runs the same code on small networks with the meters of the CPU, one thread, in a minute or two;
Inductor takes minutes more there. Needs torch, and a compiler for Inductor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

from lowtide.errors import InputError, first_line
from lowtide.torch.cuda_meter import check_device
from lowtide.torch.meter import run_seconds
from lowtide_research.bench.activation_budget import halves
from lowtide_research.bench.pages import about, document, say, script, table, write
from lowtide_research.bench.train_nets import Training
from lowtide_research.bench.train_sizes import SIZES, Sized
from train_known import MIB, Bench

WAYS = ("eager", "knob", "plan", "inductor")
NETS = ("resnet50", "bert", "unet")
RATIOS = (1.0, 0.75, 0.5, 0.25, 0.0)
PARTS = ((0.8, "recompute"), (0.6, "recompute"), (0.5, "recompute"), (0.4, "recompute,tile"))
"""Of eager's bytes, and what may be changed for it."""

RUNS = 5  # times that a way is timed, after two runs that are not


def network(torch: Any, sized: Sized, options: argparse.Namespace) -> Training:
    """With weights and a batch of one seed, on the device."""
    torch.manual_seed(0)
    net = sized.small() if options.small else sized.full()
    return replace(net, model=net.model.to(options.device), batch=tuple(x.to(options.device) for x in net.batch))


def row_of(bench: Bench, run: Callable[[], Any]) -> dict[str, Any]:
    """What a way takes, and how far its loss and gradients are from eager's."""
    torch, device = bench.torch, bench.device
    bench.once(run)
    returned, peak = bench.once(run)
    row: dict[str, Any] = {"bytes": peak, "furthest": bench.furthest(dict(zip(bench.expected, returned)))}  # noqa: B905
    del returned
    if device[0] == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device[1])
        bench.once(run)
        row["max_memory_allocated"] = torch.cuda.max_memory_allocated(device[1])
        row["max_memory_reserved"] = torch.cuda.max_memory_reserved(device[1])
    seconds = [bench.once(run, lambda f: (run_seconds(f, device), 0))[0] for _ in range(RUNS)]
    return row | {"seconds": median(seconds)}


def compiled(net: Any) -> Callable[[], Any]:
    """A step by Inductor: loss and gradients."""
    torch, parameters = import_module("torch"), list(net.model.parameters())
    forward = torch.compile(lambda *batch: net.loss_fn(net.model(batch[0]), *batch[1:]), dynamic=False)

    def run() -> Any:
        loss = forward(*net.batch)
        return loss.detach(), torch.autograd.grad(loss, parameters)

    return run


def rows(bench: Bench, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Each way of a network by name, to be called for its row."""
    net = bench.net

    def knob(ratio: float) -> dict[str, Any]:
        return row_of(bench, halves(net.model, net.loss_fn, net.batch, ratio))

    def inductor() -> dict[str, Any]:
        whole = compiled(net)
        return row_of(bench, lambda: (lambda pair: [pair[0], *pair[1]])(whole()))

    def planned(part: float, allow: str) -> dict[str, Any]:
        step = bench.step("measured", int(part * eager["bytes"]), allow)
        run = step.prepare(*net.batch)
        names = bench.names_of(step)
        row = row_of(bench, lambda: [value for _, value in sorted(zip(names, run(), strict=True), key=order)])
        return row | {"predicted_bytes": step.plan.peak_bytes, "predicted_seconds": step.plan.seconds}

    number = {name: k for k, name in enumerate(bench.expected)}

    def order(pair: tuple[str | None, Any]) -> int:
        return len(number) if pair[0] is None else number[pair[0]]

    eager = row_of(bench, bench.eager)
    yield "eager", lambda: eager
    for ratio in RATIOS if "knob" in options.ways else ():
        yield f"knob {ratio:g}", partial(knob, ratio)
    for part, allow in PARTS if "plan" in options.ways else ():
        yield f"plan {part:g}{', parts' if 'tile' in allow else ''}", partial(planned, part, allow)
    if "inductor" in options.ways:
        yield "inductor", inductor


HEAD = (
    "net", "way", "planned", "took", "allocated", "reserved", "predicted, ms", "took, ms", "of eager's", "from eager's",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    cells = list[tuple[Any, ...]]()
    for net in results["nets"]:
        base = net["rows"][0]["seconds"]
        for row in net["rows"]:
            if "seconds" not in row:
                cells.append((net["net"], row["way"], row["failed"], *[""] * (len(HEAD) - 3)))
                continue
            sizes = ("predicted_bytes", "bytes", "max_memory_allocated", "max_memory_reserved")
            predicted = f"{1e3 * row['predicted_seconds']:.2f}" if "predicted_seconds" in row else ""
            cells.append((
                net["net"], row["way"], *(f"{row[name] / MIB:,.4g}" if name in row else "" for name in sizes),
                predicted, f"{1e3 * row['seconds']:.2f}", f"x{row['seconds'] / base:.3f}", f"{row['furthest']:.0e}",
            ))  # fmt: skip
    words = {sized.name: sized.words for sized in SIZES}
    return [
        f"# Training steps on {results['device']}", "",
        f"{about(results['machine'])}; torch {results['torch']}{'; small networks' if results['small'] else ''}.", "",
        "MiB that ops ask for in addition to parameters, buffers and batch, gradients included: *planned* and *took*. "
        "*allocated*, *reserved*: `max_memory_allocated` and `max_memory_reserved` of a run behind `empty_cache()`, "
        "parameters and batch included. Milliseconds of a step: *predicted* is the sum of the ops' own, *took* the "
        f"median of {RUNS} runs. *from eager's*: the largest difference of loss or a gradient over the largest value "
        "of its tensor, with the same seed; Inductor draws random numbers of its own, and so do the knob's halves "
        "where they make a dropout again: without dropout they are eager's.", "", *table(HEAD, cells), "",
        *([] if results["small"] else [f"* {net['net']}: {words[net['net']]}." for net in results["nets"]]),
    ]  # fmt: skip


def main() -> None:
    """Run, network by network and way by way, and write."""
    parser = script(__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu with --small")
    parser.add_argument("--small", action="store_true", help="small networks of the same kinds")
    parser.add_argument("--only", nargs="*", default=list(NETS), help="some of the networks")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS, help="some of them, and eager")
    parser.add_argument("--minutes", type=float, default=10.0, help="no way begins behind so many")
    parser.add_argument("--time", type=float, default=4.0, help="seconds of search for each plan")
    options = parser.parse_args()
    torch = import_module("torch")
    name = "the CPU, one thread"
    if options.device == "cpu":
        torch.set_num_threads(1)
    else:
        try:
            check_device(torch, ("cuda", torch.device(options.device).index))
        except InputError as error:
            raise SystemExit(str(error)) from None
        name = torch.cuda.get_device_name(options.device)
    end = time.monotonic() + 60 * options.minutes
    results = document(torch=torch.__version__, device=name, small=options.small, time=options.time, nets=[])
    for sized in SIZES:
        if sized.name not in options.only:
            continue
        bench = Bench(torch, network(torch, sized, options), options.time)
        results["nets"].append({"net": sized.name, "rows": []})
        for way, call in rows(bench, options):
            late = time.monotonic() >= end
            try:
                found = {"failed": "left out, and what follows: the minutes are over"} if late else call()
                row = {"way": way} | found
            except Exception as error:  # a way that does not run is a row that says so
                row = {"way": way, "failed": first_line(error)}
            results["nets"][-1]["rows"].append(row)
            say(row)
            write(options.out, results, page(results))
            if late:
                break


if __name__ == "__main__":
    main()
