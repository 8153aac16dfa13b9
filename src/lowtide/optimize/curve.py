"""Peaks that cuts reach, and the ops, or the time, that each takes."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.names import brief


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Bytes of the peak, the ops that run for it, how many regions are cut, and what the ops take by a cost file.

    `arena_bytes`: of the peak and what the runtime keeps for each op beside it; None where it keeps nothing.
    """

    peak_bytes: int
    ops: int
    regions: int
    arena_bytes: int | None = None
    nanoseconds: int | None = None


@dataclass(frozen=True, repr=False)
class Curve:
    """Peaks along the best order, the lowest last.

    Attributes
    ----------
    own_order_peak_bytes
        Peak of the file's own order; the first of `points` is that of the best one, without cuts.
    points
        Ever lower peaks, each with the fewest ops, or with a cost file in the least time. A plan
        orders the parts again, so that it needs no more.
    complete
        Whether the search was not stopped by its time.
    """

    graph: str
    target: str
    own_order_peak_bytes: int
    points: tuple[CurvePoint, ...]
    complete: bool
    seconds: float

    def __repr__(self) -> str:
        return brief(self, "graph target own_order_peak_bytes points complete")
