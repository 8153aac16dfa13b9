"""MAGIS, Figure 14: exact search of what a change left new, against exact search of the full graph.

Ten networks of random NASNet-like cells, each changed ten times: an op runs once more, a result is twice as large, or
an op goes away. The paper changes its networks by TASO's rules and searches by SERENITY's dynamic programming.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.topological import topological
from lowtide.transform.clone import Clone, apply, repeatable
from lowtide_research.schedule.incremental import Incremental
from lowtide_research.zoo.cells import _OPERATIONS, CIFAR, Genotype, build_cells

NETWORKS, CHANGES, STACK, FILTERS = 10, 10, 6, 44


@dataclass(frozen=True)
class Round:
    """One change: peak, seconds and states of the search of the full graph and of that of what is new."""

    full: tuple[int, float, int]
    new: tuple[int, float, int]


def random_cells(seed: int) -> Graph:
    """Five sums a cell, of two operations each on any earlier state; what nobody reads is concatenated."""
    kinds, random = sorted(set(_OPERATIONS) - {"skip"}), Random(seed)

    def cell() -> tuple[tuple[tuple[str, int], ...], tuple[int, ...]]:
        operations = [(random.choice(kinds), random.randrange(2 + i // 2)) for i in range(10)]
        read = {at for _, at in operations}
        return tuple(operations), tuple(i for i in range(2, 7) if i not in read)

    return build_cells(f"random cells {seed}", Genotype(*cell(), *cell()), CIFAR, STACK, FILTERS).graph()


def changed(graph: Graph, random: Random) -> Graph:
    """A graph with one change."""
    kind = random.choice(("again", "larger", "gone"))
    if kind == "again":
        read_twice = [v for v in sorted(repeatable(graph)) if len(_readers(graph, v)) > 1]
        op = graph.op_by_id[random.choice(read_twice)]
        return apply(graph, Clone(op.id, op.outputs[0], (random.choice(_readers(graph, op.id)),))).graph
    if kind == "gone":
        op = graph.op_by_id[random.choice([v.id for v in graph.ops if _passes_on(graph, v.id)])]
        source = next(t for t in op.inputs if t in graph.producer)
        ops = [
            replace(v, inputs=tuple(source if t == op.outputs[0] else t for t in v.inputs), operands=())
            for v in graph.ops
            if v is not op
        ]
        tensors = tuple(t for t in graph.tensors if t.id != op.outputs[0])
        return replace(graph, ops=tuple(ops), tensors=tensors)
    tensor = random.choice([t for t in graph.tensors if t.kind is Kind.ACTIVATION and t.alias_of is None])
    tensors = tuple(replace(t, size=2 * t.size, shape=None) if t is tensor else t for t in graph.tensors)
    return replace(graph, tensors=tensors)


def _readers(graph: Graph, op: int) -> Sequence[int]:
    return graph.consumers.get(graph.op_by_id[op].outputs[0], ())


def _passes_on(graph: Graph, op: int) -> bool:
    """Whether an op can go away: of one operand that an op makes, and one result of its size that ops read."""
    at = graph.op_by_id[op]
    made = [t for t in at.inputs if t in graph.producer]
    if len(made) != 1 or len(at.outputs) != 1 or not _readers(graph, op):
        return False
    first, last = graph.tensor_by_id[made[0]], graph.tensor_by_id[at.outputs[0]]
    return first.size == last.size and first.kind is last.kind is Kind.ACTIVATION


def carried(graph: Graph, before: Sequence[int]) -> list[int]:
    """The order of ids before a change, as positions in the changed graph; new ops run right before who reads them."""
    place = {v: float(k) for k, v in enumerate(before)}
    for op in reversed(graph.ops):
        readers = [place[v] for t in op.outputs for v in graph.consumers.get(t, ()) if v in place]
        place.setdefault(op.id, min(readers, default=float(len(before))) - 0.5)
    return list(topological(dict(enumerate(graph.predecessors)), lambda i: place[graph.ops[i].id]))


@cache
def rounds(seconds: float) -> tuple[Round, ...]:
    """All networks and changes, with so many seconds for each search."""
    found: list[Round] = []
    for seed in range(NETWORKS):
        graph, random, incremental = random_cells(seed), Random(seed), Incremental()
        before = [graph.ops[i].id for i in Exact().schedule(memory_model(graph, TARGET), Limits(seconds)).order]
        for change in range(CHANGES + 1):
            graph = changed(graph, random) if change else graph
            model = memory_model(graph, TARGET)
            began = time.process_time()
            full = Exact().schedule(model, Limits(seconds))
            middle = time.process_time()
            new = incremental.search(model, carried(graph, before), Limits(seconds))
            end = time.process_time()
            before = [graph.ops[i].id for i in new.order]
            states = int(full.counters["states"]) + int(full.counters["beam_states"])
            row = Round((model.core.peak(full.order), middle - began, states), (new.peak, end - middle, new.states))
            found += [row] if change else []  # before the first change everything is new
    return tuple(found)


TARGET = BUILT_IN["strict"]
