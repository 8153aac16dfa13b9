"""The options of suites: fields of frozen dataclasses, with what the command line says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Flag:
    """How an option is given on the command line."""

    words: str  # what ``--help`` says of it
    metavar: str  # what stands for its value there
    name: str = ""  # the flag, if it is not ``--`` and the field's name; without dashes it is a positional argument


def flag(words: str, metavar: str, name: str = "") -> dict[str, Flag]:
    """The metadata of a field that is an option; see `Flag`."""
    return {"flag": Flag(words, metavar, name)}


def listed(words: str, name: str = "", metavar: str = "A,B,...") -> Any:
    """A field of names, none by default."""
    return field(default=(), metadata=flag(words, metavar, name))


def time_limit(seconds: float = 30.0, of: str = "each method on each network") -> Any:
    """The field ``time``: seconds of wall time."""
    return field(default=seconds, metadata=flag(f"limit of {of} (default: {seconds:g})", "SECONDS"))


def memory_limit() -> Any:
    """The field ``search_memory``: bytes for states, as a size that people write."""
    return field(default="2GiB", metadata=flag("the same for memory (default: 2GiB)", "SIZE"))


def random_seed() -> Any:
    """The field ``seed``."""
    return field(default=0, metadata=flag("for what is drawn at random (default: 0)", "N"))
