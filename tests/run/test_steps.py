"""Training steps in numpy: gradients against differences, plans against the step as it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide_research import zoo
from lowtide_research.zoo.step_net import StepNet
from support.decisions import drawn_plan, drawn_several
from support.step_runs import Held, random_feeds, run_plan, run_step
from support.steps import SMALL, labelled_graph, random_step


def _forward(graph: Graph, loss: int) -> Graph:
    """The ops that a loss depends on, alone."""
    needed, ops = {loss}, []
    for op in reversed(graph.ops):
        if needed & set(op.outputs):
            needed |= {*op.inputs, *op.outputs}
            ops.append(op)
    return Graph(graph.name, tuple(t for t in graph.tensors if t.id in needed), tuple(reversed(ops)))


def _gradients_hold(net: StepNet, seed: int = 0) -> None:
    """What the update adds to some weights is the difference quotient of the summed loss."""
    graph = net.graph()
    feeds = random_feeds(graph, seed)
    results = run_step(graph, feeds)
    loss = next(
        t.id for t in graph.tensors if t.kind is Kind.OUTPUT and graph.op_by_id[graph.producer[t.id]].type == "square"
    )
    forward = _forward(graph, loss)
    random = np.random.default_rng(seed)
    for op in (op for op in graph.ops if op.type == "update"):
        weight = op.inputs[0]
        at = tuple(int(random.integers(0, d)) for d in feeds[weight].shape)
        losses = []
        for step in (-1e-5, 1e-5):
            moved = feeds[weight].copy()
            moved[at] += step
            losses.append(run_step(forward, {**feeds, weight: moved})[loss].sum())
        quotient = (losses[1] - losses[0]) / 2e-5
        gradient = results[op.outputs[0]][at] - feeds[weight][at]
        assert gradient == pytest.approx(quotient, rel=1e-3, abs=1e-4 * abs(results[loss]).max()), op.label


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_gradients_of_the_workloads_are_those_of_their_loss(name: str) -> None:
    """By differences, one element of each weight."""
    net = zoo.build(f"{name}:{SMALL[name]}")
    assert isinstance(net, StepNet)
    _gradients_hold(net)


def _same(graph: Graph, plan: Plan, seed: int) -> float:
    """The largest difference of a result over its largest value, in float64."""
    feeds = random_feeds(graph, seed)
    own, planned = run_step(graph, feeds), run_plan(graph, plan, feeds)
    assert own.keys() == planned.keys()
    assert any(abs(own[t]).max() > 0 for t in own)
    if plan.exactness == "bits":
        assert all((own[t] == planned[t]).all() for t in own)
    return max(float(abs(own[t] - planned[t]).max() / max(abs(own[t]).max(), 1e-300)) for t in own)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), parts=st.integers(2, 7), share=st.integers(30, 95))
def test_plans_of_random_steps_compute_what_the_step_does(seed: int, parts: int, share: int) -> None:
    """In parts, equal or not, and with ops that run again; to 1e-6, and to the bit where nothing is added up."""
    graph = random_step(seed)
    rows = (graph.tensors[0].shape or (1,))[0]
    options = {"parts": str(min(parts, rows))}
    plan = lowtide.research.plan(
        graph, allow="recompute,tile", method="microbatch", options=options, max_overhead=900, time=0.5
    )
    assert plan.fission is not None
    assert [len(part.ends) for part in plan.fission.parts] == [min(parts, rows)]
    assert _same(graph, plan, seed) < 1e-6
    for words in ("recompute,tile", "recompute,tile,offload"):
        plan = lowtide.research.plan(graph, allow=words, budget=f"{share}%", time=0.15)
        assert _same(graph, plan, seed) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SMALL if name != "magis_unetpp"])
def test_plans_that_move_tensors_compute_what_the_workloads_do(name: str) -> None:
    """Each of the workloads but the slowest, small, as a random decision has it that stores something in parts."""
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    plans = (drawn_plan(graph, seed) for seed in range(1, 60, 2))
    plan = next(p for p in plans if p.fission and any(q.body["swapping"]["stored_bytes"] for q in p.fission.parts))
    lowtide.verify(graph, plan)
    assert _same(graph, plan, 1) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "how", [{"budget": "50%"}, {"max_overhead": 5.0}, {"max_overhead": 9.0, "method": "microbatch"}]
)
def test_plans_of_the_workloads_compute_what_they_do(name: str, how: dict[str, object]) -> None:
    """Each of the seven, small."""
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    plan = lowtide.research.plan(graph, allow="recompute,tile", time=0.3, **how)  # type: ignore[arg-type]
    assert _same(graph, plan, 1) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("how", [{"budget": "60%"}, {"max_overhead": 9.0, "method": "microbatch"}])
def test_plans_of_the_workloads_hold_what_they_say(name: str, how: dict[str, Any]) -> None:
    """Each of the seven, small: bytes of all arrays at once, in parts and again, to the byte; of what a plan adds for
    gaps in a part's arena none is held."""
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    plan = lowtide.research.plan(graph, allow="recompute,tile", target="strict", time=0.3, **how)
    assert plan.fission is not None
    bodies = [part.body for part in plan.fission.parts]
    kind = "float16" if name in ("magis_gpt_neo", "magis_btlm") else "float32"
    run_plan(graph, plan, random_feeds(graph, dtype=kind), held := Held())
    gaps = sum(int(body["required_bytes"]) - int(body["peak_bytes"]) for body in bodies)
    assert plan.peak_bytes - gaps <= held.peak <= plan.peak_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["magis_bert_base", "magis_vit_base"])
@pytest.mark.parametrize("how", [{"budget": "50%"}, {"max_overhead": 5.0}])
def test_plans_with_siblings_as_one_compute_what_the_workloads_do(
    name: str, how: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts and again, with tensors that leave memory and without; the step as it stands has next to no time."""
    monkeypatch.setattr("lowtide.api.moves.fissioning._APART", 0.001)
    graph = zoo.build(f"{name}:{SMALL[name]}").graph()
    for words in ("recompute,tile,merge", "recompute,tile,offload,merge"):
        plan = lowtide.research.plan(graph, allow=words, time=3.0, **how)  # type: ignore[arg-type]
        assert plan.fission is not None
        assert plan.fission.merged
        assert _same(graph, plan, 1) < 1e-6


@pytest.mark.slow
def test_drawn_plans_of_several_regions_compute_what_the_step_does() -> None:
    """Verified, too; with tensors that leave memory, and without."""
    drawn = 0
    for seed in range(40):
        graph = random_step(seed % 10)
        plan = drawn_several(graph, seed)
        if plan is not None:
            assert plan.fission is not None
            lowtide.verify(graph, plan)
            assert _same(graph, plan, seed) < 1e-9
            drawn += len(plan.fission.parts) > 1
    assert drawn >= 5


def test_rows_along_another_dimension_come_together_again() -> None:
    """Copies of rows that do not lie together, results written where they belong: equal to the bit."""
    graph = labelled_graph(
        [("relu", ["x"], "y", "a s -> a s"), ("add", ["x", "y"], "z", "a s, a s -> a s")],
        {"x": (1, 6), "y": (1, 6), "z": (1, 6)},
    )
    plan = lowtide.research.plan(graph, allow="recompute,tile", budget="90%", target="strict", time=1)
    assert plan.fission is not None
    assert [part.ends for part in plan.fission.parts] == [[2, 4, 6]]
    feeds = random_feeds(graph)
    own, planned = run_step(graph, feeds), run_plan(graph, plan, feeds)
    assert all((own[t] == planned[t]).all() for t in own)


def test_an_op_of_another_kind_is_named() -> None:
    """There is no way to compute it."""
    graph = labelled_graph([("unheard", ["x"], "y", "n -> n")], {"x": (4,), "y": (4,)})
    with pytest.raises(InputError, match="unheard"):
        run_step(graph, random_feeds(graph))
