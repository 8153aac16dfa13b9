"""The commands of a parser, those of `lowtide research` among them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

GROUP = "research"  # the command whose commands are those that few need
BENCH, REPRODUCE = "bench", "reproduce"  # those whose options the package lowtide-research brings


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Parsers by command, as ``plan`` and ``research``; none if the parser has no commands."""
    groups = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: sub for group in groups for name, sub in group.choices.items()}


def helps_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """A line on each command."""
    groups = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {choice.dest: choice.help or "" for group in groups for choice in group._choices_actions}


def all_commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """What is typed after ``lowtide``, a line on it, and its parser: the front's commands, then those of research."""
    helps = helps_of(parser)
    nested: list[tuple[str, str, argparse.ArgumentParser]] = []
    for name, command in commands_of(parser).items():
        if name == GROUP:
            nested = [(f"{GROUP} {inner}", does, sub) for inner, does, sub in all_commands(command)]
        else:
            yield name, helps[name], command
    yield from nested
