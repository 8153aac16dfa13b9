"""Names in a line: long ones are cut in the middle."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def suggestion(name: str, choices: Iterable[str]) -> str:
    """A question that names what is spelt most like `name`, to stand behind a message; empty if nothing is.

    >>> suggestion("nams", ["size", "name"])
    '; did you mean name?'
    """
    from difflib import get_close_matches

    close = get_close_matches(name, list(choices), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


def brief(value: object, fields: str) -> str:
    """What a result that holds much prints: these fields, named between blanks, where they have a value, and of
    collections how many.

    >>> class Walk:
    ...     steps, name, end = (1, 2, 3), "long", None
    >>> brief(Walk(), "name steps end")
    "Walk(name='long', steps=3)"
    """
    shown = []
    for name in fields.split():
        held = getattr(value, name)
        if isinstance(held, str):
            shown.append(f"{name}={shorten(held, 80)!r}")
        elif held is not None:
            shown.append(f"{name}={len(held) if isinstance(held, Collection) else repr(held)}")
    return f"{type(value).__name__}({', '.join(shown)})"


def shorten(text: str, width: int) -> str:
    """The text, or its beginning and end if it is longer than `width`.

    >>> shorten("a_very_long_name", 9)
    'a_ve...me'
    """
    if len(text) <= width:
        return text
    left = (width - 3 + 1) // 2 + 1
    return f"{text[:left]}...{text[len(text) - (width - 3 - left) :]}"
