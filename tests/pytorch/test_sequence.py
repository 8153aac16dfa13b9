"""Sequences of op instances against a plain simulation, and the search that makes them; no torch is needed."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.analyse.model import MemoryModel
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.method import Schedule
from lowtide.stop import Limits
from lowtide.torch.search import largest_op, least_more, problem_of, search
from lowtide.torch.sequence import sequence_of, why_not


def there_and_back(length: int, seed: int, extra: int = 3) -> Graph:
    """A chain with some joins, and back along it: what a training step looks like."""
    draw = Random(seed)
    sizes = [draw.randrange(1, 9) for _ in range(2 * length + 1)]
    tensors = [Tensor(0, 4, Kind.INPUT, "x")]
    tensors += [
        Tensor(t + 1, size, Kind.OUTPUT if t == 2 * length else Kind.ACTIVATION, f"t{t}")
        for t, size in enumerate(sizes)
    ]
    ops = [Op(0, (0,), (1,), workspace=draw.randrange(3))]
    for k in range(1, length):
        reads = {k, *(draw.randrange(1, k + 1) for _ in range(draw.randrange(2)))}
        ops.append(Op(k, tuple(sorted(reads)), (k + 1,), workspace=draw.randrange(3)))
    for k in range(length, 2 * length + 1):
        mirror = max(1, 2 * length - k)
        others = {draw.randrange(1, length) for _ in range(draw.randrange(extra))}
        ops.append(Op(k, tuple(sorted({k, mirror, *others})), (k + 1,)))
    return Graph("there and back", tuple(tensors), tuple(ops))


def held(graph: Graph, order: list[int]) -> list[int]:
    """Bytes step by step, by looking forward from each instance for who reads it before its op runs again."""
    result = []
    for now in range(len(order)):
        live = graph.op_by_id[order[now]].workspace
        for start in range(now + 1):
            for t in graph.op_by_id[order[start]].outputs:
                if graph.tensor_by_id[t].alias_of is not None:
                    continue
                again = next((k for k in range(start + 1, len(order)) if order[k] == order[start]), len(order))
                last = max([k for k in range(start, len(order)) if k <= again and t in graph.op_by_id[order[k]].inputs],
                           default=start)  # fmt: skip
                kept = graph.tensor_by_id[t].kind is Kind.OUTPUT and again == len(order)
                live += graph.tensor_by_id[t].size if kept or last >= now else 0
        result.append(live)
    return result


@given(
    st.integers(2, 7), st.integers(0, 10**6), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5)
)
def test_footprints_are_those_of_a_plain_simulation(length: int, seed: int, again: list[tuple[int, int]]) -> None:
    """Any ops run again at any place where what they read is there."""
    graph = there_and_back(length, seed)
    order = list(graph.own_order)
    for op, place in again:
        tried = list(order)
        tried.insert(place % (len(order) + 1), op % len(graph.ops))
        if why_not(graph, tried) is None:
            order = tried
    sequence = sequence_of(graph, order)
    assert list(sequence.footprint) == held(graph, order)
    assert sequence.ops == tuple(order)


@given(st.integers(2, 7), st.integers(0, 10**6))
def test_every_death_is_there_and_nothing_is_read_dead(length: int, seed: int) -> None:
    """Run on names: what is read is there, and at the end only results are left."""
    graph = there_and_back(length, seed)
    order = [*graph.own_order[:-1], graph.own_order[0], graph.own_order[-1]]
    sequence = sequence_of(graph, order)
    there = {"x"}
    for instance, dies in zip(sequence.instances, sequence.dies, strict=True):
        reads = {graph.tensor_by_id[t].name for t in graph.op_by_id[instance.op].inputs}
        assert reads <= there
        there |= instance.made
        assert set(dies) <= there
        there -= set(dies)
    assert there == {"x", graph.tensors[-1].name}


def test_what_must_not_run_again_is_refused() -> None:
    """A random op, one that writes, one that reads what was changed since; an op too early, one left out."""
    tensors = (
        Tensor(0, 4, Kind.INPUT, "w"), Tensor(1, 4, Kind.ACTIVATION, "a"), Tensor(2, 4, Kind.OUTPUT, "b"),
        Tensor(3, 4, Kind.OUTPUT, "w after", alias_of=0),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1,)), Op(1, (1,), (2,), attributes={"random": 1}), Op(2, (0, 1), (3,), after=(0,)),
    )  # fmt: skip
    graph = Graph("writes", tensors, ops)
    assert why_not(graph, [0, 1, 2]) is None
    assert why_not(graph, [0, 0, 1, 2]) is None
    for order, why in (
        ([0, 1, 1, 2], "cannot run twice"),
        ([0, 1, 2, 2], "cannot run twice"),
        ([0, 2, 0, 1], "changes what it reads"),
        ([1, 0, 2], "not made yet"),
        ([0, 1], "1 ops do not run"),
    ):
        assert why in (why_not(graph, order) or "")
        with pytest.raises(ValueError, match=why):
            sequence_of(graph, order)
    early = Graph("early", tensors, (Op(0, (0,), (1,)), ops[1], Op(2, (0,), (3,), after=(0,))))
    assert "stay after" in (why_not(early, [2, 0, 1]) or "")


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(3, 9), st.integers(0, 10**6), st.integers(30, 100))
def test_what_the_search_gives_is_valid_and_within_the_budget_it_claims(length: int, seed: int, percent: int) -> None:
    """Every sequence holds; none is above file order; nothing is below the floor; the same call gives the same."""
    graph = there_and_back(length, seed, extra=1)
    seconds = dict.fromkeys(graph.own_order, 1.0)
    own = sequence_of(graph, graph.own_order).peak_bytes
    budget = max(1, own * percent // 100)
    order = search(graph, seconds, budget, 5.0)
    peak = sequence_of(graph, order).peak_bytes
    assert largest_op(graph)[0] <= peak <= own
    assert list(order) == list(search(graph, seconds, budget, 5.0))


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 9), st.integers(0, 10**6), st.integers(60, 95))
def test_no_plan_takes_less_than_the_bound(length: int, seed: int, percent: int) -> None:
    """What is found within a budget, in steps that update parameters and in others."""
    for graph in (there_and_back(length, seed), updated(there_and_back(length, seed))):
        seconds = {op: float(1 + op * seed % 7) for op in graph.own_order}
        budget = sequence_of(graph, graph.own_order).peak_bytes * percent // 100
        order = search(graph, seconds, budget, 0.2, 20)
        if sequence_of(graph, order).peak_bytes <= budget:
            more = sum(seconds[op] for op in order) - sum(seconds.values())
            assert least_more(graph, seconds, budget, 1.0) <= more


def test_the_bound_is_the_overhead_where_there_is_but_one_way() -> None:
    """A chain there and back within one tensor less than it holds: the cheapest op that may run again does."""
    graph = long_chain(4)
    seconds = {op: float(2 + op) for op in graph.own_order}
    own = sequence_of(graph, graph.own_order).peak_bytes
    order = search(graph, seconds, own - 1, 1.0)
    more = sum(seconds[op] for op in order) - sum(seconds.values())
    assert 0 < least_more(graph, seconds, own - 1, 1.0) <= more


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_nothing_runs_again_behind_what_changes_what_it_reads(length: int, seed: int) -> None:
    """Random changes in the core of a step whose last ops update what the first ones read: each sequence may be run,
    and takes what a plain simulation says."""
    graph = updated(there_and_back(length, seed))
    core = problem_of(graph, dict.fromkeys(graph.own_order, 1.0))
    for positions, peak in core.shuffle(range(len(graph.ops)), 40, seed):
        order = [graph.ops[i].id for i in positions]
        assert why_not(graph, order) is None
        assert peak == max(sequence_of(graph, order).footprint) == max(held(graph, order))


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(3, 9), st.integers(0, 10**6), st.integers(40, 90))
def test_a_step_that_updates_is_sought_so_too(length: int, seed: int, percent: int) -> None:
    """What the search gives for it may be run."""
    graph = updated(there_and_back(length, seed, extra=1))
    own = sequence_of(graph, graph.own_order).peak_bytes
    order = search(graph, dict.fromkeys(graph.own_order, 1.0), max(1, own * percent // 100), 5.0)
    assert sequence_of(graph, order).peak_bytes <= own


def updated(graph: Graph) -> Graph:
    """With a parameter that every second op of the way there reads, changed by an op behind the last op but one."""
    parameter, after = len(graph.tensors), len(graph.tensors) + 1
    there = len(graph.ops) // 2
    ops = [
        replace(op, inputs=(*op.inputs, parameter)) if op.id < there and op.id % 2 == 0 else op for op in graph.ops[:-1]
    ]
    readers = tuple(op.id for op in ops if parameter in op.inputs)
    gradient = ops[-1].outputs[0]
    ops.append(Op(len(graph.ops), (gradient, parameter), (after,), after=readers))
    tensors = (
        *graph.tensors, Tensor(parameter, 4, Kind.INPUT, "w"), Tensor(after, 4, Kind.OUTPUT, "w after",
        alias_of=parameter),
    )  # fmt: skip
    return Graph("updated", tensors, (*ops, graph.ops[-1]))


def long_chain(length: int) -> Graph:
    """Equal ops there, and back over what each of them made."""
    tensors = [Tensor(0, 1, Kind.INPUT, "x")]
    tensors += [
        Tensor(t, 10, Kind.OUTPUT if t == 2 * length else Kind.ACTIVATION, f"t{t}") for t in range(1, 2 * length + 1)
    ]
    ops = [Op(k, (k,), (k + 1,)) for k in range(length)]
    ops += [Op(k, (k, 2 * length - k), (k + 1,)) for k in range(length, 2 * length)]
    return Graph("chain", tuple(tensors), tuple(ops))


@pytest.mark.slow
def test_a_long_chain_fits_into_a_third() -> None:
    """Sixty equal ops there and back, and each runs a second time at most."""
    length = 60
    graph = long_chain(length)
    own = sequence_of(graph, graph.own_order).peak_bytes
    order = search(graph, dict.fromkeys(graph.own_order, 1.0), own // 3, 20.0)
    assert sequence_of(graph, order).peak_bytes <= own // 3
    assert len(order) <= 2 * length + 2 * length


def test_the_first_plan_is_there_before_an_order_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that takes all of the time and finds nothing: the plan within the budget stands, and is reported."""
    graph = there_and_back(9, 3, extra=1)
    own = sequence_of(graph, graph.own_order).peak_bytes
    reported: list[float] = []

    class Slow:
        """Own order, when the time is over."""

        def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
            assert len(reported) == 1
            time.sleep(0.2)
            return Schedule(graph.own_order)

    monkeypatch.setattr("lowtide.torch.search.Exact", Slow)
    budget, seconds = int(own * 0.8), dict.fromkeys(graph.own_order, 1.0)
    order = search(graph, seconds, budget, 0.2, report=reported.append)
    assert sequence_of(graph, order).peak_bytes <= budget
    assert len(graph.ops) < len(order) <= reported[0]
