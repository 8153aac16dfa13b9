"""Plans with moves that hold, for tests to break."""

from __future__ import annotations

from dataclasses import asdict

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.spill.problem import SpillProblem
from lowtide.target import Target


def skip_graph() -> Graph:
    """A skip of 4 bytes over two ops of 8: a -> b -> c -> d(c, a)."""
    tensors = (
        Tensor(0, 4, Kind.INPUT, "x"),
        Tensor(1, 4, Kind.ACTIVATION, "a"),
        Tensor(2, 6, Kind.ACTIVATION, "b"),
        Tensor(3, 4, Kind.ACTIVATION, "c"),
        Tensor(4, 2, Kind.OUTPUT, "d"),
    )
    ops = (Op(7, (0,), (1,), "A"), Op(8, (1,), (2,), "B"), Op(9, (2,), (3,), "C"), Op(11, (3, 1), (4,), "D"))
    return Graph("skip", tensors, ops, sha256="0" * 64)


def good() -> Plan:
    """Its best plan in 10 bytes: a leaves before C and is back before D."""
    return lowtide.research.plan(skip_graph(), target="strict", memories=["fast=10"])


def plan_of(problem: SpillProblem, target: Target) -> Plan | None:
    """lowtide's plan; None if no order fits. Constants count if they do in the problem."""
    graph = problem.model.graph
    parameters = any(problem.model.storage_of.get(t.id) is not None for t in graph.tensors if t.kind == "constant")
    moves = {name: str(value) for name, value in asdict(problem.semantics).items()}
    moves["parameters"] = str(parameters)
    made = lowtide.research.plan(graph, target=target, memories={"fast": problem.capacity}, moves=moves, seed=0)
    return None if made.moves is None else made
