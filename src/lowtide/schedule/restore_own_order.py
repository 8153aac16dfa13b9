"""Orders of equal peak: put back towards the model's own order, or drawn afresh.

How far an order is from the own one is measured as the number of ops that would have to be moved: the number of ops
less the longest run of them, not necessarily neighbours, that already stand in file order. `_core.restore_own_order`
lowers it; that it is least is not proved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from lowtide import _core
from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.method import core_model


def ops_moved(order: Sequence[int]) -> int:
    """How many ops must be moved to turn an order (positions in file order) into the file order.

    >>> ops_moved([0, 2, 3, 1])
    1
    """
    tails: list[int] = []
    for i in order:
        k = bisect_left(tails, i)
        tails[k : k + 1] = [i]
    return len(order) - len(tails)


def equal_orders(model: MemoryModel, order: Sequence[int], peak: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield orders of at most `peak` bytes, without end but for repeats: restored, as given, then drawn by beams."""
    core = core_model(model)
    seen: set[tuple[int, ...]] = set()

    def fresh(candidate: Sequence[int]) -> Iterator[tuple[int, ...]]:
        distinct = tuple(candidate)
        if distinct and distinct not in seen:
            seen.add(distinct)
            yield distinct

    yield from fresh(_core.restore_own_order(core, list(order), peak))
    yield from fresh(order)
    for turn in range(1, 9):
        drawn = _core.draw(core, peak, 4, 8 * seed + turn, turn % 2 == 0)
        if drawn:
            yield from fresh(_core.restore_own_order(core, drawn, peak))
            yield from fresh(drawn)
