"""Gaps, moves and the simulator against brute force: every order, residency and address of tiny graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill.answer import Interval, SpillAnswer
from lowtide.spill.problem import Memory, Semantics, SpillProblem, spill_problem, timeline
from lowtide.spill.traffic import intervals_of, moves_of, traffic_of
from lowtide.target import BUILT_IN
from support.random_graphs import random_order
from support.spill_brute import least_traffic
from support.spill_problems import EVERY_SEMANTICS, STRICT, small_problem
from support.spill_replay import simulate


def least_by_gaps(problem: SpillProblem, order: tuple[int, ...]) -> int | None:
    """Least traffic of an order over all subsets of its gaps, sums of bytes only."""
    line = timeline(problem, order)
    best = None
    for drops in product((False, True), repeat=len(line.gaps)):
        load = list(line.forced)
        for gap, dropped in zip(line.gaps, drops, strict=True):
            for t in range(gap.start, gap.end):
                load[t] += 0 if dropped else problem.model.storages[gap.storage].size
        if max(load) > problem.capacity:
            continue
        intervals = intervals_of(line, [g for g, d in zip(line.gaps, drops, strict=True) if d])
        traffic = traffic_of(moves_of(problem, order, intervals))
        best = traffic if best is None else min(best, traffic)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("semantics", EVERY_SEMANTICS, ids=range(len(EVERY_SEMANTICS)))
def test_gaps_say_it_all(semantics: Semantics):
    """The least traffic of an order without addresses is that of its best subset of gaps, whatever a move costs."""
    rng = Random(repr(semantics))
    for k in range(20):
        target = (STRICT, BUILT_IN["hmcos"], replace(BUILT_IN["generic"], alignment=1))[k % 3]
        problem = small_problem(rng, semantics, target)
        graph = problem.model.graph
        order = tuple(graph.index_of[i] for i in random_order(rng, graph))
        assert least_by_gaps(problem, order) == least_traffic(problem, order, addresses=False)


def chain() -> SpillProblem:
    """x -> a, x -> b -> c, and d reads c and a: sizes 2, 3, 1, 4, 1; 8 bytes would hold it all."""
    tensors = (
        Tensor(0, 2, Kind.INPUT, "x"), Tensor(1, 3, Kind.ACTIVATION, "a"), Tensor(2, 1, Kind.ACTIVATION, "b"),
        Tensor(3, 4, Kind.ACTIVATION, "c"), Tensor(4, 1, Kind.OUTPUT, "d"),
    )  # fmt: skip
    ops = (Op(0, (0,), (1,), "a"), Op(1, (0,), (2,), "b"), Op(2, (2,), (3,), "c"), Op(3, (3, 1), (4,), "d"))
    return spill_problem(Graph("chain", tensors, ops), STRICT, (Memory("fast", 8),))


GOOD = SpillAnswer(
    (0, 1, 2, 3),
    (
        Interval(0, 0, 2, 4), Interval(1, 0, 1, 0), Interval(1, 3, 4, 0), Interval(2, 1, 3, 3),
        Interval(3, 2, 4, 4), Interval(4, 3, 4, 3),
    ),
    moves_of(
        chain(), range(4), [Interval(0, 0, 2), Interval(1, 0, 1), Interval(1, 3, 4), Interval(2, 1, 3)]
    ),
    (),
    {},
    6,
)  # fmt: skip


def test_a_good_answer_is_counted():
    """One spill and one fill of three bytes each."""
    assert simulate(chain(), GOOD) == 6 == traffic_of(GOOD.moves)


def without(answer: SpillAnswer, kind: str) -> SpillAnswer:
    """The answer without its moves of a kind."""
    return replace(answer, moves=tuple(m for m in answer.moves if m.kind != kind))


WRONG = {
    "needs storage": replace(GOOD, intervals=tuple(replace(v, end=min(v.end, 3)) if v.storage == 3 else v
                                                   for v in GOOD.intervals)),
    "before it is filled": without(GOOD, "fill"),
    "not in memory": without(GOOD, "spill"),
    "overlap": replace(GOOD, intervals=tuple(replace(v, offset=0) for v in GOOD.intervals)),
    "sticks out": replace(GOOD, intervals=tuple(replace(v, offset=v.offset + 1) for v in GOOD.intervals)),
    "wrong bytes": replace(GOOD, moves=tuple(replace(m, bytes=2) for m in GOOD.moves)),
    "touch, without a fill": replace(
        without(GOOD, "fill"),
        intervals=tuple(replace(v, end=3) if (v.storage, v.start) == (1, 0) else v for v in GOOD.intervals),
    ),
    "hold every op once": replace(GOOD, order=(0, 1, 2, 2)),
    "one that it needs": replace(GOOD, order=(0, 2, 1, 3)),
    "no room where it goes": replace(GOOD, moves=tuple(replace(m, step=2) for m in GOOD.moves if m.kind == "fill")
                                     + tuple(m for m in GOOD.moves if m.kind == "spill")),
}  # fmt: skip


@pytest.mark.parametrize("why", WRONG)
def test_a_wrong_answer_is_refused(why: str):
    """Each rule that an answer can break is named."""
    with pytest.raises(ValueError, match=why):
        simulate(chain(), WRONG[why])
