"""Multipliers and activations as TFLM works them out."""

from __future__ import annotations

import doctest
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.emit import arithmetic


@given(st.floats(2**-30, 2**20, allow_nan=False))
def test_a_multiplier_is_the_nearest_of_31_bits(real: float) -> None:
    """By fractions: half a unit of the last place at most, and the first bit is set."""
    multiplier, shift = arithmetic.quantized(real)
    assert 1 << 30 <= multiplier < 1 << 31
    unit = Fraction(2) ** (shift - 31)
    assert abs(multiplier * unit - Fraction(real)) <= unit / 2 or multiplier == 1 << 30


@pytest.mark.parametrize(("real", "wanted"), [(0.0, (0, 0)), (2.0**-40, (0, 0)), (1.0, (1 << 30, 1))])
def test_multipliers_at_the_ends(real: float, wanted: tuple[int, int]) -> None:
    """Nothing, and what is too small for 31 bits."""
    assert arithmetic.quantized(real) == wanted


@given(st.integers(1, 4000), st.sampled_from([0.01, 0.37, 2.5]))
def test_a_mean_is_the_sum_by_the_count(count: int, scale: float) -> None:
    """The factor is right to one part in 2^28."""
    multiplier, shift = arithmetic.mean(scale, 0.2, count)
    wanted = Fraction(arithmetic.np.float32(scale).item()) / Fraction(arithmetic.np.float32(0.2).item()) / count
    assert abs(multiplier * Fraction(2) ** (shift - 31) / wanted - 1) < Fraction(1, 1 << 28)


def test_activations_are_within_8_bits() -> None:
    """Whatever the zero point."""
    for zero in (-128, -5, 0, 127):
        for kind in range(4):
            low, high = arithmetic.activation(kind, 0.001, zero)
            assert -128 <= low <= high <= 127


def test_its_examples_run() -> None:
    """What the docstrings print."""
    from lowtide.emit import places

    assert doctest.testmod(arithmetic).failed == 0
    assert doctest.testmod(places).failed == 0
