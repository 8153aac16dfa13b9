"""The published methods of running ops again, by name."""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.optimize.recompute.method import RecomputeMethod


def recompute_methods() -> dict[str, type[RecomputeMethod]]:
    """Every method by name, in the order in which they are shown."""
    from lowtide.optimize.recompute.method import Microbatch
    from lowtide.optimize.recompute.pofo import Pofo
    from lowtide.optimize.recompute.rotor import Rotor
    from lowtide_research.recompute.checkmate import Checkmate
    from lowtide_research.recompute.chen import Chen
    from lowtide_research.recompute.dtr import Dtr
    from lowtide_research.recompute.fastsa import FastSA
    from lowtide_research.recompute.moccasin import Moccasin
    from lowtide_research.recompute.torchtitan import Torchtitan

    repeating: tuple[type[RecomputeMethod], ...] = (Moccasin, Checkmate, FastSA, Dtr, Chen, Torchtitan, Rotor)
    kinds = (*repeating, Pofo, Microbatch)
    return {kind.name: kind for kind in kinds}


def make_recompute(name: str, options: Mapping[str, str]) -> RecomputeMethod:
    """A method from its name and its options as typed.

    Raises
    ------
    InputError
        There is none of that name, or it has no such option.
    """
    from lowtide.schedule.registry import with_options

    known = recompute_methods()
    if name not in known:
        raise InputError(
            f"--allow recompute starts from the best order: leave out --method, or name a published one, "
            f"{', '.join(known)}{did_you_mean(name, known)}"
        )
    return with_options(known[name], f"method {name}", options)
