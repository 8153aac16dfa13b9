"""One array or two among several memories: the best way, against a plain search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.allocate.banks.arenas import ArenaSizes, best_division, divisions, never_divided
from lowtide.allocate.banks.bank import Bank

SIZES = st.integers(0, 40)
BANKS = st.lists(SIZES.map(lambda size: Bank(f"b{size}", size)), min_size=1, max_size=4)


def arenas(both: int, head: int, tail: int) -> ArenaSizes:
    """Sizes as they can be: two arrays take as much as one, or more."""
    return ArenaSizes(min(both, head + tail), head, tail)


@pytest.mark.slow
@given(SIZES, SIZES, SIZES, BANKS)
def test_what_fits_somewhere_is_found(both: int, head: int, tail: int, banks: list[Bank]):
    """It fits if one memory holds both, or two hold one each; then nothing is called impossible."""
    sizes = arenas(both, head, tail)
    room = [b.capacity for b in banks]
    fits = any(r >= sizes.both for r in room) or any(
        a >= head and b >= tail for i, a in enumerate(room) for k, b in enumerate(room) if i != k
    )
    everywhere = range(len(banks))
    way = best_division(sizes, banks, everywhere, everywhere)
    assert (way.excess(banks) == 0) == fits
    assert never_divided(sizes, banks) == (not fits)
    assert sum(way.sizes) == (head + tail if way.has_two_arrays else sizes.both)


@pytest.mark.slow
@given(SIZES, SIZES, SIZES, BANKS)
def test_no_way_that_fits_has_fewer_bytes_in_slow_memories(both: int, head: int, tail: int, banks: list[Bank]):
    """A byte in the second memory counts 1, in the third 2."""
    sizes, everywhere = arenas(both, head, tail), range(len(banks))
    way = best_division(sizes, banks, everywhere, everywhere)

    def slow(held: tuple[int, ...]) -> int:
        return sum(k * size for k, size in enumerate(held))

    ways = [w for w in divisions(sizes, len(banks), everywhere, everywhere) if w.excess(banks) == way.excess(banks)]
    assert slow(way.sizes) == min(slow(w.sizes) for w in ways)


def test_one_array_where_both_fit_and_the_larger_one_in_front():
    """Two arrays only where one does not fit the first memory; then as few bytes as can be lie behind it."""
    banks = [Bank("sram", 100), Bank("psram", 1000)]
    way = best_division(ArenaSizes(90, 60, 32), banks, (0, 1), (0, 1))
    assert (way.head, way.tail, way.sizes) == (0, 0, (90, 0))
    way = best_division(ArenaSizes(120, 90, 32), banks, (0, 1), (0, 1))
    assert (way.head, way.tail, way.sizes) == (0, 1, (90, 32))
    way = best_division(ArenaSizes(150, 120, 32), banks, (0, 1), (0, 1))
    assert (way.head, way.tail, way.sizes) == (1, 0, (32, 120))


def test_where_each_may_lie_is_kept():
    """The memory that is preferred first, even if it is the slow one."""
    banks = [Bank("sram", 100), Bank("psram", 1000)]
    way = best_division(ArenaSizes(90, 60, 32), banks, (0, 1), (1,))
    assert way.sizes == (60, 32)
    way = best_division(ArenaSizes(90, 60, 32), banks, (1, 0), (1, 0))
    assert way.sizes == (0, 90)
