"""All forgeries of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import msgspec

from support.forgeries.bases import Base
from support.forgeries.claims import CLAIMED
from support.forgeries.decisions import DECIDED
from support.forgeries.families import GENERAL
from support.forgeries.in_parts import IN_PARTS
from support.forgeries.leaves import Forgery, forgeable, leaf, says_the_same
from support.forgeries.limits import LIMITED
from support.forgeries.loopings import LOOPED
from support.forgeries.proofs import SHOWN
from support.forgeries.spilled import SPILLED
from support.forgeries.surgery import OPERATED
from support.forgeries.twins import named_alike, twins

FAMILIES = {**GENERAL, **DECIDED, **CLAIMED, **OPERATED, **LIMITED, **SHOWN, **LOOPED, **SPILLED, **IN_PARTS}

OPTIONAL = ("profile", "runtime_figures", "rules", "search", "conflict")
"""What a plan may do without; with it, more than one rule refuses some forgeries."""


def bare(base: Base) -> Base:
    """The same plan with nothing said twice."""
    return replace(base, plan=msgspec.structs.replace(base.plan, **dict.fromkeys(OPTIONAL)))


def forgeries(base: Base, random: Random, each: int = 1, most: int = 24) -> Iterator[Forgery]:
    """Forgeries of every family, `most` of one at most, and of each kind of word `each` that are changed one by one."""
    for on in (base, bare(base)):
        for name, family in FAMILIES.items():
            made = list(family(on, random))
            for document, why in random.sample(made, most) if len(made) > most else made:
                if not says_the_same(on, document):
                    yield Forgery(name, document, f"{base.kind} {base.seed}: {why}")
        for graph, why in twins(on, random, most):
            yield Forgery("of another model", named_alike(on, graph), f"{base.kind} {base.seed}: {why}", graph)
        for paths in forgeable(on).values():
            for _ in range(each):
                forged = leaf(on, random, paths)
                if forged is not None:
                    yield forged._replace(why=f"{base.kind} {base.seed}: {forged.why}")
