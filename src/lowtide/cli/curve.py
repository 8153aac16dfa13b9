"""The command `curve`, and the words with which `plan` is allowed to change a graph."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lowtide import api
from lowtide.cli.terminal import show, show_json
from lowtide.cli.values import count, dims_of, model_options, seconds
from lowtide.cli.values import seed as seed_of
from lowtide.errors import InputError

if TYPE_CHECKING:
    from lowtide.optimize.curve import Curve
    from lowtide.optimize.recompute.front import Front


def changes(p: Any) -> None:
    """Options of `plan` on what it may change of the graph."""
    group = p.add_argument_group("what may change (the results only as far as the plan says)")
    group.add_argument(
        "--allow",
        default="",
        metavar="WORD,...",
        help="all: every change below that the model, its target and what is asked for have, with at most 5 %% more "
        "operations where neither --budget nor --max-overhead is given; alias: let tensors lie in others, so that "
        "no concat copies (target generic, or one of your own); fission: run ops in parts, regions in stripes "
        "(.onnx, .tflite), and leave what one region makes and others read in parts in pieces (.onnx); halos, with "
        "it: stripes may run rows again instead of keeping them; unjoined, with it: look for such regions in any "
        "case; rounds, with it: parts again, along other dimensions; seams: run ops behind a concat on each of its "
        "operands; accumulate: the latter with onnxruntime's own convolution, which adds to what is there (.onnx); "
        "recompute: run ops again, in the least time within --budget, or for the least peak within --max-overhead; "
        "recompute,fission: norms and means over rows that are cut, too, in passes of their own (.onnx), or "
        "training steps with labels in parts and again; swap, alone, with recompute, or with both: store tensors "
        "on the host and load them while other ops run; merge, with recompute,fission: products of a step that "
        "read the same run as one where that takes less time; loops: run ops together row by row (--target loops)",
    )
    stream_input(group)
    group.add_argument("--max-ops", type=count, default=0, metavar="N", help="run at most N ops: each takes time")
    cost_file(group)
    group.add_argument(
        "--max-overhead",
        metavar="10%",
        help="run at most so much longer, as predicted: by --cost, or reckoned; recompute: as the graph says",
    )
    group.add_argument("--exact-bits", action="store_true", help="change nothing that can move a bit of them")


def stream_input(p: Any) -> None:
    """The option of plans whose input comes in rows."""
    p.add_argument(
        "--stream-input", action="store_true",
        help="with row streaming: the caller passes inputs row by row (in C: while model_feed_rows returns 1)",
    )  # fmt: skip


def cost_file(p: Any) -> None:
    """The option that names what ops take."""
    p.add_argument("--cost", metavar="C.json", help="what ops take, as `lowtide research measure` wrote it")


def changes_of(options: argparse.Namespace) -> dict[str, Any]:
    """These options as `api.plan` takes them."""
    names = ("allow", "max_ops", "cost", "max_overhead", "exact_bits", "stream_input")
    return {name: getattr(options, name) for name in names}


def arguments(p: Any) -> None:
    """What `curve` takes."""
    p.add_argument("model", metavar="MODEL", help="an .onnx or .tflite file; recompute: any model")
    p.add_argument(
        "--target", default="auto", metavar="NAME", help="memory rules: see `lowtide research target`, or a TOML file"
    )
    model_options(p)
    p.add_argument(
        "--allow", default="fission", metavar="WORD",
        help="fission (default): ops run in parts; recompute: ops run again, for ever less memory in ever more time; "
        "recompute,fission: both, of a training step; swap, recompute,swap, or with all three: tensors leave memory "
        "while ops run",
    )  # fmt: skip
    p.add_argument("--exact-bits", action="store_true", help="only cuts that cannot move a bit of the results")
    cost_file(p)
    p.add_argument("--time", type=seconds, default=30.0, metavar="SECONDS", help="limit of the search (default: 30)")
    p.add_argument("--seed", type=seed_of, default=0, metavar="N", help="for what is drawn at random (default: 0)")


def _cut(options: argparse.Namespace) -> Curve:
    """The curve of cuts."""
    if options.allow != "fission" or options.seed:
        raise InputError("a curve is of --allow fission, in which nothing is drawn, or of --allow recompute")
    return api.curve(
        options.model, target=options.target, time=options.time, dims=dims_of(options.dims),
        overwrite_inputs=options.overwrite_inputs, pin_inputs=options.pin_inputs, exact_bits=options.exact_bits,
        cost=options.cost, report=options.line,
    )  # fmt: skip


def _recomputed(options: argparse.Namespace) -> Front:
    """The front of recomputed ops, or of tensors that leave memory."""
    words = set(options.allow.split(","))
    in_parts = {"recompute", "fission"} <= words <= {"recompute", "fission", "swap", "merge"}
    timed = in_parts or words in ({"recompute", "swap"}, {"swap"})
    if (words != {"recompute"} and not timed) or options.exact_bits or (options.cost is not None and not timed):
        raise InputError(
            "a curve is of one thing; --allow recompute goes with nothing else but swap, or fission, of a training "
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
    front = _recomputed(options) if {"recompute", "swap"} & set(options.allow.split(",")) else _cut(options)
    options.line.end()
    if options.json:
        show_json(front)
    else:
        from lowtide.optimize.curve import Curve
        from lowtide.report.curve import curve_text, front_text

        show(curve_text(front) if isinstance(front, Curve) else front_text(front))
    return 0
