"""Least cost of running a small graph within a budget, ops as often as one likes, by Dijkstra over every state.

A state is which values are there and which ops have run. A value is a tensor with its views; an op writes over a value
that it reads where the target lets it, and that value is gone: also a result, if its op runs once more behind it, and
a graph input only if the target says that the caller does not need it. Several copies of a value are never better than
one.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import Target


def drawn_graph(rng: random.Random) -> Graph:
    """Two to six ops with many results, of few sizes, half of them element by element, some views."""
    tensors: list[Tensor] = []
    ops: list[Op] = []
    sizes = rng.choices((1, 1, 2, 8, 10, 40), k=2)
    for _ in range(rng.randint(1, 2)):
        tensors.append(Tensor(len(tensors), rng.choice(sizes), Kind.INPUT))
    for v in range(rng.randint(2, 6)):
        recent = [t for t in tensors[-4:] if t.size]
        first = rng.choice(recent)
        kind = rng.choice(("Relu", "Relu", "Add", "Conv", "Conv", "Reshape"))
        read = [first]
        if kind == "Add":
            read.append(rng.choice([t for t in tensors if t.size == first.size]))
        elif kind == "Conv":
            read += rng.sample(tensors, min(len(tensors), rng.choice((0, 0, 1, 2))))
        size = rng.choice(sizes) if kind == "Conv" else first.size
        out = Kind.OUTPUT if rng.random() < 0.5 else Kind.ACTIVATION
        made = [Tensor(len(tensors), size, out)]
        if kind == "Conv" and rng.random() < 0.15:
            made.append(Tensor(len(tensors) + 1, rng.choice(sizes), Kind.ACTIVATION))
        tensors += made
        room = rng.choice((0, 0, 0, 4, 15)) if kind == "Conv" else 0
        cost = 0.0 if kind == "Reshape" else float(rng.choice((1, 1, 2, 3, 10)))
        given = tuple(dict.fromkeys(t.id for t in read))
        ops.append(Op(v, given, tuple(t.id for t in made), type=kind, workspace=room, cost=cost))
    used = {t for op in ops for t in op.inputs}
    last = [t.id for t in tensors if t.kind is Kind.ACTIVATION and t.id not in used]
    kinds = {t: Kind.OUTPUT for t in last if rng.random() < 0.8}
    if not kinds and all(t.kind is not Kind.OUTPUT for t in tensors):
        kinds = {ops[-1].outputs[0]: Kind.OUTPUT}
    return Graph("drawn", tuple(Tensor(t.id, t.size, kinds.get(t.id, t.kind)) for t in tensors), tuple(ops))


def least_costs(graph: Graph, target: Target) -> Callable[[int], float | None]:
    """From a budget to the least cost of a sequence whose peak is within it; None: there is none."""
    value = {t.id: t.id for t in graph.tensors}
    views: set[int] = set()
    for op in graph.ops:
        source = target.view_source(graph, op)
        if source is not None:
            value[op.outputs[0]] = value[source]
            views.add(op.id)
    size = {value[t.id]: t.size for t in graph.tensors if value[t.id] == t.id}
    kept = {value[t.id] for t in graph.tensors if t.kind is Kind.OUTPUT}
    inputs = {t.id for t in graph.tensors if t.kind is Kind.INPUT}
    begun = frozenset(t for t in inputs if any(t in op.inputs for op in graph.ops) or t in kept)
    real = [op for op in graph.ops if op.id not in views]
    reads = [frozenset(value[t] for t in op.inputs) for op in real]
    makes = [frozenset(value[t] for t in op.outputs) for op in real]
    spared = frozenset() if target.overwrite_inputs else frozenset(inputs)
    over = [frozenset(value[t] for t in target.in_place_inputs(graph, op)) - spared for op in real]
    every = (1 << len(real)) - 1

    def held(values: frozenset[int]) -> int:
        return sum(size[x] for x in values)

    def within(budget: int) -> float | None:
        if held(begun) > budget:
            return None
        start: tuple[frozenset[int], int] = (begun, 0)
        least: dict[tuple[frozenset[int], int], float] = {start: 0.0}
        todo: list[tuple[float, int, tuple[frozenset[int], int]]] = [(0.0, 0, start)]
        count = 0
        while todo:
            cost, _, state = heapq.heappop(todo)
            live, ran = state
            if least[state] < cost:
                continue
            if ran == every and kept <= live:
                return cost
            following = [((live - {x}, ran), cost) for x in live]
            for i, op in enumerate(real):
                if not reads[i] <= live or makes[i] & live:
                    continue
                more, then = cost + (op.cost or 0.0), ran | 1 << i
                if held(live | makes[i]) + op.workspace <= budget:
                    following.append(((live | makes[i], then), more))
                for x in over[i] & live if held(live) + op.workspace <= budget else ():
                    following.append((((live - {x}) | makes[i], then), more))
            for after, spent in following:
                if spent < least.get(after, float("inf")):
                    least[after] = spent
                    count += 1
                    heapq.heappush(todo, (spent, count, after))
        return None

    return within
