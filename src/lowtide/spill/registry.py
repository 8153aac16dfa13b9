"""The methods that spill, and how one is made from the options that a user typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lowtide.errors import InputError
from lowtide.extensions import SPILL_METHODS, check_installed, methods_of
from lowtide.names import did_you_mean
from lowtide.schedule.registry import with_options
from lowtide.spill.answer import SpillMethod


def spill_methods() -> dict[str, type[SpillMethod]]:
    """Every method that spills by name: lowtide's own, then those of installed packages."""
    from lowtide.spill.search import Spill

    methods = methods_of(SPILL_METHODS, {Spill.name: Spill}, ("supports", "spill"))
    return cast("dict[str, type[SpillMethod]]", methods)


def make_spill(name: str, options: Mapping[str, str] | None = None) -> SpillMethod:
    """Make a method from its name and its options as text. Raises `InputError`: no such method, no such option, or a
    value of the wrong type."""
    methods = spill_methods()
    if name not in methods:
        check_installed(SPILL_METHODS, name, methods)
        hint = did_you_mean(name, methods)
        raise InputError(f"with --memory there is no method {name!r}; use one of {', '.join(methods)}{hint}")
    return with_options(methods[name], f"method {name}", options or {})
