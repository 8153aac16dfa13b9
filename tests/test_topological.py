"""Topological orders by keys, beside the obvious way: look at all nodes each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.topological import topological


def plain(before: dict[int, set[int]], keys: dict[int, int]) -> list[int]:
    """Of all nodes that may come the one of the least key, as long as there is one."""
    order: list[int] = []
    while may := [n for n in before if n not in order and before[n] <= set(order)]:
        order.append(min(may, key=lambda n: (keys[n], n)))
    return order


@given(
    edges=st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25),
    keys=st.lists(st.integers(0, 4), min_size=10, max_size=10),
    forward=st.booleans(),
)
def test_each_time_the_least_of_those_that_may_come(edges: set[tuple[int, int]], keys: list[int], forward: bool):
    """Graphs with cycles, too: what waits for one never comes."""
    edges = {(a, b) for a, b in edges if a < b or not forward}
    before = {n: {a for a, b in edges if b == n} for n in range(10)}
    order = topological(before, keys.__getitem__)
    assert order == plain(before, dict(enumerate(keys)))
    assert len(order) == 10 or not forward


def test_a_node_behind_what_is_none_never_comes():
    """As behind a cycle."""
    assert topological({"a": ["no node"], "b": []}, key=len) == ["b"]
