"""The man page: in step with the parser, and one that troff reads."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lowtide.cli.man import man_page
from lowtide.cli.parser import parser_of_all
from lowtide.cli.tree import all_commands

PAGE = Path(__file__).parents[2] / "docs" / "lowtide.1"


def test_the_page_is_that_of_the_parser() -> None:
    """After a change of options: `make man`."""
    assert PAGE.read_text() == man_page(parser_of_all())


def test_it_has_every_option_of_every_command() -> None:
    """With dashes that can be copied, below a heading of the command's name."""
    sections = PAGE.read_text().split("\n.SS lowtide ")
    commands = list(all_commands(parser_of_all()))
    assert [section.partition("\n")[0] for section in sections[1:]] == [name for name, _, _ in commands]
    for section, (_, _, command) in zip(sections[1:], commands, strict=True):
        for name in (n for a in command._actions for n in a.option_strings if n not in ("-h", "--help")):
            assert name.replace("-", "\\-") in section, name


def test_words_that_troff_would_take_for_its_own_are_escaped() -> None:
    """A backslash, and a dot that begins a line."""
    parser = argparse.ArgumentParser(description="a")
    commands = parser.add_subparsers()
    commands.add_parser("x", help=".onnx\\n is here").add_argument("--y", help=".TH of it, 100%%")
    text = man_page(parser)
    assert "\\&.onnx\\en is here." in text
    assert "\\&.TH of it, 100%" in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_troff_reads_it() -> None:
    """Without a warning; a reader sees the options."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=100n", PAGE], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    shown = re.sub(".\\x08", "", done.stdout)  # bold is a letter over itself
    assert "--max-overhead" in shown
    assert "EXIT STATUS" in shown
