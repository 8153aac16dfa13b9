"""Indices against windows, resampling and reshapes written out row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.ops.index import FIXED, NOTHING, Index, Window, fit, fixed, same_padding

WINDOWS = st.builds(Window, st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(0, 4))


def hull(rows: set[int]) -> tuple[int, int]:
    """Least range around some rows; (0, 0) if there are none."""
    return (min(rows), max(rows) + 1) if rows else (0, 0)


@given(WINDOWS, st.integers(1, 20), st.integers(0, 3), st.data())
def test_a_window_reads_its_taps(window: Window, size: int, after: int, data: st.DataObject) -> None:
    """A part needs the rows from the first tap to the last, as far as they exist."""
    count = window.rows(size, after)
    assert count == len(range(0, size + window.before + after - window.reach + 1, window.stride))
    if not count:
        return
    a = data.draw(st.integers(0, count - 1))
    b = data.draw(st.integers(a + 1, count))
    first = a * window.stride - window.before
    last = (b - 1) * window.stride - window.before + window.reach - 1
    assert window.index(0).need(a, b, size) == hull(set(range(first, last + 1)) & set(range(size)))


@given(WINDOWS, st.integers(1, 12), st.data())
def test_a_transposed_window_reads_what_is_spread_onto_it(window: Window, size: int, data: st.DataObject) -> None:
    """A part needs every row that some tap adds to one of its rows."""
    rows = (size - 1) * window.stride + window.reach
    a = data.draw(st.integers(0, rows - 1))
    b = data.draw(st.integers(a + 1, rows))
    reads = {
        i
        for i in range(size)
        if any(a <= i * window.stride - window.before + t * window.dilation < b for t in range(window.taps))
    }
    first, end = window.transposed(0).need(a, b, size)
    assert reads <= set(range(first, end))
    if window.dilation == 1:
        assert hull(reads) == (first, end)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=12), st.integers(-3, 3),
       st.integers(1, 4), st.data())  # fmt: skip
def test_a_fitted_index_covers_and_touches(rows: list[tuple[int, int]], num: int, den: int, data: st.DataObject):
    """Each row is covered; a tighter lo or hi would leave one out."""
    ranges = [(first, first + length) for first, length in rows]
    index = fit(0, ranges, num, den)

    def covered(index: Index) -> bool:
        return all(
            (i * num + index.lo) // den <= first and (i * num + index.hi) // den >= end - 1
            for i, (first, end) in enumerate(ranges)
        )

    assert covered(index)
    assert not covered(Index(0, num, den, index.lo + 1, index.hi))
    assert not covered(Index(0, num, den, index.lo, index.hi - 1))
    a = data.draw(st.integers(0, len(rows) - 1))
    b = data.draw(st.integers(a + 1, len(rows)))
    first, end = index.need(a, b, 10**6)
    assert all(first <= f and e <= end for f, e in ranges[a:b])


INDICES = st.builds(
    Index, st.just(0), st.integers(-4, 4), st.integers(1, 4), st.integers(-6, 6), st.integers(-6, 6)
).filter(lambda index: index.lo <= index.hi)


@given(INDICES, st.integers(0, 20), st.integers(1, 8), st.integers(1, 30))
def test_reducing_changes_nothing(index: Index, a: int, count: int, size: int) -> None:
    """Common factors of num and den go without a row's difference."""
    assert index.need(a, a + count, size) == index.reduced().need(a, a + count, size)


def test_a_step_backwards_reads_from_the_end() -> None:
    """The first rows of a flipped tensor are the last ones of the operand."""
    flipped = Index(0, -1, 1, 9, 9)
    assert flipped.need(0, 3, 10) == (7, 10)
    assert flipped.need(8, 10, 10) == (0, 2)


def test_fixed_rows_and_none() -> None:
    """A fixed index ignores the part; an empty part needs nothing."""
    assert fixed(3, 5).need(0, 1, 10) == (3, 5)
    assert NOTHING.need(0, 1, 10) == (0, 0)
    assert Index(0).need(4, 4, 10) == (0, 0)
    assert fixed(0, 1).axis == FIXED


def test_an_index_divides_by_something() -> None:
    """A denominator below one is a mistake of ours."""
    with pytest.raises(ValueError, match="den"):
        Index(0, 1, 0)


@pytest.mark.parametrize(("upper", "before"), [(True, 0), (False, 1)])
def test_the_odd_row_of_same_padding(upper: bool, before: int) -> None:
    """Of one missing row, SAME_UPPER puts it behind and SAME_LOWER before."""
    assert same_padding(4, 4, Window(2), upper=upper) == before


def test_a_rounded_up_window_does_not_begin_behind_the_operand() -> None:
    """ceil_mode of pools adds a window that hangs over, but none that begins in the padding behind."""
    assert Window(3, 2).rows(6, 0) == 2
    assert Window(3, 2).rows(6, 0, ceil=True) == 3
    assert Window(1, 2).rows(2, 0, ceil=True) == 1


@given(*(st.integers(low, 5) for low in (1, 1, 1, 0)), st.integers(1, 8), st.integers(0, 8))
def test_the_first_row_of_a_window(taps: int, stride: int, dilation: int, before: int, size: int, row: int) -> None:
    """The lowest tap that is inside, by trying all."""
    taken = [row * stride - before + tap * dilation for tap in range(taps)]
    inside = [at for at in taken if 0 <= at < size]
    assert Window(taps, stride, dilation, before).first(row, size) == (inside[0] if inside else None)
