"""Rates from measurements: what was made from rates gives these again, and none is negative."""

from __future__ import annotations

import random

import pytest

from lowtide.cost.fit import fit
from lowtide.cost.model import Work


@pytest.mark.parametrize("rates", [(1e-6, 1e-11, 1e-10), (2e-6, 0.0, 3e-10), (0.0, 4e-11, 0.0), (5e-6, 0.0, 0.0)])
def test_rates_are_found_again(rates: tuple[float, float, float]) -> None:
    """Of a family whose times are exactly these rates; those that are 0 too."""
    generator = random.Random(1)
    works = [
        Work("convolution", generator.randrange(10**6, 10**9), generator.randrange(10**3, 10**7)) for _ in range(30)
    ]
    launch, flop, byte = rates
    family = fit([(w, launch + flop * w.flops + byte * w.bytes) for w in works])["convolution"]
    assert (family.launch_seconds, family.seconds_per_flop, family.seconds_per_byte) == pytest.approx(rates, rel=1e-3)
    assert family.fitted == 30


def test_no_rate_is_negative() -> None:
    """Whatever was measured; a family of one op, and none at all."""
    generator = random.Random(2)
    for count in (1, 2, 3, 9):
        pairs = [
            (Work("a", generator.randrange(10**6), generator.randrange(10**6)), generator.random())
            for _ in range(count)
        ]
        for family in fit(pairs).values():
            assert min(family.launch_seconds, family.seconds_per_flop, family.seconds_per_byte) >= 0
            assert family.seconds(10**6, 10**6) > 0
    assert all(family.seconds(0, 10**6) > 0 for family in fit([]).values())
