"""What `check --summary` writes in addition to its rows: a table with pictures, and reports."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.cli.terminal import say
from lowtide.errors import InputError
from lowtide.outputs import output_folder

if TYPE_CHECKING:
    from lowtide.api.budgets import Budgeted
    from lowtide.report.ci import CheckedModel


@contextmanager
def summary_files(options: argparse.Namespace) -> Iterator[None]:
    """The folder of the reports, while models are checked; and that what is requested can be read and written. Raises
    `InputError`: it cannot, before any time is spent on a model."""
    if options.summary is None:
        yield
        return
    if options.before is not None and not Path(options.before).is_dir():
        raise InputError("this is no folder; give the project as it was before", str(options.before))
    path = Path(options.summary)
    there = path.exists()
    try:
        path.open("a").close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write the summary: {why}", str(path)) from None
    try:
        with nullcontext() if options.reports is None else output_folder(options.reports):
            yield
    finally:
        if not there and path.stat().st_size == 0:
            path.unlink()


def write_summary(options: argparse.Namespace, entries: Sequence[Budgeted], rows: Sequence[CheckedModel]) -> None:
    """Append the summary to its file; write a report for each model that has a plan."""
    from lowtide.api import report
    from lowtide.api.changes import change, versions
    from lowtide.report.ci import summary

    changes = []
    for entry, row in zip(entries, rows, strict=False):
        before = None if options.before is None else Path(options.before) / entry.name
        seen = versions(entry.path, before, entry.settings, options.line)
        if options.reports is not None and seen.now.plan is not None:
            other = seen.before.plan if seen.before is not None and seen.before is not seen.now else None
            report(seen.now.plan, Path(options.reports) / f"{entry.name.replace('/', '-')}.html", before=other)
        changes.append(change(entry.name, row.verdict, row.sizes[1], seen))
    options.line.end()
    where = "" if options.reports is None else "the HTML reports among this run's artifacts"
    try:
        with open(options.summary, "a", encoding="utf-8") as file:
            file.write(summary(changes, reports=where))
    except OSError as error:
        raise InputError(f"cannot write the summary: {error.strerror or error}", str(options.summary)) from None
    if not options.quiet:
        say(f"wrote {options.summary}")
