"""Colour on terminals, and nowhere else."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.cli.terminal import bar, coloured, show, wanted


class Terminal(io.StringIO):
    """A stream that says that it is one."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_only_terminals_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not where NO_COLOR or a dumb terminal says so."""
    assert wanted(Terminal())
    assert not wanted(io.StringIO())
    assert not wanted(None)
    monkeypatch.setenv("TERM", "dumb")
    assert not wanted(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wanted(Terminal())


@given(st.lists(st.sampled_from(["fits", "cannot fit", "-3.0 %", "+9.5 %", "proved optimal", "x", " ", "\n"])))
def test_without_its_colours_a_text_is_the_same(parts: list[str]) -> None:
    """Nothing is lost and nothing added."""
    text = "".join(parts)
    assert re.sub(r"\x1b\[[0-9]+m", "", coloured(text)) == text


def test_a_result_is_coloured_where_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the names of a model hold is written out before."""
    for stream, escaped in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stdout", stream)
        show("cannot fit: \x1b[2J -1.0 %")
        assert ("\x1b[31mcannot fit\x1b[0m" in stream.getvalue()) == escaped
        assert "\x1b[2J" not in stream.getvalue()


def test_a_bar_keeps_its_length() -> None:
    """Whatever it is asked to show."""
    assert {len(bar(part)) for part in (-1.0, 0.0, 0.5, 1.0, 7.0)} == {22}
    assert bar(1.0).count("#") == 20
