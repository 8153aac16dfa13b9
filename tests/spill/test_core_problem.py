"""A spilling problem as the core takes it, where outputs have to be in the fast memory at the end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill.core_problem import core_problem
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem
from lowtide.spill.search import Spill
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph
from support.spill_brute import least_traffic
from support.spill_problems import search
from support.spill_replay import simulate

STRICT = BUILT_IN["strict"]
ENDS_FAST = Semantics(outputs_end_fast=True)


def problem_at_its_floor(rng: Random, n_ops: int) -> SpillProblem:
    """A random problem with as much memory as its largest op or its outputs need."""
    while True:
        graph = random_graph(rng, n_ops, plain=rng.random() < 0.6)
        graph = replace(graph, tensors=tuple(replace(t, size=-(-t.size // 8)) for t in graph.tensors))
        problem = spill_problem(graph, STRICT, (Memory("fast", 0),), ENDS_FAST)
        floor = max(problem.largest_op[0], problem.end_bytes)
        if graph.ops and 0 < floor < 14:
            return replace(problem, memories=(Memory("fast", floor + rng.choice((0, 0, 1))),))


def test_a_stretch_up_to_the_end_and_beyond_may_be_free() -> None:
    """With all steps free a held order is the whole problem; with the last ones free it is no worse than held."""
    rng = Random(1)
    moving = 0
    for _ in range(60):
        problem = problem_at_its_floor(rng, 5)
        order, n = range(problem.steps), problem.steps
        least = least_traffic(problem, addresses=False)
        assert search(core_problem(problem, order, free=range(n + 7))).cost == least
        held = search(core_problem(problem, order, chain=True))
        some = search(core_problem(problem, order, free=range(n - 1, n + 9)))
        assert some.found >= held.found
        assert not held.found or some.cost <= held.cost
        moving += bool(least)
    assert moving > 10


def test_what_is_not_proved_is_improved_up_to_the_end() -> None:
    """One state is no proof, so stretches of the best order are searched again, the last one with the end in it."""
    tensors = (Tensor(1, 100, Kind.INPUT), Tensor(2, 101), Tensor(3, 5, Kind.OUTPUT))
    graph = Graph("e", tensors, (Op(1, (), (3,)), Op(2, (1,), (2,), after=(1,))))
    problem = spill_problem(graph, STRICT, (Memory("fast", 202),), ENDS_FAST)
    answer = Spill(states=1).spill(problem, Limits())
    assert simulate(problem, answer) == answer.traffic_bytes == 5


def test_a_search_of_few_states_answers_within_the_memory() -> None:
    """Whatever is left unproved, the residency fits, the outputs at the end included."""
    rng = Random(2)
    for k in range(40):
        problem = problem_at_its_floor(rng, 7)
        answer = Spill(states=(1, 5, 50)[k % 3]).spill(problem, Limits())
        assert simulate(problem, answer) == answer.traffic_bytes
