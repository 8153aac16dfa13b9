"""`lowtide research bench SUITE`: a parser of each suite's options, progress on stderr, results on stdout."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, cast, get_origin, get_type_hints

from lowtide.cli.terminal import ProgressLine, say, show, show_json
from lowtide.cli.values import name_list, printing, seed
from lowtide.errors import InputError
from lowtide.outputs import Outputs
from lowtide_research.bench.options import Flag
from lowtide_research.bench.suite import Results, Suite, Watch, run

COUNT_SECONDS = 5.0  # how often it is said how many of many are done
LIMITS = ("time", "search_memory", "seed")  # options that stand after those of the files
DEST = "suite_{}"  # where the parser keeps an option of a suite, apart from those of all commands


def add_suites(parser: argparse.ArgumentParser) -> None:
    """Give the command its suites, and each its options, made from the fields of its class."""
    added = parser.add_subparsers(metavar="SUITE", required=True, dest="suite")
    for suite in suites().values():
        command = f"lowtide research bench {suite.name}"
        give_options(added.add_parser(suite.name, help=suite.words), suite, command)


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """Give the command `reproduce` its options: it is one suite."""
    from lowtide_research.reproduce.suite import ReproduceSuite

    give_options(parser, ReproduceSuite, "lowtide research reproduce")


def give_options(parser: argparse.ArgumentParser, suite: type[Suite[Any]], command: str) -> None:
    """Options, description and examples of a suite; `command` is what runs it."""
    examples = "\n".join(f"  {command} {example}".rstrip() for example in suite.examples)
    parser.description, parser.epilog = suite.description, f"examples:\n{examples}"
    parser.set_defaults(command=run_suite, suite_type=suite, parser=parser)
    options = options_of(suite)
    for name in (n for n in options if n not in LIMITS):
        _add(parser, options[name], suite)
    if suite.labelled:
        label = f"files of -o are called {suite.name}-TEXT"
        parser.add_argument("--label", default="", metavar="TEXT", help=label)
    parser.add_argument("-o", dest="out", metavar="DIR", help="write the results as files there")
    for name in (n for n in options if n in LIMITS):
        _add(parser, options[name], suite)
    printing(parser)


def options_of(suite: type[Suite[Any]]) -> dict[str, Field[Any]]:
    """The fields of a suite that are options, by name."""
    return {f.name: f for f in fields(cast(Any, suite)) if "flag" in f.metadata}


def _add(parser: argparse.ArgumentParser, option: Field[Any], suite: type[Suite[Any]]) -> None:
    """Add a flag as the type of its field takes it: names by commas, words in a row, a number, or text."""
    flag: Flag = option.metadata["flag"]
    name = flag.name or f"--{option.name.replace('_', '-')}"
    dest = DEST.format(option.name)
    kind = get_type_hints(suite)[option.name]
    about: dict[str, Any] = {"metavar": flag.metavar, "help": flag.words}
    if not name.startswith("-"):
        parser.add_argument(dest, nargs="*", **about)
    elif kind is bool:
        parser.add_argument(name, dest=dest, action="store_true", help=flag.words)
    elif get_origin(kind) is Sequence:
        parser.add_argument(name, dest=dest, default="", type=name_list, **about)
    else:
        convert = seed if option.name == "seed" else kind if kind in (int, float) else str
        parser.add_argument(name, dest=dest, default=option.default, type=convert, **about)


def suite_of(options: argparse.Namespace) -> Suite[Any]:
    """The suite that was requested, with its options."""
    given = {name: getattr(options, DEST.format(name)) for name in options_of(options.suite_type)}
    return options.suite_type(**given)


def run_suite(options: argparse.Namespace) -> int:
    """Run a suite, print its results, write its files; where they go is made sure of first, as it may take hours."""
    if options.out is not None:
        make_directory(options.out)
    suite = suite_of(options)
    results = run(suite, _watch(suite, options.line))
    options.line.end()
    if options.json:
        show_json(suite.record(results))
    else:
        show(suite.text(results))
    written = [] if options.out is None else write(results, options.out, getattr(options, "label", ""))
    notes = [f"wrote {path}" for path in written]
    if not results.complete:
        notes.append("interrupted: these are the results so far")
    for note in () if options.quiet else notes:
        say(note)
    return 0 if results.complete else 130


def _watch(suite: Suite[Any], line: ProgressLine) -> Watch:
    """Rows as lines that stay, searches on a line that is written over, counts now and then."""
    last = time.monotonic()

    def count(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > COUNT_SECONDS:
            last = time.monotonic()
            line.message(f"{done:,} of {of:,} orders")

    def row(done: Any) -> None:
        words = suite.line(done)
        if words:
            line.message(words)

    return Watch(lambda name, progress: line(progress, f"{name}: "), count, row)


def main() -> int:
    """The command `lowtide-research`: that of lowtide, in its group `research`."""
    from lowtide.cli import main as lowtide_main

    return lowtide_main(["research", *sys.argv[1:]])


def suites() -> dict[str, type[Suite[Any]]]:
    """Suites by name, in the order in which they are shown."""
    from lowtide_research.bench.allocation import AllocateSuite
    from lowtide_research.bench.spilling import SpillSuite

    every: tuple[type[Suite[Any]], ...] = (AllocateSuite, SpillSuite)
    return {suite.name: suite for suite in every}


def write(results: Results[Any], directory: str | Path, label: str = "") -> list[Path]:
    """Write a suite's files, ``SUITE[-LABEL].json`` and what it has beside it, together or not at all. Raises
    `InputError`: that is not possible."""
    make_directory(directory)
    contents = results.suite.files(results, results.suite.stem(results, label))
    paths = [Path(directory) / name for name in contents]
    with Outputs() as outputs:
        for path, content in zip(paths, contents.values(), strict=True):
            outputs.write(path, content.encode())
    return paths


def make_directory(directory: str | Path) -> None:
    """Make the directory that results go to; `InputError` if that is not possible, before anything is measured."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make this directory: {error.strerror}; name another one", str(directory)) from None
