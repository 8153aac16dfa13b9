"""TensorFlow Lite's simple arena: against a byte-by-byte replay, and the arenas that HMCOS prints."""

from itertools import combinations
from random import Random

import pytest

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.schedule.order import Rpo
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.simple_arena import arena_use, placed, simple_arena
from support.random_graphs import random_graph


def replayed(model: MemoryModel, order: tuple[int, ...]) -> int:
    """Step by step: what died is taken out, what begins goes to the tightest run of free bytes, tried one by one."""
    lives = profile(model, order)
    over = {o.storage for o in lives.in_place}
    live: dict[int, tuple[int, int]] = {}
    most = 0
    for step in range(-1, len(order) + 1):
        begun = [s for s, first in enumerate(lives.first) if first == step and lives.last[s] >= first]
        for s in [s for s in live if lives.last[s] - (s in over) < step]:
            del live[s]
        for s in sorted(begun, key=lambda s: (lives.last[s] - (s in over), s)):
            size = model.storages[s].size
            if not size:
                continue
            used = {b for at, n in live.values() for b in range(at, at + n)}
            top = max(used, default=-1) + 1
            gaps, at = [], 0
            while at < top:
                end = at
                while end < top and end not in used:
                    end += 1
                if end - at >= size and end < top:
                    gaps.append((end - at, at))
                at = end + 1
            live[s] = (min(gaps)[1] if gaps else top, size)
            most = max(most, sum(live[s]))
    return most


def test_against_a_replay() -> None:
    """Height is that of the replay; nothing that is live at once overlaps; the highest use is the height."""
    above = 0
    for seed in range(150):
        graph = random_graph(Random(seed), 10, width=5)
        for target in ("strict", "hmcos"):
            model = memory_model(graph, BUILT_IN[target])
            order = tuple(range(len(graph.ops)))
            height = simple_arena(model, order, alignment=1)
            assert height == replayed(model, order), (seed, target)
            for (a, n, i, k), (b, m, j, e) in combinations(placed(model, order, 1), 2):
                assert k < j or e < i or a + n <= b or b + m <= a
            assert max(arena_use(model, order, 1)) <= height
            above += height > profile(model, order).peak
    assert above > 20


@pytest.mark.parametrize(
    ("network", "printed"),
    [
        ("amoebanet_a_cifar", 1.85),
        ("darts_cifar", 2.71),
        ("nasnet_a_imagenet", 5.45),
        ("amoebanet_a_imagenet", 5.30),
        ("darts_imagenet", 5.29),
    ],
)
def test_printed_arenas(network: str, printed: float) -> None:
    """HMCOS's Table 1, reverse post-order."""
    model = memory_model(zoo.build(network).graph(), BUILT_IN["hmcos"])
    arena = simple_arena(model, Rpo().schedule(model, Limits()).order)
    assert abs(arena / 2**20 - printed) < 0.01
