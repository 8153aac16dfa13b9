"""LiteRT's arena for an order, played through: best fit by its planner's order, no offsets of ours.

Tensors that are there from the first op to the end come first, by index; the others by decreasing size, then by their
first op. Each takes the gap with least slack among those alive with it, aligned to 64 bytes, else the lowest place
above them. Source: tflite/arena_planner.cc and simple_memory_arena.cc (LiteRT 2.3).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.graph import Kind
from lowtide.plan import RuntimeFigure
from lowtide.rules.litert.temporaries import temporaries
from lowtide.runtimes.base import OwnArena, Planned, Runtime
from lowtide.schedule.restore_own_order import equal_orders
from lowtide.stop import Limits

ALIGNMENT = 64
_ORDERS = 18
_OPS_TO_TRY = 9_000
"""At most this many orders, and this many ops all together: placing takes time that grows with their square."""


@dataclass(slots=True)
class _Tensor:
    id: int
    size: int
    first: int
    last: int
    offset: int = 0


@dataclass(frozen=True)
class Litert(Runtime):
    """LiteRT without delegates: it takes the order, and places tensors by its own planner."""

    arenas: ClassVar[int] = 1

    def own_arena(self, model: MemoryModel, order: tuple[int, ...], limits: Limits, *, others: bool) -> OwnArena:
        """The order, and where LiteRT's last tensor ends."""
        if not others:
            return OwnArena(order, litert_arena(model, order).bytes)
        return OwnArena(*smallest_arena(model, order, limits))

    def figures(self, model: MemoryModel, planned: Planned) -> list[RuntimeFigure] | None:
        """The arenas that its planner makes."""
        own = litert_arena(model, range(len(model.graph.ops))).bytes
        return [RuntimeFigure(runtime="LiteRT", what="arena", default_bytes=own, planned_bytes=planned.block_bytes)]


@dataclass(frozen=True)
class LitertArena:
    """`bytes`: where the last tensor ends. `offsets`: by tensor id, of those that own their memory."""

    bytes: int
    offsets: dict[int, int]


def litert_arena(model: MemoryModel, order: Sequence[int]) -> LitertArena:
    """The arena that LiteRT makes, without delegates, for positions in file order; known temporaries are in it."""
    graph, steps = model.graph, len(order)
    step_of = {i: step for step, i in enumerate(order)}
    last_read = {s: max((step_of[i] for i in storage.users), default=0) for s, storage in enumerate(model.storages)}
    read = {t for op in graph.ops for t in op.inputs}
    tensors = []
    for s, storage in enumerate(model.storages):
        if not storage.size:
            continue
        first = 0 if storage.at_start else min(step_of[i] for i in storage.users)
        stays = storage.at_end or storage.at_start or not any(t in read for t in storage.tensors)
        tensors.append(_Tensor(storage.tensors[0], storage.size, first, steps if stays else last_read[s]))
    known = {t for storage in model.storages for t in storage.tensors}
    unread = (t for t in graph.tensors if t.kind is Kind.INPUT and t.id not in known and t.size)
    tensors += [_Tensor(t.id, t.size, 0, steps) for t in unread]
    after = max((t.id for t in graph.tensors), default=0) + 1
    for step, i in enumerate(order):
        for size in temporaries(graph, graph.ops[i]):
            tensors.append(_Tensor(after, size, step, step))
            after += 1
    tensors.sort(key=lambda t: (0, t.id, 0) if (t.first, t.last) == (0, steps) else (1, -t.size, t.first))
    placed: list[_Tensor] = []
    for t in tensors:
        t.offset = _best_fit(t, placed)
        placed.insert(bisect_right(placed, t.offset, key=lambda other: other.offset), t)
    return LitertArena(max((t.offset + t.size for t in placed), default=0), {t.id: t.offset for t in placed})


def smallest_arena(model: MemoryModel, order: tuple[int, ...], limits: Limits) -> tuple[tuple[int, ...], int]:
    """Among orders of no higher peak the one for which LiteRT makes the smallest arena; and that, in bytes. The own
    order is tried too: where nothing is gained, nothing is moved."""
    own = tuple(range(len(order)))
    peak = profile(model, order).peak
    best, least = order, litert_arena(model, order).bytes
    candidates = [own] if profile(model, own).peak <= peak else []
    draws = 0 if not order else min(_ORDERS, _OPS_TO_TRY // len(order))
    for candidate in chain(candidates, islice(equal_orders(model, order, peak, limits.seed), draws)):
        if limits.left_seconds <= 0:
            break
        size = litert_arena(model, candidate).bytes
        if size < least or (size == least and candidate == own):
            best, least = candidate, size
    return best, least


def _best_fit(t: _Tensor, placed: Sequence[_Tensor]) -> int:
    best: int | None = None
    slack = 0
    at = 0
    for other in placed:
        if other.last < t.first or other.first > t.last:
            continue
        aligned = -(-at // ALIGNMENT) * ALIGNMENT
        if aligned + t.size <= other.offset and (best is None or other.offset - aligned < slack):
            best, slack = aligned, other.offset - at
        at = max(at, other.offset + other.size)
        if best is not None and slack == 0:
            break
    return -(-at // ALIGNMENT) * ALIGNMENT if best is None else best
