"""A step measured beside eager mode."""

from __future__ import annotations

import copy
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import compile_step
from lowtide.torch.meter import allocator_peak

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


@pytest.mark.parametrize("kind", ["SGD", "AdamW", ""])
def test_both_sides_are_measured_and_nothing_changes(kind: str) -> None:
    """The peaks are those of the plan and of the user's own loop; parameters, gradients, state and draws stay."""
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1)) for _ in range(4)]
    model, loss_fn = torch.nn.Sequential(*layers, torch.nn.BatchNorm1d(64)), torch.nn.functional.mse_loss
    x, y = torch.randn(128, 64), torch.randn(128, 64)
    optimizer: Any = getattr(torch.optim, kind)(model.parameters(), lr=0.1) if kind else None
    step = compile_step(model, loss_fn, (x, y), optimizer=optimizer)
    if kind == "AdamW":
        step(x, y)  # there is a state
        optimizer.zero_grad()
    before = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer and optimizer.state_dict())
    draws = torch.random.get_rng_state()
    seen = step.measure(x, y)
    assert torch.equal(torch.random.get_rng_state(), draws)
    after = model.state_dict(), optimizer and optimizer.state_dict()
    for one, other in zip(*(torch.utils._pytree.tree_leaves(each) for each in (before, after)), strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert all(parameter.grad is None for parameter in model.parameters())
    assert seen.planned_peak_bytes == step.predicted_peak_bytes == seen.predicted_peak_bytes

    def eager() -> None:
        loss_fn(model(x), y).backward()
        if optimizer is not None:
            optimizer.step()

    eager()
    for parameter in model.parameters():
        parameter.grad = None
    assert allocator_peak(eager)[1] == seen.eager_peak_bytes
    assert min(seen.eager_seconds, seen.planned_seconds) > 0
    rows = repr(seen).splitlines()
    assert [row.split("  ")[0] for row in rows] == ["", "peak memory", "time of a step"]


def test_an_optimizer_by_position_is_to_be_named() -> None:
    """The batch, which is a tuple, is not what is wrong."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(2, 4), torch.randn(2, 4)
    with pytest.raises(TypeError, match="by name: budget=, slower=, optimizer="):
        compile_step(model, torch.nn.functional.mse_loss, batch, optimizer)  # type: ignore[misc]
    with pytest.raises(TypeError, match="as one tuple"):
        compile_step(model, torch.nn.functional.mse_loss, *batch)  # type: ignore[misc]
