"""What the scripts of `bench/` share: the option ``-o``, results as JSON and as a page, tables, geometric means."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from typing import Any

from lowtide_research.bench.machine import machine


def script(doc: str | None, *, folder: str = "") -> argparse.ArgumentParser:
    """A parser with the docstring's first line and ``-o``, whose value is ``out``; `folder`: a folder comes first."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    if folder:
        parser.add_argument("folder", type=Path, help=folder)
    parser.add_argument("-o", dest="out", type=Path, metavar="PATH", help="writes JSON and a page")
    return parser


def document(**more: Any) -> dict[str, Any]:
    """What a JSON file of results begins with: the machine; then `more`."""
    return {"machine": asdict(machine()), **more}


def about(here: Mapping[str, Any]) -> str:
    """Processor, version and commit, as a page names them."""
    return f"{here['cpu']}, lowtide {here['lowtide']} ({here['commit']})"


def method_of(doc: str | None) -> list[str]:
    """The last paragraph of a script's docstring, which its page repeats, and a blank line."""
    return [*(doc or "").strip().split("\n\n")[-1].splitlines(), ""]


def say(text: object) -> None:
    """A line on stderr, at once."""
    print(text, file=sys.stderr, flush=True)


def write(out: Path, results: object, lines: Iterable[str]) -> None:
    """Results as JSON, and their page as Markdown."""
    out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A Markdown table; integers in groups of three, nothing for None."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return lines + [f"| {' | '.join(map(_cell, row))} |" for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def mean_ratio(rows: Sequence[Mapping[str, Any]], above: str, below: str) -> float:
    """Geometric mean of one figure over another."""
    return exp(sum(log(r[above] / r[below]) for r in rows) / max(1, len(rows)))
