"""What was checked, and what came out."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowtide.names import brief
from lowtide.run_reports import AnyRunReport


@dataclass(frozen=True, slots=True)
class HeldRule:
    """One rule that held: its name, which is that of the failure if it does not hold, and what was seen."""

    name: str
    result: str


@dataclass(frozen=True)
class Proof:
    """What a second proof of the bound gave.

    Attributes
    ----------
    result
        ``"re-proved"``: by a second search. ``"checked"``: a certificate that needs no search holds.
        ``"not re-proved"``: the search did not end.
    reason
        Which, and why.
    states
        Sets of ops looked at.
    seconds
        Wall time.
    """

    result: str
    reason: str
    states: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, repr=False)
class Report:
    """Every check of a plan that held.

    Attributes
    ----------
    checks
        In the order they were made.
    notes
        What was taken on trust, and how the bound was checked.
    numbers
        What the checker measured itself: names end in ``_bytes`` or are counts.
    footprint_bytes
        Per step of the plan's order.
    proof
        What a second proof of the bound gave; None if none was wanted.
    arena_proof
        The same of the bound of the arena; None if there is none, or none was wanted.
    run
        What running the model in both orders showed; None if it was not asked for.
    """

    checks: tuple[HeldRule, ...]
    notes: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    footprint_bytes: tuple[int, ...] = field(default=(), repr=False)
    proof: Proof | None = None
    arena_proof: Proof | None = None
    run: AnyRunReport | None = None

    def __repr__(self) -> str:
        return brief(self, "checks notes numbers proof arena_proof")
