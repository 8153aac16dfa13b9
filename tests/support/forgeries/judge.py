"""What the checker says of a forged plan."""

from __future__ import annotations

import msgspec

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.plan import from_json
from support.forgeries.bases import Base

ACCEPTED = "accepted"


def verdict(base: Base, document: object, *, prove: bool = False) -> str:
    """`ACCEPTED`, the name of what does not hold, or ``crash: ...`` of a checker that falls over."""
    try:
        plan = from_json(msgspec.json.encode(document))
        report = lowtide.verify(base.graph, plan, target=base.target, prove=prove, time=5)
        proofs = [p.result for p in (report.proof, report.arena_proof) if p is not None]
    except VerificationError as error:
        return error.failure
    except InputError:
        return "input"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return "not re-proved" if "not re-proved" in proofs else ACCEPTED
