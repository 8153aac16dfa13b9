"""The command `measure`."""

from __future__ import annotations

import argparse
from typing import Any

from lowtide import api
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.values import count, dims_of, model_sizes, seconds, seed


def arguments(p: Any) -> None:
    """What `measure` takes."""
    p.add_argument("model", metavar="MODEL", help="an .onnx file, as it is to be planned; weights are not needed")
    p.add_argument("-o", dest="out", metavar="C.json", help="the cost file; without it, it is only summed up")
    p.add_argument("--threads", type=count, default=1, metavar="N", help="on which each op runs (default: 1)")
    p.add_argument(
        "--level", default="extended", metavar="LEVEL",
        help="extended (default): the nodes as they stand; all: as onnxruntime's optimiser replaces them on this CPU",
    )  # fmt: skip
    p.add_argument(
        "--time", type=seconds, default=120.0, metavar="SECONDS",
        help="what is not timed by then is reckoned from the rest, small parts first (default: 120)",
    )  # fmt: skip
    p.add_argument(
        "--max-overhead", default=(), metavar="10%,...",
        help="bounds that plans are to have: for each a few are run beside the model, so that they hold as measured",
    )  # fmt: skip
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="of the numbers that ops get (default: 0)")
    model_sizes(p)


def run(options: argparse.Namespace) -> int:
    """Time the ops, write the cost file, and print what it says."""
    from lowtide.api.writing import check_outputs

    if options.out is not None:
        check_outputs(options.model, [options.out])
    file = api.measure(
        options.model, threads=options.threads, level=options.level, time=options.time, seed=options.seed,
        dims=dims_of(options.dims), max_overhead=options.max_overhead, report=options.line.steps,
    )  # fmt: skip
    options.line.end()
    if options.out is not None:
        file.save(options.out)
        say(f"wrote {options.out}")
    if options.json:
        show_json(file)
    else:
        from lowtide.report.measuring import cost_text

        show(cost_text(file))
    return 0
