"""Propagation where it is not known of every pair of ops which must run first."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.schedule.core_model import core_model
from lowtide.target import BUILT_IN
from stress_exact import ALL_ON, solve
from support.random_graphs import random_graph

SLOW = {**ALL_ON, "beams": False, "cut": False, "best_first": False, "reversed": False}
"""A search that takes its time, so that propagation has a say."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_with_a_window_of_one_word_it_says_what_holds(seed: int) -> None:
    """Of 160 ops pairs are known within 64 numbers only; cuts still are of sets of ops that can have run first."""
    graph = random_graph(Random(seed), 160, width=12, views=0, in_place=0.2)
    core, n = core_model(memory_model(graph, BUILT_IN["strict"])), len(graph.ops)
    least = solve(core, n)
    assert least.stopped == "proof"
    found = solve(core, n, SLOW, first_slice=1, seconds=1.0, reach_memory_bytes=1)
    assert found.lower_bound <= least.peak <= found.peak
    assert found.cuts > 100
