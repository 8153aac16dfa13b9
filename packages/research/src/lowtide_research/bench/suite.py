"""What a benchmark suite is, and how one is run.

A suite is a frozen dataclass whose fields are its options (the command line makes its flags from them). It yields rows,
one for each thing measured; what is done when Ctrl-C comes is kept. Rows become tables for people, and JSON.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from lowtide.errors import InputError
from lowtide.stop import Progress
from lowtide_research.bench.machine import Machine, machine
from lowtide_research.bench.tables import Page, json_text

R = TypeVar("R")
FOLDERS = ("graphs", "instances", "models")
"""Options that name folders or files: results name none."""


def _quiet(*_: object) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Watch:
    """Who is told of a run while it goes on; any of them may raise KeyboardInterrupt to end it."""

    # Called with the name of what is measured and the progress of its search.
    search: Callable[[str, Progress], None] = _quiet
    # Called with how many of how many are done, where they are too many for rows.
    count: Callable[[int, int], None] = _quiet
    row: Callable[[Any], None] = _quiet  # called with each finished row

    def named(self, name: str) -> Callable[[Progress], None]:
        """What a search of that name is to call."""
        return partial(self.search, name)


class Suite(Protocol[R]):
    """A benchmark, with what was asked of it; a frozen dataclass of options."""

    name: ClassVar[str]  # of the command, and of its files
    # words, description, examples: what ``--help`` says: in the list of suites, and above and below its own options.
    words: ClassVar[str]
    description: ClassVar[str]
    examples: ClassVar[tuple[str, ...]]
    labelled: ClassVar[bool] = True  # whether its files may be given a label

    def rows(self, watch: Watch) -> Iterator[R]:
        """Check what is asked, then measure row by row. Raises `InputError`: a name that there is not, or another
        value that is wrong; before anything is measured as far as possible. Raises `MissingExtraError`: a package
        that it needs is not installed."""
        ...

    def line(self, row: R) -> str:
        """What is said of a row when it is done; nothing if empty."""
        ...

    def finish(self, rows: Sequence[R]) -> Sequence[R]:
        """The rows with what only all of them together can say."""
        return rows

    def record(self, results: Results[R]) -> object:
        """What the JSON holds: the options, without the folders that they name, and the rows."""
        options = {f.name: getattr(self, f.name) for f in fields(cast(Any, self)) if f.name not in FOLDERS}
        about = {"suite": self.name, "machine": results.machine, "options": options}
        return about | {"complete": results.complete, "cpu_seconds": results.cpu_seconds, "rows": results.rows}

    def text(self, results: Results[R]) -> str:
        """What a terminal shows."""
        ...

    def stem(self, results: Results[R], label: str) -> str:
        """What its files are called, without endings."""
        return f"{self.name}-{label}" if label else self.name

    def files(self, results: Results[R], stem: str) -> dict[str, str]:
        """What is written: names to contents."""
        ...


class TableSuite(Suite[R], Protocol[R]):
    """A suite whose results are tables: shown on a terminal, and written as Markdown."""

    def page(self, results: Results[R]) -> Page:
        """The tables, with what is to be said of them."""
        ...

    def text(self, results: Results[R]) -> str:
        """The tables."""
        return self.page(results).text()

    def files(self, results: Results[R], stem: str) -> dict[str, str]:
        """JSON and Markdown."""
        return {
            f"{stem}.json": json_text(self.record(results)),
            f"{stem}.md": self.page(results).markdown(),
        }


@dataclass(frozen=True)
class Results(Generic[R]):
    """What a run of a suite gave. `complete` is False if Ctrl-C ended it: the rows are those that were done.

    `cpu_seconds` is everything, reading and checking included.
    """

    suite: Suite[R]
    rows: tuple[R, ...]
    machine: Machine
    complete: bool = True
    cpu_seconds: float = 0.0


def run(suite: Suite[R], watch: Watch | None = None) -> Results[R]:
    """Run a suite; the rows that are done when Ctrl-C comes are its results. Raises `InputError`, `MissingExtraError`:
    as `Suite.rows`. Raises `KeyboardInterrupt`: Ctrl-C before any row was done."""
    watch = watch or Watch()
    began, here = clock.process_time(), machine()  # its commit is that of the code that runs
    done: list[R] = []
    complete = True
    try:
        for row in suite.rows(watch):
            done.append(row)
            watch.row(row)
    except KeyboardInterrupt:
        if not done:
            raise
        complete = False
    seconds = round(clock.process_time() - began, 3)
    return Results(suite, tuple(suite.finish(done)), here, complete, seconds)


def check_names(what: str, wanted: Iterable[str], names: Iterable[str], more: str = "") -> None:
    """Raise `InputError` for the first name that there is not; `what` says of what it is one.

    >>> check_names("part", ["b"], {"a": 1, "b": 2})
    """
    there = list(names)
    for name in wanted:
        if name not in there:
            raise InputError(f"there is no {what} {name!r}; use one of {', '.join(there)}{more}")


def best_bounds(rows: Iterable[R], key: Callable[[R], Any], bound: Callable[[R], int | None]) -> Mapping[Any, int]:
    """The best lower bound that any row proved, for all rows of the same key; bytes."""
    best: dict[Any, int] = {}
    for row in rows:
        best[key(row)] = max(best.get(key(row), 0), bound(row) or 0)
    return best
