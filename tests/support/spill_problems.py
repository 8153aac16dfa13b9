"""Small spilling problems, and the search asked about them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

from lowtide import _core
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill.core_problem import CoreProblem
from lowtide.spill.phases import ancestors, longest_chain
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem, timeline
from lowtide.target import BUILT_IN, Target
from support.random_graphs import random_graph

STRICT = BUILT_IN["strict"]
TARGETS = (STRICT, BUILT_IN["hmcos"], replace(BUILT_IN["generic"], alignment=1))
EVERY_SEMANTICS = [Semantics(*values) for values in product((True, False), repeat=4)]


def small_problem(rng: Random, semantics: Semantics, target: Target = STRICT, n_ops: int = 5) -> SpillProblem:
    """A random problem whose capacity lies between the largest op and the peak of the own order."""
    while True:
        graph = random_graph(rng, n_ops, plain=rng.random() < 0.6)
        graph = Graph(
            graph.name, tuple(replace(t, size=-(-t.size // 8)) for t in graph.tensors), graph.ops, graph.folded
        )
        problem = spill_problem(graph, target, (Memory("fast", 0),), semantics, parameters=rng.random() < 0.3)
        if not graph.ops or not 0 < problem.largest_op[0] < 14:
            continue
        line = timeline(problem, range(len(graph.ops)))
        need = max(problem.largest_op[0], max(line.forced))
        return replace(problem, memories=(Memory("fast", need + rng.choice((0, 0, 0, 1, 2))),))


def search(
    asked: CoreProblem, *, width: int = 0, safe_moves: bool = True, dominance: bool = True, limit: int = 0
) -> _core.SpillResult:
    """One search of the core, without limits but for the states."""
    return _core.spill(
        asked.core, width=width, state_limit=limit, memory_bytes=0, upper=-1, seed=0, jitter=0, seconds=60.0,
        safe_moves=safe_moves, dominance=dominance,
    )  # fmt: skip


def random_problem(rng: Random, n_ops: int, semantics: Semantics | None = None) -> SpillProblem:
    """A random problem too large for brute force."""
    while True:
        graph = random_graph(rng, n_ops, plain=rng.random() < 0.5)
        problem = spill_problem(graph, rng.choice(TARGETS), (Memory("fast", 1),), semantics)
        if graph.ops:
            need = max(problem.largest_op[0], max(timeline(problem, range(problem.steps)).forced))
            return replace(problem, memories=(Memory("fast", max(1, need + rng.choice((0, 0, 1, 3)))),))


def skips(rng: Random, n: int) -> Graph:
    """A chain of ops, each of which may also read something made long before."""
    tensors = [Tensor(0, rng.randint(1, 3), Kind.INPUT, "t0")]
    ops = []
    for i in range(n):
        tensors.append(Tensor(i + 1, rng.randint(1, 4), Kind.OUTPUT if i == n - 1 else Kind.ACTIVATION, f"t{i + 1}"))
        early = [t for t in range(i) if rng.random() < 0.2]
        ops.append(Op(i, (i, *early), (i + 1,), f"op{i}"))
    return Graph("skips", tuple(tensors), tuple(ops))


def random_chain(rng: Random, problem: SpillProblem) -> tuple[int, ...]:
    """Some ops that run one after the other in every order."""
    some = sorted(rng.sample(range(problem.steps), rng.randint(0, problem.steps)))
    return longest_chain(ancestors(problem), some)
