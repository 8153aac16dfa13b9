"""What a plan says for pictures, against the definition, step by step."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.api.answer import Answer
from lowtide.api.problem import Problem
from lowtide.api.profiles import with_profile
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.target import BUILT_IN
from support.brute import peak_of
from support.random_graphs import random_graph


def _told(plan: Plan) -> tuple[list[int], dict[int, tuple[int, int]]]:
    assert plan.profile is not None
    lives = zip(plan.profile.starts, plan.profile.ends, strict=True)
    return plan.profile.bytes, dict(zip(plan.profile.storages, lives, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "generic", "hmcos"])
def test_lives_and_bytes_are_those_of_the_order(target: str):
    """A storage is there from the first to the last op that touches it; bytes are no more than what is there."""
    rng = Random(11)
    for _ in range(25):
        graph = random_graph(rng, rng.randint(1, 9))
        plan = lowtide.research.plan(graph, target=target, time=5)
        model = memory_model(graph, BUILT_IN[target])
        told, lives = _told(plan)
        step_of = {graph.index_of[v]: step for step, v in enumerate(plan.order)}
        held = {s.tensors[0]: s for s in model.storages if s.size}
        assert sorted(lives) == sorted(held)
        for root, (start, end) in lives.items():
            at = [step_of[i] for i in held[root].users]
            assert start == (0 if held[root].at_start else min(at))
            assert end == (max(len(plan.order), 1) if held[root].at_end else max(at) + 1)
        for step, footprint in enumerate(told):
            assert footprint <= sum(held[r].size for r, (a, b) in lives.items() if a <= step < b) + sum(model.workspace)
        assert max(told, default=0) == plan.peak_bytes == peak_of(graph, BUILT_IN[target], tuple(plan.order))
        assert plan.profile is not None
        assert max(plan.profile.own_order_bytes, default=0) == plan.own_order_peak_bytes


def test_what_is_kept_longer_than_used_is_said():
    """An output that is read early stays to the end, an input that is read late is there from the start."""
    tensors = [Tensor(i, 4, kind) for i, kind in enumerate([Kind.INPUT, Kind.OUTPUT, Kind.OUTPUT, Kind.INPUT])]
    graph = Graph("kept", tuple(tensors), (Op(0, (0,), (1,)), Op(1, (1, 3), (2,))))
    profile = lowtide.research.plan(graph, target="strict").profile
    assert profile is not None
    assert profile.used == {"3": (1, 2)}  # tensor 1 is read in the last step anyway
    assert dict(zip(profile.storages, profile.ends, strict=True)) == {0: 1, 1: 2, 2: 2, 3: 2}


def test_a_workspace_is_said_with_its_op():
    """And no op that has none."""
    tensors = (Tensor(0, 4, Kind.INPUT), Tensor(1, 4, Kind.ACTIVATION), Tensor(2, 4, Kind.OUTPUT))
    graph = Graph("scratch", tensors, (Op(7, (0,), (1,), workspace=100), Op(9, (1,), (2,))))
    profile = lowtide.research.plan(graph, target="strict").profile
    assert profile is not None
    assert profile.workspaces == {"7": 100}
    assert profile.bytes == [108, 8]


def test_a_plan_with_moves_says_the_own_order_only():
    """What is where is in its residency."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", target="strict", memories=["fast=190KiB"], time=2)
    assert plan.moves
    assert plan.profile is not None
    assert plan.profile.storages == plan.profile.bytes == []
    assert max(plan.profile.own_order_bytes) == plan.own_order_peak_bytes


def test_a_quick_plan_has_none():
    """`check` needs no picture."""
    assert lowtide.research.plan("zoo:swiftnet_cell_a", quick=True).profile is None


def test_what_the_model_says_of_tensors_is_kept():
    """Element type and shape, of all but constants."""
    plan = lowtide.research.plan("zoo:nasnet_a_cifar:n=1")
    told = {t.kind: (t.dtype, t.shape) for t in plan.tensors}
    assert told["input"] == ("float32", "1x3x32x32")
    assert told["constant"] == (None, None)


def test_what_the_plan_leaves_beside_its_input_counts_in_full():
    """Bytes are those of the plan's own in-place choices, not of all that the target allows."""
    tensors = (Tensor(0, 8, Kind.INPUT), *(Tensor(i, 8) for i in (1, 2)), Tensor(3, 8, Kind.OUTPUT))
    ops = tuple(Op(i, (i,), (i + 1,), type="Relu") for i in range(3))
    plan = lowtide.research.plan(Graph("relus", tensors, ops), target="hmcos")
    answer = Answer(Problem.of(Graph("relus", tensors, ops), BUILT_IN["hmcos"]), (0, 1, 2), {}, "own")  # type: ignore[typeddict-item]
    apart = with_profile(msgspec.structs.replace(plan, in_place=plan.in_place[1:]), answer, answer.problem)
    assert plan.profile is not None
    assert apart.profile is not None
    assert plan.profile.bytes == [8, 8, 8]
    assert apart.profile.bytes == [16, 8, 8]
