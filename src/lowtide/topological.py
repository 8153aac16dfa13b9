"""A topological order by keys: of the nodes that may come next, always the one of the least key."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

Node = TypeVar("Node")


def topological(before: Mapping[Node, Collection[Node]], key: Callable[[Node], Any]) -> list[Node]:
    """Nodes, each after those before it; where keys are equal the lesser node first. Nodes of a cycle, nodes after
    one, and nodes after what is no node are missing from it. `before`: of each node those that it waits for."""
    waits = {node: len(earlier) for node, earlier in before.items()}
    after: dict[Node, list[Node]] = {}
    for node, earlier in before.items():
        for other in earlier:
            after.setdefault(other, []).append(node)
    ready: list[Any] = [(key(node), node) for node, count in waits.items() if not count]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for later in after.get(node, ()):
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(ready, (key(later), later))
    return order
