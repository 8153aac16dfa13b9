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
    """What a second proof of the bound gave."""

    # ``"re-proved"``: by a second search. ``"checked"``: a certificate that needs no search holds. ``"not re-proved"``:
    # the search did not end.
    result: str
    reason: str  # which, and why
    states: int = 0  # sets of ops looked at
    seconds: float = 0.0  # wall time


@dataclass(frozen=True, repr=False)
class Report:
    """Every check of a plan that held."""

    checks: tuple[HeldRule, ...]  # in the order they were made
    notes: tuple[str, ...] = ()  # what was taken on trust, and how the bound was checked
    # What the checker measured itself: names end in ``_bytes`` or are counts.
    numbers: dict[str, int] = field(default_factory=dict)
    footprint_bytes: tuple[int, ...] = field(default=(), repr=False)  # per step of the plan's order
    proof: Proof | None = None  # what a second proof of the bound gave; None if none was requested
    arena_proof: Proof | None = None  # the same of the bound of the arena; None if there is none, or none was requested
    run: AnyRunReport | None = None  # what running the model in both orders showed; None if it was not requested

    def __repr__(self) -> str:
        return brief(self, "checks notes numbers proof arena_proof")
