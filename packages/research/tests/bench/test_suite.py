"""What is common to all suites: the driver, names asked for, bounds, options, files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields
from pathlib import Path
from typing import ClassVar

import pytest

from lowtide.errors import InputError
from lowtide_research.bench.command import suites, write
from lowtide_research.bench.options import flag
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names, run
from lowtide_research.bench.tables import Page, Table
from support.bench import markdown, text


@dataclass(frozen=True)
class Square:
    """A row."""

    n: int
    square: int
    least: bool = False


@dataclass(frozen=True)
class Squares(TableSuite[Square]):
    """Numbers with their squares; Ctrl-C at `stop`."""

    name: ClassVar[str] = "squares"
    words: ClassVar[str] = "numbers"
    description: ClassVar[str] = "Numbers."
    examples: ClassVar[tuple[str, ...]] = ("",)

    upto: int = field(default=3, metadata=flag("how many", "N"))
    stop: int = field(default=99, metadata=flag("where", "N"))

    def rows(self, watch: Watch) -> Iterator[Square]:
        """Check, then count."""
        if self.upto < 0:
            raise InputError("upto is negative")
        return self._rows()

    def _rows(self) -> Iterator[Square]:
        for n in range(self.upto):
            if n == self.stop:
                raise KeyboardInterrupt
            yield Square(n, n * n)

    def line(self, row: Square) -> str:
        """The number."""
        return f"{row.n}"

    def finish(self, rows: Sequence[Square]) -> Sequence[Square]:
        """Mark the least square."""
        return [Square(r.n, r.square, r.square == min(o.square for o in rows)) for r in rows]

    def page(self, results: Results[Square]) -> Page:
        """One table."""
        cells = [("n", "square"), *((str(r.n), str(r.square)) for r in results.rows)]
        return Page("Squares", "About.", [Table("of numbers", cells)], ["A remark."])


def test_rows_are_reported_and_finished_together() -> None:
    """Each when it is done; what only all can say is said at the end."""
    seen: list[Square] = []
    results = run(Squares(), Watch(row=seen.append))
    assert seen == [Square(n, n * n) for n in range(3)]
    assert results.rows == (Square(0, 0, least=True), Square(1, 1), Square(2, 4))
    assert results.complete


def test_ctrl_c_keeps_what_is_done() -> None:
    """In a suite or in who is told of it; with nothing done there are no results."""
    results = run(Squares(stop=2))
    assert (results.complete, [r.n for r in results.rows]) == (False, [0, 1])

    def leave(row: Square) -> None:
        raise KeyboardInterrupt

    results = run(Squares(), Watch(row=leave))
    assert (results.complete, [r.n for r in results.rows]) == (False, [0])
    with pytest.raises(KeyboardInterrupt):
        run(Squares(stop=0))


def test_what_is_wrong_ends_it_before_any_row() -> None:
    """The suite checks what it was asked for."""
    with pytest.raises(InputError, match="negative"):
        run(Squares(-1))


def test_tables_and_files(tmp_path: Path) -> None:
    """One page for a terminal and as Markdown; two files under a label."""
    results = run(Squares(2))
    assert text(results) == "About.\n\nof numbers\n\nn  square\n0       0\n1       1\n\nA remark."
    table = "| n | square |\n| :-- | --: |\n| 0 | 0 |\n| 1 | 1 |"
    assert markdown(results) == f"# Squares\n\nAbout.\n\n### of numbers\n\n{table}\n\nA remark.\n"
    written = write(results, tmp_path / "out", "few")
    assert [(p.stem, p.suffix) for p in written] == [("squares-few", end) for end in (".json", ".md")]
    assert json.loads(written[0].read_text())["rows"][1] == {"n": 1, "square": 1, "least": False}
    assert write(results, tmp_path)[0].name == "squares.json"


def test_a_name_that_there_is_not() -> None:
    """The first one, with those there are."""
    check_names("part", ["a", "b"], {"a": 1, "b": 2})
    with pytest.raises(InputError, match=r"there is no part 'c'; use one of a, b or all"):
        check_names("part", ["a", "c", "d"], ["a", "b"], " or all")


def test_best_bounds_are_of_each_key() -> None:
    """The greatest; nothing where none is proved."""
    rows = [("a", 3), ("b", None), ("a", 5), ("a", 4)]
    assert best_bounds(rows, lambda r: r[0], lambda r: r[1]) == {"a": 5, "b": 0}


@pytest.mark.parametrize("name", suites())
def test_every_suite_is_a_frozen_dataclass_of_options(name: str) -> None:
    """With defaults for all, words for help, and no field that is no option."""
    kind = suites()[name]
    suite = kind()
    assert kind.name == name
    assert kind.words
    assert kind.description
    assert kind.examples
    assert all("flag" in f.metadata for f in fields(suite))  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        suite.time = 1.0  # type: ignore[attr-defined]
