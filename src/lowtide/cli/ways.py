"""What would make a model fit, as text: the end of `plan`, `check` and `emit` over budget."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide import api
from lowtide.errors import LowtideError
from lowtide.plan import INTERRUPTED, Plan

OVER = ("over_budget", "impossible")


def ways_of(
    options: argparse.Namespace, model: str | Path, settings: Mapping[str, Any], result: Plan | api.Check
) -> list[api.WayToFit]:
    """The ladder for a command's settings where its `result` is over the budget; none where it cannot be searched.
    After Ctrl-C nothing is searched, and `options.interrupted` is set, so that the command exits with 130."""
    if result.status not in OVER or result.exit_status == INTERRUPTED:
        return []
    try:
        return api.ways_to_fit(model, report=lambda name, seen: options.line(seen, f"{name}: "), **settings)
    except KeyboardInterrupt:
        options.interrupted = True
        return []
    except LowtideError:
        return []
    finally:
        options.line.end()


def ways_text(ways: Sequence[api.WayToFit]) -> str:
    """A row for each rung, and below it the command; empty without one."""
    from lowtide.report.columns import columns

    if not ways:
        return ""
    rows = [
        (
            way.how, "not searched" if way.required_bytes is None else f"{way.required_bytes:,} B",
            "fits" if way.fits else "",
            "; ".join(word for word in (way.costs, _cut_short(way)) if word),
        )
        for way in ways
    ]  # fmt: skip
    lines = columns(rows).splitlines()
    pairs = (text for line, way in zip(lines, ways, strict=True) for text in (line.rstrip(), f"  {way.command}"))
    return "\n".join(["what would fit:", *pairs])


def _cut_short(way: api.WayToFit) -> str:
    return "" if way.within_seconds is None else f"found within {way.within_seconds:g} s"
