"""The command `report`, and the pictures that a command line asks for."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING

from lowtide.cli.terminal import has_unicode, say, show, show_json

if TYPE_CHECKING:
    from lowtide.api.reporting import Pictures


def run(options: argparse.Namespace) -> int:
    """Write pictures of one plan file, or of two compared; print the report of one where no file is named."""
    from lowtide.api.reporting import report_files

    pictures = pictures_of(options)
    if len(options.plans) == 1 and not pictures.wanted:
        _print(options.plans[0], as_json=options.json)
        return 0
    written = report_files(options.plans, pictures)
    if not options.quiet:
        for path in written:
            say(f"wrote {path}")
    return 0


def _print(path: str, *, as_json: bool) -> None:
    from lowtide.plan import read_plan
    from lowtide.report.parted import view_of
    from lowtide.report.peak import peak_groups, top_at_peak, what_ifs

    view = view_of(read_plan(path), path)
    if as_json:
        top = [{"tensor": view.rectangles[i].name, "what_ifs": what_ifs(view, i)} for i in top_at_peak(view)]
        groups = peak_groups(view)
        show_json({"peak_bytes": view.peak_bytes, "step": view.peak_step, "groups": groups, "top": top})
        return
    from lowtide.report.columns import WIDTH
    from lowtide.report.screen import screen_text

    width = min(max(shutil.get_terminal_size((100, 24)).columns - 1, 72), 100)
    show(screen_text(view, width=width, plain=not has_unicode(), cut=WIDTH))


def pictures_of(options: argparse.Namespace) -> Pictures:
    """What is wanted."""
    from lowtide.api.reporting import Pictures

    return Pictures(
        options.report, options.trace, getattr(options, "svg", None), options.overlay, getattr(options, "png", None)
    )
