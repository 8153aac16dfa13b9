"""Names in a line: long ones are cut in the middle, misspelled ones get a suggestion, and new ones are unique."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches

LIKENESS = 0.6  # share of letters in common, about, from which a name may be what was meant (`difflib`'s ratio)
_NEAR = 0.8  # part of the best suggestion's likeness that another one needs to be suggested, too


class FreeNames:
    """Gives unique names: the requested one, or that with the least number after it that is free. `taken`: names that
    are there. `first`: the number that a name gets when it is there already.

    >>> names = FreeNames(["a", "a_1"])
    >>> [names.take("a"), names.take("b"), names.take("b")]
    ['a_2', 'b', 'b_1']
    """

    def __init__(self, taken: Iterable[str] = (), first: int = 1) -> None:
        self._first = first
        self._next = dict.fromkeys(taken, first)

    def take(self, name: str) -> str:
        """A name that was free, and is taken from now on."""
        free, k = name, self._next.get(name, self._first)
        while free in self._next:
            free, k = f"{name}_{k}", k + 1
        self._next[name] = k
        self._next.setdefault(free, self._first)
        return free


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


def spelling(name: str) -> str:
    """What is left of a name if case, blanks and punctuation do not count.

    >>> {spelling(name) for name in ("ESP32-S3", "esp32 s3", "esp32_s3", "Esp32S3")}
    {'esp32s3'}
    """
    return "".join(c for c in name.casefold() if c.isalnum())


def did_you_mean(name: str, names: Iterable[str], likeness: float = LIKENESS) -> str:
    """``; did you mean A or B?`` with those of the names that are most like this one; empty if none is like it.

    >>> did_you_mean("esp32-s4", ["esp32s3", "rp2040"])
    '; did you mean esp32s3?'
    >>> did_you_mean("pdp11", ["esp32s3", "rp2040"])
    ''
    """
    by_spelling, meant = {spelling(n): n for n in names}, spelling(name)
    close = get_close_matches(meant, by_spelling, n=3, cutoff=likeness)
    like = [SequenceMatcher(None, other, meant).ratio() for other in close]  # the best first
    close = [other for other, ratio in zip(close, like, strict=True) if ratio >= _NEAR * like[0]]
    return f"; did you mean {' or '.join(by_spelling[k] for k in close)}?" if close else ""
