"""Line buffers that share bytes: those that are never live at the same position of the loop.

    position    ask conv   run conv    run depthwise   run conv 1x1
    buffer a    |######|   |######|
    buffer b               |#########################|                 a row that is written and read in one turn
    buffer c                                |##################|        may share the bytes of a

Simulation of the loop says which two line buffers ever hold live rows together (`core/cut/loop.h`); others may share
bytes. Accumulators are live for the full loop. Placement is interval colouring of this conflict graph (NP-hard): greedy
by size, lowest fit, in a few orders. Without a saving, the line buffers are adjacent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from lowtide.sizes import round_up

Places = tuple[tuple[int, int], ...]  # (tensor, bytes from the block's start on)


def shared_places(buffers: Sequence[tuple[int, int]], apart: Mapping[int, Collection[int]], alignment: int) -> Places:
    """Offsets of buffers that may share bytes; empty if adjacent buffers take no more. `buffers`: (tensor, bytes) of
    each line buffer and accumulator. `apart`: for each line buffer, those that it must not overlap; a buffer without a
    key overlaps none. `alignment`: bytes at multiples of which buffers begin."""
    sizes = {t: round_up(size, alignment) for t, size in buffers}
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
    """Bytes up to the end of the last buffer."""
    return max((at[t] + sizes[t] for t in at), default=0)


def _orders(sizes: Mapping[int, int], apart: Mapping[int, Collection[int]]) -> list[Callable[[int], tuple[int, ...]]]:
    """By bytes; by bytes of the conflicts; and buffers without overlap first, then by bytes."""
    conflict_bytes = {t: sum(sizes[u] for u in apart.get(t, sizes) if u in sizes) for t in sizes}
    return [
        lambda t: (-sizes[t], -conflict_bytes[t], t),
        lambda t: (-conflict_bytes[t], -sizes[t], t),
        lambda t: (t in apart, -sizes[t], -conflict_bytes[t], t),
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
