"""Orders by plain definitions."""

from __future__ import annotations

from lowtide.graph import Graph, Kind


def reverse_post_order(graph: Graph) -> list[int]:
    """Positions in depth-first post-order from the outputs, inputs in their order."""
    made = {t: i for i, op in enumerate(graph.ops) for t in op.outputs}
    order: list[int] = []
    seen: set[int] = set()
    for output in (t.id for t in graph.tensors if t.kind is Kind.OUTPUT):
        stack = [(made[output], False)]
        while stack:
            i, done = stack.pop()
            if done:
                order.append(i)
            elif i not in seen:
                seen.add(i)
                stack.append((i, True))
                stack.extend((made[t], False) for t in reversed(graph.ops[i].inputs) if t in made)
    return order
