"""An order bettered window by window: topological, never worse, and the best one where a window holds all ops."""

from __future__ import annotations

from random import Random

import pytest

import lowtide.stop
from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.exact import Exact
from lowtide.schedule.windows import improved
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN
from support.clocks import Clock
from support.random_graphs import random_graph, random_order


def _topological(model: MemoryModel, order: tuple[int, ...]) -> bool:
    at = {op: k for k, op in enumerate(order)}
    return sorted(order) == list(range(len(order))) and all(
        at[p] < at[op] for op in order for p in model.graph.predecessors[op]
    )


@pytest.mark.slow
def test_a_window_of_all_ops_ends_at_the_optimum() -> None:
    """Of random graphs, from random orders, under targets with and without in-place ops."""
    lowered = 0
    for seed in range(60):
        rng = Random(seed)
        graph = random_graph(rng, rng.choice((5, 12, 30)))
        model = memory_model(graph, BUILT_IN[("strict", "generic")[seed % 2]])
        start = [graph.index_of[v] for v in random_order(rng, graph)]
        order, interrupted = improved(model, start, Limits(20))
        least = profile(model, Exact().schedule(model, Limits(20)).order).peak
        assert _topological(model, order)
        assert not interrupted
        assert profile(model, order).peak == least
        lowered += profile(model, start).peak > least
    assert lowered > 20


def _blocks(count: int) -> Graph:
    """A chain of blocks: two wide tensors, each made and read alone, that a bad order has both at once."""
    tensors = [Tensor(0, 10, Kind.INPUT, "x")]
    ops: list[Op] = []

    def op(inputs: tuple[int, ...], size: int) -> int:
        at = len(tensors)
        tensors.append(Tensor(at, size, Kind.ACTIVATION, f"t{at}"))
        ops.append(Op(len(ops), inputs, (at,), f"o{len(ops)}", "Any"))
        return at

    at = 0
    for _ in range(count):
        left, right = op((at,), 100), op((at,), 100)
        at = op((op((left,), 10), op((right,), 10)), 10)
    tensors[at] = Tensor(at, 10, Kind.OUTPUT, f"t{at}")
    return Graph("blocks", tuple(tensors), tuple(ops))


def test_every_peak_of_a_long_order_is_lowered() -> None:
    """More ops than the smallest window holds, and a peak in every block; none lower than is of use."""
    graph = _blocks(60)
    model = memory_model(graph, BUILT_IN["strict"])
    own = range(len(graph.ops))
    assert profile(model, own).peak == 210
    order, _ = improved(model, own, Limits(60))
    assert _topological(model, order)
    assert profile(model, order).peak == 120
    assert improved(model, own, Limits(60), 210)[0] == tuple(own)


def test_an_interrupt_leaves_what_there_is() -> None:
    """Raised by whoever looks on, as by Ctrl-C."""
    graph = _blocks(60)
    model = memory_model(graph, BUILT_IN["strict"])
    seen: list[int] = []

    def look(progress: Progress) -> None:
        seen.append(progress.best_bytes)
        if len(seen) == 20:
            raise KeyboardInterrupt

    order, interrupted = improved(model, range(len(graph.ops)), Limits(60, report=look))
    assert interrupted
    assert _topological(model, order)
    assert list(order) != list(range(len(graph.ops)))


@pytest.mark.slow
@pytest.mark.parametrize("most", [10**6, 40])
def test_the_order_does_not_depend_on_the_speed_of_the_clock(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the clock does not end the search: by proof in every window, or by states in all of them."""
    monkeypatch.setattr("lowtide.schedule.windows._STATES", (most // 2, most))
    monkeypatch.setattr("lowtide.schedule.windows._FIRST_SLICE", 10)
    rng = Random(3)
    graph = random_graph(rng, 120)
    model = memory_model(graph, BUILT_IN["strict"])
    start = [graph.index_of[v] for v in random_order(rng, graph)]
    orders = []
    for seconds in (0.0, 1.0, 1000.0):
        monkeypatch.setattr(lowtide.stop, "time", Clock(seconds))
        orders.append(improved(model, start, Limits(1e9)))
    assert orders[0] == orders[1] == orders[2]
    assert profile(model, orders[0][0]).peak < profile(model, start).peak
    monkeypatch.setattr(lowtide.stop, "time", Clock(1e9))
    assert improved(model, start, Limits(1e9))[0] == tuple(start)
