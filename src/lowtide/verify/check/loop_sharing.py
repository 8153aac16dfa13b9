"""Rings of a plan that share memory: what is written into one spoils what lies there of others.

Nothing is asked about when rings have something: each slot that is written takes away what slots of other rings had in
the same bytes, and who reads what is gone is told so by whoever plays the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import PlanLoop, PlanRing
from lowtide.sizes import round_up
from lowtide.verify.check.loop_play import fail

Held = dict[int, dict[int, tuple[int, int]]]
"""Of each ring what its slots have: tensor and position."""


def kept_bytes(loop: PlanLoop, plan: Plan) -> int:
    """Bytes of a loop's rings and accumulators: as the plan says where some share memory, else each from a multiple of
    the alignment on."""
    if loop.kept_bytes is not None:
        return loop.kept_bytes
    pieces = [r.slots * r.bytes for r in loop.keep.values() if r.over is None]
    return sum(round_up(size, plan.alignment) for size in (*pieces, *(s.bytes for s in loop.sums.values())))


def check_sums_apart(graph: Graph, loop: PlanLoop) -> None:
    """Accumulators are there for the whole loop, so that nothing else may lie there."""
    rings = [(r.offset or 0, r.slots * r.bytes, r.name) for r in loop.keep.values() if r.over is None]
    sums = [(s.offset or 0, s.bytes, graph.tensor_by_id[int(key)].label) for key, s in loop.sums.items()]
    for k, (begin, size, name) in enumerate(sums):
        for other, length, label in (*rings, *sums[:k]):
            if begin < other + length and other < begin + size:
                raise fail(f"the sums of {name} share memory with {label}")


@dataclass(frozen=True)
class Sharing:
    """Rings of a loop that lie on each other.

    Attributes
    ----------
    rings
        Those with memory of their own.
    on
        Of each the others that it shares bytes with.
    """

    rings: Mapping[int, PlanRing]
    on: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, loop: PlanLoop) -> Sharing:
        """Of a plan's loop."""
        rings = {int(key): ring for key, ring in loop.keep.items() if ring.over is None}
        ends = {t: ((r.offset or 0), (r.offset or 0) + r.slots * r.bytes) for t, r in rings.items()}
        on = {
            t: tuple(u for u, (start, stop) in ends.items() if u != t and begin < stop and start < end)
            for t, (begin, end) in ends.items()
        }
        return cls(rings, on)

    def write(self, held: Held, ring: int, slot: int, reading: Collection[tuple[int, int]]) -> None:
        """A slot is written: what others had there is gone.

        Raises
        ------
        VerificationError
            ``loops``: it lies on a slot that is being read.
        """
        mine = self.rings[ring]
        begin = (mine.offset or 0) + slot * mine.bytes
        for other in self.on[ring]:
            theirs = self.rings[other]
            at = begin - (theirs.offset or 0)
            for k in range(max(0, at // theirs.bytes), min(theirs.slots, -(-(at + mine.bytes) // theirs.bytes))):
                if (other, k) in reading:
                    raise fail(f"a position of {mine.name!r} is written over one of {theirs.name!r} that it is made of")
                held[other].pop(k, None)
