"""Models without memory, planned as they would be on the CPU; only where torch is installed."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def classifier() -> tuple[Any, tuple[Any, Any]]:
    """A network with a tied weight, a batch norm and a frozen bias; and a batch for cross entropy."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.Linear(8, 3))
    model[2].weight = model[0].weight
    model[3].bias.requires_grad_(False)
    return model, (torch.randn(4, 8), torch.randint(3, (4,)))


def test_a_step_on_the_meta_device_is_that_of_the_cpu() -> None:
    """The same source, with every gradient: torch itself loses those of cross entropy there. And all is put back."""
    loss_fn = torch.nn.functional.cross_entropy
    with torch.device("meta"):
        model, batch = classifier()
    before = [*model.parameters(), *model.buffers()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = compile_step(model, loss_fn, batch, optimizer=optimizer)
    real, real_batch = classifier()
    other = compile_step(
        real,
        loss_fn,
        real_batch,
        optimizer=torch.optim.SGD(real.parameters(), lr=0.1),
        options=StepOptions(measure=False),
    )
    assert step.source == other.source
    assert step.plan.program_sha256 == other.plan.program_sha256
    assert step.plan.unmeasured == len(step.graph.ops)
    assert sum(bool(action.writes) for action in step.program.actions) >= 6
    after = [*model.parameters(), *model.buffers()]
    assert all(a is b for a, b in zip(before, after, strict=True))
    assert all(tensor.is_meta for tensor in after)


def test_a_plan_made_without_memory_runs_with_it() -> None:
    """Saved there, replayed here."""
    loss_fn = torch.nn.functional.cross_entropy
    with torch.device("meta"):
        model, batch = classifier()
    plan = compile_step(model, loss_fn, batch, options=StepOptions(time=0)).plan
    real, (x, y) = classifier()
    expected = loss_fn(real(x), y)
    gradients = torch.autograd.grad(expected, [p for p in real.parameters() if p.requires_grad])
    assert torch.equal(
        compile_step(real, loss_fn, (x, y), options=StepOptions(measure=False), plan=plan)(x, y), expected.detach()
    )
    made = [p.grad for p in real.parameters() if p.requires_grad]
    assert all(torch.equal(a, b) for a, b in zip(made, gradients, strict=True))
