"""The command `check`: one model in a line, several in a table, or as continuous integration reads it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide import api
from lowtide.cli import keywords
from lowtide.cli.terminal import say, show, show_json
from lowtide.cli.values import dims_of
from lowtide.cli.ways import ways_of, ways_text
from lowtide.errors import InputError, LowtideError
from lowtide.plan import INTERRUPTED
from lowtide.sizes import parse_size

if TYPE_CHECKING:
    from lowtide.api import Check
    from lowtide.api.budgets import Budgeted
    from lowtide.report.ci import CheckedModel

_VERDICTS = {0: "fits", 3: "does not fit", 4: "cannot fit", 6: "not proved optimal", INTERRUPTED: "interrupted"}
_WORST_FIRST = (INTERRUPTED, 1, 5, 2, 4, 3, 6, 0)
"""Which exit status a list of models has: the first that one of them has."""


def run(options: argparse.Namespace) -> int:
    """Print whether each model fits; the exit status is that of the worst."""
    if options.json and options.format != "text":
        raise InputError(f"--json and --format {options.format} both say what is printed; give one")
    if not options.models:
        return _project(options)
    for name in ("config", "summary", "before", "reports"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name} is for the budgets of a project; leave MODEL out, or --{name}")
    settings = _settings(options)
    if len(options.models) == 1 and options.format == "text":
        return _alone(options, options.models[0], settings)
    rows: list[tuple[CheckedModel, Check | None]] = []
    for model in options.models:
        rows.append(_row(options, model, settings))
        if rows[-1][0].status == INTERRUPTED:
            break
    return _ended(options, rows)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings = {**keywords.budget(options), **keywords.method(options), **keywords.searching(options)}
    return settings | {"dims": dims_of(options.dims)}


def _ended(options: argparse.Namespace, rows: Sequence[tuple[CheckedModel, Check | None]]) -> int:
    options.line.end()
    _show(options, rows)
    states = {row.status for row, _ in rows}
    return next(status for status in _WORST_FIRST if status in states)


def _project(options: argparse.Namespace) -> int:
    """The models of a file of budgets, each with its own rules."""
    from lowtide.api.budgets import FILE, read_budgets
    from lowtide.cli.summary import summary_files, write_summary

    given = [name for name in ("budget", "reserve", "board", "banks") if getattr(options, name)]
    if given or options.target != "auto" or options.dims or options.as_is:
        what = {"budget": "--budget", "reserve": "--reserve", "board": "--board", "banks": "--bank"}
        word = what[given[0]] if given else "an option of a model"
        raise InputError(f"{word} is given, and no MODEL: name models, or say it in the file of budgets")
    if options.config is None and not Path(FILE).exists():
        raise InputError(f"name a MODEL, or write a {FILE} with budgets (docs/ci.md); there is none here")
    if options.summary is None and (options.before or options.reports):
        raise InputError("--before and --reports go with --summary S.md")
    entries = read_budgets(options.config or FILE)
    with summary_files(options):
        rows = list(_rows(options, entries))
        if options.summary is not None:
            write_summary(options, entries, [row for row, _ in rows])
    return _ended(options, rows)


def _rows(options: argparse.Namespace, entries: Sequence[Budgeted]) -> Iterator[tuple[CheckedModel, Check | None]]:
    """Of each model of a project, up to one that was interrupted; an error names the table that it comes from."""
    for entry in entries:
        own = argparse.Namespace(**{**vars(options), **entry.settings, "dims": list(entry.settings["dims"].items())})
        settings = _settings(own) | {"dims": entry.settings["dims"]}
        row, check = _row(own, str(entry.path), settings)
        wrong = check is None and row.status != INTERRUPTED
        yield (replace(row, text=f"{entry.place}: {row.text}") if wrong else row), check
        if row.status == INTERRUPTED:
            return


def _check(options: argparse.Namespace, model: str, settings: dict[str, Any]) -> Check:
    keywords.announce(options, model)
    return api.check(model, report=options.line, as_is=options.as_is, **settings)


def _alone(options: argparse.Namespace, model: str, settings: dict[str, Any]) -> int:
    """One line on stdout; on stderr what the runtime takes today, and what the requirement consists of."""
    check = _check(options, model, settings)
    options.line.end()
    ways = [] if options.as_is or check.own_plan else ways_of(options, model, settings, check)
    if options.json:
        show_json(_document(check) | ({"ways_to_fit": ways} if ways else {}))
        return check.exit_status
    if check.runtime_figures and not options.quiet:
        from lowtide.report.figures import figures_line

        say(figures_line(check.runtime_figures))
    show(_line(options, check))
    if check.parts is not None and not options.quiet:
        from lowtide.report.text import arenas_text, parts_text

        say(f"{arenas_text(check.arenas)}: {parts_text(check.parts)}")
        choices = None if options.as_is else api.choices_to_show(model, settings)
        if choices is not None:
            from lowtide.report.figures import kernels_line

            say(kernels_line(choices, check.available_bytes - _reserve(options)))
    if not options.quiet:
        for line in ways_text(ways).splitlines():
            say(line)
    return check.exit_status


def _row(options: argparse.Namespace, model: str, settings: dict[str, Any]) -> tuple[CheckedModel, Check | None]:
    """One of several: what is wrong with it is its row."""
    from lowtide.cli.lines import sizes_of
    from lowtide.report.ci import CheckedModel

    began = time.perf_counter()
    try:
        check = _check(options, model, settings)
    except LowtideError as error:
        text = str(error)
        return CheckedModel(model, "error", text, error.exit_status, seconds=time.perf_counter() - began), None
    except KeyboardInterrupt:
        return CheckedModel(model, "error", "interrupted", INTERRUPTED, seconds=time.perf_counter() - began), None
    figure = next(iter(check.runtime_figures or ()), None)
    today = "" if figure is None else f"{figure.runtime} {figure.default_bytes:,} B"
    verdict, seconds = _VERDICTS[check.exit_status], time.perf_counter() - began
    row = CheckedModel(model, verdict, _line(options, check), check.exit_status, today, sizes_of(check), seconds)
    return row, check


def _show(options: argparse.Namespace, rows: Sequence[tuple[CheckedModel, Check | None]]) -> None:
    from lowtide.report.ci import checks_table, github_annotations, junit

    if options.json:
        errors = [{"model": row.model, "error": row.text} for row, _ in rows]
        show_json([e if check is None else _document(check) for e, (_, check) in zip(errors, rows, strict=True)])
        return
    text = {"text": checks_table, "github": github_annotations, "junit": junit}[options.format]
    show(text([row for row, _ in rows]))


def _document(check: Check) -> dict[str, Any]:
    import msgspec

    return {k: v for k, v in msgspec.to_builtins(check).items() if v is not None}


def _line(options: argparse.Namespace, check: Check) -> str:
    from lowtide.cli.lines import check_line

    return check_line(check, _reserve(options), as_is=options.as_is or bool(check.own_plan))


def _reserve(options: argparse.Namespace) -> int:
    return 0 if options.reserve is None else parse_size(options.reserve, "reserve", least=0)
