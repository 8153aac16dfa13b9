"""Order and arena together: among orders of equal peak, the one that needs the smallest arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from lowtide.allocate.arena import ENGINES, Allocation, Engine, allocate
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.settle import equal_orders, ops_moved
from lowtide.stop import Limits

OPS_TO_PLACE = 90_000
"""Orders are drawn and placed up to this many ops all together, 18 orders at the most, but at least the settled order
and the order found."""


@dataclass(frozen=True)
class Layout:
    """An order with its profile and its arena. `tried` counts the orders that were placed."""

    order: tuple[int, ...]
    profile: Profile
    allocation: Allocation
    tried: int = 1
    interrupted: bool = False


def place(model: MemoryModel, order: tuple[int, ...], limits: Limits, engines: Sequence[Engine] = ENGINES) -> Layout:
    """Place one order as it is."""
    steps = profile(model, order)
    return Layout(order, steps, allocate(model, order, steps.in_place, None, limits, engines, steps))


def best_layout(model: MemoryModel, order: tuple[int, ...], limits: Limits) -> Layout:
    """Among orders of no higher peak, the one of the smallest arena, and among those the one with fewest ops moved.

    An order whose arena is the peak of the rounded sizes cannot be beaten, so the search for a smaller one ends there.
    So it does where an arena is small enough for `Limits.enough_bytes`.
    """
    if not order:
        return place(model, order, limits)
    peak = profile(model, order).peak
    draws = max(2, min(18, OPS_TO_PLACE // len(order)))
    best: Layout | None = None
    tried = 0
    try:
        for candidate in islice(equal_orders(model, order, peak, limits.seed), draws):
            found = place(model, candidate, limits)
            tried += 1
            if best is None or _rank(found) < _rank(best):
                best = found
            small_enough = limits.enough_bytes is not None and found.allocation.arena_bytes <= limits.enough_bytes
            if found.allocation.optimal or small_enough or limits.left_seconds <= 0:
                break
    except KeyboardInterrupt:
        best = best or place(model, order, limits)
        return Layout(best.order, best.profile, best.allocation, tried, True)
    assert best is not None, "the order itself is always a candidate"
    return Layout(best.order, best.profile, best.allocation, tried)


def _rank(layout: Layout) -> tuple[int, int]:
    return layout.allocation.arena_bytes, ops_moved(layout.order)
