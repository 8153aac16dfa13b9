"""Colour, on terminals only: what fits and what does not, what got less and what more."""

from __future__ import annotations

import os
import re
from typing import TextIO

GREEN, RED, BOLD = "32", "31", "1"
_RULES = (
    (re.compile(r"^(fits)\b", re.MULTILINE), GREEN),
    (re.compile(r"^(does not fit|cannot fit)\b", re.MULTILINE), RED),
    (re.compile(r"(?<= )(fits)$", re.MULTILINE), GREEN),
    (re.compile(r"(?<= )(does not fit|cannot fit|error)$", re.MULTILINE), RED),
    (re.compile(r"(?<!\S)(-\d+\.\d %)"), GREEN),
    (re.compile(r"(?<!\S)(\+\d+\.\d %)"), RED),
    (re.compile(r"\b(proved least|peak proved optimal)\b"), BOLD),
)
_BAR = 20


def wanted(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that has colours, and none are switched off (NO_COLOR, TERM=dumb)."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def coloured(text: str) -> str:
    """A result with what matters in it coloured; without the colours it is the same text.

    >>> coloured("fits: required 1 B")
    '\\x1b[32mfits\\x1b[0m: required 1 B'
    """
    for pattern, colour in _RULES:
        text = pattern.sub(f"\x1b[{colour}m\\1\x1b[0m", text)
    return text


def bar(part: float) -> str:
    """How much of something is done.

    >>> bar(0.25)
    '[#####...............]'
    """
    full = round(_BAR * min(max(part, 0.0), 1.0))
    return f"[{'#' * full}{'.' * (_BAR - full)}]"
