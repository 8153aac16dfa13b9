"""Values of options that more than one parser reads, and the options that every command has."""

from __future__ import annotations

import argparse
from typing import Any


def seed(text: str) -> int:
    """A seed of a generator; `argparse.ArgumentTypeError` if it is none."""
    if not (text.isascii() and text.isdigit() and int(text[:20]) < 2**32):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 0 to 4294967295")
    return int(text)


def dim(text: str) -> tuple[str, int]:
    """The size of a free dimension, ``NAME=SIZE``; `argparse.ArgumentTypeError` if it is none."""
    name, _, size = text.rpartition("=")
    if not (name and size.isascii() and size.isdigit() and 0 < int(size[:20]) < 2**62):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not NAME=SIZE with a whole number above 0 and below 2^62")
    return name, int(size)


def name_list(text: str) -> list[str]:
    """The parts of a list; a comma inside a network's parameters does not end it.

    >>> name_list("a, b:n=4,filters=16")
    ['a', 'b:n=4,filters=16']
    """
    names: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return names


def printing(parser: Any) -> None:
    """Options on what is printed."""
    group = parser.add_argument_group("what is printed")
    group.add_argument("--json", action="store_true", help="print the result as JSON on stdout, and nothing else there")
    loud = group.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="no progress and no messages, errors apart")
    loud.add_argument("-v", "--verbose", action="store_true", help="more figures; tracebacks")
