"""Results as tables for people, in a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lowtide.report.columns import columns
from lowtide.sizes import parse_size
from lowtide_research.bench.machine import Machine

LEAST = "*"  # stands after what is proved optimal


@dataclass(frozen=True)
class Table:
    """Cells as text; `left` columns are flush left, the others right."""

    title: str
    rows: Sequence[Sequence[str]]
    left: frozenset[int] = frozenset({0})

    def text(self) -> str:
        """For a terminal."""
        right = [c for c in range(len(self.rows[0])) if c not in self.left]
        shown = columns(self.rows, right)
        return f"{self.title}\n\n{shown}" if self.title else shown

    def markdown(self) -> str:
        """For a page; without a title, plain columns."""
        head, *rest = (f"| {' | '.join(row)} |" for row in self.rows)
        rules = [":--" if c in self.left else "--:" for c in range(len(self.rows[0]))]
        if not self.title:
            return "\n".join([head, f"|{'---|' * len(rules)}", *rest])
        return "\n".join([f"### {self.title}", "", head, f"| {' | '.join(rules)} |", *rest])


@dataclass(frozen=True)
class Page:
    """What is shown of results."""

    title: str  # the heading of the Markdown
    about: str  # what it was measured with and how, above the tables
    tables: Sequence[Table]
    remarks: Sequence[str] = ()  # a line for each thing to be said below them
    bare: bool = False  # whether a terminal shows the tables alone

    def text(self) -> str:
        """For a terminal."""
        above = [] if self.bare else [self.about]
        return "\n\n".join([*above, *(t.text() for t in self.tables), *self._below()])

    def markdown(self) -> str:
        """As a page."""
        blocks = [f"# {self.title}", self.about, *(t.markdown() for t in self.tables), *self._below()]
        return "\n\n".join(blocks) + "\n"

    def _below(self) -> list[str]:
        return ["\n".join(self.remarks)] if self.remarks else []


def json_text(record: object) -> str:
    """Dataclasses by their fields."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1).decode() + "\n"


def machine_text(m: Machine) -> str:
    """One line on what it was measured with."""
    cores = f"{m.cores} core" + ("s" if m.cores != 1 else "")
    return f"lowtide {m.lowtide}, commit {m.commit or 'not known'}; {m.python}, {m.system}, {m.cpu}, {cores}."


def limits_text(seconds: float, memory: int | str, seed: int) -> str:
    """One line on what each cell might use."""
    states = parse_size(memory, "search memory")
    return f"Limits per cell: {seconds:g} s of wall time, {states:,} B for states; seed {seed}."


def number(n: int | None) -> str:
    """With separators; nothing for None."""
    return "" if n is None else f"{n:,}"


def seconds_text(seconds: float) -> str:
    """Two digits below a second, tenths above."""
    return f"{seconds:.2g}" if seconds < 1 else f"{seconds:.1f}"
