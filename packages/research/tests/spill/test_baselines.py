"""COSMA's comparison schemes: TFLite's arena, Belady's and greedy replacement."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill.online import Arena
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem, timeline
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.spill.baselines import Belady, GreedySpill, OrderName
from support.random_graphs import random_graph
from support.spill_brute import least_traffic
from support.spill_replay import simulate

STRICT = BUILT_IN["strict"]
SCHEMES = (Belady(), GreedySpill(), Belady("exact"), GreedySpill("exact"), Belady("hmcos"))


def problem_of(sizes: dict[str, int], ops: list[tuple[str, str]], capacity: int) -> SpillProblem:
    """A problem from names: ``("a b", "c")`` is an op that reads a and b and makes c. The first name is the input,
    the last one the output."""
    ids = {name: i for i, name in enumerate(sizes)}
    last = list(sizes)[-1]
    tensors = tuple(
        Tensor(i, sizes[n], Kind.INPUT if i == 0 else Kind.OUTPUT if n == last else Kind.ACTIVATION, n)
        for n, i in ids.items()
    )
    made = tuple(
        Op(i, tuple(ids[n] for n in reads.split()), tuple(ids[n] for n in makes.split()))
        for i, (reads, makes) in enumerate(ops)
    )
    return spill_problem(Graph("known", tensors, made), STRICT, (Memory("fast", capacity),))


def test_best_fit_is_that_of_tflite() -> None:
    """The smallest gap between residents; the top only if there is none, even where it is the smaller room."""
    arena = Arena(20, {0: (0, 2), 1: (6, 2), 2: (11, 5)})
    assert arena.best_fit(3) == 8
    assert arena.best_fit(4) == 2
    assert arena.best_fit(5) is None
    assert arena.take(2) == (11, 5)
    assert arena.best_fit(3) == 2
    assert arena.best_fit(5) == 8
    assert Arena(4).best_fit(4) == 0
    assert Arena(4).best_fit(5) is None


def hand_problem() -> SpillProblem:
    """After step 0, from below: x(1), b(1), c(1), a(4); at step 1 b is read and d needs 5 bytes of 11."""
    sizes = {"x": 1, "b": 1, "c": 1, "a": 4, "d": 5, "e": 1, "f": 1, "out": 1}
    return problem_of(sizes, [("x", "b c a"), ("b", "d"), ("d", "e"), ("e a", "f"), ("f b c", "out")], 11)


def test_belady_by_hand() -> None:
    """At step 1 only four bytes are free. c is used last and leaves, which is not enough; then a does. Both come
    back: 2 x 1 + 2 x 4 bytes."""
    problem = hand_problem()
    found = Belady().spill(problem, Limits())
    assert simulate(problem, found) == found.traffic_bytes == 10
    assert [(m.step, m.kind, m.storage) for m in found.moves] == [
        (1, "spill", 2), (1, "spill", 3), (3, "fill", 3), (4, "fill", 2),
    ]  # fmt: skip


def test_greedy_by_hand() -> None:
    """The same graph: no room comes about without a leaving, so c may stay: 2 x 4 bytes."""
    problem = hand_problem()
    found = GreedySpill().spill(problem, Limits())
    assert simulate(problem, found) == found.traffic_bytes == 8
    assert [(m.step, m.kind, m.storage) for m in found.moves] == [(1, "spill", 3), (3, "fill", 3)]


def test_an_input_is_dropped_for_nothing_and_read_again() -> None:
    """Greedy lets x go, which has a copy, rather than a of the same size: one fill and no spill."""
    problem = problem_of({"x": 2, "a": 2, "b": 2, "c": 2, "out": 1}, [("x", "a"), ("a", "b"), ("a b", "c"),
                                                                     ("c x", "out")], 6)  # fmt: skip
    for scheme in (Belady(), GreedySpill()):
        found = scheme.spill(problem, Limits())
        assert [(m.kind, m.storage, m.bytes) for m in found.moves] == [("fill", 0, 2)]


def test_what_is_read_now_is_moved_where_nothing_else_helps() -> None:
    """x(2), a(4) above it, then b(4) of 8 bytes: x has gone, a stands in the middle and is moved, 4 out and 4 in."""
    problem = problem_of({"x": 2, "a": 4, "b": 4}, [("x", "a"), ("a", "b")], 8)
    for scheme in (Belady(), GreedySpill()):
        found = scheme.spill(problem, Limits())
        assert simulate(problem, found) == found.traffic_bytes == 8
        assert [(m.step, m.kind, m.storage) for m in found.moves] == [(1, "spill", 1), (1, "fill", 1)]
        assert found.counters["repacked"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s.name} {s.order}")
def test_every_plan_replays(scheme: Belady | GreedySpill) -> None:
    """On random graphs under every semantics; with room for everything there is no traffic."""
    rng = Random(7)
    for k in range(120):
        graph = random_graph(rng, rng.randint(3, 12), aliases=0)
        semantics = Semantics(*(rng.random() < 0.5 for _ in range(4)))
        parameters = rng.random() < 0.3
        problem = spill_problem(graph, STRICT, (Memory("fast", 0),), semantics, parameters=parameters)
        need = max([problem.largest_op[0], *timeline(problem, range(len(graph.ops))).forced])
        capacity = need + rng.choice((0, 1, 3, 8)) if k % 8 else 10_000
        problem = replace(problem, memories=(Memory("fast", capacity),))
        assert scheme.supports(problem) is None
        found = scheme.spill(problem, Limits())
        assert simulate(problem, found) == found.traffic_bytes
        assert capacity < 10_000 or not found.moves
        best = least_traffic(problem, found.order, addresses=False) if len(graph.ops) < 7 else None
        assert best is None or found.traffic_bytes >= best


@pytest.mark.slow
def test_belady_fills_least_for_equal_sizes() -> None:
    """Where all sizes are equal no policy has fewer fills for the order: brute force over everything that can leave,
    and where that takes no time over every address, too."""
    rng = Random(11)
    looked_at = 0
    for _ in range(300):
        graph = random_graph(rng, rng.randint(4, 7), plain=True, aliases=0)
        graph = Graph("equal", tuple(replace(t, size=1) for t in graph.tensors), graph.ops)
        problem = spill_problem(graph, STRICT, (Memory("fast", 0),), Semantics(), parameters=False)
        problem = replace(problem, memories=(Memory("fast", problem.largest_op[0] + rng.choice((0, 0, 1))),))
        found = Belady().spill(problem, Limits())
        fills = sum(m.kind == "fill" for m in found.moves)
        everything_has_a_copy = replace(problem, copied=(True,) * len(problem.copied),
                                        written_free=(True,) * len(problem.copied))  # fmt: skip
        small = problem.steps < 6 and problem.capacity < 5
        assert fills == least_traffic(everything_has_a_copy, tuple(range(problem.steps)), addresses=small)
        looked_at += fills > 0
    assert looked_at > 30


@pytest.mark.parametrize("order", ["own", "exact", "hmcos"])
def test_it_says_which_op_does_not_fit(order: OrderName) -> None:
    """An op that only fits in place is none for an arena that writes nothing in place."""
    problem = problem_of({"x": 2, "a": 4, "b": 4}, [("x", "a"), ("a", "b")], 7)
    reason = Belady(order).supports(problem)
    assert reason is not None
    assert "8 bytes" in reason
    assert "moves.lead" in str(GreedySpill(order).supports(replace(problem, semantics=Semantics(lead=1))))
