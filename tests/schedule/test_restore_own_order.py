"""Orders of equal peak: how far they are from the own one, and other ones."""

from itertools import islice, permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.schedule.restore_own_order import equal_orders, ops_moved
from lowtide.target import BUILT_IN
from lowtide.verify.check.order import check_order
from support.random_graphs import random_graph


@given(st.permutations(range(6)))
def test_ops_moved_is_the_least(order: list[int]):
    """The most ops that already stand in file order, tried by all subsets."""
    stay = max(
        len(kept)
        for mask in range(1 << len(order))
        for kept in ([i for k, i in enumerate(order) if mask >> k & 1],)
        if kept == sorted(kept)
    )
    assert ops_moved(order) == len(order) - stay


def test_the_own_order_moves_none():
    """And of no ops, none."""
    assert [ops_moved(range(n)) for n in (0, 1, 5)] == [0, 0, 0]
    assert max(ops_moved(order) for order in permutations(range(4))) == 3


def test_equal_orders_keep_the_peak():
    """All topological, none twice, none above the peak that was asked for; the first moves no more than the given."""
    rng = Random(5)
    several = 0
    for _ in range(60):
        graph = random_graph(rng, 9)
        model = memory_model(graph, BUILT_IN["generic"])
        own = tuple(range(len(graph.ops)))
        peak = profile(model, own).peak
        given_order = next(iter(equal_orders(model, own, peak, 1)), ())
        orders = list(islice(equal_orders(model, given_order, peak, 1), 8))
        assert len(set(orders)) == len(orders)
        several += len(orders) > 1
        for order in orders:
            check_order(graph, [graph.ops[i].id for i in order])
            assert profile(model, order).peak <= peak
        assert not orders or ops_moved(orders[0]) <= ops_moved(given_order)
        assert orders == list(islice(equal_orders(model, given_order, peak, 1), 8))
    assert several > 20
