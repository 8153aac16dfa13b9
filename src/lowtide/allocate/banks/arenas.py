"""A runtime's arenas among several memories: one array for all of it, or one for its head and one for its tail.

    one     fast |<- head --- tail ->|
    apart   fast |<- head ---------->|    slow |<- tail ->|

There are few ways, so each is looked at: what fits goes before what does not, then the fewest bytes in slow memories (a
byte in the second counts 1, in the third 2), then one array before two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide.allocate.banks.bank import Bank

HEAD, TAIL = "head", "tail"


@dataclass(frozen=True, slots=True)
class ArenaSizes:
    """Bytes of one array for head and tail, and of an array for each."""

    both: int
    head: int
    tail: int


@dataclass(frozen=True, slots=True)
class Division:
    """Indices of the memories that hold head and tail, one array if they are the same, and the bytes in each memory."""

    head: int
    tail: int
    sizes: tuple[int, ...]

    def excess(self, banks: Sequence[Bank]) -> int:
        """Bytes that do not fit, all memories together."""
        return sum(max(0, size - b.capacity) for size, b in zip(self.sizes, banks, strict=True))

    @property
    def has_two_arrays(self) -> bool:
        """Whether there are two arrays."""
        return self.head != self.tail


def divisions(sizes: ArenaSizes, count: int, heads: Sequence[int], tails: Sequence[int]) -> Iterator[Division]:
    """Every way: `heads` and `tails` are indices of the memories that each may lie in."""
    for head in heads:
        for tail in tails:
            held = [0] * count
            if head == tail:
                held[head] = sizes.both
            else:
                held[head], held[tail] = sizes.head, sizes.tail
            yield Division(head, tail, tuple(held))


def best_division(sizes: ArenaSizes, banks: Sequence[Bank], heads: Sequence[int], tails: Sequence[int]) -> Division:
    """The best way, where each may lie in the memories listed, the preferred one first."""

    def rank(way: Division) -> tuple[int, int, bool]:
        tail_bytes = sizes.tail if way.has_two_arrays else sizes.both - min(sizes.head, sizes.both)
        head_bytes = sum(way.sizes) - tail_bytes
        slow = heads.index(way.head) * head_bytes + tails.index(way.tail) * tail_bytes
        return way.excess(banks), slow, way.has_two_arrays

    return min(divisions(sizes, len(banks), heads, tails), key=rank)


def never_divided(least: ArenaSizes, banks: Sequence[Bank]) -> bool:
    """Whether arrays of these sizes, of which no plan needs less, fit in no way, wherever each may lie."""
    everywhere = range(len(banks))
    return all(way.excess(banks) for way in divisions(least, len(banks), everywhere, everywhere))
