"""The published methods of running ops again, by name."""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.optimize.recompute.method import RecomputeMethod


def recompute_methods() -> dict[str, type[RecomputeMethod]]:
    """Every method by name, in the order in which they are shown."""
    from lowtide.optimize.recompute.baselines.checkmate import Checkmate
    from lowtide.optimize.recompute.baselines.chen import Chen
    from lowtide.optimize.recompute.baselines.dtr import Dtr
    from lowtide.optimize.recompute.baselines.fastsa import FastSA
    from lowtide.optimize.recompute.baselines.pofo import Pofo
    from lowtide.optimize.recompute.baselines.rotor import Rotor
    from lowtide.optimize.recompute.baselines.torchtitan import Torchtitan
    from lowtide.optimize.recompute.method import Microbatch
    from lowtide.optimize.recompute.moccasin import Moccasin

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
