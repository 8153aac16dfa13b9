"""One function per command: call lowtide's function of that name, print what it returns, say the exit status."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide import api
from lowtide.api.models import open_dimensions, user_function
from lowtide.cli.terminal import ProgressLine, say, show, show_json
from lowtide.errors import InputError
from lowtide.sizes import format_size, parse_size

if TYPE_CHECKING:
    from lowtide.stop import Progress


BARS = 72
"""Of the profile of footprints that `inspect` draws, at most; the terminal may have room for fewer."""


def plan(options: argparse.Namespace) -> int:
    """Plan, write, and print a summary."""
    from lowtide.api.planning import exit_status
    from lowtide.api.writing import check_outputs, write_all

    optimized = _runtime_optimized(options)
    exports = api.Exports(options.header, options.table, options.usmp)
    outputs = (options.out, options.plan_file, options.log_file, options.snippet, options.buffer_plan, options.commands)
    outputs = (*outputs, *exports.paths)
    if any(path is not None for path in outputs):
        check_outputs(options.model, *outputs)
    line: ProgressLine = options.line
    trace: list[Progress] = []
    settings = {**_budget(options), **_method(options), **_common(options), **_spilling(options)}
    settings["spread"] = options.spread
    made = api.plan(options.model, report=line, trace=trace, **settings)
    line.end()
    if options.memories and made.moves is None:  # no plan that a driver could run
        outputs = tuple(path for path in outputs if path != options.commands)
        options.commands = None
    if any(path is not None for path in outputs):
        write_all(
            made,
            options.model,
            out=options.out,
            plan_file=options.plan_file,
            log_file=options.log_file,
            snippet=options.snippet,
            buffer_plan=options.buffer_plan,
            trace=trace,
            copy_external=options.copy_external,
            exports=exports,
            commands=options.commands,
            target=options.target,
            dims=settings["dims"],
        )
    if options.json:
        show_json(made)
    else:
        from lowtide.report.text import plan_text

        show(plan_text(made, verbose=options.verbose))
    if not options.quiet:
        for path in (optimized, *outputs):
            if path is not None:
                say(f"wrote {path}")
        if made.stopped == "interrupt":
            say("interrupted: this is the best plan so far")
        if options.memories and made.moves is None:
            say(api.too_small(made, options.memories))
    return exit_status(made.status, made.stopped)


def inspect(options: argparse.Namespace) -> int:
    """Print why the peak is what it is."""
    line: ProgressLine = options.line
    seen = api.inspect(options.model, report=line, **_method(options), **_common(options))
    line.end()
    if options.json:
        show_json(seen)
    else:
        from lowtide.report.text import inspection_text

        width = min(BARS, shutil.get_terminal_size().columns - 2)
        show(inspection_text(seen, width=max(width, 1), plain=not _unicode()))
    return 130 if seen.stopped == "interrupt" else 0


def check(options: argparse.Namespace) -> int:
    """Print one line on whether the model fits."""
    line: ProgressLine = options.line
    found = api.check(
        options.model, report=line, as_is=options.as_is, **_budget(options), **_method(options), **_common(options)
    )
    line.end()
    if options.json:
        import msgspec

        show_json({k: v for k, v in msgspec.to_builtins(found).items() if v is not None})
        return found.exit_status
    said = {
        "ok": "fits",
        "unproved": "fits, but is not proved least",
        "over_budget": "does not fit",
        "impossible": "cannot fit, whatever the order"
        if found.memories
        else f"cannot fit, the lower bound is {found.lower_bound_bytes:,} B{_with_the_rest(found, options)}",
    }[found.status]
    if options.as_is:
        proof = "own order and offsets" if found.parts is not None else "own order"
    elif found.status == "impossible" and not found.optimal:
        proof = "peak not proved least"
    else:
        proof = "peak proved optimal" if found.optimal else f"lower bound {found.lower_bound_bytes:,} B"
    if found.stopped not in ("proof", "complete"):
        from lowtide.report.text import CUT_SHORT

        proof += f", {CUT_SHORT[found.stopped]}"
    why = "" if found.conflict is None else f"; {found.conflict}"
    whole = f"{found.required_bytes:,} B, available {found.available_bytes:,} B, excess {found.excess_bytes:,} B"
    each = [
        f"{m.name} {m.required_bytes:,} B, available {m.available_bytes:,} B, excess {m.excess_bytes:,} B"
        for m in found.memories or ()
    ]
    show(f"{said}: required {'; '.join(each) or whole} (target {found.target}, {proof}){why}")
    if found.parts is not None and not options.quiet:
        from lowtide.report.text import parts_text

        say(f"kTensorArenaSize: {parts_text(found.parts)}")
    return found.exit_status


def _with_the_rest(found: api.Check, options: argparse.Namespace) -> str:
    """The bound of what is compared with the budget: with the runtime's own part and the reserve, if there are any."""
    least, beside = found.lower_bound_bytes, []
    if found.parts is not None:
        least = max(least + found.parts.persistent, found.parts.planning)
        beside.append("what TFLM keeps beside it")
    if options.reserve is not None:
        least += parse_size(options.reserve, "reserve", least=0)
        beside.append("the reserve")
    return f", with {' and '.join(beside)} {least:,} B" if beside else ""


def compare(options: argparse.Namespace) -> int:
    """Print a table of what each method reaches."""
    methods = [name.strip() for name in options.methods.split(",") if name.strip()]
    if options.methods and not methods:
        raise InputError(f"--methods is {options.methods!r}; name methods separated by commas")
    settings: dict[str, dict[str, str]] = {}
    for method, option, value in options.settings:
        settings.setdefault(method, {})[option] = value
    line: ProgressLine = options.line

    def tell(name: str, progress: Progress) -> None:
        line(progress, f"{name}: ")

    common = _common(options)
    rows = api.compare(options.model, methods, options=settings, report=tell, **common, **_spilling(options))
    line.end()
    status = 130 if any(row.interrupted for row in rows) else 0
    if options.json:
        import msgspec

        table = [msgspec.to_builtins(row) for row in rows]
        always = ("peak_bytes", "arena_bytes", "lower_bound_bytes")
        show_json([{k: v for k, v in row.items() if k in always or v not in (None, ())} for row in table])
        return status
    from lowtide.report.comparison import comparison_text

    show(comparison_text(rows, api.target(options.target, options.model).name))
    return status


def verify(options: argparse.Namespace) -> int:
    """Print each check that holds; what does not is raised."""
    _announce(options)
    report = api.verify(
        options.model,
        options.plan_file,
        target=options.target,
        dims=_dims(options.dims),
        overwrite_inputs=options.overwrite_inputs,
        pin_inputs=options.pin_inputs,
        run=options.run,
        random_weights=options.random_weights,
        prove=options.prove,
        time=options.time,
    )
    options.line.end()
    if options.json:
        show_json(report)
    else:
        from lowtide.report.text import report_text

        show(report_text(report))
    return 0


def allocate(options: argparse.Namespace) -> int:
    """Print the buffers with their offsets."""
    from lowtide.allocate.csv_buffers import read_problem
    from lowtide.api.exports import placed_csv, write_placement
    from lowtide.api.writing import check_outputs

    exports = api.Exports(options.header, options.table, options.usmp)
    outputs = (options.out, *exports.paths)
    wanted = [path for path in outputs if path is not None]
    if wanted:
        check_outputs(options.buffers, None, *outputs)
    settings = _memories(options) | {"spread": options.spread, "time": options.time, "seed": options.seed}
    label = "in slow memories: " if settings["banks"] or settings["board"] else ""
    placed = api.allocate(options.buffers, options.capacity, report=lambda p: options.line(p, label), **settings)
    options.line.end()
    problem = read_problem(options.buffers).problem
    capacity = None if options.capacity is None else parse_size(options.capacity, "capacity")
    status = placed.exit_status(capacity)
    if wanted:
        source = options.buffers
        name = Path(source).stem
        write_placement(placed, problem, exports, name=name, out=options.out, source=source, capacity=capacity)
    if options.json:
        import msgspec

        show_json({k: v for k, v in msgspec.to_builtins(placed).items() if v is not None})
    elif options.out is None:
        show(placed_csv(placed, problem).rstrip("\n"))
    if not options.quiet and not options.json:
        for line in _placement_lines(placed, capacity, status):
            say(line)
        if placed.interrupted:
            say("interrupted: this is the best placement so far")
    if not options.quiet:
        for path in wanted:
            say(f"wrote {path}")
    return status


def share(options: argparse.Namespace) -> int:
    """Print the shared arena and each model's part in it."""
    from lowtide.api.sharing import write_shared

    if options.settings:
        raise InputError("--set is for one method on one model; plan the models apart first")
    exports = api.Exports(options.header, options.table, options.usmp)
    line: ProgressLine = options.line

    def tell(name: str, progress: Progress) -> None:
        line(progress, f"{name}: ")

    settings = {
        "target": options.target, "dims": _dims(options.dims), "budget": options.budget, "time": options.time,
        "search_memory": options.search_memory, "seed": options.seed, "persistent": options.persistent,
        "double_buffered": options.double_buffered, "overwrite_inputs": options.overwrite_inputs,
        "pin_inputs": options.pin_inputs,
    }  # fmt: skip
    found = api.share(options.models, report=tell, **settings)
    line.end()
    written = write_shared(found, options.models, exports, options.plans, settings)
    if options.json:
        show_json(found)
    else:
        from lowtide.report.text import columns

        proof = "least for these orders" if found.optimal else f"at least {found.lower_bound_bytes:,} B"
        rows = [(m.name, f"{m.alone_bytes:,} B alone") for m in found.models]
        rows.append(("shared", f"{format_size(found.arena_bytes)}, {proof}; apart {found.separate_bytes:,} B"))
        if found.persistent_bytes:
            rows.append(("persistent", f"{found.persistent_bytes:,} B of it"))
        if options.budget is not None:
            said = {"ok": "fits", "over_budget": "over", "impossible": "proved not to fit"}[found.status]
            rows.append(("budget", f"{format_size(parse_size(options.budget, 'budget'))}: {said}"))
        show(columns(rows))
    if not options.quiet:
        for path in written:
            say(f"wrote {path}")
        if found.interrupted:
            say("interrupted: these are the best plans so far")
    return found.exit_status


def _placement_lines(placed: api.Placement, capacity: int | None, status: int) -> list[str]:
    """What was reached, and who is in the way if it does not fit."""
    why = [] if placed.conflict is None else [placed.conflict]
    count = f"{len(placed.offsets):,} buffers"
    if placed.memories is not None:
        each = [
            f"{m.name} {m.required_bytes:,} B of {m.available_bytes:,} B"
            + (f", excess {m.excess_bytes:,} B" if m.excess_bytes else "")
            for m in placed.memories
        ]
        slow = f"{placed.slow_bytes or 0:,} B in slow memory, " + (
            "proved fewest" if placed.optimal else f"at least {placed.slow_lower_bound_bytes or 0:,} B"
        )
        known = {"ok": slow, "over_budget": "does not fit", "impossible": "proved not to fit"}
        verdict = known[placed.status or "ok"]
        if placed.interrupted and placed.status == "over_budget":
            verdict = "interrupted before it was known whether they fit"
        return [f"{'; '.join(each)}; {verdict}; {count}", *why]
    bound = "proved least" if placed.optimal else f"lower bound {format_size(placed.lower_bound_bytes)}"
    known = {0: "fits the capacity", 3: "over the capacity", 4: "proved not to fit the capacity"}
    fits = known.get(status, "interrupted before it was known whether it fits the capacity")
    verdict = "" if capacity is None else f"; {fits} of {format_size(capacity)}"
    alone = "" if placed.alone is None else f", {placed.alone:,} of them share no byte with any other"
    return [f"height {format_size(placed.height_bytes)}, {bound}, {count}{alone}{verdict}", *why]


def target(options: argparse.Namespace) -> int:
    """Print the list of targets, or one of them."""
    from lowtide.ops.table import TABLE
    from lowtide.report.text import columns, target_text

    if options.target is None:
        known = api.targets()
        if options.json:
            show_json([{"name": name, "description": text} for name, text in known.items()])
        else:
            show(columns(list(known.items())))
        return 0
    found = api.target(options.target)
    if options.json:
        show_json({"target": found, "op_kinds": TABLE})
    else:
        show(target_text(found).rstrip("\n"))
    return 0


def board(options: argparse.Namespace) -> int:
    """Print the list of boards, or one of them."""
    from lowtide.allocate.banks.boards import to_toml
    from lowtide.report.text import columns

    if options.board is None:
        known = api.boards()
        if options.json:
            show_json([{"name": name, "description": text} for name, text in known.items()])
        else:
            show(columns(list(known.items())))
        return 0
    found = api.board(options.board)
    if options.json:
        show_json(found)
    else:
        show(to_toml(found).rstrip("\n"))
    return 0


def zoo(options: argparse.Namespace) -> int:
    """Print the list of networks, print one, or write it."""
    from lowtide import zoo as networks
    from lowtide.api.writing import write_zoo
    from lowtide.report.text import columns

    if options.out is not None:
        if options.network is None:
            raise InputError("-o needs the NAME of a network; `lowtide zoo` lists them")
        name = options.network.removeprefix("zoo:")
        write_zoo(name, options.out, options.seed)
        options.line.end()
        if not options.quiet:
            say(f"wrote {options.out}")
        return 0
    names = networks.names() if options.network is None else [options.network.removeprefix("zoo:")]
    entries = [networks.network(name) for name in names]
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


def _common(options: argparse.Namespace) -> dict[str, Any]:
    """What every planning function takes."""
    _announce(options)
    return {
        "target": options.target,
        "time": options.time,
        "search_memory": options.search_memory,
        "seed": options.seed,
        "dims": _dims(options.dims),
        "overwrite_inputs": options.overwrite_inputs,
        "pin_inputs": options.pin_inputs,
    }


def _runtime_optimized(options: argparse.Namespace) -> str | None:
    """Let the runtime optimise the model first, if asked to, and go on with the file that it made."""
    path = options.runtime_optimized
    if path is None:
        return None
    if options.target not in ("auto", "onnxruntime"):
        raise InputError(f"--runtime-optimized is for target onnxruntime, not for {options.target}; drop one of them")
    dims = _dims(options.dims)
    wanted = options.runtime_level
    level = api.runtime_optimized(options.model, path, level=wanted, dims=dims, seed=options.seed, time=options.time)
    if level != wanted and not options.quiet:
        say(f"level {level} needs the smaller arena")
    options.model, options.target = path, "onnxruntime"
    options.dims = [(name, size) for name, size in options.dims if ":" in name]
    return path


def _announce(options: argparse.Namespace) -> None:
    own = user_function(options.model)
    if own is not None and not options.quiet and own[0].is_file():
        say(f"running {own[1]}() of {own[0]}: that is the user's own code")
    if not options.quiet:
        for said in open_dimensions(options.model):
            say(f"{options.model}: input {said}; the file leaves a dimension open")


def _budget(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "budget": options.budget,
        "reserve": options.reserve,
        "require_optimal": options.require_optimal,
        "persistent": options.persistent,
        "double_buffered": options.double_buffered,
        "fixed": _fixed(options.fixed),
        **_memories(options),
    }


def _spilling(options: argparse.Namespace) -> dict[str, Any]:
    moves: dict[str, str] = {}
    for name, value in options.moves:
        if moves.setdefault(name, value) != value:
            raise InputError(f"--moves gives {name} twice, {moves[name]} and {value}; give one")
    return {"memories": options.memories, "moves": moves}


def _fixed(given: Sequence[tuple[str, int]]) -> dict[str, int]:
    fixed: dict[str, int] = {}
    for name, offset in given:
        if fixed.setdefault(name, offset) != offset:
            raise InputError(f"--fix puts {name} at {fixed[name]} and at {offset}; say it once")
    return fixed


def _memories(options: argparse.Namespace) -> dict[str, Any]:
    places: dict[str, str] = {}
    for name, memories in options.places:
        if places.setdefault(name, memories) != memories:
            raise InputError(f"--place puts {name} in {places[name]} and in {memories}; say it once")
    return {"banks": options.banks, "board": options.board, "places": places}


def _method(options: argparse.Namespace) -> dict[str, Any]:
    if options.method == "exact" and getattr(options, "memories", ()):
        options.method = "spill"
    settings: dict[str, str] = {}
    for method, option, value in options.settings:
        if method != options.method:
            raise InputError(f"--set {method}.{option} is for another method than {options.method}; drop it")
        settings[option] = value
    return {"method": options.method, "options": settings}


def _dims(given: Sequence[tuple[str, int]]) -> Mapping[str, int]:
    dims: dict[str, int] = {}
    for name, size in given:
        if dims.setdefault(name, size) != size:
            raise InputError(f"--dim gives {name} two sizes, {dims[name]} and {size}; give one")
    return dims


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
