"""What a loop may write over an input that dies in it: each byte is written only after its last read.

The loop is played. For every position that runs, the first row of the input is known that this position or a later one
reads. All bytes before that row are free. So each first write of a byte gives a distance by which the written tensor
has to begin below the input, and the plan has to keep the largest.

Line buffers of a plan that share memory: a write to one overwrites the others' slots in the same bytes.

When a buffer is live is not asked. Each slot that is written empties the slots of other buffers in the same bytes, and
the replay of the loop fails where an op reads an emptied slot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from lowtide.graph import MAX_BYTES, Graph
from lowtide.ops.raster import memory_dims
from lowtide.plan import Plan
from lowtide.rewrites import PlanLineBuffer, PlanLoop
from lowtide.sizes import round_up
from lowtide.target import Target
from lowtide.verify.check.loop_play import Event, LoopPlay, Rows, fail


def block_begins(graph: Graph, plan: Plan, loop: PlanLoop) -> int:
    """Where a loop's line buffers begin: at its workspace, or at the tensor that takes the workspace's place."""
    if loop.over is not None and loop.over not in graph.tensor_by_id:
        return plan.offset_of(loop.over) or 0
    return (plan.workspace_offsets or {}).get(str(loop.op), 0)


def check_behind(
    graph: Graph, plan: Plan, loop: PlanLoop, play: LoopPlay, events: Sequence[Event], target: Target
) -> None:
    """``loops``: what a loop writes over an input is before the bytes that later positions read; `events`: in turn."""
    last = target.channels_last
    stretches = _stretches(graph, plan, loop, play, channels_last=last)
    for key, distance in loop.behind.items():
        free = _free_bytes(play, events, int(key), memory_dims(graph, int(key), channels_last=last))
        least = _distance(dict(stretches), list(zip(events, free, strict=True)))
        if distance < least:
            raise fail(
                f"loop {loop.op} writes over input {key}, which it still reads: from {distance} bytes below it on, and "
                f"{least} are needed"
            )


def _free_bytes(play: LoopPlay, events: Sequence[Event], tensor: int, memory_order: Sequence[int]) -> list[int]:
    """At each event the bytes from an input's start that no event from then on reads; after the last read, all.
    `memory_order`: the input's dimensions, the slowest in memory first."""
    graph = play.graph
    t = graph.tensor_by_id[tensor]
    shape, lowest = tuple((t.shape or ())[d] for d in memory_order), MAX_BYTES
    result = []
    for event in reversed(events):
        if event.op is not None and tensor in graph.op_by_id[event.op].inputs:
            for read, rows in play.outside(graph.op_by_id[event.op], event.position):
                if read == tensor:
                    lowest = min(lowest, _first_byte(shape, t.size, tuple(rows[d] for d in memory_order)))
        result.append(lowest)
    return result[::-1]


def _first_byte(shape: tuple[int, ...], size: int, rows: tuple[Rows, ...]) -> int:
    """The first byte of a box of a tensor, its dimensions in the order of memory; `MAX_BYTES` for an empty box."""
    if any(first >= end for first, end in rows):
        return MAX_BYTES
    at = 0
    for (first, _), many in zip(rows, shape, strict=True):
        at = at * many + first
    return at * (size // prod(shape))


def _distance(stretches: dict[int, tuple[int, int, int]], events: list[tuple[Event, int]]) -> int:
    """Bytes that what the loop writes has to begin below the input; `events` with the bytes that are free at each."""
    least = 0
    for event, free in events:
        for t in event.makes:
            at, end, unit = stretches.get(t, (0, 0, 0))
            if at < end:  # bytes that nothing was written to before
                stretches[t] = (at + unit, end, unit)
                least = max(least, at + unit - free)
    return least


def _stretches(
    graph: Graph, plan: Plan, loop: PlanLoop, play: LoopPlay, *, channels_last: bool
) -> dict[int, tuple[int, int, int]]:
    """Where each tensor that is the first in its memory begins and ends, from the start of the memory that shares bytes
    with the input, and bytes of a position."""
    over, begin = loop.over, block_begins(graph, plan, loop)
    if over is not None and over in graph.tensor_by_id:
        dims, shape = play.dims[over], graph.tensor_by_id[over].shape or ()
        memory_order = [d for d in memory_dims(graph, over, channels_last=channels_last) if shape[d] != 1 or d in dims]
        torn = any(rows != 1 for rows in play.rows(over)[:-1])
        if torn or memory_order[: len(dims)] != list(dims):
            raise fail(f"tensor {over} is not made from its first byte to its last one")
        size = graph.tensor_by_id[over].size
        first = {buffer.over: int(key) for key, buffer in loop.keep.items() if buffer.over is not None}.get(over, over)
        return {first: (0, size, size // prod(play.sizes(over)))}
    result: dict[int, tuple[int, int, int]] = {}
    for key, buffer in loop.keep.items():
        if buffer.over is None:
            at = (buffer.offset or 0) - begin
            result[int(key)] = (at, at + buffer.slots * buffer.bytes, buffer.bytes)
    for key, added in loop.sums.items():  # all of it from the first position on
        at = (added.offset or 0) - begin
        result[int(key)] = (at, at + added.bytes, added.bytes)
    return result


Held = dict[int, dict[int, tuple[int, int]]]  # of each line buffer what its slots have: tensor and position


def kept_bytes(loop: PlanLoop, plan: Plan) -> int:
    """Bytes of a loop's line buffers and accumulators: as the plan says where some share memory, else each from a
    multiple of the alignment on."""
    if loop.kept_bytes is not None:
        return loop.kept_bytes
    sizes = [r.slots * r.bytes for r in loop.keep.values() if r.over is None]
    return sum(round_up(size, plan.alignment) for size in (*sizes, *(s.bytes for s in loop.sums.values())))


def check_sums_apart(graph: Graph, loop: PlanLoop) -> None:
    """Accumulators are live during all of the loop, so that they share bytes with nothing."""
    buffers = [(r.offset or 0, r.slots * r.bytes, r.name) for r in loop.keep.values() if r.over is None]
    sums = [(s.offset or 0, s.bytes, graph.tensor_by_id[int(key)].label) for key, s in loop.sums.items()]
    for k, (begin, size, name) in enumerate(sums):
        for other, length, label in (*buffers, *sums[:k]):
            if begin < other + length and other < begin + size:
                raise fail(f"the sums of {name} share memory with {label}")


@dataclass(frozen=True)
class Sharing:
    """Line buffers of a loop that share bytes."""

    buffers: Mapping[int, PlanLineBuffer]  # those with memory of their own
    on: Mapping[int, tuple[int, ...]]  # of each the others that it shares bytes with

    @classmethod
    def of(cls, loop: PlanLoop) -> Sharing:
        """Of a plan's loop."""
        buffers = {int(key): buffer for key, buffer in loop.keep.items() if buffer.over is None}
        ends = {t: ((r.offset or 0), (r.offset or 0) + r.slots * r.bytes) for t, r in buffers.items()}
        on = {
            t: tuple(u for u, (start, stop) in ends.items() if u != t and begin < stop and start < end)
            for t, (begin, end) in ends.items()
        }
        return cls(buffers, on)

    def write(self, held: Held, buffer: int, slot: int, reading: Collection[tuple[int, int]]) -> None:
        """Write a slot, which empties the slots of other buffers in its bytes. Raises `VerificationError`: ``loops``:
        it shares bytes with a slot that is being read."""
        mine = self.buffers[buffer]
        begin = (mine.offset or 0) + slot * mine.bytes
        for other in self.on[buffer]:
            theirs = self.buffers[other]
            at = begin - (theirs.offset or 0)
            for k in range(max(0, at // theirs.bytes), min(theirs.slots, -(-(at + mine.bytes) // theirs.bytes))):
                if (other, k) in reading:
                    raise fail(f"a position of {mine.name!r} is written over one of {theirs.name!r} that it is made of")
                held[other].pop(k, None)
