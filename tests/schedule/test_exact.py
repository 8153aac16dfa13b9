from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.certificates import CutCertificate, NoCertificate, SearchCertificate
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.exact import Exact, core_model
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from lowtide.verify.prove.search import refute
from lowtide_research import zoo
from stress_exact import (
    ALL_ON,
    SWITCHES,
    combination,
    combinations,
    flaws,
    flaws_by_hand,
    flaws_waiting,
    is_topological,
    sample,
    scaled,
    solve,
)
from support.brute import optimum
from support.hard_graphs import training_step, unit_matrix_product
from support.random_graphs import random_graph, random_order, with_own_order

STRICT = BUILT_IN["strict"]


HARD = unit_matrix_product(4)


def renumbered(rng: Random, graph: Graph) -> Graph:
    """The same graph with other ids and its ops and tensors in another order."""
    tensor = dict(zip((t.id for t in graph.tensors), rng.sample(range(10**6), len(graph.tensors)), strict=True))
    op = dict(zip((o.id for o in graph.ops), rng.sample(range(10**6), len(graph.ops)), strict=True))
    tensors = [
        replace(t, id=tensor[t.id], alias_of=None if t.alias_of is None else tensor[t.alias_of]) for t in graph.tensors
    ]
    ops = [
        replace(
            o,
            id=op[o.id],
            inputs=tuple(tensor[t] for t in o.inputs),
            outputs=tuple(tensor[t] for t in o.outputs),
            after=tuple(op[a] for a in o.after if a in op),
        )
        for o in graph.ops
    ]
    shuffled = Graph(graph.name, tuple(rng.sample(tensors, len(tensors))), tuple(ops), (), "", graph.sha256)
    return with_own_order(shuffled, random_order(rng, shuffled))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_combination_of_switches_agrees_with_brute_force(part: int) -> None:
    """On a thousand random graphs, each with 32 combinations, budgets around the optimum asked as well."""
    graphs, many = 1 << len(SWITCHES) - 5, 32
    seen = {tuple(c.values()) for i in range(graphs) for c in combinations(i, many)}
    assert len(seen) == many * graphs == 1 << len(SWITCHES)
    found = [line for i in range(part * graphs // 4, (part + 1) * graphs // 4) for line in flaws(7, i, many)]
    assert not found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_any_graph_agrees_with_brute_force(seed: int, index: int) -> None:
    """Whatever graph hypothesis asks for, under any target."""
    assert not flaws(seed, index)


def test_graphs_made_for_one_rule_agree_with_brute_force() -> None:
    """In every file order."""
    assert not [line for i in range(0, 1200, 20) for line in flaws_by_hand(3, i)]


def test_searches_on_demand_run_all_that_a_chain_waits_for() -> None:
    """Several tensors read by others, gone before the chain's last op, or written over by it."""
    assert not [line for i in range(120) for line in flaws_waiting(3, i)]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_ids_and_own_order_do_not_matter(target: str) -> None:
    """Renumbered and shuffled, a graph has the same least peak; its sizes times 3, three times that."""
    for seed in range(60):
        rng = Random(seed)
        graph = random_graph(rng, 24)
        n = len(graph.ops)
        peaks = []
        for other in (graph, renumbered(rng, graph), renumbered(rng, graph), scaled(graph, 3)):
            result = solve(core_model(memory_model(other, BUILT_IN[target])), n)
            assert result.stopped == "proof"
            peaks.append(result.peak)
        assert peaks == [peaks[0]] * 3 + [3 * peaks[0]]


@pytest.mark.slow
def test_budget_question_is_answered_with_proof() -> None:
    """One byte below the optimum: no, with a certificate that says so; at the optimum: an order within it."""
    certificates = set()
    for seed in range(150):
        graph = random_graph(Random(seed), 9)
        target = BUILT_IN[("strict", "hmcos", "generic")[seed % 3]]
        model = memory_model(graph, target)
        best = optimum(graph, target)
        no = Exact(beams=seed % 2 == 0).within(model, best - 1, Limits())
        assert no.lower_bound == best
        certificates.add(type(no.certificate))
        if isinstance(no.certificate, SearchCertificate):
            assert best - 1 <= no.certificate.refuted_bytes < best
        if isinstance(no.certificate, CutCertificate):
            assert no.certificate.value_bytes == best
        yes = Exact().within(model, best, Limits())
        assert profile(model, yes.order).peak == best
    assert certificates >= {SearchCertificate, CutCertificate}


def test_bound_never_passes_the_optimum_when_a_budget_lies_between_two_multiples() -> None:
    """Sizes are multiples of 6; a refuted budget that is none proves the next multiple and no more."""
    for seed in range(60):
        graph = scaled(random_graph(Random(seed), 9), 6)
        model = memory_model(graph, STRICT)
        best = optimum(graph, STRICT)
        for below in range(1, 6):
            answer = Exact(cut=False, beams=False).within(model, best - below, Limits())
            assert best - below < answer.lower_bound <= best, seed


@pytest.mark.slow
def test_larger_graphs_agree_with_a_second_search() -> None:
    """On 28 ops, `verify`'s plain search finds no order one byte below, and one at the peak."""
    agreed = 0
    for seed in range(40):
        graph = random_graph(Random(seed), 28)
        target = BUILT_IN[("strict", "hmcos", "generic")[seed % 3]]
        model = memory_model(graph, target)
        result = solve(core_model(model), len(graph.ops))
        assert result.peak == result.lower_bound
        no = refute(graph, work_out(graph, target), result.peak - 1, seconds=1, max_states=3000)
        yes = refute(graph, work_out(graph, target), result.peak, seconds=1, max_states=3000)
        assert no.order is None
        agreed += no.complete and yes.order is not None
    assert agreed > 20


@pytest.mark.slow
def test_engines_agree_beyond_a_few_words() -> None:
    """300 ops, states of five words: each engine and direction alone proves the same peak, fused or not."""
    proofs = 0
    for seed in range(2):
        graph = random_graph(Random(seed), 320, width=4)
        n = len(graph.ops)
        assert n > 256
        core = core_model(memory_model(graph, BUILT_IN["generic"]))
        peaks = {solve(core, n).peak}
        for off in (
            ("forward", "best_first"),
            ("forward", "nested"),
            ("reversed", "best_first"),
            ("reversed", "nested"),
        ):
            for more in ((), ("fuse_a", "fuse_b", "fuse_c"), ("cut", "beams")):
                result = solve(core, n, {**ALL_ON, **dict.fromkeys((*off, *more), False)}, seconds=0.1)
                if result.stopped == "proof":
                    peaks.add(result.peak)
                    proofs += 1
        assert len(peaks) == 1
    assert proofs


def facts(result: _core.Solution) -> dict[str, Any]:
    """What a result says, but for seconds."""
    named = {name: getattr(result, name) for name in result.__match_args__}
    return {**named, "trace": [(point.best, point.bound) for point in result.trace]}


@pytest.mark.parametrize("number", [4095, 4095 - 16, 0b111100001111, 0b101011111000])
def test_the_same_call_twice_gives_the_same_result(number: int) -> None:
    """Orders, bounds and counters alike; the trace too, but for its seconds."""
    for index in range(40):
        _, graph, target = sample(5, index)
        core = core_model(memory_model(graph, target))
        n = len(graph.ops)
        first, second = (solve(core, n, combination(number), seed=3) for _ in range(2))
        assert facts(first) == facts(second)


def test_schedule_says_what_it_did() -> None:
    """Order, bound, certificate, why it stopped, and counters."""
    graph = random_graph(Random(4), 20)
    model = memory_model(graph, STRICT)
    schedule = Exact().schedule(model, Limits())
    assert is_topological(graph.predecessors, schedule.order)
    assert schedule.stopped == "proof"
    assert profile(model, schedule.order).peak == schedule.lower_bound
    assert schedule.counters.keys() == {
        "reduced_ops",
        "states",
        "beam_states",
        "cuts",
        "symmetries",
        "search_memory_bytes",
    }


def test_no_op_and_one_op() -> None:
    """The smallest graphs are proved as they stand."""
    nothing = Graph("nothing", (), ())
    schedule = Exact().schedule(memory_model(nothing, STRICT), Limits())
    assert (schedule.order, schedule.lower_bound, schedule.stopped) == ((), 0, "proof")
    assert isinstance(schedule.certificate, NoCertificate)
    one = Graph("one", (Tensor(0, 5, Kind.INPUT), Tensor(1, 7, Kind.OUTPUT)), (Op(0, (0,), (1,)),))
    schedule = Exact().schedule(memory_model(one, STRICT), Limits())
    assert (schedule.order, schedule.lower_bound, schedule.stopped) == ((0,), 12, "proof")


def test_all_switches_off_leaves_the_own_order() -> None:
    """Nothing that searches and nothing that bounds: an order is returned, complete and without proof."""
    core = core_model(memory_model(HARD, STRICT))
    result = solve(core, len(HARD.ops), dict.fromkeys(SWITCHES, False))
    assert result.stopped == "complete"
    assert is_topological(HARD.predecessors, result.order)
    assert result.lower_bound == 0


def test_unknown_switch_is_refused() -> None:
    """By its name."""
    with pytest.raises(KeyError, match="fuse_d"):
        solve(core_model(memory_model(HARD, STRICT)), len(HARD.ops), {"fuse_d": True})


def test_time_limit_is_kept() -> None:
    """A hard graph stops when its time is over, with an order and a bound."""
    model = memory_model(HARD, STRICT)
    schedule = Exact().schedule(model, Limits(seconds=0.1))
    assert schedule.stopped == "time"
    assert 0 < schedule.lower_bound < profile(model, schedule.order).peak


@pytest.mark.slow
def test_memory_limit_is_kept() -> None:
    """A hard graph stops when its memory is full, and uses at most a little more."""
    limit = 1 << 20
    result = solve(core_model(memory_model(HARD, STRICT)), len(HARD.ops), memory_bytes=limit, seconds=30)
    assert result.stopped == "memory"
    assert 0 < result.memory_bytes < limit
    assert 0 < result.lower_bound < result.peak


@pytest.mark.slow
def test_progress_is_reported() -> None:
    """Best never rises, bound never falls, the clock goes on."""
    seen: list[Progress] = []

    def report(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    assert Exact().schedule(memory_model(HARD, STRICT), Limits(report=report)).stopped == "interrupt"
    for a, b in pairwise(seen):
        assert a.best_bytes >= b.best_bytes >= b.bound_bytes >= a.bound_bytes
        assert a.seconds < b.seconds


def test_interrupt_in_the_report_ends_the_search() -> None:
    """The best order so far is returned."""

    def report(progress: Progress) -> None:
        raise KeyboardInterrupt

    schedule = Exact().schedule(memory_model(HARD, STRICT), Limits(seconds=20, report=report))
    assert schedule.stopped == "interrupt"
    assert is_topological(HARD.predecessors, schedule.order)


def test_any_other_error_in_the_report_is_passed_on() -> None:
    """A fault of the caller is not swallowed."""

    def report(progress: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Exact().schedule(memory_model(HARD, STRICT), Limits(seconds=20, report=report))


def test_interrupt_from_the_keyboard_ends_the_search() -> None:
    """Ctrl-C reaches the core while it searches: it is pressed after the first report."""
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))

    def report(best: int, bound: int, seconds: float) -> bool:
        if timer.ident is None:
            timer.start()
        return False

    result = solve(core_model(memory_model(HARD, STRICT)), len(HARD.ops), seconds=3600, report=report)
    timer.join()
    assert result.stopped == "interrupt"
    assert is_topological(HARD.predecessors, result.order)


def test_report_can_stop_the_search() -> None:
    """A report that returns true stops the search."""
    calls = []

    def report(best: int, bound: int, seconds: float) -> bool:
        calls.append((best, bound, seconds))
        return len(calls) == 2

    result = solve(core_model(memory_model(HARD, STRICT)), len(HARD.ops), seconds=20, report=report)
    assert len(calls) == 2
    assert result.stopped == "interrupt"


@pytest.mark.slow
def test_two_threads_give_the_same_bytes() -> None:
    """Long turns run side by side; who is quicker changes nothing, counters included."""
    graph = zoo.build("randwire_ws_one_stage:nodes=64,seed=1").graph()
    core = core_model(memory_model(graph, STRICT))
    runs = []
    for _ in range(3):
        result = Exact(first_slice=30000, beams=False, cut=False)._solve(core, len(graph.ops), Limits())
        assert result.stopped == "proof"
        runs.append({name: value for name, value in facts(result).items() if name != "trace"})
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.slow
@pytest.mark.parametrize(("first_slice", "most"), [(100, 1000), (30000, 40000)])
def test_a_limit_of_states_gives_the_same_result_each_time(first_slice: int, most: int) -> None:
    """On one thread and on two; fewer states are a part of the search with more, and one without the limit goes on."""
    core, n = core_model(memory_model(HARD, STRICT)), len(HARD.ops)
    first, second, fewer = (
        solve(core, n, seconds=600, first_slice=first_slice, most_states=states) for states in (most, most, most // 4)
    )
    assert facts(first) == facts(second)
    assert first.stopped == "complete"
    assert fewer.states < first.states < 8 * most
    assert fewer.peak >= first.peak
    assert fewer.lower_bound <= first.lower_bound < first.peak


@pytest.mark.slow
@pytest.mark.parametrize("work", [10**7, 10**9])
def test_a_limit_of_work_gives_the_same_result_each_time(work: int) -> None:
    """It is kept, about; less work is a part of the search with more."""
    core, n = core_model(memory_model(HARD, STRICT)), len(HARD.ops)
    first, second, less = (solve(core, n, seconds=600, most_work=most) for most in (work, work, work // 4))
    assert facts(first) == facts(second)
    assert first.stopped == "complete"
    assert work / 4 < first.work < 2 * work
    assert less.work < first.work
    assert less.peak >= first.peak
    assert less.lower_bound <= first.lower_bound < first.peak


@pytest.mark.slow
def test_an_error_in_a_report_comes_through_while_two_threads_search() -> None:
    """Turns are long enough for two from the first on: the other thread is ended and waited for."""
    calls = 0

    def report(_best: int, _bound: int, _seconds: float) -> bool:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise LookupError("a bug of the caller's")
        return False

    core, n = core_model(memory_model(HARD, STRICT)), len(HARD.ops)
    switches = {**ALL_ON, "beams": False, "cut": False}
    with pytest.raises(LookupError, match="a bug"):
        solve(core, n, switches, seconds=20, first_slice=30000, report=report)


@pytest.mark.parametrize("gap", [0.0, 0.03, 0.25, 0.9])
def test_a_gap_ends_the_search_once_the_bound_is_so_near(gap: float) -> None:
    """No sooner; the same order every time; what is proved by then is proved, and without a gap all of it is."""
    model = memory_model(unit_matrix_product(3), BUILT_IN["strict"])
    first, second = (Exact().schedule(model, Limits(20, gap=gap)) for _ in range(2))
    peak = profile(model, first.order).peak
    assert peak - first.lower_bound <= gap * peak
    assert (first.order, first.lower_bound, first.counters["states"]) == (
        second.order, second.lower_bound, second.counters["states"],
    )  # fmt: skip
    assert first.stopped == ("proof" if peak == first.lower_bound else "complete")
    assert first.lower_bound <= Exact().schedule(model, Limits(20)).lower_bound


@pytest.mark.parametrize("engine", ["best_first", "nested"])
def test_a_step_of_training_is_searched_on_demand(engine: str) -> None:
    """What runs ahead in a step of training is not searched: states grow with its layers, not with their subsets."""
    states: dict[tuple[int, bool], int] = {}
    for layers, demand in ((5, True), (10, True), (10, False)):
        model = memory_model(training_step(layers), STRICT)
        on = {"forward", engine, "closure", "safe_moves", "commits"} | ({"demand"} if demand else set())
        switches = {name: name in on for name in SWITCHES}
        result = solve(core_model(model), len(model.graph.ops), switches)
        assert result.stopped == "proof"
        assert result.peak == solve(core_model(model), len(model.graph.ops)).peak
        states[layers, demand] = result.states
    assert states[10, True] < 4 * states[5, True] < 400
    assert states[10, False] > 20 * states[10, True]


def test_a_question_that_was_answered_is_not_ended_by_counted_work() -> None:
    """That no order fits, or that one does, is complete, whether or not work is counted."""
    model = memory_model(zoo.build("randwire_ws_one_stage:nodes=32").graph(), BUILT_IN["strict"])
    for work in (float("inf"), 30.0):
        limits = Limits(60.0, work_seconds=work)
        asked = replace(limits, budget_bytes=1, until_impossible=True)
        assert Exact().schedule(model, asked).stopped == "complete"
        assert Exact().within(model, 10**12, limits).stopped == "complete"
