"""The sampler of random orders against its definition."""

from __future__ import annotations

from collections import Counter
from math import prod
from random import Random

import pytest

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.schedule.method import core_model
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph


def chances(model: MemoryModel) -> dict[int, float]:
    """Probability of each peak if every step runs one of the ready ops, all equally likely."""
    found: Counter[int] = Counter()
    n = len(model.graph.ops)

    def walk(order: list[int], ways: list[int]) -> None:
        ready = [v for v in range(n) if v not in order and set(model.graph.predecessors[v]) <= set(order)]
        if not ready:
            found[profile(model, order).peak] += 1 / prod(ways)  # type: ignore[assignment]
        for v in ready:
            walk([*order, v], [*ways, len(ready)])

    walk([], [])
    return dict(found)


@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_peaks_are_as_likely_as_they_should_be(target: str) -> None:
    """On small graphs every possible peak is drawn, no other, and as often as it should be."""
    for seed in range(25):
        rng = Random(seed)
        graph = random_graph(rng, rng.randint(1, 7))
        model = memory_model(graph, BUILT_IN[target])
        expected = chances(model)
        drawn = _core.sample(core_model(model), orders=20_000, seed=seed, report=None)
        peaks = dict(drawn.peaks)
        assert drawn.orders == sum(peaks.values()) == 20_000
        assert set(peaks) <= set(expected)
        for size, chance in expected.items():
            assert abs(peaks.get(size, 0) / 20_000 - chance) < 0.02


def test_the_same_seed_draws_the_same() -> None:
    """And another one does not."""
    core = core_model(memory_model(random_graph(Random(3), 30), BUILT_IN["strict"]))
    first, again, other = (_core.sample(core, orders=3000, seed=s, report=None).peaks for s in (1, 1, 2))
    assert first == again != other
