"""Waists of orders, and searches between them: never a higher peak than that of the whole, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lowtide import _core
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.schedule.incremental import Incremental
from lowtide_research.schedule.waists import Waists
from support.brute import optimum
from support.random_graphs import random_graph, random_order
from support.worlds import TARGETS


def _start(model: MemoryModel, graph: Graph, rng: Random) -> tuple[int, ...]:
    """A random order, or the best one, whose waists are more."""
    if rng.random() < 0.5:
        return tuple(graph.index_of[v] for v in random_order(rng, graph))
    return Exact().schedule(model, Limits(10)).order


def _topological(model: MemoryModel, order: tuple[int, ...]) -> bool:
    at = {op: k for k, op in enumerate(order)}
    return sorted(order) == list(range(len(order))) and all(
        at[p] < at[op] for op in order for p in model.graph.predecessors[op]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_segments_together_are_the_whole(name: str) -> None:
    """Their best orders one behind the other are a best order: by brute force, from any order."""
    split = 0
    for seed in range(60):
        rng = Random(seed)
        graph = random_graph(rng, rng.choice((5, 8, 10)))
        model = memory_model(graph, TARGETS[name])
        start = _start(model, graph, rng)
        found = Incremental().search(model, start, Limits(10))
        assert _topological(model, found.order)
        assert found.peak == model.core.peak(found.order) == found.lower_bound == optimum(graph, TARGETS[name])
        split += found.segments > 2
    assert split > 5


@pytest.mark.slow
def test_larger_graphs_end_where_the_exact_scheduler_does() -> None:
    """Of 40 ops, under targets in turn."""
    for seed in range(40):
        rng = Random(seed)
        graph = random_graph(rng, 40, width=5)
        model = memory_model(graph, list(TARGETS.values())[seed % len(TARGETS)])
        best = Exact().schedule(model, Limits(10))
        found = Incremental().search(model, _start(model, graph, rng), Limits(10))
        assert found.peak == model.core.peak(found.order) == model.core.peak(best.order)


def test_states_between_segments_are_those_of_the_order() -> None:
    """What is live throughout and what a segment needs make up the footprints of the whole."""
    model = memory_model(zoo.build("nasnet_a_cifar:n=2").graph(), BUILT_IN["generic"])
    waists = Waists(model, Exact().schedule(model, Limits(10)).order)
    whole = model.core.profile(waists.order).footprint
    at = 0
    for segment in waists.segments():
        own = segment.model.profile(segment.order).footprint
        assert [segment.around + f for f in own] == whole[at : at + len(own)]
        at += len(own)
    assert at == len(whole)
    assert len(waists.at) > 5


def test_what_is_known_is_not_searched_again() -> None:
    """The same graph takes no state; blocks that are alike are one problem."""
    model = memory_model(zoo.build("nasnet_a_cifar:n=4").graph(), BUILT_IN["strict"])
    start, incremental = Exact().schedule(model, Limits(10)).order, Incremental()
    first = incremental.search(model, start, Limits(10))
    again = incremental.search(model, first.order, Limits(10))
    assert (again.peak, again.searched, again.states) == (first.peak, 0, 0)
    assert first.searched > 0
    keys = [segment.key for segment in Waists(model, start).segments()]
    assert len(set(keys)) < len(keys)


def test_another_size_is_another_problem() -> None:
    """What has changed is seen, and its peak is that of a search of the whole."""
    graph = zoo.build("nasnet_a_cifar:n=2").graph()
    incremental, rng = Incremental(), Random(1)
    order = Exact().schedule(memory_model(graph, BUILT_IN["strict"]), Limits(10)).order
    peaks = set()
    for _ in range(4):
        model = memory_model(graph, BUILT_IN["strict"])
        order = incremental.search(model, order, Limits(10)).order
        assert model.core.peak(order) == model.core.peak(Exact().schedule(model, Limits(10)).order)
        peaks.add(model.core.peak(order))
        made = [t for t in graph.tensors if t.kind is Kind.ACTIVATION]
        larger = rng.choice(sorted(made, key=lambda t: -t.size)[:20]).id
        tensors = [replace(t, size=4 * t.size, shape=None) if t.id == larger else t for t in graph.tensors]
        graph = replace(graph, tensors=tuple(tensors))
    assert len(peaks) > 1


def test_what_was_left_open_is_soon_left_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has changed; what was proved is searched as long as ever."""
    given: list[float] = []
    solve = _core.solve

    def slow(model: _core.Model, **call: Any) -> _core.Solution:
        given.append(call["seconds"])
        return solve(model, **call | {"seconds": 0.0 if len(ops) == 1 else 2.0})

    monkeypatch.setattr(_core, "solve", slow)
    ops: list[Graph] = [zoo.build("random_width:width=32,n=100").graph()]
    incremental, order = Incremental(), range(len(ops[0].ops))
    first = incremental.search(memory_model(ops[0], BUILT_IN["strict"]), order, Limits(100))
    assert first.lower_bound < first.peak
    longest, count = max(given), len(given)
    larger = tuple([replace(t, size=t.size + 1) for t in ops[0].tensors])
    ops.append(replace(ops[0], tensors=larger))
    incremental.search(memory_model(ops[1], BUILT_IN["strict"]), first.order, Limits(100))
    assert max(given[count:]) < longest / 10


def test_a_graph_without_ops_has_no_segment() -> None:
    """Nor a peak above what is there."""
    graph = replace(zoo.build("swiftnet_cell_a").graph(), ops=(), tensors=())
    found = Incremental().search(memory_model(graph, BUILT_IN["strict"]), (), Limits(1))
    assert (found.order, found.searched) == ((), 0)


def test_without_time_the_given_order_stays() -> None:
    """And its bound is no proof of more than there is."""
    model = memory_model(zoo.build("nasnet_a_imagenet:n=2").graph(), BUILT_IN["strict"])
    own = tuple(range(len(model.graph.ops)))
    found = Incremental().search(model, own, Limits(0))
    assert found.lower_bound <= found.peak <= model.core.peak(own)


@pytest.mark.parametrize("seed", range(20))
def test_no_order_comes_back_higher(seed: int) -> None:
    """Without time for any search it is at most as high as the order to begin with."""
    rng = Random(seed)
    graph = random_graph(rng, 14)
    model = memory_model(graph, BUILT_IN["generic"])
    start = tuple(graph.index_of[v] for v in random_order(rng, graph))
    found = Incremental().search(model, start, Limits(0))
    assert found.peak == model.core.peak(found.order) <= model.core.peak(start)
