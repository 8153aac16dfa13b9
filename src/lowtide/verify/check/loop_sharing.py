"""Line buffers of a plan that share memory: a write to one overwrites the others' slots in the same bytes.

When a buffer is live is not asked. Each slot that is written empties the slots of other buffers in the same bytes, and
the replay of the loop fails where an op reads an emptied slot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import PlanLineBuffer, PlanLoop
from lowtide.sizes import round_up
from lowtide.verify.check.loop_play import fail

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
