"""The published methods of recomputation, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lowtide.errors import InputError
from lowtide.extensions import RECOMPUTE_METHODS, check_installed, methods_of
from lowtide.names import did_you_mean
from lowtide.optimize.recompute.method import RecomputeMethod


def recompute_methods() -> dict[str, type[RecomputeMethod]]:
    """Every method by name: those that lowtide itself uses, then those of installed packages."""
    from lowtide.optimize.recompute.method import Microbatch
    from lowtide.optimize.recompute.pofo import Pofo
    from lowtide.optimize.recompute.rotor import Rotor

    own = {kind.name: kind for kind in (Rotor, Pofo, Microbatch)}
    return cast("dict[str, type[RecomputeMethod]]", methods_of(RECOMPUTE_METHODS, own, ("supports", "repeat")))


def make_recompute(name: str, options: Mapping[str, str]) -> RecomputeMethod:
    """A method from its name and its options as text. Raises `InputError`: there is none of that name, or it has no
    such option."""
    from lowtide.schedule.registry import with_options

    known = recompute_methods()
    if name not in known:
        check_installed(RECOMPUTE_METHODS, name, known)
        raise InputError(
            f"--allow recompute starts from the best order: leave out --method, or name a published one, "
            f"{', '.join(known)}{did_you_mean(name, known)}"
        )
    return with_options(known[name], f"method {name}", options)
