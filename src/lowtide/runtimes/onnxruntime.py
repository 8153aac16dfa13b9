"""How large a block onnxruntime's arena needs: a best-fit allocator that knows nothing of what comes.

It has one block of memory. An allocation takes the smallest free chunk that is large enough, the lowest of equal ones,
and gives back what is left over as a free chunk; a freed chunk joins its free neighbours. Sizes are rounded up to the
target's alignment. Because the rest of the block is a chunk like any other, a larger block may place things elsewhere:
whether they fit is not monotone in its size, so every answer here is one that was tried::

    block of 8   |a a|b b b|. . .|   c of 2, b freed:   |a a|c c|. . . .|    best fit splits the hole of b

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel, body_bytes
from lowtide.rules.onnxruntime.rule import chunks, kept_chunks
from lowtide.runtimes.base import OwnArena, Plain
from lowtide.runtimes.best_fit import FreeChunks
from lowtide.schedule.restore_own_order import equal_orders
from lowtide.stop import Limits

_TRIES = 30
_ORDERS = 16
_OPS_TO_TRY = 400_000
"""Blocks and orders are tried up to this many ops all together, but at least the first fit of the order given."""

Event = tuple[int, int]
"""A chunk's number, and its bytes if it is allocated, or 0 if it is freed."""


@dataclass(frozen=True)
class Onnxruntime(Plain):
    """onnxruntime's CPU provider: it runs a file's order as it likes, and places tensors by best fit in one block."""

    arenas: ClassVar[int] = 1

    def own_arena(self, model: MemoryModel, order: tuple[int, ...], limits: Limits, *, others: bool) -> OwnArena:
        """The order as onnxruntime runs it, and a block in which its best fit succeeds."""
        return OwnArena(*smallest_block(model, order, limits, others=others))


def smallest_block(
    model: MemoryModel, order: tuple[int, ...], limits: Limits, *, others: bool
) -> tuple[tuple[int, ...], int]:
    """The order as the runtime runs it, and the block that it fits in; with `others`, the order of no higher peak that
    fits in the smallest block."""
    graph = model.graph

    def as_run(candidate_order: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            graph.index_of[op] for op in model.target.as_run(graph, [graph.ops[i].id for i in candidate_order])
        )

    best = as_run(order)
    steps = profile(model, best)
    least = least_block(model, best, steps)
    draws = 0 if not (order and others) else _OPS_TO_TRY // len(order) // _TRIES
    for candidate_order in islice(equal_orders(model, order, steps.peak, limits.seed), min(_ORDERS, draws)):
        if limits.left_seconds <= 0:
            break
        candidate = as_run(candidate_order)
        steps = profile(model, candidate)
        block = least_block(model, candidate, steps)
        if steps.peak <= profile(model, best).peak and block < least:
            best, least = candidate, block
    return best, least


def least_block(model: MemoryModel, order: Sequence[int], steps: Profile) -> int:
    """Smallest block found in which an order fits; `steps` is its profile, whose in-place choices are taken."""
    trace = events(model, order, steps)
    load = most = 0
    sizes: dict[int, int] = {}
    for chunk, size in trace:
        load += size - sizes.get(chunk, 0)
        sizes[chunk] = size
        most = max(most, load)

    def fits(block: int) -> bool:
        return high_water(trace, block) is not None

    if fits(most):
        return most
    enough = high_water(trace, 2 * sum(size for _, size in trace)) or 0
    while not fits(enough):
        enough += max(model.alignment, enough // 64 // model.alignment * model.alignment)
    low, high = most, enough
    for _ in range(max(0, min(_TRIES, _OPS_TO_TRY // max(1, len(order))))):
        middle = (low + high) // 2 // model.alignment * model.alignment
        if middle <= low:
            break
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def events(model: MemoryModel, order: Sequence[int], steps: Profile) -> list[Event]:
    """What is allocated and freed, in the order in which it happens: an op's outputs and its kernel's workspace.

    The body of an op is one chunk, of what its worst one has in use at once.
    """
    overwrite_of = {o.output: o for o in steps.in_place}
    chunk_of: dict[int, int] = {}
    ending: list[list[int]] = [[] for _ in order]
    for s, last in enumerate(steps.last):
        if last < len(order):
            ending[max(last, 0)].append(s)
    result: list[Event] = []
    count = 0
    handed_on = {o.storage for o in steps.in_place}

    def begin(size: int) -> int:
        nonlocal count
        count += 1
        result.append((count, -(-size // model.alignment) * model.alignment))
        return count

    for size in kept_chunks(model.graph):
        begin(size)
    for s, storage in enumerate(model.storages):
        if steps.first[s] < 0 and storage.size:
            chunk_of[s] = begin(storage.size)
    for step, i in enumerate(order):
        op = model.graph.ops[i]
        before, after = chunks(model.graph, op)
        apart: list[int] = []
        for size in before:
            if size:
                apart.append(begin(size))
            else:
                result.append((apart.pop(0), 0))
        for t in op.outputs:
            s = model.storage_of.get(t)
            if s is None or s in chunk_of or not model.storages[s].size:
                continue
            over = overwrite_of.get(t)
            chunk_of[s] = begin(model.storages[s].size) if over is None else chunk_of[over.storage]
        apart += [begin(size) for size in (*after, body_bytes(model.graph, op, model.target)) if size]
        result += [(chunk, 0) for chunk in apart]
        for s in ending[step]:
            if s in chunk_of and s not in handed_on:
                result.append((chunk_of[s], 0))
    return result


def high_water(trace: Sequence[Event], block: int) -> int | None:
    """End of the highest chunk ever allocated in a block of so many bytes; None if they do not fit."""
    free = FreeChunks()
    free.add(0, block)
    place: dict[int, tuple[int, int]] = {}
    highest = 0
    for chunk, size in trace:
        if not size:
            free.give(*place.pop(chunk))
            continue
        found = free.take(size)
        if found is None:
            return None
        start, end = found
        if end - start > size:
            free.add(start + size, end)
        place[chunk] = start, start + size
        highest = max(highest, start + size)
    return highest
