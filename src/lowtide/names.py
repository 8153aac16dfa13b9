"""Names in a line: long ones are cut in the middle."""

from __future__ import annotations


def shorten(text: str, width: int) -> str:
    """The text, or its beginning and end if it is longer than `width`.

    >>> shorten("a_very_long_name", 9)
    'a_ve...me'
    """
    if len(text) <= width:
        return text
    left = (width - 3 + 1) // 2 + 1
    return f"{text[:left]}...{text[len(text) - (width - 3 - left) :]}"
