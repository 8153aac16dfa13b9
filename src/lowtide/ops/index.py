"""Which rows of a dimension are read for which rows of the result: one affine record for all ops.

An op is a nest of loops over *iteration axes*. `Index` says, for one dimension of one operand, which of its rows the
op reads when an axis runs over ``[a, b)``::

    first row    (a * num + lo) // den
    last row     ((b - 1) * num + hi) // den        both clipped to the dimension

================  ===================================================  ===========================================
what              num, den, lo, hi                                     example
================  ===================================================  ===========================================
same place        1, 1, 0, 0                                           Relu
window            stride, 1, -before, -before + (taps - 1) * dilation  Conv, pools
transposed        1, stride, before - reach + stride, before           ConvTranspose (reach: rows of a window)
resize            size in, size out, fitted                            Resize
merge, split      rows of the result, rows of the operand, 0, ...      Reshape ``[A, B] -> [A * B]`` and back
concat slice      1, 1, -offset, -offset                               Concat
slice             step, 1, start, start                                Slice; a negative step reads backwards
pad               1, 1, -before, -before                               Pad
fixed             0, 1, first, last; axis `FIXED`                      Gather of one constant row
================  ===================================================  ===========================================

Ranges are half-open everywhere. `Window` is the one home of convolution geometry: stride, taps, dilation, padding.
Source: linalg's indexing maps (MLIR), MAGIS's dimension links (ASPLOS 2024, section 4.1); windows are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

Range = tuple[int, int]  # rows ``[first, end)``; empty ranges are ``(0, 0)``
FIXED = -1  # the axis of an index that reads the same rows whatever the part


@dataclass(frozen=True, slots=True)
class Index:
    """Rows ``[(a*num + lo) // den, ((b-1)*num + hi) // den + 1)`` of a dimension for ``[a, b)`` of `axis`.

    With a negative `num` the two ends change places: ``lo`` belongs to ``b - 1``.
    """

    axis: int
    num: int = 1
    den: int = 1
    lo: int = 0
    hi: int = 0

    def __post_init__(self) -> None:
        if self.den < 1:
            raise ValueError(f"den is {self.den}; it must be positive")

    @property
    def same(self) -> bool:
        """Whether row r is read for r and nothing else."""
        return (self.num, self.den, self.lo, self.hi) == (1, 1, 0, 0)

    def need(self, a: int, b: int, size: int) -> Range:
        """Rows of a dimension of `size` rows that are read for ``[a, b)``, clipped; ``(0, 0)`` if there is none.

        >>> Index(0, 2, 1, -1, 1).need(3, 5, 20)  # stride 2, three taps, padding 1
        (5, 10)
        """
        if a >= b:
            return (0, 0)
        low, high = (a, b - 1) if self.num >= 0 else (b - 1, a)
        first = max(0, (low * self.num + self.lo) // self.den)
        end = min(size, (high * self.num + self.hi) // self.den + 1)
        return (first, end) if first < end else (0, 0)

    def reduced(self) -> Index:
        """The same rows with `num` and `den` free of common factors (floors nest, so that this is exact)."""
        g = gcd(self.num, self.den)
        return Index(self.axis, self.num // g, self.den // g, self.lo // g, self.hi // g)

    def on(self, axis: int) -> Index:
        """The same index along another axis."""
        return replace(self, axis=axis)


def fixed(first: int, end: int) -> Index:
    """Index of the rows ``[first, end)``, whatever the part; of none if the range is empty."""
    return Index(FIXED, 0, 1, first, end - 1)


NOTHING = fixed(0, 0)  # no row at all: the op asks for the operand's shape and not for what is in it


MOST_ROWS = 2**20  # rows of a result above which they are not listed one by one for `fit`


def fit(axis: int, rows: Sequence[Range], num: int, den: int) -> Index:
    """Tightest index of slope ``num / den`` that covers ``rows[i]`` for each row i of the result.

    Parameters
    ----------
    rows
        Half-open range of rows that each row of the result reads; none of them is empty.

    >>> fit(0, [(0, 1), (0, 2), (1, 3)], 1, 1)
    Index(axis=0, num=1, den=1, lo=-1, hi=0)
    """
    lo = min(first * den + den - 1 - i * num for i, (first, _) in enumerate(rows))
    hi = max((end - 1) * den - i * num for i, (_, end) in enumerate(rows))
    return Index(axis, num, den, lo, hi)


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a convolution or pool along one dimension."""

    taps: int  # elements of the kernel
    # stride, dilation: steps between windows, and between the taps of one.
    stride: int = 1
    dilation: int = 1
    before: int = 0  # rows of padding before the first; the padding after the last follows from the sizes

    @property
    def reach(self) -> int:
        """Rows from the first tap to the last, both counted."""
        return (self.taps - 1) * self.dilation + 1

    def index(self, axis: int) -> Index:
        """Rows of the operand that rows of the result read."""
        return Index(axis, self.stride, 1, -self.before, self.reach - 1 - self.before)

    def transposed(self, axis: int) -> Index:
        """Rows of the operand that rows of a transposed convolution's result read. Row i is added to rows ``i *
        stride - before + tap * dilation`` of the result; solved for i."""
        return Index(axis, 1, self.stride, self.before - self.reach + self.stride, self.before)

    def first(self, row: int, size: int) -> int | None:
        """Lowest row of an operand of `size` rows that one row of the result reads; None if it reads padding alone.

        >>> Window(3, stride=1, dilation=2, before=1).first(0, 8)
        1
        """
        origin = row * self.stride - self.before
        skipped = max(0, -(origin // self.dilation))
        at = origin + skipped * self.dilation
        return at if skipped < self.taps and at < size else None

    def rows(self, size: int, after: int, *, ceil: bool = False) -> int:
        """Rows of the result for `size` rows, with `after` rows of padding after them. With `ceil` a window may
        begin inside the operand or its padding before and hang over the end."""
        free = size + self.before + after - self.reach
        count = (-(-free // self.stride) if ceil else free // self.stride) + 1
        if ceil and (count - 1) * self.stride >= size + self.before:
            count -= 1
        return max(0, count)


def same_rows(size: int, stride: int) -> int:
    """Rows of the result for `size` rows under ``SAME``: one for every stride that begins inside the operand."""
    return -(-size // stride)


def same_padding(size: int, result: int, window: Window, *, upper: bool = True) -> int:
    """Rows of padding before the first for ``SAME``: half of what is missing, the odd row after (`upper`) or before.
    `size`, `result`: rows of the operand and of the result."""
    missing = max(0, (result - 1) * window.stride + window.reach - size)
    return missing // 2 if upper else missing - missing // 2
