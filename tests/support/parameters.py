"""Rows of a table that says of every parameter of a call what it does: it changes the result, or it is refused."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lowtide.errors import InputError, VerificationError

Call = Callable[..., Any]


@dataclass(frozen=True)
class Changes:
    """With `value` the result's `of` (an attribute, or a key of `search`) is another; `more` goes along each time."""

    value: Any
    of: str
    more: Mapping[str, Any] = field(default_factory=dict)

    def check(self, call: Call, name: str) -> None:
        """Call it with and without."""
        with_it, without = call(**{**self.more, name: self.value}), call(**self.more)
        assert _figure(with_it, self.of) != _figure(without, self.of)


@dataclass(frozen=True)
class Shows:
    """With `value` the result's `of` is `wanted`, which it is not by itself."""

    value: Any
    of: str
    wanted: Any
    more: Mapping[str, Any] = field(default_factory=dict)

    def check(self, call: Call, name: str) -> None:
        """Call it once."""
        assert _figure(call(**{**self.more, name: self.value}), self.of) == self.wanted


@dataclass(frozen=True)
class Refused:
    """With `value` an error says `words`: what cannot be honoured is named."""

    value: Any
    words: str
    more: Mapping[str, Any] = field(default_factory=dict)

    def check(self, call: Call, name: str) -> None:
        """Call it once."""
        with pytest.raises((InputError, VerificationError), match=re.escape(self.words)):
            call(**{**self.more, name: self.value})


@dataclass(frozen=True)
class Reports:
    """A list that is filled, or a function that is called."""

    value: Callable[[list[Any]], Any]
    more: Mapping[str, Any] = field(default_factory=dict)

    def check(self, call: Call, name: str) -> None:
        """Call it once, and see that something was heard."""
        heard: list[Any] = []
        call(**{**self.more, name: self.value(heard)})
        assert heard


def a_list(heard: list[Any]) -> list[Any]:
    """For `Reports`: the list itself."""
    return heard


def a_function(heard: list[Any]) -> Call:
    """For `Reports`: a function that notes what it is called with."""
    return lambda *said: heard.append(said)


Row = Changes | Shows | Refused | Reports
Rows = Mapping[str, Row]


def keywords(call: Call, apart: Iterable[str] = ()) -> list[str]:
    """Every parameter of a call, but for its subjects."""
    return [name for name in inspect.signature(call).parameters if name not in apart]


def cases(tables: Mapping[str, Rows]) -> list[Any]:
    """One case for each row."""
    return [pytest.param(goal, name, id=f"{goal}-{name}") for goal, rows in tables.items() for name in rows]


def _figure(result: Any, of: str) -> Any:
    return (result.search or {}).get(of) if not hasattr(result, of) else getattr(result, of)
