"""A memory model handed to the core: the core sees what Python sees."""

from random import Random

import pytest

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.schedule.method import core_model
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph, random_order


@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_the_core_counts_the_same_footprints(target: str):
    """Of random orders of random graphs, aliases, constants and workspaces included."""
    rng = Random(7)
    for _ in range(60):
        graph = random_graph(rng, rng.randint(1, 10))
        model = memory_model(graph, BUILT_IN[target])
        order = [graph.index_of[op] for op in random_order(rng, graph)]
        assert core_model(model).peak(order) == profile(model, order).peak
