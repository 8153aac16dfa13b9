"""The man page, made of the parser: ``python -m lowtide.cli.man > docs/lowtide.1``.

It goes into the wheel as data, so that ``man lowtide`` finds it where pip puts such (`share/man/man1`). Nothing in it
depends on the day, the machine or the version of Python.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from lowtide.cli.tree import all_commands
from lowtide.version import __version__

_ABOUT = (
    "reads a model (.onnx, .tflite, .pt2, a graph JSON, scheduled HLO, or a built-in network), finds the order of its "
    "operators with the least peak memory, places every tensor in one arena, proves how low any order can go, checks "
    "the plan with code of its own, and writes the model back in the better order. Sizes are bytes; KB is 1000, KiB "
    "and K are 1024."
)
_STATUS = (
    ("0", "done, and within the budget where one was given"),
    ("1", "a bug of lowtide's, or out of memory"),
    ("2", "the input or the call is wrong; no output is touched"),
    ("3", "over budget: the best plan found needs more"),
    ("4", "the budget is proved impossible"),
    ("5", "verification failed"),
    ("6", "--require-optimal, and no proof"),
    ("130", "interrupted; the best plan so far is written"),
)
_FILES = (("lowtide.toml", "budgets of a project's models, which lowtide check reads where no MODEL is named"),)


def man_page(parser: argparse.ArgumentParser) -> str:
    """The page in man(7), of a parser with subcommands; ends in a newline."""
    return "\n".join(_lines(parser)) + "\n"


def _lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f'.TH LOWTIDE 1 "" "lowtide {__version__}" "User Commands"'
    yield from (".SH NAME", f"lowtide \\- {_text((parser.description or '').rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B lowtide", ".I COMMAND", "[\\fIoptions\\fR]")
    yield from (".SH DESCRIPTION", ".B lowtide", _text(_ABOUT))
    yield ".SH COMMANDS"
    for name, does, command in all_commands(parser):
        yield from (f".SS lowtide {_text(name)}", _text(f"{does}."))
        yield from _command(command)
    yield ".SH EXIT STATUS"
    yield from _listed(_STATUS)
    yield ".SH FILES"
    yield from _listed(_FILES)


def _command(command: argparse.ArgumentParser) -> Iterator[str]:
    """Arguments, then options under the titles of their groups, then examples."""
    nested = [a for a in command._actions if isinstance(a, argparse._SubParsersAction)]
    if nested:
        yield from (".PP", f"One of {_text(', '.join(nested[0].choices))}, each with options of its own.")
    for group in command._action_groups:
        shown = [a for a in group._group_actions if a not in nested and a.dest != "help"]
        if shown and group.title not in ("positional arguments", "options"):
            yield from (".PP", f"\\fI{_text(group.title or '')}:\\fR")
        yield from _listed([(_call(action), _help(action)) for action in shown])
    _, _, examples = (command.epilog or "").partition("examples:\n")
    if examples:
        yield from (".PP", "Examples:", ".PP", ".nf", ".RS")
        yield from (_text(line.strip()) for line in examples.splitlines())
        yield from (".RE", ".fi")


def _listed(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f"\\fB{_text(name)}\\fR", _text(text))


def _call(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else None
    if value is None:
        value = "|".join(map(str, action.choices)) if action.choices is not None else action.dest.upper()
    if not action.option_strings:
        return f"[{value}]" if action.nargs in ("?", "*") else value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def _help(action: argparse.Action) -> str:
    return " ".join((action.help or "").replace("%%", "%").split())


def _text(text: str) -> str:
    """Words that troff takes as they are."""
    spelt = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{spelt}" if spelt.startswith((".", "'")) else spelt


if __name__ == "__main__":
    from lowtide.cli.parser import parser_of_all

    sys.stdout.write(man_page(parser_of_all()))
