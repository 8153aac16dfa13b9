"""Whether buffers fit an arena of a given number of bytes, as a formula: unsatisfiable proves that they do not.

Bytes are counted in units, the largest that divides every size and every alignment above 1: buffers that fit at all
fit with each at a multiple of it (push each down until it lies on another, or on the ground, and its alignment is
met). at_b,k: buffer b begins at unit k or above. Of two buffers that are live together one lies above the other:

    over_bc or over_cb          over_bc and at_b,k  ->  at_c,k+size(b)        at_b,k+1  ->  at_b,k
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import gcd

from lowtide.allocate.buffers import Problem
from lowtide.errors import InputError
from lowtide_research.sat.formula import Formula


def fits(problem: Problem, capacity_bytes: int) -> Formula:
    """The formula of buffers in an arena. Raises `InputError`: buffers that may overlap, whose shape is no single
    rectangle, or whose offset is fixed; the formula does not describe them."""
    buffers = [b for b in problem.buffers if b.size]
    simple = all(b.offset is None and len(b.rectangles) == 1 and b.rectangles[0].size == b.size for b in buffers)
    if problem.pairs or problem.apart or not simple:
        raise InputError("only buffers of one rectangle each, none over another and none fixed, become a formula")
    formula = Formula()
    unit = gcd(*(b.size for b in buffers), *(b.alignment for b in buffers if b.alignment > 1))
    sizes, capacity = [b.size // unit for b in buffers], capacity_bytes // unit if unit else 0
    at: list[list[int]] = []
    for buffer, size in zip(buffers, sizes, strict=True):
        if size > capacity:
            formula.add()
        at.append([formula.variable() for _ in range(capacity - size)])  # begins at unit 1, 2, ... or above
        for lower, higher in zip(at[-1], at[-1][1:], strict=False):
            formula.add(-higher, lower)
        if buffer.alignment > 1:
            _align(formula, at[-1], buffer.alignment // unit)
    for i, j in combinations(range(len(buffers)), 2):
        if buffers[i].start < buffers[j].end and buffers[j].start < buffers[i].end:
            over, under = formula.variable(), formula.variable()
            formula.add(over, under)
            _lie_above(formula, over, at[i], sizes[i], at[j])
            _lie_above(formula, under, at[j], sizes[j], at[i])
    return formula


def _align(formula: Formula, at: Sequence[int], step: int) -> None:
    """An offset that passes a multiple of the alignment reaches the next."""
    for passed in range(1, len(at) + 1):
        multiple = -(-passed // step) * step
        formula.add(-at[passed - 1], *((at[multiple - 1],) if multiple <= len(at) else ()))


def _lie_above(formula: Formula, given: int, low: Sequence[int], size: int, high: Sequence[int]) -> None:
    """Where a literal holds, the second buffer begins at or above the end of the first."""
    for k in range(len(low) + 1):
        end = k + size
        formula.add(-given, *((-low[k - 1],) if k else ()), *((high[end - 1],) if end <= len(high) else ()))
