"""What the scripts of bench/ share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowtide_research.bench.pages import document, mean_ratio, method_of, script, table, write

DOC = """What a script does.

    python SCRIPT -o results/x

How it is done,
in two lines.
"""


def test_a_script_has_its_first_line_and_an_output() -> None:
    """And a folder where it says so."""
    parser = script(DOC, folder="models")
    assert parser.description == "What a script does."
    given = parser.parse_args(["here", "-o", "there"])
    assert (given.folder, given.out) == (Path("here"), Path("there"))
    assert method_of(DOC) == ["How it is done,", "in two lines.", ""]


def test_results_are_json_and_a_page(tmp_path: Path) -> None:
    """Both at the place that is named, with the machine."""
    write(tmp_path / "x", document(rows=[1]), ["# X", "", *table(("a", "b"), [(1234, None), ("c", True)]), ""])
    assert json.loads((tmp_path / "x.json").read_text())["rows"] == [1]
    page = "# X\n\n| a | b |\n|---|---|\n| 1,234 |  |\n| c | True |\n"
    assert (tmp_path / "x").with_suffix(".md").read_text() == page


def test_a_geometric_mean() -> None:
    """Of one figure over another."""
    assert mean_ratio([{"a": 2, "b": 1}, {"a": 8, "b": 1}], "a", "b") == pytest.approx(4)
