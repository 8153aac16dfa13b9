"""Ops that run again instead of a fill: less traffic, checked against brute force on the rewritten graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan, from_json
from lowtide.spill.core_problem import core_problem
from lowtide.spill.problem import Memory, SpillProblem, spill_problem
from lowtide.spill.remat import rematerialise
from lowtide.spill.search import Spill
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.check.rewrites import rewritten
from lowtide.write.graph_json import graph_json_bytes
from support.random_graphs import random_graph
from support.spill_brute import least_traffic
from support.spill_problems import search
from support.spill_replay import simulate

STRICT = BUILT_IN["strict"]
LIMITS = Limits(100_000)
AGAIN = {"rematerialise": "true"}


def cheap_again() -> Graph:
    """s is made of a tensor of 1 byte that lives on, read early, and again after an op that needs all the room."""
    tensors = (
        Tensor(0, 1, Kind.INPUT, "x"), Tensor(1, 4, Kind.ACTIVATION, "s"), Tensor(2, 3, Kind.ACTIVATION, "a"),
        Tensor(3, 6, Kind.ACTIVATION, "b"), Tensor(4, 2, Kind.ACTIVATION, "c"), Tensor(5, 1, Kind.OUTPUT, "d"),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1,), "make"), Op(1, (1,), (2,), "early"), Op(2, (2,), (3,), "wide"),
        Op(3, (3,), (4,), "narrow"), Op(4, (4, 1, 0), (5,), "late"),
    )  # fmt: skip
    return Graph("again", tensors, ops, sha256="1" * 64)


def plan_again() -> Plan:
    """Its plan in 10 bytes, with `make` run twice."""
    return lowtide.research.plan(cheap_again(), target="strict", memories=["fast=10"], moves=AGAIN)


def test_an_op_runs_again_where_that_moves_less():
    """Without: s out and back, 8 bytes; with: nothing moves, and the plan says what runs again, for whom."""
    without = lowtide.research.plan(cheap_again(), target="strict", memories=["fast=10"])
    assert without.traffic_bytes == 8
    plan = plan_again()
    assert (plan.traffic_bytes, plan.optimal, len(plan.order)) == (0, True, 6)
    assert [(r.of, r.replaced, r.readers) for r in plan.rewrites or []] == [(0, 1, [4])]
    assert [op.recompute_of for op in plan.ops if op.recompute_of is not None] == [0]
    assert plan.own_order_peak_bytes == without.own_order_peak_bytes
    again = from_json(plan.to_json())
    verify_plan(cheap_again(), again, STRICT)


def changed(plan: Plan, **changes: Any) -> Plan:
    """The plan with its only rewrite changed."""
    assert plan.rewrites is not None
    return msgspec.structs.replace(plan, rewrites=[msgspec.structs.replace(plan.rewrites[0], **changes)])


BROKEN = {
    "of another op": {"of": 2},
    "of nothing": {"of": 77},
    "for a reader that does not read it": {"readers": [3]},
    "for nobody there": {"readers": [4, 99]},
    "for what it does not make": {"replaced": 2},
    "too many outputs": {"outputs": [6, 7]},
    "outputs that are there": {"outputs": [3]},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rewrite_is_refused(name: str):
    """Each by the rule's name."""
    with pytest.raises(VerificationError) as caught:
        verify_plan(cheap_again(), changed(plan_again(), **BROKEN[name]), STRICT)
    assert caught.value.failure == "rewrites"


def overwritten() -> Graph:
    """`cheap_again` with an op in the middle that writes over x, which `make` reads."""
    graph = cheap_again()
    over = Op(7, (2, 0), (9,), "over")
    ops = (*graph.ops[:2], over, replace(graph.ops[2], inputs=(2, 9)), *graph.ops[3:])
    return replace(graph, tensors=(*graph.tensors, Tensor(9, 1, Kind.ACTIVATION, "x2", alias_of=0)), ops=ops)


def test_an_op_whose_input_is_written_over_does_not_run_again():
    """It would read what is there by then: neither planned nor believed."""
    plan = lowtide.research.plan(overwritten(), target="strict", memories=["fast=10"], moves=AGAIN)
    assert not plan.rewrites
    with pytest.raises(VerificationError, match="writes over what") as caught:
        rewritten(overwritten(), plan_again(), BUILT_IN["strict"])
    assert caught.value.failure == "rewrites"


def test_a_random_op_does_not_run_again():
    """It would make something else: neither planned nor believed."""
    graph = cheap_again()
    graph = replace(graph, ops=(replace(graph.ops[0], attributes={"random": 1}), *graph.ops[1:]))
    assert not lowtide.research.plan(graph, target="strict", memories=["fast=10"], moves=AGAIN).rewrites
    with pytest.raises(VerificationError, match="makes something else on every run"):
        rewritten(graph, plan_again(), BUILT_IN["strict"])


def test_rewrites_that_are_left_out_are_missed():
    """The ops say that one is recomputed."""
    with pytest.raises(VerificationError) as caught:
        verify_plan(cheap_again(), msgspec.structs.replace(plan_again(), rewrites=None), STRICT)
    assert caught.value.failure == "rewrites"


def test_a_model_with_ops_run_twice_is_not_written(tmp_path: Path):
    """The plan is; the model would need ops that it does not have."""
    path = tmp_path / "m.graph.json"
    path.write_bytes(graph_json_bytes(cheap_again()))
    plan = lowtide.research.plan(path, target="strict", memories=["fast=10"], moves=AGAIN)
    with pytest.raises(InputError, match="recomputes operators"):
        lowtide.apply(plan, path, tmp_path / "out.graph.json")
    assert not (tmp_path / "out.graph.json").exists()


def rematerialised(problem: SpillProblem) -> tuple[SpillProblem, Any, tuple[Any, ...]]:
    """The problem with clones, under strict."""
    return rematerialise(
        problem,
        Spill().spill(problem, LIMITS),
        lambda graph: spill_problem(graph, STRICT, problem.memories, problem.semantics),
        lambda other: Spill().spill(other, LIMITS),
        lambda: True,
    )


@pytest.mark.slow
def test_never_more_than_without_and_what_brute_force_says_of_the_new_graph():
    """The traffic is the least of the graph with its clones, and smaller with each."""
    rng = Random(11)
    cloned = 0
    for _ in range(60):
        graph = random_graph(rng, 7, plain=True)
        if not graph.ops:
            continue
        problem = spill_problem(graph, STRICT, (Memory("fast", 1),))
        problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
        before = search(core_problem(problem)).cost
        other, answer, clones = rematerialised(problem)
        assert simulate(other, answer) == answer.traffic_bytes
        if not answer.counters["mended"]:
            assert answer.traffic_bytes == least_traffic(other, addresses=False)
            assert answer.traffic_bytes < before if clones else answer.traffic_bytes == before
        assert answer.optimal == (answer.traffic_bytes == 0)
        cloned += bool(clones)
    assert cloned > 2


@pytest.mark.slow
def test_random_plans_with_clones_hold():
    """Under every target, read back from their file."""
    rng = Random(12)
    cloned = 0
    for k in range(60):
        graph = random_graph(rng, 9, plain=k % 2 == 0)
        target = ("strict", "hmcos", "generic")[k % 3]
        if not graph.ops:
            continue
        least = lowtide.research.plan(graph, target=target, memories=["fast=1000000"]).lower_bound_bytes
        memories = {"fast": max(1, least) * BUILT_IN[target].alignment}
        plan = lowtide.research.plan(graph, target=target, memories=memories, moves=AGAIN)
        if plan.moves is not None:
            verify_plan(graph, from_json(plan.to_json()), BUILT_IN[target])
            cloned += bool(plan.rewrites)
    assert cloned > 0
