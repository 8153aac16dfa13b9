"""One function per command: call lowtide's function of that name, print what it returns, say the exit status."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lowtide import api
from lowtide.cli import keywords, size_table
from lowtide.cli.curve import changes_of
from lowtide.cli.report import pictures_of
from lowtide.cli.terminal import ProgressLine, has_unicode, on_terminal, say, show, show_json, show_result
from lowtide.cli.values import dims_of
from lowtide.cli.ways import ways_of, ways_text
from lowtide.errors import InputError, VerificationError
from lowtide.plan import INTERRUPTED
from lowtide.sizes import parse_size

if TYPE_CHECKING:
    from lowtide.stop import Progress
    from lowtide.verify.report import Report


BARS = 72  # of the profile of footprints that `inspect` draws, at most; the terminal may have room for fewer


def plan(options: argparse.Namespace) -> int:
    """Plan, write, and print a summary."""
    from lowtide.api.writable import check_files
    from lowtide.api.writing import PlanFiles, check_outputs, write_all

    if size_table.wanted(options):
        return _plan_sizes(options)
    model = options.model
    settings = {
        **keywords.budget(options),
        **keywords.method(options),
        **keywords.common(options, model),
        **keywords.spilling(options),
    }
    settings |= {"spread": options.spread, **changes_of(options)}
    files = PlanFiles(
        options.out, options.plan_file, options.log_file, options.snippet, options.buffer_plan, options.commands,
        keywords.exports(options), options.copy_external, pictures_of(options),
    )  # fmt: skip
    if files.paths:
        check_outputs(model, files.paths, files.out, (settings["target"], options.board))
        check_files(model, settings, files)
    trace: list[Progress] = []
    plan = api.plan(model, report=options.line, trace=trace, **settings)
    options.line.end()
    ways = [] if options.json and options.quiet else ways_of(options, model, settings, plan)
    options.line.doing("writing, and opening what was written")
    files = files.possible(plan) if options.memories else files
    if files.paths:
        write_all(
            plan, model, files, trace=trace, target=settings["target"], dims=settings["dims"], board=options.board
        )
    options.line.end()
    if options.json:
        show_json(plan)
        for text in ways_text(ways).splitlines():
            say(text)
    else:
        from lowtide.report.text import plan_text

        show(plan_text(plan, verbose=options.verbose))
        _show_kernels(model, settings)
        if ways:
            show(f"\n{ways_text(ways)}")
    if not options.quiet:
        for path in files.paths:
            say(f"wrote {path}")
        if plan.stopped == "interrupt":
            say("interrupted: this is the best plan so far")
        if options.memories and plan.moves is None:
            say(api.too_small(plan, options.memories))
    return plan.exit_status


def _plan_sizes(options: argparse.Namespace) -> int:
    """A table of several sizes; files are for one."""
    files = ("out", "plan_file", "header", "table", "usmp", "buffer_plan", "commands", "snippet", "log_file")
    files += ("report", "trace", "overlay")
    if any(getattr(options, name) is not None for name in files):
        raise InputError("files are for one size, and --dim gives several; plan each by itself")
    keywords.announce(options, options.model)
    settings = {
        **keywords.budget(options),
        **keywords.method(options),
        **keywords.searching(options),
        **keywords.spilling(options),
    }
    return size_table.run(options, settings | {"spread": options.spread} | changes_of(options))


def inspect(options: argparse.Namespace) -> int:
    """Print why the peak is what it is."""
    settings = {**keywords.method(options), **keywords.common(options, options.model)}
    seen = api.inspect(options.model, ladder=options.ladder, report=options.line, **settings)
    options.line.end()
    if options.json:
        show_json(seen)
    else:
        from lowtide.report.columns import WIDTH
        from lowtide.report.inspection import inspection_text

        room = shutil.get_terminal_size().columns
        bars = max(min(BARS, room - 2), 1)
        room = room if on_terminal() else None
        show(inspection_text(seen, width=bars, plain=not has_unicode(), cut=WIDTH, room=room))
        _show_kernels(options.model, settings)
    return INTERRUPTED if seen.stopped == "interrupt" else 0


def compare(options: argparse.Namespace) -> int:
    """Print a table of what each method reaches."""
    methods = [name.strip() for name in options.methods.split(",") if name.strip()]
    if options.methods and not methods:
        raise InputError(f"--methods is {options.methods!r}; name methods separated by commas")
    given: dict[str, dict[str, str]] = {}
    for method, option, value in options.settings:
        given.setdefault(method, {})[option] = value
    line: ProgressLine = options.line

    def tell(name: str, progress: Progress) -> None:
        line(progress, f"{name}: ")

    settings = {**keywords.common(options, options.model), **keywords.spilling(options)}
    rows = api.compare(options.model, methods, every=options.every, options=given, report=tell, **settings)
    line.end()
    status = INTERRUPTED if any(row.interrupted for row in rows) else 0
    if options.json:
        import msgspec

        table = [msgspec.to_builtins(row) for row in rows]
        always = ("peak_bytes", "arena_bytes", "lower_bound_bytes")
        show_json([{k: v for k, v in row.items() if k in always or v not in (None, ())} for row in table])
        return status
    from lowtide.report.comparison import comparison_text

    show(comparison_text(rows, api.target(options.target, options.model).name))
    slow = ", ".join(api.slow_methods(spilling=bool(options.memories)))
    if slow and not methods and not options.every:
        show(f"\nleft out, for they may take minutes: {slow} (--all, or --methods)")
    return status


def verify(options: argparse.Namespace) -> int:
    """Print each check that holds; what does not is raised, after those that do."""
    keywords.announce(options, options.model)
    if options.run:
        options.line.doing("checking the plan, and running both models, each several times")
    try:
        report = api.verify(
            options.model,
            options.plan_file,
            target=options.target,
            dims=dims_of(options.dims),
            overwrite_inputs=options.overwrite_inputs,
            pin_inputs=options.pin_inputs,
            run=options.run,
            random_weights=options.random_weights,
            timed=options.run,
            prove=options.prove,
            time=options.time,
        )
    except VerificationError as error:
        options.line.end()
        if error.report is not None:
            _show_report(options, cast("Report", error.report), held=False)
        raise
    options.line.end()
    _show_report(options, report, held=True)
    return 0


def _show_report(options: argparse.Namespace, report: Report, *, held: bool) -> None:
    from lowtide.report.running import report_text

    show_result(report, lambda: report_text(report, held=held), as_json=options.json)


def allocate(options: argparse.Namespace) -> int:
    """Print the buffers with their offsets."""
    from lowtide.allocate.csv_buffers import read_problem
    from lowtide.api.exports import placed_csv, write_placement
    from lowtide.api.writing import check_outputs

    exports, source = keywords.exports(options), options.buffers
    paths = [*([] if options.out is None else [options.out]), *exports.paths]
    if paths:
        check_outputs(source, paths, settings=(options.board,))
    settings = keywords.memories(options) | {"spread": options.spread, "time": options.time, "seed": options.seed}
    settings["reuse_cost"] = options.reuse_cost
    label = "in slow memories: " if settings["banks"] or settings["board"] else ""
    buffers = read_problem(source, options.pool)
    placed = api.allocate(buffers, options.capacity, report=lambda p: options.line(p, label), **settings)
    options.line.end()
    capacity = None if placed.memories is not None else buffers.capacity
    if options.capacity is not None:
        capacity = parse_size(options.capacity, "capacity")
    status = placed.exit_status(capacity)
    if paths:
        name = Path(source).stem
        write_placement(placed, buffers.problem, exports, name=name, out=options.out, source=source, capacity=capacity)
    if options.json:
        import msgspec

        show_json({k: v for k, v in msgspec.to_builtins(placed).items() if v is not None})
    elif options.out is None:
        show(placed_csv(placed, buffers.problem).rstrip("\n"))
    if not options.quiet and not options.json:
        from lowtide.cli.lines import placement_lines

        for line in placement_lines(placed, capacity, status):
            say(line)
        if placed.interrupted:
            say("interrupted: this is the best placement so far")
    if not options.quiet:
        for path in paths:
            say(f"wrote {path}")
    return status


def share(options: argparse.Namespace) -> int:
    """Print the shared arena and each model's part in it."""
    from lowtide.api.sharing import shared_outputs, write_shared

    if options.settings:
        raise InputError("--set is for one method on one model; plan the models apart first")
    line: ProgressLine = options.line

    def tell(name: str, progress: Progress) -> None:
        line(progress, f"{name}: ")

    exports = keywords.exports(options)
    with shared_outputs(options.models, exports, options.plans, options.target):
        shared = api.share(
            options.models, report=tell, budget=options.budget, persistent=options.persistent,
            double_buffered=options.double_buffered, dims=dims_of(options.dims), **keywords.searching(options),
        )  # fmt: skip
        line.end()
        written = write_shared(shared, options.models, exports, options.plans, options.target)
    if options.json:
        show_json(shared.document)
    else:
        from lowtide.cli.lines import shared_lines

        budget = None if options.budget is None else parse_size(options.budget, "budget")
        show(shared_lines(shared, budget))
    if not options.quiet:
        for path in written:
            say(f"wrote {path}")
        if shared.interrupted:
            say("interrupted: these are the best plans so far")
    return shared.exit_status


def target(options: argparse.Namespace) -> int:
    """Print the list of targets, or one of them."""
    from lowtide.ops.kinds import TABLE
    from lowtide.report.text import target_text

    if options.target is None:
        _show_known(options, api.targets())
        return 0
    target = api.target(options.target)
    show_result({"target": target, "op_kinds": TABLE}, lambda: target_text(target).rstrip("\n"), as_json=options.json)
    return 0


def board(options: argparse.Namespace) -> int:
    """Print the list of boards, or one of them."""
    from lowtide.allocate.banks.boards import to_toml

    if options.board is None:
        _show_known(options, api.boards())
        return 0
    board = api.board(options.board)
    show_result(board, lambda: to_toml(board).rstrip("\n"), as_json=options.json)
    return 0


def _show_known(options: argparse.Namespace, names: Mapping[str, str]) -> None:
    """Print names with their descriptions."""
    from lowtide.report.columns import columns

    rows = [{"name": name, "description": text} for name, text in names.items()]
    show_result(rows, lambda: columns(list(names.items())), as_json=options.json)


def zoo(options: argparse.Namespace) -> int:
    """Print the list of networks, print one, or write it."""
    from lowtide.api.writing import write_zoo
    from lowtide.extensions import networks
    from lowtide.report.columns import columns

    if options.out is not None:
        if options.network is None:
            raise InputError("-o needs the NAME of a network; `lowtide research zoo` lists them")
        name = options.network.removeprefix("zoo:")
        write_zoo(name, options.out, options.seed)
        options.line.end()
        if not options.quiet:
            say(f"wrote {options.out}")
        return 0
    zoo_of_networks = networks("lowtide research zoo")
    names = zoo_of_networks.names() if options.network is None else [options.network.removeprefix("zoo:")]
    entries = [zoo_of_networks.network(name) for name in names]
    if options.network is not None:
        entries[0].settings(names[0].partition(":")[2])
    if options.json:
        rows = [
            {
                "name": e.name,
                "paper": e.paper,
                "configuration": e.configuration,
                "parameters": {k: {"default": p.default, "least": p.least, "most": p.most, "meaning": p.meaning}
                               for k, p in e.parameters.items()},
            }
            for e in entries
        ]  # fmt: skip
        show_json(rows if options.network is None else rows[0])
    elif options.network is None:
        show(columns([(e.name, ",".join(f"{k}={p.default}" for k, p in e.parameters.items())) for e in entries]))
    else:
        entry = entries[0]
        ranges = [(k, f"{p.meaning}, {p.least} to {p.most}, default {p.default}") for k, p in entry.parameters.items()]
        about = [("name", entry.name), ("paper", entry.paper), ("configuration", entry.configuration)]
        show(columns([*about, *ranges]))
    return 0


def _show_kernels(model: str | Path, settings: Mapping[str, Any]) -> None:
    """What other kernels would give, where it is left open whose run."""
    choices = api.choices_to_show(model, settings)
    if choices is not None:
        from lowtide.report.figures import kernels_text

        show(f"\n{kernels_text(choices)}")


def probe(options: argparse.Namespace) -> int:
    """Print the maps of a model's ops and what proving them showed; 5 if one is wrong."""
    from lowtide.report.measuring import probing_text

    dims = dims_of(options.dims)
    probing = api.probe(options.model, dims=dims, seed=options.seed, most_macs=options.most_macs)
    options.line.end()
    show_result(probing, lambda: probing_text(probing), as_json=options.json)
    return probing.exit_status


def measure(options: argparse.Namespace) -> int:
    """Time the ops, write the cost file, and print what it says."""
    from lowtide.api.writing import check_outputs
    from lowtide.report.measuring import cost_text

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
    show_result(file, lambda: cost_text(file), as_json=options.json)
    return 0


def schema(options: argparse.Namespace) -> int:
    """Print the JSON Schema of a file that lowtide reads or writes."""
    show_json(api.schema(options.kind))
    return 0
