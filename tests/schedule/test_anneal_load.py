"""Annealed orders: footprints kept step by step, the peak never passed, less load near it."""

from random import Random

import pytest

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model, rounded_up
from lowtide.schedule.anneal_load import _SwapWalk, anneal_load
from lowtide.target import BUILT_IN
from lowtide.verify.check.order import check_order
from lowtide_research import zoo
from support.random_graphs import random_graph


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_swaps_keep_the_footprints(target: str) -> None:
    """After any swaps the walk's footprints and lifetimes are those of its order; what may not be swapped is not."""
    rng = Random(2)
    for _ in range(150):
        graph = random_graph(rng, rng.randint(2, 14))
        model = memory_model(graph, BUILT_IN[target])
        walk = _SwapWalk(model, range(len(graph.ops)))
        for _ in range(40 if len(graph.ops) > 1 else 0):
            p = rng.randrange(len(graph.ops) - 1)
            first, second = walk.swapped(p)
            if first < 0:
                assert walk.order[p] in graph.predecessors[walk.order[p + 1]]
                continue
            if rng.random() < 0.6:
                walk.swap(p)
                assert (walk.footprint[p], walk.footprint[p + 1]) == (first, second)
        steps = profile(model, walk.order)
        assert walk.footprint == list(steps.footprint)
        assert walk.transient == list(steps.transient)
        check_order(graph, [graph.ops[i].id for i in walk.order])


@pytest.mark.parametrize("target", ["strict", "generic"])
def test_the_peak_is_kept_and_the_load_falls(target: str) -> None:
    """Topological, of no higher peak in exact and in rounded bytes, the same for the same seed."""
    graph = zoo.build("random_width:n=60").graph()
    model = memory_model(graph, BUILT_IN[target])
    own = profile(model, range(len(graph.ops)))
    most = profile(rounded_up(model), range(len(graph.ops))).peak
    orders = {anneal_load(model, range(len(graph.ops)), own.peak, seed, 20) for seed in range(4)}
    assert len(orders) == 4
    for order in orders:
        check_order(graph, [graph.ops[i].id for i in order])
        steps = profile(model, order)
        assert steps.peak <= own.peak
        assert profile(rounded_up(model), order).peak <= most
        assert sum(f > 0.8 * own.peak for f in steps.footprint) < sum(f > 0.8 * own.peak for f in own.footprint)
    assert anneal_load(model, range(len(graph.ops)), own.peak, 3, 20) in orders


def test_rounded_models() -> None:
    """Multiples are left alone, the model itself then; everything else goes up."""
    model = memory_model(zoo.build("transformer:layers=1").graph(), BUILT_IN["generic"])
    assert rounded_up(model) is model
    small = memory_model(zoo.build("random_width:n=10").graph(), BUILT_IN["generic"])
    assert {s.size % 64 for s in rounded_up(small).storages} == {0}
    assert all(0 <= r.size - s.size < 64 for r, s in zip(rounded_up(small).storages, small.storages, strict=True))


def test_little_to_swap() -> None:
    """One op, and a peak of nothing."""
    model = memory_model(zoo.build("series_parallel:n=1").graph(), BUILT_IN["strict"])
    assert anneal_load(model, (0,), 100, 0) == (0,)
    assert anneal_load(model, (0,), 0, 0) == (0,)


def test_a_walk_ends_when_the_time_is_over() -> None:
    """Where it stands: at once, it is the order that was given."""
    graph = random_graph(Random(5), 30)
    model = memory_model(graph, BUILT_IN["strict"])
    own = profile(model, range(len(graph.ops)))
    looks = iter((False, True))
    assert anneal_load(model, range(len(graph.ops)), own.peak, 1, over=lambda: True) == tuple(range(len(graph.ops)))
    walked = anneal_load(model, range(len(graph.ops)), own.peak, 1, over=lambda: next(looks))
    assert max(profile(model, walked).footprint) <= own.peak
    assert next(looks, None) is None
