"""The command `measure`."""

from __future__ import annotations

import argparse

from lowtide import api
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.values import dims_of


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
