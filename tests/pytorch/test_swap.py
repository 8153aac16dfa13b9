"""Steps whose tensors leave memory: sequences beside the core's own bytes and times, and, where torch is installed,
bit by bit beside eager."""

from __future__ import annotations

import copy
from contextlib import suppress
from importlib import import_module
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.torch import Costs, StepOptions, compile_step
from lowtide.torch.meter import allocator_peak
from lowtide.torch.search import Moves, largest_op, problem_of, search
from lowtide.torch.sequence import sequence_of, why_not
from lowtide.torch.step import Step
from lowtide.torch.swap import seconds_with_transfers
from lowtide_research.bench.train_nets import training
from pytorch.test_sequence import there_and_back

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

needs_torch = pytest.mark.skipif(torch is None, reason="needs the extra torch")
RATES = Bandwidth(1e9, 2e9)


def moves_of(graph: Graph) -> Moves:
    """Every tensor that is no result may leave."""
    return Moves(tuple([t.id for t in graph.tensors if t.kind is Kind.ACTIVATION]), RATES)


@settings(deadline=None)
@given(st.integers(2, 7), st.integers(0, 10**6))
def test_bytes_and_seconds_are_those_of_the_core(length: int, seed: int):
    """Transfers at random places: what the core's search counts, the step does; stores begin in turn, and each load is
    waited for by its first reader alone."""
    graph, draw = there_and_back(length, seed), Random(seed)
    seconds = {op.id: draw.randrange(1, 9) * 1e-9 for op in graph.ops}
    moves, n = moves_of(graph), len(graph.ops)
    order = list(graph.own_order)
    for _ in range(8):
        tried, entry = list(order), n + 2 * draw.choice(moves.tensors)
        first, second = sorted(draw.randrange(len(order) + 1) for _ in range(2))
        tried[second:second] = [entry + 1]
        tried[first:first] = [] if entry in order else [entry]
        if why_not(graph, tried) is None:
            order = tried
    sequence = sequence_of(graph, order)
    as_core = [i if i < n else n + 2 * moves.tensors.index((i - n) // 2) + (i - n) % 2 for i in order]
    core = problem_of(graph, seconds, moves)
    assert list(sequence.footprint) == core.footprints(as_core)
    assert round(seconds_with_transfers(graph, seconds, RATES, order) * 1e9) == core.cost(as_core)
    begun = [name for instance in sequence.instances for name in instance.begins]
    ended = [i.moved[0] for i in sequence.instances if i.moved is not None and not i.moved[1]]
    assert begun == ended


def test_a_search_that_may_move_is_within_the_budget():
    """And its order holds, and takes no longer than one without transfers."""
    graph = there_and_back(12, 3)
    seconds = {op.id: 9e-9 for op in graph.ops}
    peak = max(sequence_of(graph, graph.own_order).footprint)
    budget = (largest_op(graph)[0] + peak) // 2
    order = search(graph, seconds, budget, 2.0, 200, moves_of(graph))
    assert why_not(graph, order) is None
    assert sequence_of(graph, order).peak_bytes <= budget
    plain = search(graph, seconds, budget, 2.0, 200)
    assert seconds_with_transfers(graph, seconds, RATES, order) <= sum(seconds[op] for op in plain)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda own, n: [*own, n + 2 * 3 + 1], "before it is stored"),
        (lambda own, n: [n + 2 * 3, *own], "before it is made"),
        (lambda own, n: [*own, n + 2 * 3, n + 2 * 3], "stored twice"),
        (lambda own, n: [*own, n + 2 * 99], "no tensor 99"),
        (lambda own, n: [*own, n], "no tensor 0"),
    ],
)
def test_what_cannot_be_moved_is_said(change: Any, reason: str):
    """Orders that a saved plan might hold."""
    graph = there_and_back(4, 1)
    assert reason in (why_not(graph, change(graph.own_order, len(graph.ops))) or "")


def _planned(name: str, share: float) -> tuple[Step, Any, Any, Any]:
    """A step with transfers, the net, and its twin with its optimizer."""
    net = training(name, 1)
    eager = copy.deepcopy(net.model)
    own_optimizer, other = (torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (net.model, eager))
    own = compile_step(net.model, net.loss_fn, net.batch, optimizer=own_optimizer, options=StepOptions(time=0))
    budget = own.plan.floor_bytes + int(share * (own.plan.own_order_peak_bytes - own.plan.floor_bytes))
    allow = "recompute,offload"
    step = compile_step(
        net.model, net.loss_fn, net.batch, optimizer=own_optimizer, budget=budget, allow=allow,
        options=StepOptions(costs=own.costs, time=2.0),
    )  # fmt: skip
    return step, net, eager, other


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt", "unet", "swiglu"])
@pytest.mark.parametrize("share", [0.6, 0.3])
def test_a_step_that_moves_is_eager_bit_by_bit(name: str, share: float):
    """Losses, parameters and buffers over three steps; and the allocator gives out what was planned."""
    step, net, eager, other = _planned(name, share)
    assert any(instance.moved for instance in step.sequence.instances)
    for k in range(3):
        torch.manual_seed(k)
        loss = step(*net.batch)
        torch.manual_seed(k)
        other.zero_grad()
        expected = net.loss_fn(eager(net.batch[0]), *net.batch[1:])
        expected.backward()
        other.step()
        assert torch.equal(loss, expected.detach())
    for a, b in zip(net.model.state_dict().values(), eager.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    _, peak = allocator_peak(step.prepare(*net.batch))
    assert abs(peak - step.predicted_peak_bytes) <= 0.001 * step.predicted_peak_bytes


@needs_torch
@pytest.mark.slow
def test_a_saved_plan_with_transfers_is_replayed(tmp_path: Any):
    """The same source; and one that stores what may not leave is refused."""
    step, net, _, _ = _planned("swiglu", 0.4)
    step.save(tmp_path / "p.json")
    optimizer = torch.optim.AdamW(net.model.parameters(), lr=1e-3)
    given = {"optimizer": optimizer, "options": StepOptions(costs=step.costs)}
    again = compile_step(net.model, net.loss_fn, net.batch, plan=tmp_path / "p.json", **given)
    assert again.source == step.source
    plan = msgspec.structs.replace(step.plan, ops=[*step.plan.ops, len(step.graph.ops)])
    with pytest.raises(InputError, match="does not hold"):
        compile_step(net.model, net.loss_fn, net.batch, plan=plan, **given)


@needs_torch
@pytest.mark.slow
def test_the_tables_bandwidth_counts():
    """At a byte a second nothing is moved."""
    step, net, _, _ = _planned("swiglu", 0.4)
    assert step.costs is not None
    slow = Costs(step.costs.device, step.costs.torch, step.costs.threads, step.costs.ops, (1.0, 1.0))
    optimizer = torch.optim.AdamW(net.model.parameters(), lr=1e-3)
    again = compile_step(
        net.model, net.loss_fn, net.batch, optimizer=optimizer, options=StepOptions(costs=slow, time=2.0),
        budget=step.plan.budget_bytes, allow="recompute,offload",
    )  # fmt: skip
    assert not any(instance.moved for instance in again.sequence.instances)
