from __future__ import annotations

from random import Random

import pytest

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.schedule.method import core_model
from stress_exact import sample
from support.brute import peak_of
from support.random_graphs import random_order


@pytest.mark.slow
def test_peak_of_an_order_is_the_profiles() -> None:
    """The core, the planners' profile and the checker's definition count alike."""
    for index in range(600):
        _, graph, target = sample(21, index)
        model = memory_model(graph, target)
        core = core_model(model)
        order = random_order(Random(index), graph)
        positions = [graph.index_of[v] for v in order]
        assert core.peak(positions) == profile(model, positions).peak == peak_of(graph, target, order)
