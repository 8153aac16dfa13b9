"""`lowtide plan MODEL --emit c -o FOLDER`: a plan as C."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide import api
from lowtide.api.emitting import FILES, TARGET, check_emit, check_own, project_of
from lowtide.cli import asked, size_table
from lowtide.cli.curve import changes_of
from lowtide.cli.report import pictures_of
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.ways import OVER, ways_of, ways_text
from lowtide.errors import InputError
from lowtide.outputs import output_folder

if TYPE_CHECKING:
    from lowtide.emit.project import CodeSizes
    from lowtide.plan import Plan
    from lowtide.stop import Progress

_NOT_WITH = {
    "header": "--header", "table": "--table", "usmp": "--usmp", "buffer_plan": "--buffer-plan", "svg": "--svg",
    "commands": "--commands", "snippet": "--snippet", "copy_external": "--copy-external", "memories": "--memory",
    "runtime_optimized": "--runtime-optimized",
}  # fmt: skip


def option_of_plan(p: Any) -> None:
    """The option of `plan`."""
    p.add_argument(
        "--emit", choices=("c",), metavar="c",
        help="write C99 that runs the plan of an int8 .tflite file into the folder OUT, and plan for --target loops",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Plan, write the plan as C, and print both."""
    from lowtide.api.writing import PlanFiles, check_outputs, write_all

    options.target = TARGET if options.target == "auto" else options.target
    _refuse(options)
    settings = {**asked.budget(options), **asked.method(options), **asked.common(options, options.model)}
    settings |= {"spread": options.spread, **changes_of(options)}
    folder = Path(options.out)
    code = [folder / name for name in FILES]
    files = PlanFiles(plan=options.plan_file, log=options.log_file, pictures=pictures_of(options))
    trace: list[Progress] = []
    check_emit(options.model, settings["dims"])
    check_own(folder)
    with output_folder(folder):
        check_outputs(options.model, [*files.paths, *code], None, (options.target,))
        plan = api.plan(options.model, report=options.line, trace=trace, **settings)
        options.line.end()
        project = project_of(plan, options.model)
        texts = {folder / name: text for name, text in project.files.items()}
        write_all(
            plan, options.model, replace(files, texts=texts), trace=trace, target=options.target, dims=settings["dims"]
        )
    if options.json:
        show_json(plan)
    else:
        from lowtide.report.text import plan_text

        show(f"{plan_text(plan, verbose=options.verbose)}\n\n{sizes_text(project.sizes)}")
    if not options.quiet:
        for path in (*files.paths, *code):
            say(f"wrote {path}")
        if options.stream_input and not any(loop.streamed for loop in plan.loops or ()):
            say("--stream-input: holding the input needs no more, so that there is no model_feed_rows")
        if plan.stopped == "interrupt":
            say("interrupted: this is the best plan so far")
    if not options.json and plan.status in OVER:
        show(over_budget_text(plan))
        ways = ways_text(ways_of(options, options.model, {**settings, "target": "auto"}))
        if ways:
            show(ways)
    return plan.exit_status


def sizes_text(sizes: CodeSizes) -> str:
    """What the code takes, as a table."""
    from lowtide.report.columns import columns
    from lowtide.sizes import format_size

    rows = [
        ("C: arena", format_size(sizes.arena_bytes)),
        ("counters", format_size(sizes.counter_bytes)),
        ("weights", format_size(sizes.weight_bytes)),
        ("a run", f"{sizes.macs:,} multiply-accumulates, {sizes.moved_bytes:,} B read and written"),
    ]
    return columns(rows)


def over_budget_text(plan: Plan) -> str:
    """That the code was written all the same, in one line."""
    from lowtide.sizes import format_size

    never = ", and impossible with its ops whole" if plan.status == "impossible" else ""
    budget = plan.budget_bytes or sum(m.capacity_bytes for m in plan.memories or ())
    return f"over budget: {format_size(plan.required_bytes)} required of {format_size(budget)}{never}; C written anyway"


def _refuse(options: argparse.Namespace) -> None:
    """Raise `InputError` for what does not go with code."""
    if options.out is None:
        raise InputError("--emit c needs a folder to write into; name it with -o")
    if size_table.wanted(options):
        raise InputError("--emit c is for one size, and --dim gives several; plan each by itself")
    others = [word for word in map(str.strip, options.allow.split(",")) if word not in ("", "loops")]
    if others:
        raise InputError(
            f"--allow {','.join(others)} does not go with --emit c, which has no --allow but loops; drop it"
        )
    target = api.target(options.target, options.model)
    if target.rule:
        raise InputError(f"target {target.name} is for kernels of its own; leave out --target, or give --target loops")
    for name, option in _NOT_WITH.items():
        if getattr(options, name, None):
            raise InputError(f"{option} does not go with --emit c, whose plan is what the code has; drop it")
