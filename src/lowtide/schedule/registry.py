"""The methods there are, and how one is made from the options that a user typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from lowtide.errors import InputError
from lowtide.extensions import METHODS, check_installed, methods_of
from lowtide.names import did_you_mean
from lowtide.schedule.foreign import Foreign
from lowtide.schedule.greedy import Greedy, Lpmf
from lowtide.schedule.method import Method
from lowtide.schedule.order import Bfs, Dfs, Kahn, Own, Rpo

_hints = cache(get_type_hints)  # types of a method's fields. Python reads their annotations anew in each call.


def built_in() -> dict[str, type[Method]]:
    """lowtide's own methods by name, in the order in which they are shown."""
    from lowtide.schedule.exact import Exact  # loads the native core

    own: tuple[type[Method], ...] = (Own, Rpo, Kahn, Dfs, Bfs, Lpmf, Greedy, Exact)
    return {method.name: method for method in own}


def methods() -> dict[str, type[Method]]:
    """Every method by name: lowtide's own, then those of installed packages (see `extensions.methods_of`)."""
    return methods_of(METHODS, built_in(), ("supports", "schedule"))


def options_of(method: type) -> dict[str, str]:
    """Each option of a method and a few words on what it takes, for messages and ``--help``."""
    hints = _hints(method)
    return {f.name: _describe(hints[f.name], f) for f in fields(cast(Any, method)) if f.init}


def make(name: str | Method, options: Mapping[str, str] | None = None) -> Method:
    """Make a method from its name and its options as text; one that is made already is checked as other packages' are.
    Raises `InputError`: no such method; no such option; a value of the wrong type; an option that has no default is
    missing; or a method has the name of one of lowtide's."""
    if not isinstance(name, str):
        return _with_options(name, options)
    own = built_in().get(name)
    method = own or methods().get(name)
    if method is None:
        known = methods()
        check_installed(METHODS, name, known)
        raise InputError(f"there is no method {name!r}; use one of {', '.join(known)}{did_you_mean(name, known)}")
    configured = with_options(method, f"method {name}", options or {})
    return configured if own is not None else cast("Method", Foreign(configured))


def _with_options(method: Method, options: Mapping[str, str] | None) -> Method:
    """A method that a call hands over."""
    if isinstance(method, type):
        raise InputError(f"a method is the class {method.__name__}; make one, as {method.__name__}()")
    if options:
        raise InputError(f"method {method.name} is made already; give its options where it is made")
    if methods().get(method.name, type(method)) is not type(method):
        raise InputError(f"there is a method {method.name!r} already; give yours another name")
    return cast("Method", Foreign(method))


def left_to_order(name: str, counters: Mapping[str, Any]) -> int | None:
    """How many ops, or what a method takes for ops, it had to order by itself; None if it does not say. Its class
    names the counter in `left_counter`."""
    left = counters.get(getattr(methods().get(name), "left_counter", ""))
    return sum(left) if isinstance(left, list) else left


Optioned = TypeVar("Optioned")


def with_options(kind: type[Optioned], name: str, options: Mapping[str, str]) -> Optioned:
    """Make a frozen dataclass from its fields as text: a method, or what else has options. `name` is for messages.
    Raises `InputError`: no such option; a value of the wrong type; an option that has no default is missing."""
    hints, defined = _hints(kind), options_of(kind)
    listing = ", ".join(f"{option} ({text})" for option, text in defined.items()) or "none"
    values: dict[str, Any] = {}
    for option, text in options.items():
        if option not in defined:
            hint = did_you_mean(option, defined)
            raise InputError(f"{name} has no option {option!r}; its options: {listing}{hint}")
        try:
            values[option] = _parse(hints[option], text)
        except ValueError:
            hint = did_you_mean(text, map(str, get_args(hints[option])))
            raise InputError(
                f"{name.removeprefix('method ')}.{option} is {text!r}; it takes {defined[option]}{hint}"
            ) from None
    try:
        return kind(**values)
    except TypeError:
        raise InputError(f"{name} needs more options; its options: {listing}") from None


def _describe(kind: Any, option: Field[Any]) -> str:
    if get_origin(kind) is Literal:
        text = " or ".join(str(a) for a in get_args(kind))
    else:
        text = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(kind, str(kind))
    return text if option.default is MISSING else f"{text}, default {_show(option.default)}"


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(kind: Any, text: str) -> Any:
    if kind is bool:
        words = {
            "true": True,
            "yes": True,
            "on": True,
            "1": True,
            "false": False,
            "no": False,
            "off": False,
            "0": False,
        }
        if text.lower() not in words:
            raise ValueError(text)
        return words[text.lower()]
    if get_origin(kind) is Literal:
        for value in get_args(kind):
            if str(value) == text:
                return value
        raise ValueError(text)
    if kind in (int, float, str):
        return kind(text)
    raise ValueError(text)
