"""A plan of each kind of search on one of MAGIS's workloads."""

from __future__ import annotations

import pytest

from lowtide_research.bench.magis_steps import Workload


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["joint", "magis", "micro", "again", "dtr", "pofo"])
def test_a_cell_keeps_its_bound_or_says_that_it_does_not(kind: str) -> None:
    """Of every kind of search, on a small step."""
    cell = Workload("magis_bert_base:batch=4,seq=8,layers=4,width=8,heads=2", None, 1.0).cell(kind, "p60")
    assert (cell["status"] in ("ok", "unproved")) == (cell["share"] <= 0.6)
