"""`lowtide plan MODEL` and `lowtide fit MODEL`: what it takes to run a model in less memory."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide.cli.terminal import ProgressLine, say, show, show_json
from lowtide.cli.values import dims_of, model_sizes, seconds, seed
from lowtide.errors import InputError

if TYPE_CHECKING:
    from lowtide.api.default import Request
    from lowtide.api.writing import PlanFiles
    from lowtide.plan import Plan
    from lowtide.report.on_boards import BoardFit
    from lowtide.run.session_texts import Language
    from lowtide.stop import Progress

Add = Callable[..., Any]


def plan_parser(add: Add, model: str) -> None:
    """The options of `plan`; `model` says what a model is."""
    p = add(
        "plan", "make a model need less memory in its runtime, and measure the gain (onnxruntime) or predict it", run,
        "lowtide plan model.onnx -o small.onnx",
        "lowtide plan model.tflite --budget 64KiB -o small.tflite",
        "lowtide plan model.tflite --board nrf52840 -o small.tflite",
        "lowtide plan detector.onnx --dim height=640 --dim width=640 --slower 20%",
        "lowtide plan step.graph.json --for generic -o small.graph.json",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=model)
    p.add_argument(
        "-o", dest="out", metavar="OUT",
        help="model to write. small.onnx comes with small.plan.json (the plan) and small_session.py (opens the model); "
        "small.tflite and small.graph.json come with small.plan.json and small.h (sizes and offsets)",
    )  # fmt: skip
    p.add_argument(
        "--session", choices=("cc", "js"), action="append", default=[],
        help="for onnxruntime: also write the code that opens the model in C++ (cc) or JavaScript (js)",
    )  # fmt: skip
    _goal(p)


def fit_parser(add: Add, model: str) -> None:
    """The options of `fit`."""
    p = add(
        "fit", "find the largest batch, image or length that fits, or the boards that a .tflite model fits", run_fit,
        "lowtide fit model.onnx --budget 4GiB",
        "lowtide fit detector.onnx --dim batch=1 --budget 500MB",
        "lowtide fit model.tflite",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=model)
    _goal(p, fit=True)


def _goal(p: Any, *, fit: bool = False) -> None:
    """What is asked of a plan."""
    from lowtide.rewrites import TRANSFORMATIONS

    does = "find the largest size that fits into" if fit else "take the fastest plan of those tried that fits into"
    p.add_argument(
        "--budget", metavar="SIZE",
        help=f"{does} this much memory, as 256KiB or 80MB; for onnxruntime: process memory above the about 49 MiB "
        "that Python and onnxruntime take",
    )  # fmt: skip
    p.add_argument(
        "--board",
        metavar="NAME",
        help="for .tflite: fit this microcontroller board (`lowtide research board` lists them)",
    )
    p.add_argument(
        "--slower", metavar="5%",
        help="how much longer a run may take than by the runtime's defaults (default: 5%%; with --budget: no limit)",
    )  # fmt: skip
    if not fit:
        p.add_argument(
            "--max-tensor", metavar="SIZE",
            help="the most that a single tensor between operators may take, as 128MiB (accelerators limit buffers)",
        )  # fmt: skip
    p.add_argument(
        "--for", dest="target", metavar="TARGET",
        help="the runtime, if not the usual one for the file format: onnxruntime, tflm, tflite, torch, generic (a "
        "compiler); onnxruntime,portable is onnxruntime on any processor",
    )  # fmt: skip
    model_sizes(p, several=not fit)
    research = p.add_argument_group("for research")
    research.add_argument("--only", metavar="A,B", help=f"try only these transformations: {', '.join(TRANSFORMATIONS)}")
    research.add_argument("--without", metavar="A,B", default="", help="try all transformations but these")
    research.add_argument(
        "--time", type=seconds, metavar="SECONDS",
        help="time limit of each search (default: work of 10 seconds on a quiet machine); measuring comes on top",
    )  # fmt: skip
    research.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of random choices (default: 0)")


def _request(options: argparse.Namespace) -> Request:
    """What a command line asks for."""
    from lowtide.api.default import Request
    from lowtide.target import resolve

    if options.budget is not None and options.board is not None:
        raise InputError("--board says what memory there is; leave out --budget, or the board")
    only, budget = None if options.only is None else _names(options.only), options.budget
    if options.board is not None:
        from lowtide.allocate.banks.boards import find_board
        from lowtide.api.default.on_boards import on_chip

        budget = on_chip(find_board(options.board))
    request = Request.of(
        options.model, budget, options.slower, options.target, dims_of(options.dims), only,
        _names(options.without), seconds=options.time, seed=options.seed,
        max_tensor=getattr(options, "max_tensor", None),
    )  # fmt: skip
    if resolve(request.target_name, source=request.path).rule == "tflm":
        options.line.figure = "head"  # of kTensorArenaSize
    return request


def _teller(line: ProgressLine) -> Callable[[Progress | str | Plan], None]:
    from lowtide.report.first_screen import first_screen, size_text
    from lowtide.stop import Progress

    def tell(news: Progress | str | Plan) -> None:
        if isinstance(news, Progress):
            line(news)
        elif isinstance(news, str):
            line.doing(news)
        else:
            measured = news.comparison is None or news.comparison.measured or not news.optimized_from
            doing = "looking for less" if measured else "predicted so far, it is being measured"
            seen = news.comparison
            if seen is not None and news.optimized_from:  # several searches and measurements follow
                row = (seen.planned_bytes, seen.today_bytes)
                line.keep_saying(f"{size_text(*row)} so far, {size_text(row[1], row[0])} today")
            line.so_far(f"{first_screen(news)}\n{doing}; Ctrl-C takes this plan")

    return tell


def run_fit(options: argparse.Namespace) -> int:
    """Print the largest size."""
    from lowtide.api.default.fit import fit_request
    from lowtide.plan import EXIT_STATUS

    request = _request(options)
    if options.budget is None:
        return _run_boards(request, options)
    found = fit_request(request, _teller(options.line))
    options.line.end()
    if options.json:
        show_json(found)
    else:
        show(repr(found))
        options.dims += [(name, max(1, found.size)) for name in found.names]
        what = " -o OUT" if found.size else "   (tries all that lowers it, and says what else would fit)"
        show(f"next: {_command(options, 'plan', {})}{what}")
    return 0 if found.size else EXIT_STATUS["over_budget"]


def _run_boards(request: Request, options: argparse.Namespace) -> int:
    """Print whether a model fits a board, or which boards it fits."""
    from lowtide.api.default.on_boards import fits_of
    from lowtide.plan import EXIT_STATUS
    from lowtide.report.on_boards import one_board, several_boards

    found = fits_of(request, options.board, _teller(options.line))
    options.line.end()
    if options.json:
        show_json(found)
    elif options.board is not None:
        show(one_board(request.name, found[0]))
    else:
        show(several_boards(request.name, found, every=options.verbose))
    return 0 if any(fit.fits for fit in found) else EXIT_STATUS["over_budget"]


def _run_sizes(options: argparse.Namespace, several: Mapping[str, Sequence[int]]) -> int:
    """Plan at several sizes, and print a table."""
    from lowtide.api.default import plan_request
    from lowtide.report.first_screen import sizes_table

    options.dims = [(name, size) for name, size in options.dims if name not in several]
    request = _request(options)
    made: list[tuple[str, Plan]] = []
    for chosen in product(*several.values()):
        sizes = dict(zip(several, chosen, strict=True))
        row = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        options.line.keep_saying("")
        options.line.doing(f"planning {row}")
        made.append((row, plan_request(replace(request, dims={**request.dims, **sizes}), _teller(options.line))))
        if made[-1][1].stopped == "interrupt":
            break
    options.line.end()
    if options.json:
        show_json([plan for _, plan in made])
    else:
        show(sizes_table(made))
        one = request.runs_in_onnxruntime
        words = _dim_options(
            {name: f"{min(size)}..{max(size)}" if one else max(size) for name, size in several.items()}
        )
        holds = "one file for all these sizes, without tiles" if one else "a file holds one size"
        show(f"next: {_command(options, 'plan', {})}{words} -o OUT   ({holds})")
    return max(plan.exit_status for _, plan in made)


def run(options: argparse.Namespace) -> int:
    """Plan, write, and print the first screen."""
    from lowtide.api.default import plan_request
    from lowtide.api.writable import check_external_data
    from lowtide.api.writing import check_outputs, data_of, write_all

    several = {name: sizes for name, sizes in options.dims if isinstance(sizes, list)}
    if several and options.out is None:
        return _run_sizes(options, several)
    options.ranges = {name: f"{min(sizes)}..{max(sizes)}" for name, sizes in several.items()}
    options.dims = [(name, max(size) if name in several else size) for name, size in options.dims]
    line: ProgressLine = options.line
    smallest = {name: min(sizes) for name, sizes in several.items()}
    request = replace(_request(options), to_write=options.out is not None, smallest=smallest)
    if several and not request.runs_in_onnxruntime:
        raise InputError(_for_each_size(options, several))
    files = _files(request, options.out, options.session)
    check_outputs(options.model, files.paths, files.out)
    if not request.runs_in_onnxruntime:  # else weights are written anew
        check_external_data(request.path, files)

    fit = None
    if options.board is None:
        plan = plan_request(request, _teller(line))
    else:
        plan, fit = _on_board(request, options)
    line.clear()
    assert plan.comparison is not None
    written: list[str] = []
    if files.paths and plan.comparison.better and plan.status == "ok":
        line.doing("writing, and opening what was written")
        write_all(plan, options.model, files, dims=plan.sizes({}))
        line.clear()
        written = [str(path) for path in files.paths]
        if plan.weights is not None and plan.weights.mapped:
            written.insert(1, str(data_of(Path(options.out))))
    if files.paths and not written and not options.quiet:
        say(f"{options.out} was not written: {_not_written(plan, str(options.model))}")
    commands = [] if options.json or fit is not None else _next(request, plan, options)
    line.end()
    if options.json:
        show_json(plan)
    else:
        from lowtide.report.first_screen import first_screen, process_table

        show(first_screen(plan, written, commands))
        if fit is not None:
            from lowtide.report.on_boards import one_board

            following = _next(request, plan, options) if written else _next_on_board(fit, options)
            show("\n".join(["", one_board(request.name, fit), *(f"next: {command}" for command in following)]))
        if options.verbose:
            from lowtide.report.text import plan_text

            parts = process_table(plan.comparison)
            show(f"\n{parts}" if parts else "")
            show(f"\n{plan_text(plan, verbose=True)}")
    if plan.stopped == "interrupt" and not options.quiet:
        say("interrupted: this is the best plan so far")
    return plan.exit_status


def _dim_options(sizes: Mapping[str, object]) -> str:
    return "".join(f" --dim {shlex.quote(f'{name}={size}')}" for name, size in sizes.items())


def _for_each_size(options: argparse.Namespace, several: Mapping[str, Sequence[int]]) -> str:
    """Why there is no file for all sizes, and the commands for one file each."""
    options.dims = [(name, size) for name, size in options.dims if name not in several]
    commands: list[str] = []
    for sizes in product(*several.values()):
        out = Path(options.out)
        out = out.with_stem(f"{out.stem}_{'x'.join(map(str, sizes))}")
        command = _command(options, "plan", {}) + _dim_options(dict(zip(several, sizes, strict=True)))
        commands.append(f"{command} -o {shlex.quote(str(out))}")
    return f"one file for several sizes is for onnxruntime alone, which has to run it; plan each: {'; '.join(commands)}"


def _on_board(request: Request, options: argparse.Namespace) -> tuple[Plan, BoardFit | None]:
    """The plan for a board's memory on the chip, or outside of it where it does not fit that; and the ways to run the
    model there; None after Ctrl-C."""
    from lowtide.allocate.banks.boards import find_board
    from lowtide.api.default import plan_request
    from lowtide.api.default.on_boards import check_request, fits_of

    check_request(request)
    plan = plan_request(request, _teller(options.line))
    largest = max(bank.capacity for bank in find_board(options.board).banks)
    if plan.status != "ok" and plan.required_bytes <= largest:
        plan = msgspec.structs.replace(plan, budget_bytes=largest, status="ok")
    if plan.stopped == "interrupt":
        return plan, None
    return plan, fits_of(request, options.board, _teller(options.line), plan)[0]


def _next_on_board(fit: BoardFit, options: argparse.Namespace) -> list[str]:
    """The command for the way that changes least of those that fit."""
    from lowtide.allocate.banks.boards import find_board
    from lowtide.report.on_boards import C_LIBRARY, OWN_C, PLANNED

    how = fit.first.how if fit.first is not None else ""
    if how == PLANNED:
        return [f"{_command(options, 'plan', {})} -o small.tflite"]
    simd = f" --kernels cmsis-nn --simd {find_board(options.board).simd}" if how == C_LIBRARY else ""
    return [f"{_command(options, 'emit', {})}{simd}"] if how in (OWN_C, C_LIBRARY) else []


def _not_written(plan: Plan, model: str) -> str:
    """Why OUT was not written, and what to do."""
    if plan.above_limit:
        return "a tensor is above --max-tensor"
    if plan.status != "ok":
        return "no plan within the budget was found"
    return f"no plan is better than {model}, which can be deployed as it is"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _files(request: Request, out: str | None, languages: Sequence[Language]) -> PlanFiles:
    """What is written with the model: its plan, and what its runtime needs; nothing without a name."""
    from lowtide.api.exports import Exports
    from lowtide.api.writing import PlanFiles
    from lowtide.run.session_texts import ENDINGS

    opened = out is not None and out.lower().endswith(".onnx") and request.for_onnxruntime
    if languages and not opened:
        raise InputError("--session is for the file that -o writes for onnxruntime; name that, or leave it out")
    if out is None:
        return PlanFiles()
    path = Path(out)
    ending = path.suffix.lower()
    session = path.with_name(f"{_module(out)}.py") if opened else None
    sessions = tuple(path.with_name(f"{_module(out)}{ENDINGS[language]}") for language in dict.fromkeys(languages))
    header = path.with_name(f"{_stem(out)}.h") if ending in (".tflite", ".json") else None
    plan = path.with_name(f"{_stem(out)}.plan.json")
    exports = Exports(header=header, prefix=_stem(out).removesuffix(".graph"))
    return PlanFiles(out, plan, snippet=session, sessions=sessions, exports=exports, copy_external=True)


def _stem(out: str) -> str:
    """The name of a file without its ending."""
    return Path(out).name.removesuffix(".json").rpartition(".")[0] or Path(out).name


def _module(out: str) -> str:
    """The name of the Python module that opens a file."""
    return re.sub(r"\W", "_", f"{_stem(out)}_session")


def _command(options: argparse.Namespace, name: str, changes: Mapping[str, str]) -> str:
    """A command with what this one asks for, but for some options."""
    words = {
        "--budget": options.budget,
        "--board": options.board,
        "--slower": options.slower,
        "--for": options.target,
        **changes,
    }
    if name == "plan":
        limit = getattr(options, "max_tensor", None)
        words = {"--max-tensor": limit, **words, "--only": options.only, "--without": options.without}
    if name.partition(" ")[0] in ("inspect", "emit"):
        words = {}
    text = "".join(f" {option} {shlex.quote(str(value))}" for option, value in words.items() if value)
    ranges = getattr(options, "ranges", {}) if name == "plan" else {}
    sizes = _dim_options({key: ranges.get(key, size) for key, size in options.dims if isinstance(size, int)})
    out = " -o firmware" if name.startswith("emit") else ""
    return f"lowtide {name} {shlex.quote(str(options.model))}{text}{sizes}{out}"


def _next(request: Request, plan: Plan, options: argparse.Namespace) -> list[str]:
    """The next commands, or the line of a program."""
    found = plan.comparison
    assert found is not None
    if plan.status != "ok" or not found.better:
        from lowtide.api.default.ways import next_commands

        ways = next_commands(request, plan, _teller(options.line))
        out = "" if options.out is None else f" -o {shlex.quote(options.out)}"
        return [
            f"{_command(options, way.name, way.options)}{out if way.name == 'plan' else ''}   ({way.gives})"
            for way in ways
        ]
    assumed = {name: size for name, size in request.with_sizes().dims.items() if name not in request.dims}
    own = "".join(f" --dim {shlex.quote(f'{name}={size}')}" for name, size in assumed.items())
    ranges = ", or a range as 224..448 for one file" if request.runs_in_onnxruntime else ""
    more = [f"{_command(options, 'plan', {})}{own}   (put in your own sizes{ranges})"] if own else []
    if options.out is None:
        ending = "".join(Path(str(options.model)).suffixes[-1:])
        ending = ".graph.json" if ending in ("", ".json") else ending
        return [f"{_command(options, 'plan', {})} -o small{ending}   (writes it)", *more]
    path = Path(options.out).with_name(f"{_stem(options.out)}.plan.json")
    verify = f"lowtide verify {shlex.quote(str(options.model))} {shlex.quote(str(path))}"
    if plan.optimized_from is None:
        return [verify]
    where = f"import sys; sys.path.append({str(Path(options.out).resolve().parent)!r})"
    measure = [] if found.measured else [f"{verify} --run   (measures it)"]
    return [f"{where}; from {_module(options.out)} import open_session; session = open_session()", *measure, *more]
