"""The command `curve`, and what `plan` is allowed to change of a graph."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lowtide import api
from lowtide.cli.terminal import show, show_json
from lowtide.cli.values import dims_of
from lowtide.errors import InputError

if TYPE_CHECKING:
    from lowtide.optimize.curve import Curve, Front


def changes_of(options: argparse.Namespace) -> dict[str, Any]:
    """These options as `api.plan` takes them."""
    names = ("allow", "max_ops", "cost", "max_overhead", "exact_bits", "stream_input")
    return {name: getattr(options, name) for name in names}


def _cut(options: argparse.Namespace) -> Curve:
    """The curve of cuts."""
    if options.allow != "tile" or options.seed:
        raise InputError("a curve needs --allow tile, without --seed, or --allow recompute")
    return api.curve(
        options.model, target=options.target, time=options.time, dims=dims_of(options.dims),
        overwrite_inputs=options.overwrite_inputs, pin_inputs=options.pin_inputs, exact_bits=options.exact_bits,
        cost=options.cost, report=options.line,
    )  # fmt: skip


def _recomputed(options: argparse.Namespace) -> Front:
    """The front of recomputed ops, or of tensors that leave memory."""
    words = set(options.allow.split(","))
    in_parts = {"recompute", "tile"} <= words <= {"recompute", "tile", "offload", "merge"}
    timed = in_parts or words in ({"recompute", "offload"}, {"offload"})
    if (words != {"recompute"} and not timed) or options.exact_bits or (options.cost is not None and not timed):
        raise InputError(
            "a curve is of one thing; --allow recompute goes with nothing else but offload, or tile, of a training "
            "step, and alone with neither --exact-bits nor --cost: an op that runs again gives the same bits, and its "
            "cost is what the graph says"
        )
    return api.front(
        options.model, target=options.target, time=options.time, dims=dims_of(options.dims),
        overwrite_inputs=options.overwrite_inputs, pin_inputs=options.pin_inputs, seed=options.seed,
        allow=options.allow, cost=options.cost, report=options.line,
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print a table of the peaks that cuts, recomputed ops, or tensors that leave memory reach."""
    front = _recomputed(options) if {"recompute", "offload"} & set(options.allow.split(",")) else _cut(options)
    options.line.end()
    if options.json:
        show_json(front)
    else:
        from lowtide.optimize.curve import Curve
        from lowtide.report.curve import curve_text, front_text

        show(curve_text(front) if isinstance(front, Curve) else front_text(front))
    return 0
