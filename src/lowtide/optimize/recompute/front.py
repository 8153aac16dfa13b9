"""Peaks that running ops again or storing tensors reaches, and what it adds to the time of each."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.names import brief
from lowtide.rewrites import CountedAs


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Bytes of the peak, the part of the cost that running ops again adds, how many runs those are, and the part that
    no plan within these bytes adds less than, whatever its order. Of a step whose ops run in parts: how many parts, and
    how many ops; runs again are then those of each part. Where tensors may leave memory: bytes that are stored."""

    peak_bytes: int
    overhead: float
    runs_again: int
    least_overhead: float
    parts: int = 1
    ops_in_parts: int = 0
    stored_bytes: int = 0


@dataclass(frozen=True, repr=False)
class Front:
    """Peaks below the best order's, the lowest last, each dearer than the one before, but for what costs nothing: ops
    of no cost, transfers while others run.

    Attributes
    ----------
    own_order_peak_bytes
        Peak of the file's own order; the first of `points` is that of the best one, where no op runs again.
    counted
        What the cost of an op is.
    floor_bytes
        What a single op needs: no plan is below.
    complete
        Whether the sweep was not stopped by its time.
    """

    graph: str
    target: str
    own_order_peak_bytes: int
    floor_bytes: int
    counted: CountedAs
    points: tuple[FrontPoint, ...]
    complete: bool
    seconds: float

    def __repr__(self) -> str:
        return brief(self, "graph target own_order_peak_bytes points complete")
