"""What the checker says of a forged plan."""

from __future__ import annotations

from dataclasses import replace

import msgspec

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.plan import from_json
from support.forgeries.bases import Base
from support.forgeries.leaves import Document, Forgery, listed

ACCEPTED = "accepted"
BY_WORD = "by word"
"""Accepted on the word of a search, and refused, or not re-proved, with a second one."""

PENDING = {
    "changed: runtime_parts.*": "what TFLM adds to the head is taken on trust: `--run` measures it",
    "changed: runtime_figures.*.planned_bytes": "another runtime's arena is taken on trust",
}
"""Families that the checker accepts some of today, with why: they are counted, and by themselves."""


def verdict(base: Base, document: Document, *, prove: bool = False) -> str:
    """`ACCEPTED`, the name of what does not hold, or ``crash: ...`` of a checker that falls over."""
    try:
        plan = from_json(msgspec.json.encode(document))
        report = lowtide.verify(base.graph, plan, target=base.target, prove=prove, time=2)
        proofs = [p.result for p in (report.proof, report.arena_proof) if p is not None]
    except VerificationError as error:
        return error.failure
    except InputError:
        return "input"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return "not re-proved" if "not re-proved" in proofs else ACCEPTED


def judged(base: Base, forged: Forgery) -> str:
    """The same; `BY_WORD` where a bound rests on a search, and a second one does not confirm it."""
    on = base if forged.graph is None else replace(base, graph=forged.graph)
    said = verdict(on, forged.document)
    if said != ACCEPTED or not by_search(forged.document):
        return said
    return ACCEPTED if verdict(on, forged.document, prove=True) == ACCEPTED else BY_WORD


def by_search(document: Document) -> bool:
    """Whether a plan takes a search's word for a bound."""
    searched = document["certificate"].get("kind") == "search" or document.get("traffic_proof") is not None
    arena = document.get("arena_lower_bound_bytes") is not None
    return searched or arena or document.get("conflict", {}).get("step", 0) is None


def pending(forged: Forgery) -> bool:
    """Whether the checker is known to accept some of these."""
    return listed(PENDING, forged.family)
