"""All forgeries of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from support.forgeries.bases import Base
from support.forgeries.families import GENERAL
from support.forgeries.leaves import Forgery, forgeable, leaf, says_the_same


def forgeries(base: Base, random: Random, each: int = 1) -> Iterator[Forgery]:
    """Forgeries of every family, and of each kind of word `each` that are changed one by one."""
    for name, family in GENERAL.items():
        for document, why in family(base, random):
            if not says_the_same(base, document):
                yield Forgery(name, document, f"{base.kind} {base.seed}: {why}")
    for paths in forgeable(base).values():
        for _ in range(each):
            forged = leaf(base, random, paths)
            if forged is not None:
                yield forged._replace(why=f"{base.kind} {base.seed}: {forged.why}")
