"""Counts of the integer program."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from lowtide.allocate.reuse_model import least_edges


@pytest.mark.parametrize(("vertices", "independent"), [(n, k) for n in range(7) for k in range(1, 5)])
def test_edges_by_trying_all_ways_to_fill_bins(vertices: int, independent: int):
    """The fewest pairs in the same bin; in none nothing is said."""
    ways = product(range(independent), repeat=vertices)
    pairs = min(sum(a == b for a, b in combinations(way, 2)) for way in ways)
    assert least_edges(vertices, independent) == pairs
    assert least_edges(vertices, 0) == 0
