"""Footprints of an order against their definition, step by step."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.analyse.liveness import largest_single_op, profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.target import BUILT_IN
from support.brute import optimum, peak_of
from support.random_graphs import random_graph, random_order


@pytest.mark.parametrize("target", ["strict", "hmcos", "generic", "torch"])
def test_footprints_are_the_sum_of_what_is_live(target: str):
    """Each storage from its first to its last step, less what is written in place."""
    rng = Random(3)
    for _ in range(80):
        graph = random_graph(rng, rng.randint(1, 9))
        model = memory_model(graph, BUILT_IN[target])
        order = [graph.index_of[op] for op in random_order(rng, graph)]
        seen = profile(model, order)
        live = list(zip(model.storages, seen.first, seen.last, strict=True))
        saved = {o.op: o.saving for o in seen.in_place}
        for step, i in enumerate(order):
            size = sum(s.size for s, first, last in live if first <= step <= last)
            assert seen.footprint[step] == size + model.workspace[i] - saved.get(i, 0)
            assert seen.transient[step] == sum(s.size for s, first, last in live if first <= step < last)
        assert not order or seen.footprint[seen.peak_step] == seen.peak
        assert seen.peak == peak_of(graph, BUILT_IN[target], tuple(graph.ops[i].id for i in order))


def test_what_is_no_order_is_refused():
    """Too short, twice the same op, an op that is not there: never read beyond the ops."""
    model = memory_model(random_graph(Random(1), 5), BUILT_IN["strict"])
    n = len(model.graph.ops)
    for order in (range(n - 1), [0] * n, range(1, n + 1), range(-1, n - 1)):
        with pytest.raises(ValueError, match="not an order"):
            profile(model, order)


def test_no_order_is_below_the_largest_op():
    """And some graph attains it."""
    rng, attained = Random(4), 0
    for _ in range(60):
        graph = random_graph(rng, rng.randint(1, 6))
        model = memory_model(graph, BUILT_IN["generic"])
        least = optimum(graph, BUILT_IN["generic"])
        assert largest_single_op(model) <= least
        attained += largest_single_op(model) == least
    assert attained > 10


def test_a_graph_without_ops():
    """No steps, no peak."""
    model = memory_model(Graph("none", (), ()), BUILT_IN["strict"])
    assert (profile(model, ()).peak, profile(model, ()).footprint, largest_single_op(model)) == (0, (), 0)
