"""Rings that lie in one place, one after the other in time: what a loop keeps of them is never there at once.

    position    ask conv   run conv    run depthwise   run conv 1x1
    ring a      |######|   |######|
    ring b                 |#########################|                 a row that is made and read in one turn
    ring c                                 |##################|        may lie where a lay

Playing the loop says of each two rings whether both ever have something that is still read (`core/cut/loop.h`). Those
that do lie apart, others may share bytes. Sums are there for the whole loop. Placing is that of boxes whose times are
no intervals (weighted colouring of a graph by intervals of bytes, NP-hard): the largest first, each as low as it can,
in a few orders. Where nothing is saved, rings lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from lowtide.sizes import round_up

Places = tuple[tuple[int, int], ...]
"""(tensor, bytes from the block's start on)."""


def shared_places(pieces: Sequence[tuple[int, int]], apart: Mapping[int, Collection[int]], alignment: int) -> Places:
    """Where pieces lie that may share bytes; none if side by side they take no more.

    Parameters
    ----------
    pieces
        (tensor, bytes) of each ring and accumulator.
    apart
        Of each ring others that it must not lie on; what is no key lies on nothing.
    alignment
        Bytes at multiples of which pieces begin.
    """
    sizes = {t: round_up(size, alignment) for t, size in pieces}
    total = sum(sizes.values())
    if all(len(apart.get(t, sizes)) >= len(sizes) - 1 for t in sizes):
        return ()
    best: dict[int, int] | None = None
    for key in _orders(sizes, apart):
        at = _placed(sorted(sizes, key=key), sizes, apart)
        if best is None or height(at, sizes) < height(best, sizes):
            best = at
    return () if best is None or height(best, sizes) >= total else tuple((t, best[t]) for t in sizes)


def height(at: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    """Bytes up to the end of the last piece."""
    return max((at[t] + sizes[t] for t in at), default=0)


def _orders(sizes: Mapping[int, int], apart: Mapping[int, Collection[int]]) -> list[Callable[[int], tuple[int, ...]]]:
    """By bytes; by bytes of what a piece must not lie on; and what lies on nothing first, then by bytes."""
    beside = {t: sum(sizes[u] for u in apart.get(t, sizes) if u in sizes) for t in sizes}
    return [
        lambda t: (-sizes[t], -beside[t], t),
        lambda t: (-beside[t], -sizes[t], t),
        lambda t: (t in apart, -sizes[t], -beside[t], t),
    ]


def _placed(order: Sequence[int], sizes: Mapping[int, int], apart: Mapping[int, Collection[int]]) -> dict[int, int]:
    """Each as low as those before it let it."""
    at: dict[int, int] = {}
    for t in order:
        taken = sorted((at[u], at[u] + sizes[u]) for u in at if not _may_share(t, u, apart))
        begin = 0
        for start, end in taken:
            if begin + sizes[t] <= start:
                break
            begin = max(begin, end)
        at[t] = begin
    return at


def _may_share(one: int, other: int, apart: Mapping[int, Collection[int]]) -> bool:
    return one in apart and other in apart and other not in apart[one]
