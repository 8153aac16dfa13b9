"""Flags of benchmarks: made from the fields of a suite, and read back into one."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from lowtide.cli.parser import parse
from lowtide.cli.values import name_list
from lowtide.errors import InputError
from lowtide_research.bench.allocation import AllocateSuite
from lowtide_research.bench.command import add_suites, suite_of
from lowtide_research.bench.spilling import SpillSuite
from lowtide_research.bench.suite import Suite

CASES: list[tuple[str, Suite[Any]]] = [
    ("allocate --allocators tflm --time 2", AllocateSuite(allocators=["tflm"], time=2.0)),
    (
        "spill --networks a:n=4,filters=16,b --settings activations --search-memory 1MiB",
        SpillSuite(networks=["a:n=4,filters=16", "b"], schemes=[], settings=["activations"], search_memory="1MiB"),
    ),
]


@pytest.mark.parametrize(("words", "suite"), CASES)
def test_flags_make_the_suite(words: str, suite: Suite[Any]) -> None:
    """Each flag is a field, in the field's type; what is not given has the default."""
    options = parse(["research", "bench", *words.split()])
    assert isinstance(options, argparse.Namespace)
    assert suite_of(options) == suite


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the suite, of its files, of its limits, and of all commands, in this order."""
    assert parse(["research", "bench", "spill", "--help"]) == 0
    shown = capsys.readouterr().out
    flags = ("--networks", "--schemes", "--label", "-o DIR", "--time", "--seed", "--json")
    places = [shown.rindex(f"  {name}") for name in flags]
    assert places == sorted(places)
    assert "lowtide research bench spill --time 60 -o results" in shown


def test_other_commands_load_no_suite() -> None:
    """The parser of all commands has suites only for the one that runs them."""
    with pytest.raises(InputError, match="there is no command"):
        parse(["benches"])
    parser = argparse.ArgumentParser()
    add_suites(parser)
    assert parser.parse_args(["spill", "--time", "2"]).suite == "spill"


def test_networks_with_parameters_are_one_name() -> None:
    """A comma inside a network's parameters does not end its name."""
    assert name_list("a, b:n=4,filters=16,c,") == ["a", "b:n=4,filters=16", "c"]
