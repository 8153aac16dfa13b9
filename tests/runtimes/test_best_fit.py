"""Free chunks: the smallest that is large enough, joined when they touch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.runtimes.onnxruntime_defaults import FreeChunks


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=40))
def test_it_is_a_plain_list_of_free_bytes(steps: list[tuple[bool, int]]) -> None:
    """Against a set of free addresses, looked through from the beginning each time."""
    block, free, plain = 30, FreeChunks(), set(range(30))
    free.add(0, block)
    taken: list[tuple[int, int]] = []
    for give, size in steps:
        if give and taken:
            start, end = taken.pop(size % len(taken))
            free.give(start, end)
            plain |= set(range(start, end))
            continue
        starts = [a for a in plain if a - 1 not in plain]
        stretches = [(next(e for e in range(a, block + 1) if e not in plain) - a, a) for a in starts]
        fitting = min((s for s in stretches if s[0] >= size), default=None)
        found = free.take(size)
        assert found == (None if fitting is None else (fitting[1], fitting[1] + fitting[0]))
        if found is not None:
            start, end = found
            if end > start + size:
                free.add(start + size, end)
            taken.append((start, start + size))
            plain -= set(range(start, start + size))
