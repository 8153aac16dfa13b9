"""`compile_step` leaves a model as it found it, over models as people bring them."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step
from support.model_state import differences, state_of
from support.user_models import MODELS

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_as_it_was(name: str) -> None:
    """Attributes, hooks, buffers, parameters, gradients, modes, the optimizer and random numbers, before and after."""
    package = name.partition("/")[0]
    if package != "own":
        pytest.importorskip(package, reason=f"needs {package}")
    torch.manual_seed(0)
    model, loss_fn, batch = MODELS[name]()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    before = state_of(torch, model, optimizer)
    assert len(before) > 20
    compile_step(model, loss_fn, batch, optimizer=optimizer, options=StepOptions(measure=package == "own"))
    assert differences(torch, before, state_of(torch, model, optimizer)) == []


def test_a_difference_is_seen() -> None:
    """Each kind of change that the comparison is to see."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    layer, norm = model[0], model[1]
    kept = state_of(torch, model)

    def seen() -> bool:
        return bool(differences(torch, kept, state_of(torch, model)))

    assert not seen()
    handle = layer.register_forward_hook(lambda *_: None)
    assert seen()
    handle.remove()
    layer.calls = 1
    assert seen()
    del layer.calls
    norm.eval()
    assert seen()
    norm.train()
    layer.weight.grad = torch.zeros(2, 2)
    assert seen()
    layer.weight.grad = None
    layer.weight.requires_grad_(False)
    assert seen()
    layer.weight.requires_grad_(True)
    assert not seen()
    torch.rand(1)
    assert seen()
    kept = state_of(torch, model)
    norm.running_mean.add_(1)
    assert seen()
