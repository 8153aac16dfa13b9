"""The methods that spill, and how one is made from the options that a user typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.schedule.registry import with_options
from lowtide.spill.answer import SpillMethod


def spill_methods() -> dict[str, type[SpillMethod]]:
    """Every method that spills by name, lowtide's own first."""
    from lowtide.spill.search import Spill
    from lowtide_research.spill.baselines import Belady, GreedySpill
    from lowtide_research.spill.cosma.method import Cosma, CosmaDnc, CosmaFs

    methods = (Spill, Belady, GreedySpill, Cosma, CosmaFs, CosmaDnc)
    return {method.name: cast("type[SpillMethod]", method) for method in methods}


def make_spill(name: str, options: Mapping[str, str] | None = None) -> SpillMethod:
    """Make a method from its name and its options as typed.

    Raises
    ------
    InputError
        No such method, no such option, or a value of the wrong type.
    """
    methods = spill_methods()
    if name not in methods:
        hint = did_you_mean(name, methods)
        raise InputError(f"with --memory there is no method {name!r}; use one of {', '.join(methods)}{hint}")
    return with_options(methods[name], f"method {name}", options or {})
