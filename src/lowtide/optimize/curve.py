"""Peaks that cuts reach, and the ops, or the time, that each takes."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.names import brief


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A peak in bytes, its ops, its tiled regions, and the time of the ops by a cost file.

    `arena_bytes`: the peak with the runtime's records per op; None if it keeps none.
    """

    peak_bytes: int
    ops: int
    regions: int
    arena_bytes: int | None = None
    nanoseconds: int | None = None


@dataclass(frozen=True, repr=False)
class Curve:
    """Peaks along the best order, the lowest last."""

    graph: str
    target: str
    own_order_peak_bytes: int  # peak of the file order. The first of `points` is that of the best order, untiled.
    # Ever lower peaks, each with the fewest ops, or with a cost file in the least time. A plan reorders the tiles, so
    # its peak is no higher.
    points: tuple[CurvePoint, ...]
    complete: bool  # whether the search ended before its time limit
    seconds: float

    def __repr__(self) -> str:
        return brief(self, "graph target own_order_peak_bytes points complete")
