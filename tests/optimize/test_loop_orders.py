"""Loops beyond one order: sets grown by data flow, orders that make them neighbours, and the paths along these."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.loop_flow import Flow, FlowSets
from lowtide.optimize.loop_orders import LoopOrders
from lowtide.optimize.loops import Around, LoopSearch
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.loops import LoopRules
from support.loop_brute import paths, peak_of
from support.small_nets import Nets, random_net

LOOPS = BUILT_IN["loops"]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def _read(nets: Nets) -> Graph:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(nets.model().SerializeToString())
        return read_model(path)


def pyramid_head() -> Graph:
    """Two maps that are made large one after the other, each of a norm over all that there is, and
    added: along the file's order the first one is whole while the second is not there yet."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 4, 4, 4))
    large = []
    for _ in range(2):
        (a,) = nets.node("LayerNormalization", [x, nets.floats((4, 4, 4))], axis=1)
        large += nets.node("Resize", [a, "", nets.values(1, 1, 4, 4)], mode="nearest")
    (c,) = nets.node("Add", large)
    nets.node("Conv", [c, nets.floats((1, 4, 4, 4))], strides=[4, 4])
    return _read(nets)


def _search(graph: Graph, order: list[int] | None = None) -> LoopSearch:
    rules = LoopRules(graph, LOOPS, share=False)
    return LoopSearch(rules, memory_model(graph, LOOPS), order or range(len(graph.ops)), Limits(seconds=60))


def _improved(graph: Graph) -> tuple[int, LoopOrders]:
    """Peak of the best path along the file order, and what came of going on from it."""
    search = _search(graph)
    path = search.best()
    assert path is not None
    orders = LoopOrders(search, path)
    orders.improve(Limits(seconds=60))
    return path.peak, orders


def test_ops_that_lie_apart_run_in_one_loop_where_they_are_made_neighbours():
    """Neither large map is there whole, which no path along the file's order does without; it says that it went on."""
    graph = pyramid_head()
    peak, orders = _improved(graph)
    large = 4 * 4 * 16 * 16
    assert peak >= large > 2 * orders.path.peak
    assert orders.path.reordered > 0
    assert not orders.path.complete
    order = [graph.ops[k].id for k in orders.search.order]
    assert orders.path.peak == peak_of(graph, LOOPS, order, list(orders.path.loops))


def test_what_is_enough_is_not_gone_on_from():
    """Nothing changes where the peak is within what is asked for."""
    graph = pyramid_head()
    search = _search(graph)
    path = search.best()
    assert path is not None
    assert LoopOrders(search, path).improve(Limits(seconds=60), path.peak) is path


def _topological(graph: Graph, order: tuple[int, ...]) -> bool:
    place = {k: p for p, k in enumerate(order)}
    return all(place[p] < place[k] for k, before in enumerate(graph.predecessors) for p in before)


def _check_sets(graph: Graph) -> int:
    """Every set has all that has to run between its ops, and gathered anywhere its ops are neighbours."""
    flow, rules, seen = Flow(graph), LoopRules(graph, LOOPS), 0
    order = tuple(range(len(graph.ops)))
    for tensor in graph.tensors:
        for d in range(len(tensor.shape or ()) if tensor.id in graph.producer else 0):
            before: set[int] = set()
            for growth in FlowSets(rules, flow).sets(tensor.id, d):
                ops = {graph.index_of[o] for o in growth.inside}
                assert before < ops
                assert {*graph.consumers.get(tensor.id, ())} <= growth.inside
                assert not flow.between(ops)
                for at in order:
                    gathered = flow.gathered(order, ops, at)
                    assert sorted(gathered) == list(order)
                    assert _topological(graph, gathered)
                    places = [gathered.index(k) for k in ops]
                    assert max(places) - min(places) + 1 == len(ops)
                before, seen = ops, seen + 1
    return seen


def test_sets_are_convex():
    """Of the network above."""
    assert _check_sets(pyramid_head()) > 5


def _check_orders(graph: Graph) -> None:
    """What comes of it is a path along the order that it says, no worse than before, and none along any order of few
    ops is better than the best of all."""
    peak, orders = _improved(graph)
    order = [graph.ops[k].id for k in orders.search.order]
    assert _topological(graph, tuple(orders.search.order))
    assert orders.path.peak == peak_of(graph, LOOPS, order, list(orders.path.loops)) <= peak
    if len(graph.ops) <= 4:
        rules = LoopRules(graph, LOOPS, share=False)
        least = min(
            peak_of(graph, LOOPS, ids, loops)
            for one in permutations(range(len(graph.ops)))
            if _topological(graph, one)
            for ids in [[graph.ops[k].id for k in one]]
            for loops in paths(rules, ids, frozenset())
        )
        assert orders.path.peak >= least


@pytest.mark.slow
@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
def test_random_networks_go_on(data: st.DataObject):
    """Sets, orders and paths of random networks."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(random_net(lambda o: data.draw(st.sampled_from(tuple(o))), 7).SerializeToString())
        graph = read_model(path)
    _check_sets(graph)
    _check_orders(graph)


def test_around_a_window_all_else_stays():
    """Steps outside of what has changed of an order are what they are when the order is searched anew."""
    graph = pyramid_head()
    search = _search(graph)
    assert search.best() is not None
    order = [2, 3, 0, 1, 4, 5]  # the two branches have changed places
    limit = 10**6
    found = _search(graph, order)
    found.best(limit)
    around = LoopSearch(
        search.rules, search.memory, order, Limits(seconds=60), around=Around(search, 0, 4, 6, limit)
    )  # fmt: skip
    search.best(limit)
    path, new = around.best(), found.best()
    assert path is not None
    assert new is not None
    assert path.peak == new.peak
