"""lowtide's own spilling against brute force: all orders, one order, addresses, bounds, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from lowtide import _core
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.spill import repair as repair_module
from lowtide.spill.answer import NoRoomError
from lowtide.spill.core_problem import core_problem
from lowtide.spill.phases import live_too_much, window_bound, windows
from lowtide.spill.problem import Gap, Memory, Semantics, SpillProblem, least_peak, spill_problem, timeline
from lowtide.spill.repair import place, repair
from lowtide.spill.search import Spill, order_with_gaps
from lowtide.spill.traffic import intervals_of, traffic_of
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.spill.baselines import Belady
from support.random_graphs import random_order
from support.spill_brute import every_order, least_traffic, least_traffic_by_gaps
from support.spill_problems import EVERY_SEMANTICS, TARGETS, random_problem, search, small_problem
from support.spill_replay import simulate

STRICT = BUILT_IN["strict"]


def cost(result: _core.SpillResult) -> int | None:
    """What was found, if anything."""
    return result.cost if result.found else None


@pytest.mark.slow
@pytest.mark.parametrize("semantics", EVERY_SEMANTICS, ids=range(len(EVERY_SEMANTICS)))
def test_the_core_is_exact_with_and_without_its_rules(semantics: Semantics):
    """Least traffic over all orders, and of one order, is brute force's, whatever a move costs."""
    rng = Random(repr(semantics))
    for k in range(12):
        problem = small_problem(rng, semantics, TARGETS[k % 3], 6)
        least = least_traffic(problem, addresses=False)
        for safe_moves in (True, False):
            for dominance in (True, False):
                found = search(core_problem(problem), safe_moves=safe_moves, dominance=dominance)
                assert cost(found) == least
        graph = problem.model.graph
        order = tuple(graph.index_of[i] for i in random_order(rng, graph))
        alone = search(core_problem(problem, order, chain=True))
        assert cost(alone) == least_traffic(problem, order, addresses=False)


@pytest.mark.slow
def test_what_the_core_says_is_what_its_residency_costs():
    """The order and the gaps of a search carry the traffic that it counted; beams are never below the exact search."""
    rng = Random(3)
    for k in range(120):
        semantics = EVERY_SEMANTICS[k % 16]
        problem = small_problem(rng, semantics, TARGETS[k % 3], 9)
        exact = search(core_problem(problem))
        for width in (0, 1, 3):
            result = search(core_problem(problem), width=width)
            if not result.found:
                continue
            assert order_with_gaps(problem, core_problem(problem), result).traffic_bytes == result.cost
            assert result.cost >= exact.cost


def test_a_stretch_of_an_order_is_searched_exactly():
    """With all steps free it is the search over all orders, with none it is that of the order alone."""
    rng = Random(4)
    for _ in range(40):
        problem = small_problem(rng, Semantics(), n_ops=7)
        graph = problem.model.graph
        order = tuple(graph.index_of[i] for i in random_order(rng, graph))
        n = len(order)
        alone, least = cost(search(core_problem(problem, order, chain=True))), cost(search(core_problem(problem)))
        assert alone is not None
        assert cost(search(core_problem(problem, order, free=range(n)))) == least
        assert cost(search(core_problem(problem, order, free=range(0)))) == alone
        begin = rng.randrange(n)
        part = cost(search(core_problem(problem, order, free=range(begin, min(n, begin + 3)))))
        assert part is not None
        assert least is not None
        assert least <= part <= alone


@pytest.mark.slow
def test_answers_agree_with_brute_force_to_the_address():
    """Least traffic with addresses, over all orders; the simulator counts the same; the bound is below."""
    rng = Random(6)
    some = proved = 0
    for k in range(90):
        problem = small_problem(rng, EVERY_SEMANTICS[k % 16] if k % 2 else Semantics())
        if problem.capacity > 10:
            continue
        answer = Spill().spill(problem, Limits(20))
        assert simulate(problem, answer) == answer.traffic_bytes == traffic_of(answer.moves)
        least = least_traffic_by_gaps(problem, every_order(problem))
        assert least is not None
        assert answer.traffic_lower_bound_bytes <= least <= answer.traffic_bytes
        if answer.optimal:
            assert answer.traffic_bytes == least
        some += bool(least)
        proved += answer.optimal
    assert some > 15
    assert proved > 50


@pytest.mark.slow
def test_the_two_brute_forces_agree():
    """With addresses: everything that memory can hold, and every set of gaps."""
    rng = Random(8)
    for _ in range(25):
        problem = small_problem(rng, Semantics(), n_ops=4)
        if problem.capacity <= 6:
            assert least_traffic(problem) == least_traffic_by_gaps(problem, every_order(problem))


@pytest.mark.slow
def test_windows_bound_every_order():
    """What parts of a graph cost, one by one, is never more than the whole costs; sometimes it is all of it."""
    rng = Random(9)
    tight = 0
    for _ in range(60):
        problem = random_problem(rng, 24)
        least = search(core_problem(problem)).cost
        parts = windows(problem, tuple(range(problem.steps)), 20_000, Limits(20))
        assert sum(w.bytes for w in parts) <= least
        assert len({i for w in parts for i in w.ops}) == sum(len(w.ops) for w in parts)
        tight += 0 < sum(w.bytes for w in parts) == least
        some = sorted(rng.sample(range(problem.steps), rng.randint(1, problem.steps)))
        assert window_bound(problem, some, 20_000, Limits(20)).bytes <= least
        with_parts = search(core_problem(problem, segments=[(w.ops, w.bytes) for w in parts]))
        assert with_parts.cost == least
    assert tight


def test_a_search_that_is_cut_short_bounds_from_below():
    """Whatever the limit of states, its bound is at most the least traffic."""
    rng = Random(10)
    for _ in range(40):
        problem = random_problem(rng, 14)
        least = search(core_problem(problem)).cost
        for limit in (1, 5, 20, 80):
            result = _core.spill(
                core_problem(problem).core, width=0, state_limit=limit, memory_bytes=0, upper=-1, seed=0, jitter=0,
                seconds=60.0,
            )  # fmt: skip
            assert result.bound <= least


def pieces_that_do_not_pack() -> tuple[SpillProblem, tuple[Gap, ...]]:
    """A problem whose best residency of the file order has a sum that fits, and no addresses; and what it drops."""
    problem = random_problem(Random(3033), 14)  # of seeds 0 to 3999 the only one
    asked = core_problem(problem, range(problem.steps), chain=True)
    found = order_with_gaps(problem, asked, search(asked))
    line = timeline(problem, found.order)
    intervals = sorted(intervals_of(line, found.dropped))
    assert place(problem, found.order, intervals, line.in_place, Limits(5)).height_bytes > problem.capacity
    return problem, found.dropped


@pytest.mark.parametrize("solver", [True, False])
def test_what_does_not_pack_is_repaired(solver: bool, monkeypatch: pytest.MonkeyPatch):
    """With CP-SAT and without, the pieces fit in the end; CP-SAT's traffic is never the larger one."""
    if solver:
        pytest.importorskip("ortools")
    problem, dropped = pieces_that_do_not_pack()
    order = tuple(range(problem.steps))
    if not solver:
        monkeypatch.setattr(repair_module, "joint", lambda *_: None)
    repaired = repair(problem, order, dropped, Limits(20))
    assert repaired.placement.height_bytes <= problem.capacity
    assert not (repaired.best and not solver)
    least = search(core_problem(problem, order, chain=True)).cost
    assert repaired.traffic_bytes >= least
    if solver:
        assert repaired.best


def test_an_order_that_fits_moves_nothing():
    """At the least peak there is no traffic, and that is proved at once."""
    rng = Random(12)
    for _ in range(20):
        problem = random_problem(rng, 12)
        roomy = replace(problem, memories=(Memory("fast", 10_000),))
        answer = Spill().spill(roomy, Limits(20))
        assert (answer.traffic_bytes, answer.moves, answer.optimal, answer.stopped) == (0, (), True, "proof")


def test_two_ops_that_both_want_to_be_last_have_no_room():
    """Each op fits over the input that it overwrites, but both read both inputs: proved impossible."""
    tensors = tuple(Tensor(i, 4, Kind.INPUT if i < 2 else Kind.OUTPUT, f"t{i}") for i in range(4))
    ops = (Op(0, (0, 1), (2,), "p", "Add"), Op(1, (0, 1), (3,), "q", "Add"))
    problem = spill_problem(Graph("two", tensors, ops), BUILT_IN["hmcos"], (Memory("fast", 8),))
    assert problem.largest_op[0] == 8
    with pytest.raises(NoRoomError) as caught:
        Spill().spill(problem, Limits(5))
    assert caught.value.proved


def test_the_same_call_gives_the_same_answer():
    """Searches that end by proof do not depend on a clock."""
    problem = random_problem(Random(14), 30)
    first, second = (Spill().spill(problem, Limits(60)) for _ in range(2))
    assert first == second


def leaves_first(n: int) -> SpillProblem:
    """A tree of sums whose file order makes all `n` leaves first: many storages of one size are live at once."""
    tensors = [Tensor(0, 1, Kind.INPUT, "x")]
    ops: list[Op] = []
    level = [0] * n
    while len(level) > 1 or not ops:
        pairs = [(t,) for t in level] if not ops else list(zip(level[::2], level[1::2], strict=True))
        level = []
        for inputs in pairs:
            tensors.append(Tensor(len(tensors), 4, Kind.ACTIVATION, f"t{len(tensors)}"))
            ops.append(Op(len(ops), inputs, (len(tensors) - 1,), f"op{len(ops)}"))
            level.append(len(tensors) - 1)
    tensors[-1] = replace(tensors[-1], kind=Kind.OUTPUT)
    graph = Graph("tree", tuple(tensors), tuple(ops))
    return spill_problem(graph, STRICT, (Memory("fast", 40),))


def test_too_many_ways_to_make_room_are_not_all_tried():
    """C(31, 20) sets could leave at the last leaf: the search ends, and says no more than what it knows."""
    problem = leaves_first(32)
    result = search(core_problem(problem, range(problem.steps), chain=True), limit=2000)
    assert result.found or result.ended != "complete"
    assert result.bound <= least_by_belady(problem)
    answer = Spill(states=5000).spill(problem, Limits(60))
    assert simulate(problem, answer) == answer.traffic_bytes == 0


def least_by_belady(problem: SpillProblem) -> int:
    """Traffic of the file order if, to make room, what is used last leaves: least here, as all sizes are equal."""
    return Belady().spill(problem, Limits(60)).traffic_bytes


@pytest.mark.slow
def test_what_is_live_at_once_bounds_every_order():
    """Never above the least traffic; sometimes more than nothing."""
    rng = Random(21)
    above = 0
    for k in range(120):
        problem = small_problem(rng, EVERY_SEMANTICS[k % len(EVERY_SEMANTICS)], n_ops=6)
        peak = least_peak(problem, Limits(20)).lower_bound
        bound = live_too_much(problem, peak)
        least = least_traffic(problem, addresses=False)
        assert least is None or bound <= least
        above += bound > 0
    for seed in range(6):
        graph = zoo.build(f"random_width:width=12,n=60,seed={seed}").graph()
        problem = spill_problem(graph, STRICT, (Memory("fast", 1),))
        problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
        peak = least_peak(problem, Limits(20)).lower_bound
        bound = live_too_much(problem, peak)
        assert bound <= Belady("exact").spill(problem, Limits(20)).traffic_bytes
        above += bound > 0
    assert above > 3
