"""Small sequences of ops that may run again, and the cheapest of them by brute force."""

from __future__ import annotations

import heapq
import json
from itertools import count
from pathlib import Path
from random import Random

from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.sequence import Sequenced, sequenced
from lowtide.target import BUILT_IN

STRICT = BUILT_IN["strict"]


def costly_graph(rng: Random, n_ops: int, *, outputs: float = 0.2) -> Graph:
    """A random DAG whose ops have costs: a tensor or two each, inputs of the graph, some outputs, few workspaces."""
    tensors = [Tensor(0, rng.randint(1, 6), Kind.INPUT)]
    ops: list[Op] = []
    for i in range(n_ops):
        inputs = tuple({rng.choice(tensors[-5:]).id for _ in range(rng.randint(1, 3))})
        made = []
        for _ in range(1 + (rng.random() < 0.15)):
            made.append(len(tensors))
            kind = Kind.OUTPUT if rng.random() < outputs else Kind.ACTIVATION
            tensors.append(Tensor(len(tensors), rng.randint(1, 9), kind))
        after = (rng.randrange(i),) if i and rng.random() < 0.1 else ()
        workspace = rng.choice((0, 0, 0, 2))
        ops.append(Op(i, inputs, tuple(made), workspace=workspace, after=after, cost=rng.randint(0, 7)))
    return Graph("costly", tuple(tensors), tuple(ops), sha256="2" * 64)


def model_of(graph: Graph) -> MemoryModel:
    """Under the plainest target."""
    return memory_model(graph, STRICT)


def own(graph: Graph) -> Sequenced:
    """The graph in its own order, free to run again."""
    return sequenced(model_of(graph), range(len(graph.ops)))


def least_cost(problem: Sequenced, budget: int) -> int | None:
    """Cost of the cheapest sequence within a budget, over all orders and repetitions; None if there is none.

    A state is what has run and which values are there. Between runs any of them may be dropped.
    """
    values, ops = problem.values, problem.ops
    size = [v.size for v in values]
    start = frozenset(x for x, v in enumerate(values) if v.maker < 0)
    needed_before = problem.model.graph.predecessors
    kept = {x for x, v in enumerate(values) if v.kept}
    number = count()
    heap = [(0, next(number), frozenset[int](), start)]
    best: set[tuple[frozenset[int], frozenset[int]]] = set()
    while heap:
        cost, _, done, there = heapq.heappop(heap)
        if (done, there) in best:
            continue
        best.add((done, there))
        if len(done) == len(ops) and kept <= there:
            return cost
        for x in there:
            heapq.heappush(heap, (cost, next(number), done, there - {x}))
        for v, op in enumerate(ops):
            if op.once and v in done:
                continue
            if not set(op.reads) <= there or not set(needed_before[v]) <= done:
                continue
            live = there | set(op.makes)
            if sum(size[x] for x in live) + op.workspace <= budget:
                heapq.heappush(heap, (cost + problem.costs.units[v], next(number), done | {v}, live))
    return None


def held_or_made_again() -> Graph:
    """A large tensor, made cheaply, is read at both ends of a graph that needs the room between."""
    tensors = (
        Tensor(0, 1, Kind.INPUT, "x"), Tensor(1, 4, Kind.ACTIVATION, "s"), Tensor(2, 3, Kind.ACTIVATION, "a"),
        Tensor(3, 6, Kind.ACTIVATION, "b"), Tensor(4, 2, Kind.ACTIVATION, "c"), Tensor(5, 1, Kind.OUTPUT, "d"),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1,), "make", cost=2), Op(1, (1,), (2,), "early", cost=10), Op(2, (2,), (3,), "wide", cost=20),
        Op(3, (3,), (4,), "narrow", cost=8), Op(4, (4, 1, 0), (5,), "late", cost=10),
    )  # fmt: skip
    return Graph("again", tensors, ops, sha256="1" * 64)


def chained() -> Sequenced:
    """Six bytes that are read at both ends, made for one unit from eight bytes that take five; ten between."""
    tensors = (
        Tensor(0, 1, Kind.INPUT), Tensor(1, 8), Tensor(2, 6), Tensor(3, 1), Tensor(4, 9), Tensor(5, 1),
        Tensor(6, 1, Kind.OUTPUT),
    )  # fmt: skip
    reads, costs = ((0,), (1,), (2,), (3,), (4,), (5, 2, 0)), (5, 1, 10, 20, 1, 1)
    ops = [Op(i, read, (i + 1,), cost=cost) for i, (read, cost) in enumerate(zip(reads, costs, strict=True))]
    return own(Graph("chained", tensors, tuple(ops)))


def graph_file(graph: Graph, folder: Path) -> Path:
    """The graph as graph JSON."""
    path = folder / "g.graph.json"
    tensors = [{"id": t.id, "size": t.size, "kind": str(t.kind)} for t in graph.tensors]
    ops = [
        {"id": op.id, "inputs": list(op.inputs), "outputs": list(op.outputs), "cost": op.cost, "after": list(op.after)}
        for op in graph.ops
    ]
    path.write_text(json.dumps({"name": "g", "tensors": tensors, "ops": ops}))
    return path
