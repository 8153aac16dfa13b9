"""Templates of C that are kept as files, and the words that they leave open."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

Part = str | tuple[str, tuple[tuple[str, str], ...]]
"""A C template: the name of its file, or also the words that the file leaves open."""


def text(name: str) -> str:
    """A file of C."""
    return files("lowtide.emit").joinpath("c", name).read_text(encoding="utf-8")


def filled(name: str, words: Mapping[str, str]) -> str:
    """A file with its words, which stand in it as ``@WORD@``."""
    result = text(name)
    for key, value in words.items():
        result = result.replace(f"@{key}@", value)
    return result


def part_text(part: Part) -> str:
    """C of a template."""
    if isinstance(part, str):
        return text(f"{part}.c")
    return filled(f"{part[0]}.c", dict(part[1]))
