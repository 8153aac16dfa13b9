"""Peaks that tiles reach, with the ops or the time that each takes; and those of recomputation and transfers."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.names import brief
from lowtide.rewrites import CountedAs


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


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Bytes of the peak, the added fraction of the cost, recomputed ops, and a lower bound of that fraction for any
    order within these bytes. For a tiled step: tiles and tiled ops; recomputed ops are then those of each tile. With
    transfers: stored bytes."""

    peak_bytes: int
    overhead: float
    runs_again: int
    least_overhead: float
    parts: int = 1
    ops_in_parts: int = 0
    stored_bytes: int = 0


@dataclass(frozen=True, repr=False)
class Front:
    """Peaks below that of the best order, the lowest last. Each costs more than the one before, unless its changes are
    free: ops of no cost, or transfers while others run."""

    graph: str
    target: str
    # Peak of the file order. The first of `points` is that of the best order, without recomputation.
    own_order_peak_bytes: int
    floor_bytes: int  # lower bound of every plan: the working set of a single op
    counted: CountedAs  # the unit of cost
    points: tuple[FrontPoint, ...]
    complete: bool  # whether the sweep ended before its time limit
    seconds: float

    def __repr__(self) -> str:
        return brief(self, "graph target own_order_peak_bytes points complete")
