"""The free chunks of a block of memory, of which an allocation takes the smallest that is large enough."""

from __future__ import annotations

from bisect import bisect_left, insort


class FreeChunks:
    """Free stretches of addresses, half-open; those that touch are one."""

    def __init__(self) -> None:
        self._by_size: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}

    def add(self, start: int, end: int) -> None:
        """A stretch that touches no other, or is not to be merged."""
        self._end_of[start], self._start_of[end] = end, start
        insort(self._by_size, (end - start, start))

    def give(self, start: int, end: int) -> None:
        """A stretch that is freed, merged with its free neighbours."""
        if end in self._end_of:
            end = self._drop(end, self._end_of[end])[1]
        if start in self._start_of:
            start = self._drop(self._start_of[start], start)[0]
        self.add(start, end)

    def take(self, size: int) -> tuple[int, int] | None:
        """The smallest stretch of at least so many bytes, of equal ones the lowest; None if there is none."""
        at = bisect_left(self._by_size, (size, -1))
        if at == len(self._by_size):
            return None
        length, start = self._by_size[at]
        return self._drop(start, start + length)

    def _drop(self, start: int, end: int) -> tuple[int, int]:
        del self._end_of[start], self._start_of[end]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        return start, end
