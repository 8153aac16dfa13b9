"""The command `report`, and the options of pictures that `plan` takes."""

from __future__ import annotations

import argparse
from typing import Any

from lowtide.api.reporting import Pictures, report_files
from lowtide.cli.terminal import say


def run(options: argparse.Namespace) -> int:
    """Write pictures of one plan file, or of two beside each other."""
    written = report_files(options.plans, pictures_of(options))
    if not options.quiet:
        for path in written:
            say(f"wrote {path}")
    return 0


def arguments(p: Any) -> None:
    """Words of `lowtide report`."""
    p.add_argument(
        "plans",
        metavar="P.json",
        nargs="+",
        help="a plan; of two the first is the one before; of more one at a time is shown",
    )
    p.add_argument("-o", dest="report", metavar="R.html", help="the report: one file, no network")
    _trace(p)
    p.add_argument("--svg", metavar="NAME", help="each figure as an SVG file, NAME-live.svg and so on")


def options_of_plan(p: Any) -> None:
    """Words that `lowtide plan` takes."""
    p.add_argument("--report", metavar="R.html", help="a picture of the plan: one HTML file, no network")
    _trace(p)


def pictures_of(options: argparse.Namespace) -> Pictures:
    """What is wanted."""
    return Pictures(options.report, options.trace, getattr(options, "svg", None), options.overlay)


def _trace(p: Any) -> None:
    p.add_argument("--trace", metavar="T.json", help="live bytes and lives for Perfetto or chrome://tracing")
    p.add_argument("--overlay", metavar="O.json", help="node data for Model Explorer: each op by its live bytes")
