"""Behind a step that updates parameters itself: what reads a gradient raises, what asks for no number works."""

from __future__ import annotations

import copy
import io
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.torch import StepOptions, compile_step

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    torch.set_num_threads(1)

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]


def stepped() -> Any:
    """A module, its optimizer and a step that was called once, with its batch."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    model[1].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    batch = (torch.randn(3, 4),)
    step = compile_step(model, torch.sum, batch, optimizer=optimizer, options=StepOptions(measure=False))
    step(*batch)
    return model, optimizer, step, batch


def unscaled(model: Any, optimizer: Any) -> None:
    """As loops with half precision have it."""
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    scaler.unscale_(optimizer)


READS = {
    "clip_grad_norm_": lambda model, optimizer: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    "clip_grad_norm_ one by one": lambda model, optimizer: torch.nn.utils.clip_grad_norm_(
        model.parameters(), 1.0, foreach=False
    ),
    "clip_grad_value_": lambda model, optimizer: torch.nn.utils.clip_grad_value_(model.parameters(), 1.0),
    "get_total_norm": lambda model, optimizer: torch.nn.utils.get_total_norm([p.grad for p in model[0].parameters()]),
    "optimizer.step": lambda model, optimizer: optimizer.step(),
    "another optimizer": lambda model, optimizer: torch.optim.SGD(model.parameters(), 0.1, foreach=False).step(),
    "GradScaler": unscaled,
    "norm": lambda model, optimizer: model[0].weight.grad.norm().item(),
    "scaled in place": lambda model, optimizer: model[0].weight.grad.mul_(0.5),
    "added up": lambda model, optimizer: model[0].weight.grad + model[0].weight.grad,
    "pickled": lambda model, optimizer: torch.save(model[0].weight.grad, io.BytesIO()),
    "copied": lambda model, optimizer: torch.zeros(4, 4).copy_(model[0].weight.grad),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_who_reads_a_used_gradient_is_told(name: str) -> None:
    """Instead of a norm of 0.0, or of an update that changes nothing."""
    model, optimizer, step, batch = stepped()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(InputError, match="the gradient of this parameter is gone: the step has updated"):
        READS[name](model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    step(*batch)


def test_what_asks_for_no_number_works() -> None:
    """Gradients set to none or to zero, shapes, moving, converting, saving and copying, and the next step."""
    model, optimizer, step, batch = stepped()
    weight = model[0].weight
    assert weight.grad is not None
    assert (weight.grad.shape, weight.grad.dtype, weight.grad.device) == (weight.shape, weight.dtype, weight.device)
    assert repr(weight.grad) == "SpentGradient(shape=[4, 4])"
    assert model[1].bias.grad is None
    for to_none in (False, True):
        optimizer.zero_grad(set_to_none=to_none)
        step(*batch)
        model.zero_grad(set_to_none=to_none)
        step(*batch)
    fused = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    fused.zero_grad(set_to_none=False)
    assert float(weight.grad.sum()) == 0
    step(*batch)
    copy.deepcopy(model)
    for made in (model, model.state_dict(), optimizer.state_dict()):
        torch.save(made, io.BytesIO())
    model.load_state_dict(model.state_dict())
    model.share_memory()
    model.to("cpu")
    model.double()
    assert weight.grad.dtype == weight.dtype == torch.float64
    model.float()
    model.train()
    model.requires_grad_(True)
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_autograd_and_other_steps_begin_anew() -> None:
    """Eager's backward pass behind zero_grad() leaves its own gradient, and so does a step without an optimizer."""
    for to_none in (False, True):
        model, optimizer, step, (x,) = stepped()
        with pytest.raises(InputError, match=r"or call zero_grad\(\) before a backward pass"):
            torch.sum(model(x)).backward()
        optimizer.zero_grad(set_to_none=to_none)
        expected = torch.autograd.grad(torch.sum(model(x)), [model[0].weight])[0]
        torch.sum(model(x)).backward()
        assert torch.equal(model[0].weight.grad + 0, expected)
        norm = torch.nn.utils.clip_grad_norm_(model[0].parameters(), 1e-3)
        assert norm > 1e-3
        assert model[0].weight.grad.norm() < 2e-3
        with pytest.raises(InputError, match=r"has a gradient in \.grad"):
            step(x)
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)
        if to_none:
            step(x)
    model, _, _, (x,) = stepped()
    other = compile_step(model, torch.sum, (x,), options=StepOptions(measure=False))
    other(x)
    assert type(model[0].weight.grad) is torch.Tensor
    first = model[0].weight.grad.clone()
    other(x)
    assert torch.equal(model[0].weight.grad, 2 * first)
    model, _, _, (x,) = stepped()
    compile_step(model, torch.sum, (x,), options=StepOptions(measure=False), accumulate=True)(x)
    assert type(model[0].weight.grad) is torch.Tensor


def test_a_gradient_that_would_be_dropped_is_refused() -> None:
    """One of eager's, which a step that makes its own would not add."""
    model, optimizer, step, (x,) = stepped()
    optimizer.zero_grad()
    torch.sum(model(x)).backward()
    with pytest.raises(InputError, match=r"has a gradient in \.grad, which a step with optimizer= does not add"):
        step(x)
    optimizer.zero_grad()
    step(x)


def test_no_memory_is_taken() -> None:
    """It has no storage that holds anything."""
    model, _, _, _ = stepped()
    assert model[0].weight.grad.data_ptr() == 0
