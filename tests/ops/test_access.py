"""Accesses: what is refused, parts that a grain allows, needs around a part, labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.ops.access import Access, box_elements, labelled, opaque
from lowtide.ops.index import NOTHING, Index, fixed

GROUPED = Access((12, 5), ((0, 1),), ((Index(0, 2, 3, 0, 1), Index(1)), (NOTHING, fixed(1, 3))), grain=(3, 1))
"""Axis 0 in groups of three rows, which take two rows of the operand along; a second operand of fixed rows."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3,), ((0, 0),), ()), "at most once"),
        (((3,), ((1,),), ()), "axes are"),
        (((3,), ((0,),), ((Index(2),),)), "along no axis"),
        (((3, 4), ((0,),), ((Index(1),),)), "neither in every result nor reduced"),
        (((3, 4), ((0,), (0, 1)), ((Index(1),),)), "neither in every result nor reduced"),
        (((3, 4), ((0,),), ((Index(0),),), (1,)), "no operand runs along it"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple, message: str) -> None:
    """An access is checked once, when it is made."""
    with pytest.raises(ValueError, match=message):
        Access(*arguments)
    with pytest.raises(ValueError, match="grains"):
        Access((3,), ((0,),), (), grain=(1, 1))


def test_a_part_between_grains_needs_what_is_around_it() -> None:
    """Rows 4 and 5 lie in the second group, so they need the two rows of the operand that it has."""
    assert GROUPED.need(0, (8, 5), {0: (4, 6)}) == ((2, 4), (0, 5))
    assert GROUPED.need(0, (8, 5), {0: (3, 6), 1: (2, 3)}) == ((2, 4), (2, 3))
    assert GROUPED.need(1, (4, 9), {0: (3, 6)}) == ((0, 0), (1, 3))
    assert GROUPED.written(0, (12, 5), {0: (4, 6)}) == ((4, 6), (0, 5))
    with pytest.raises(ValueError, match="is read as"):
        GROUPED.need(0, (8,), {})


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 50))
def test_parts_divide_an_axis(size: int, grain: int, count: int) -> None:
    """They follow one another from end to end, begin at grains, and differ by one grain at most."""
    access = Access((size,), ((0,),), ((Index(0),),), grain=(grain,))
    parts = access.parts(0, count)
    assert [a for a, _ in parts] == [0, *(b for _, b in parts[:-1])]
    assert parts[-1][1] == size
    assert len(parts) == min(count, -(-size // grain))
    assert all(a % grain == 0 for a, _ in parts)
    grains = [-(-(b - a) // grain) for a, b in parts]
    assert max(grains) - min(grains) <= 1
    assert bool(access.cuttable()) == (size > grain)


def test_exactness_of_a_cut() -> None:
    """A reduced axis has a class of its own; what does not add up is not cut."""
    product = Access((2, 3), ((0,),), ((Index(0), Index(1)),), (1,), exact="kernel", merged="sum")
    assert [product.exactness(axis) for axis in (0, 1)] == ["kernel", "sum"]
    quantised = Access((2, 3), ((0,),), ((Index(0), Index(1)),), (1,), exact="bits", merged="never")
    assert product.cuttable() == (0, 1)
    assert quantised.cuttable() == (0,)


def test_labels_become_axes() -> None:
    """A broadcast dimension is whole, a diagonal one axis, a label that results lack is reduced."""
    access = labelled(((0, 1), (1, 2)), ((0, 2),), ((4, 3), (1, 5)), ((4, 5),))
    assert access.sizes == (4, 5, 3)
    assert access.inputs == ((Index(0), Index(2)), (None, Index(1)))
    assert access.reduce == (2,)
    diagonal = labelled(((0, 0),), ((0,),), ((3, 3),), ((3,),))
    assert diagonal.inputs == ((Index(0), Index(0)),)
    twice = labelled(((0,),), ((0, 0),), ((3,),), ((3, 3),))
    assert (twice.sizes, twice.outputs, twice.inputs) == ((), ((None, None),), ((None,),))


def test_opaque_needs_everything() -> None:
    """No axis, no cut, left-out operands stay left out."""
    access = opaque(((2, 3), None), ((4,), ()))
    assert access.need(0, (2, 3), {}) == ((0, 2), (0, 3))
    assert access.inputs[1] is None
    assert not access.cuttable()
    assert box_elements(((0, 2), (1, 4))) == 6
