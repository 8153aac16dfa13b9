"""The command `report`, and the options of pictures that `plan` takes."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING, Any

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


def arguments(p: Any) -> None:
    """Words of `lowtide report`."""
    p.add_argument(
        "plans",
        metavar="P.json",
        nargs="+",
        help="a plan; of two the first is the one before; of more one at a time is shown",
    )
    p.add_argument(
        "-o", dest="report", metavar="R.html", help="the report: one file, no network (without an output: thirty lines)"
    )
    _trace(p)
    p.add_argument("--svg", metavar="NAME", help="each figure as an SVG file, NAME-live.svg and so on")
    p.add_argument("--png", metavar="NAME", help="each figure as a PNG file (needs the extra plot)")


def options_of_plan(p: Any) -> None:
    """Words that `lowtide research plan` takes."""
    p.add_argument("--report", metavar="R.html", help="a picture of the plan: one HTML file, no network")
    _trace(p)


def pictures_of(options: argparse.Namespace) -> Pictures:
    """What is wanted."""
    from lowtide.api.reporting import Pictures

    return Pictures(
        options.report, options.trace, getattr(options, "svg", None), options.overlay, getattr(options, "png", None)
    )


def _trace(p: Any) -> None:
    p.add_argument("--trace", metavar="T.json", help="live bytes and lives for Perfetto or chrome://tracing")
    p.add_argument("--overlay", metavar="O.json", help="node data for Model Explorer: each op by its live bytes")
