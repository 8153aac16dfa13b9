"""What the text for people is put together from."""

from __future__ import annotations

import pytest

from lowtide.report.columns import change, columns
from lowtide.report.inspection import sparkline


def test_columns_line_up():
    """Two blanks between, none at the ends of lines, figures to the right if asked."""
    text = columns([("a", "1", "x"), ("long", "22", "")], right=[1])
    assert text.splitlines() == ["a      1  x", "long  22"]
    assert columns([]) == ""


@pytest.mark.parametrize(("before", "after", "text"), [(100, 75, "-25.0 %"), (100, 150, "+50.0 %")])
def test_a_change_has_its_sign(before: int, after: int, text: str):
    """In percent of what was before."""
    assert text in change(before, after)


def test_no_change_of_nothing():
    """There are no percents of nothing, and no error either."""
    assert "%" not in change(0, 10)


@pytest.mark.parametrize("plain", [True, False])
def test_a_sparkline_keeps_its_width_and_its_peak(plain: bool):
    """Each column is the largest value of its share; ASCII where the terminal has no more."""
    values = [1, 2, 3, 100, 3, 2, 1, 0]
    for width in (1, 4, 8, 20):
        line = sparkline(values, width, plain=plain)
        assert 0 < len(line) <= width
        assert line.isascii() or not plain
        assert max(line, key=line.count) is not None
    assert len(set(sparkline(values, 8, plain=plain))) > 1
