"""The command `emit`: a model as C that runs its plan."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide import api
from lowtide.api.emitting import HELD, TARGET, check_emit, check_own, files_in, library_project_of, project_of
from lowtide.api.emulating import boards_of, emulate
from lowtide.api.models import files_read, load
from lowtide.api.reporting import Pictures
from lowtide.cli import keywords
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.values import dims_of
from lowtide.cli.ways import OVER, ways_of, ways_text
from lowtide.emit.layouts.layout import check_layout, laid_out
from lowtide.errors import InputError
from lowtide.outputs import Outputs, output_folders
from lowtide.sizes import parse_size

if TYPE_CHECKING:
    from lowtide.api.emulating import Emulation
    from lowtide.emit.cmsis_nn.choice import Chosen
    from lowtide.emit.project import CodeSizes, Project
    from lowtide.emit.qemu.boards import Board
    from lowtide.plan import Plan


def run(options: argparse.Namespace) -> int:
    """Plan, write the plan as C, and print both."""
    library = options.kernels == "cmsis-nn"
    check_layout(options.layout, library=library)
    kernels, simd = "cmsis-nn" if library else "c", options.simd or "any"
    boards = [] if options.test is None else boards_of(options.test, kernels, simd)
    if library:
        return _run_library(options, boards)
    if options.simd is not None:
        raise InputError("--simd is of CMSIS-NN, which is not called; leave it out, or add --kernels cmsis-nn")
    from lowtide.api.writing import PlanFiles, check_outputs, write_all

    keywords.announce(options, options.model)
    target = HELD if options.input == "caller" else TARGET
    settings: dict[str, Any] = {
        "target": target, "budget": options.budget, "reserve": options.reserve, **keywords.memories(options),
        "time": options.time, "dims": dims_of(options.dims), "overwrite_inputs": options.overwrite_inputs,
        "pin_inputs": options.pin_inputs, "stream_input": options.stream_input,
    }  # fmt: skip
    settings["allow"] = "" if options.banks or options.board else "row-streaming"  # rows stream in one arena alone
    folder = Path(options.out)
    code = files_in(folder, options.name, options.layout)
    files = PlanFiles(plan=options.plan_file, pictures=Pictures(options.report))
    check_emit(options.model, settings["dims"])
    check_own(folder, options.name, options.layout)
    with output_folders(folder, code):
        check_outputs(options.model, [*files.paths, *code], None, (options.board,))
        plan, project = _planned(options, settings)
        emulation = _emulated(options, project, boards)
        texts = {folder / path: text for path, text in laid_out(project, options.layout, options.name).items()}
        write_all(plan, options.model, replace(files, texts=texts), target=target, dims=settings["dims"])
    if options.json:
        show_json(plan if emulation is None else {**msgspec.to_builtins(plan), "boards": emulation.rows()})
    else:
        from lowtide.report.text import plan_text

        text = f"{first_screen(options, project.sizes, 'own kernels')}{emulation_text(emulation)}"
        show(f"{text}\n\n{plan_text(plan, verbose=True)}" if options.verbose else text)
    if not options.quiet:
        for path in (*files.paths, *code):
            say(f"wrote {path}")
        if options.stream_input and not any(loop.streamed for loop in plan.loops or ()):
            say("--stream-input: holding the input needs no more, so that there is no model_feed_rows")
        if plan.stopped == "interrupt":
            say("interrupted: this is the best plan so far")
    plan = _with_all_memory(plan, project.sizes)
    if not options.json and plan.status in OVER:
        show(over_budget_text(plan))
        ways = ways_text(ways_of(options, options.model, {**settings, "target": "auto"}, plan))
        if ways:
            show(ways)
    return plan.exit_status


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


def _with_all_memory(plan: Plan, sizes: CodeSizes) -> Plan:
    """A plan whose requirement is all of the code's static memory, where that is compared with a budget."""
    if plan.budget_bytes is None or plan.memories:
        return plan
    required = plan.required_bytes + sizes.other_static_bytes
    status = "over_budget" if plan.status == "ok" and required > plan.budget_bytes else plan.status
    return msgspec.structs.replace(plan, required_bytes=required, status=status)


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


def _emulated(options: argparse.Namespace, project: Project, boards: Sequence[Board]) -> Emulation | None:
    """What the code takes on boards; None if no test is asked for."""
    graph = load(options.model, dims_of(options.dims))
    tell = (lambda _: None) if options.quiet else say
    return emulate(project, graph, boards, options.name, tell) if boards else None


def emulation_text(emulation: Emulation | None) -> str:
    """The same as text behind other text."""
    from lowtide.report.board_runs import board_runs_text

    if emulation is None:
        return ""
    rest = emulation.expected, emulation.inputs
    return f"\n\n{board_runs_text(emulation.runs, emulation.tflm_arena_bytes, *rest, rounds=emulation.rounds)}"


def _run_library(options: argparse.Namespace, boards: Sequence[Board]) -> int:
    """Write C that calls CMSIS-NN, and print what it takes."""
    refused = {
        "--stream-input": options.stream_input, "--bank and --board": options.banks or options.board,
        "--plan": options.plan_file, "--report": options.report, "--input caller": options.input == "caller",
    }  # fmt: skip
    for name, given in refused.items():
        if given:
            raise InputError(f"{name}: not with CMSIS-NN's kernels; leave it out, or --kernels c")
    keywords.announce(options, options.model)
    budget = None if options.budget is None else parse_size(options.budget, "budget")
    if budget is not None and options.reserve is not None:
        budget = max(1, budget - parse_size(options.reserve, "reserve", least=0))
    folder = Path(options.out)
    check_own(folder, options.name, options.layout)
    project, chosen = library_project_of(
        options.model, simd=options.simd or "any", budget=budget, dims=dims_of(options.dims), name=options.name
    )
    options.line.end()
    emulation = _emulated(options, project, boards)
    texts = {folder / path: text for path, text in laid_out(project, options.layout, options.name).items()}
    with output_folders(folder, texts), Outputs(files_read(options.model)) as outputs:
        for path, text in texts.items():
            outputs.write(path, text.encode())
    needed = project.sizes.arena_bytes + project.sizes.other_static_bytes
    over = budget is not None and needed > budget
    if options.json:
        rows = () if emulation is None else emulation.rows()
        show_json({**asdict(project.sizes), "segments": segments_of(chosen), "boards": rows})
    else:
        text = f"{first_screen(options, project.sizes, 'CMSIS-NN')}{emulation_text(emulation)}"
        show(f"{text}\n\n{segments_text(chosen)}" if options.verbose else text)
    if not options.quiet:
        for path in texts:
            say(f"wrote {path}")
    if over and not options.json:
        show(f"over budget: no stripes were found that need less than {needed:,} B; C written anyway")
    return 3 if over else 0


def segments_of(chosen: Chosen) -> list[dict[str, int]]:
    """First and last layer of each segment that runs in several calls, rows a call, and calls."""
    return [
        {"first": part.begin, "last": part.end - 1, "rows": part.rows, "calls": len(part.calls)}
        for part in chosen.parts
        if len(part.calls) > part.end - part.begin
    ]


def segments_text(chosen: Chosen) -> str:
    """How layers run, in lines."""
    lines = [
        f"layers {s['first']} to {s['last']}: {s['rows']} rows a call, {s['calls']} calls" for s in segments_of(chosen)
    ]
    time = f"instructions, estimated: {chosen.cost / chosen.untiled_cost:.3f} of untiled layers"
    return "\n".join([*lines, time])


def first_screen(options: argparse.Namespace, sizes: CodeSizes, kernels: str) -> str:
    """What TFLM takes for the file, what the C takes, and what to type next."""
    from lowtide.api.emulating import any_tflm_arena
    from lowtide.report.columns import columns
    from lowtide.report.first_screen import percent

    today = any_tflm_arena(load(options.model, dims_of(options.dims)))
    arena = sizes.arena_bytes + sizes.other_static_bytes
    before = ("", "") if today is None else (f"{today:,} B", percent(today, arena))
    inside = "without the inputs" if options.input == "caller" else "with a copy of the inputs"
    rows = [
        ("", "TFLM", "as C", "", ""),
        ("static memory", before[0], f"{arena:,} B", before[1], f"predicted: arena, counters and state, {inside}"),
        ("weights in flash", "", f"{sizes.weight_bytes:,} B", "", ""),
        ("a run", "", "", "", f"{sizes.macs:,} multiply-accumulates, {sizes.moved_bytes:,} B read and written"),
    ]
    folder = shlex.quote(options.out)
    build = f"cmake -S {folder} -B {folder}/build && cmake --build {folder}/build"
    tested = f"lowtide emit {shlex.quote(options.model)} -o {folder} --test qemu"
    next_one = (
        f"next: {tested}   (code, stack and instructions, on emulated boards)"
        if options.test is None
        else f"next: {build}"
    )
    head = f"{Path(options.model).name} as C99, {kernels}"
    return "\n".join([head, columns(rows, right=[1, 2]), *([next_one] if options.layout == "cmake" else [])])


def over_budget_text(plan: Plan) -> str:
    """That the code was written all the same, in one line."""
    from lowtide.sizes import format_size

    never = ", and impossible without tiling" if plan.status == "impossible" else ""
    budget = plan.budget_bytes or sum(m.capacity_bytes for m in plan.memories or ())
    return f"over budget: {format_size(plan.required_bytes)} required of {format_size(budget)}{never}; C written anyway"
