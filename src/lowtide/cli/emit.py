"""The command `emit`: a model as C that runs its plan."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide import api
from lowtide.api.emitting import HELD, TARGET, check_emit, check_own, files_in, project_of
from lowtide.api.reporting import Pictures
from lowtide.cli import asked
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.values import dims_of
from lowtide.cli.ways import OVER, ways_of, ways_text
from lowtide.errors import InputError
from lowtide.outputs import output_folder
from lowtide.sizes import parse_size

if TYPE_CHECKING:
    from lowtide.emit.project import CodeSizes, Project
    from lowtide.plan import Plan


def run(options: argparse.Namespace) -> int:
    """Plan, write the plan as C, and print both."""
    from lowtide.api.writing import PlanFiles, check_outputs, write_all

    asked.announce(options, options.model)
    target = HELD if options.input == "caller" else TARGET
    settings: dict[str, Any] = {
        "target": target, "budget": options.budget, "reserve": options.reserve, **asked.memories(options),
        "time": options.time, "dims": dims_of(options.dims), "overwrite_inputs": options.overwrite_inputs,
        "pin_inputs": options.pin_inputs, "stream_input": options.stream_input,
    }  # fmt: skip
    settings["allow"] = "" if options.banks or options.board else "loops"  # rows stream in one arena alone
    folder = Path(options.out)
    code = files_in(folder, options.name)
    files = PlanFiles(plan=options.plan_file, pictures=Pictures(options.report))
    check_emit(options.model, settings["dims"])
    check_own(folder, options.name)
    with output_folder(folder):
        check_outputs(options.model, [*files.paths, *code], None, (options.board,))
        plan, project = _planned(options, settings)
        texts = {folder / name: text for name, text in project.files.items()}
        write_all(plan, options.model, replace(files, texts=texts), target=target, dims=settings["dims"])
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


def _planned(options: argparse.Namespace, settings: dict[str, Any]) -> tuple[Plan, Project]:
    """The plan and its C; without row streaming where C is not written for that of the plan."""
    while True:
        plan = _plan(options, settings)
        options.line.end()
        try:
            return plan, project_of(plan, options.model, options.name)
        except InputError as error:
            if not plan.loops or options.stream_input:
                raise
            say(f"without row streaming: {error}")
            settings["allow"] = ""


def _plan(options: argparse.Namespace, settings: dict[str, Any]) -> Plan:
    """The plan of the fewest bytes, and whether it fits: rows are streamed also where the budget is met without."""
    settings, budget = {**settings}, settings["budget"]
    if not settings["allow"] or budget is None or "%" in budget:
        return api.plan(options.model, report=options.line, **settings)
    wanted = parse_size(budget, "budget")
    del settings["budget"]
    plan = api.plan(options.model, report=options.line, **settings)
    status = "ok" if plan.required_bytes <= wanted else "over_budget"
    return msgspec.structs.replace(plan, budget_bytes=wanted, status=status)


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
