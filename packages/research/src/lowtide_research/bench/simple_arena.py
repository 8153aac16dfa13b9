"""The arena that SERENITY (2020) and HMCOS (2022) measured: TensorFlow Lite's simple memory arena, in order of use.

A tensor is placed when its first op runs, best fit: at the low end of the smallest gap between live tensors that holds
it, else above them all. Where an output may be written over an input, that input's bytes count as free for it. This
gives HMCOS's printed arenas of reverse post-order on five of six networks; TensorFlow Lite of today, which places by
decreasing size (`lowtide.allocate.greedy`, rule ``tflite``), on none.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.sizes import round_up

ALIGNMENT = 64
"""Bytes: kDefaultTensorAlignment."""

Placed = tuple[int, int, int, int]  # offset, size, first step, last step


def placed(model: MemoryModel, order: Sequence[int], alignment: int = ALIGNMENT) -> list[Placed]:
    """Where each storage that is ever live lies, and from which step to which (inclusive; -1: before the first)."""
    lives = profile(model, order)
    overwritten = {o.storage for o in lives.in_place}
    spans = sorted(
        (first, last - (s in overwritten), s)
        for s, (first, last) in enumerate(zip(lives.first, lives.last, strict=True))
        if last >= first and model.storages[s].size
    )
    arena: list[Placed] = []
    for first, last, s in spans:
        size = model.storages[s].size
        at, slack = -1, 0
        top = 0
        for low, other, begin, end in sorted(arena):
            if end < first or begin > last:
                continue
            start = round_up(top, alignment)
            if start + size <= low and (at < 0 or low - top < slack):
                at, slack = start, low - top
            top = max(top, low + other)
        arena.append((at if at >= 0 else round_up(top, alignment), size, first, last))
    return arena


def simple_arena(model: MemoryModel, order: Sequence[int], alignment: int = ALIGNMENT) -> int:
    """Bytes of that arena."""
    return max((at + size for at, size, _, _ in placed(model, order, alignment)), default=0)


def arena_use(model: MemoryModel, order: Sequence[int], alignment: int = ALIGNMENT) -> tuple[int, ...]:
    """For each step, the highest byte of the arena that is in use: SERENITY's Figure 12 (a). Without an allocator it is
    `profile(model, order).footprint`, Figure 12 (b)."""
    every = placed(model, order, alignment)
    return tuple(max((a + z for a, z, i, k in every if i <= step <= k), default=0) for step in range(len(order)))
